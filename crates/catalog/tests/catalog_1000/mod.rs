//! A catalog of a thousand tools: the real lists of five public servers, and plausible ones of forty services.
//!
//! The synthetic tools follow how such servers really differ: the naming style, the verb in the name and the wording
//! of the description depend on the service.

use serde_json::{Map, Value, json};
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

/// A service: its name, the product as descriptions call it, and the things it manages, each with its usual parameters.
type Service = (&'static str, &'static str, &'static [(&'static str, &'static [&'static str])]);

const SERVICES: &[Service] = &[
    (
        "github",
        "GitHub",
        &[
            ("issue", &["owner", "repo", "title", "labels"]),
            ("pull_request", &["owner", "repo", "head", "base"]),
            ("release", &["owner", "repo", "tag_name"]),
            ("workflow_run", &["owner", "repo", "workflow_id"]),
        ],
    ),
    (
        "gitlab",
        "GitLab",
        &[
            ("merge_request", &["project_id", "source_branch"]),
            ("pipeline", &["project_id", "ref"]),
            ("snippet", &["project_id", "code"]),
            ("runner", &["runner_id"]),
        ],
    ),
    (
        "jira",
        "Jira",
        &[
            ("ticket", &["project_key", "summary", "assignee"]),
            ("sprint", &["board_id", "goal"]),
            ("epic", &["project_key", "summary"]),
            ("worklog", &["ticket_key", "time_spent"]),
        ],
    ),
    (
        "slack",
        "Slack",
        &[
            ("message", &["channel", "text", "thread_ts"]),
            ("channel", &["name", "is_private"]),
            ("reaction", &["channel", "timestamp", "emoji"]),
            ("user_group", &["handle"]),
        ],
    ),
    (
        "postgres",
        "PostgreSQL",
        &[
            ("table", &["schema", "columns"]),
            ("index", &["table", "columns"]),
            ("view", &["schema", "definition"]),
            ("role", &["grants"]),
        ],
    ),
    (
        "stripe",
        "Stripe",
        &[
            ("customer", &["email", "name"]),
            ("invoice", &["customer", "currency", "due_date"]),
            ("subscription", &["customer", "price_id"]),
            ("refund", &["payment_intent", "reason"]),
        ],
    ),
    (
        "calendar",
        "Google Calendar",
        &[
            ("event", &["start", "end", "attendees"]),
            ("calendar", &["timezone"]),
            ("attendee", &["event_id", "email"]),
            ("availability", &["start", "end"]),
        ],
    ),
    (
        "gmail",
        "Gmail",
        &[
            ("email", &["to", "subject", "body", "cc"]),
            ("draft", &["to", "subject", "body"]),
            ("label", &["color"]),
            ("mail_filter", &["criteria"]),
        ],
    ),
    (
        "notion",
        "Notion",
        &[
            ("page", &["parent_id", "title", "markdown"]),
            ("database", &["parent_id", "properties"]),
            ("block", &["page_id", "content"]),
            ("comment", &["page_id", "text"]),
        ],
    ),
    (
        "drive",
        "Google Drive",
        &[
            ("document", &["parent", "mime_type"]),
            ("folder", &["parent"]),
            ("permission", &["file_id", "role", "email"]),
            ("spreadsheet", &["range", "values"]),
        ],
    ),
    (
        "s3",
        "Amazon S3",
        &[
            ("bucket", &["region"]),
            ("object", &["bucket", "key", "body"]),
            ("bucket_policy", &["bucket", "policy"]),
            ("lifecycle_rule", &["bucket", "days"]),
        ],
    ),
    (
        "kubernetes",
        "the Kubernetes cluster",
        &[
            ("pod", &["namespace", "selector"]),
            ("deployment", &["namespace", "image", "replicas"]),
            ("namespace", &["labels"]),
            ("node", &["selector"]),
        ],
    ),
    (
        "docker",
        "Docker",
        &[
            ("container", &["image", "ports"]),
            ("image", &["tag", "dockerfile"]),
            ("volume", &["driver"]),
            ("network", &["driver", "subnet"]),
        ],
    ),
    (
        "sentry",
        "Sentry",
        &[
            ("error_event", &["project", "environment"]),
            ("alert_rule", &["project", "threshold"]),
            ("crash_report", &["project", "release"]),
            ("source_map", &["release", "file"]),
        ],
    ),
    (
        "datadog",
        "Datadog",
        &[
            ("monitor", &["query", "threshold"]),
            ("dashboard", &["title", "widgets"]),
            ("metric", &["metric_name", "from", "to"]),
            ("downtime", &["scope", "until"]),
        ],
    ),
    (
        "pagerduty",
        "PagerDuty",
        &[
            ("incident", &["service_id", "urgency"]),
            ("oncall_shift", &["schedule_id", "user"]),
            ("escalation_policy", &["team"]),
            ("postmortem", &["incident_id"]),
        ],
    ),
    (
        "hubspot",
        "HubSpot",
        &[
            ("contact", &["email", "phone"]),
            ("deal", &["stage", "amount"]),
            ("company", &["domain"]),
            ("marketing_campaign", &["budget"]),
        ],
    ),
    (
        "salesforce",
        "Salesforce",
        &[
            ("lead", &["company", "email"]),
            ("opportunity", &["account_id", "stage"]),
            ("account", &["industry"]),
            ("case", &["priority", "subject"]),
        ],
    ),
    (
        "zendesk",
        "Zendesk",
        &[
            ("support_request", &["requester", "subject", "priority"]),
            ("macro", &["actions"]),
            ("help_article", &["section_id", "title"]),
            ("satisfaction_rating", &["score"]),
        ],
    ),
    (
        "shopify",
        "the Shopify store",
        &[
            ("product", &["title", "price", "sku"]),
            ("order", &["line_items", "customer"]),
            ("discount_code", &["percent"]),
            ("inventory_item", &["sku", "quantity"]),
        ],
    ),
    (
        "twilio",
        "Twilio",
        &[
            ("sms", &["to", "from", "body"]),
            ("phone_call", &["to", "from", "twiml"]),
            ("phone_number", &["country"]),
            ("voicemail", &["call_id"]),
        ],
    ),
    (
        "linear",
        "Linear",
        &[
            ("cycle", &["team_id", "starts_at"]),
            ("roadmap", &["team_id"]),
            ("triage_item", &["team_id", "priority"]),
            ("project_update", &["project_id", "body"]),
        ],
    ),
    (
        "asana",
        "Asana",
        &[
            ("task", &["assignee", "due_on", "notes"]),
            ("section", &["project"]),
            ("portfolio", &["owner"]),
            ("milestone", &["project", "due_on"]),
        ],
    ),
    (
        "trello",
        "Trello",
        &[
            ("card", &["list_id", "name", "due"]),
            ("board", &["name"]),
            ("checklist", &["card_id", "items"]),
            ("sticker", &["card_id"]),
        ],
    ),
    (
        "spotify",
        "Spotify",
        &[
            ("playlist", &["name", "track_ids"]),
            ("track", &["artist"]),
            ("album", &["artist"]),
            ("podcast_episode", &["show_id"]),
        ],
    ),
    (
        "weather",
        "the weather service",
        &[
            ("forecast", &["latitude", "longitude", "days"]),
            ("storm_alert", &["region"]),
            ("observation", &["station_id"]),
            ("air_quality", &["latitude", "longitude"]),
        ],
    ),
    (
        "maps",
        "the maps service",
        &[
            ("route", &["origin", "destination", "mode"]),
            ("place", &["near", "category"]),
            ("geocode", &["address"]),
            ("traffic_report", &["area"]),
        ],
    ),
    (
        "stocks",
        "the stock market",
        &[
            ("stock_quote", &["symbol"]),
            ("holding", &["symbol", "shares"]),
            ("dividend", &["symbol", "year"]),
            ("earnings_report", &["symbol", "quarter"]),
        ],
    ),
    (
        "figma",
        "Figma",
        &[
            ("frame", &["file_key", "node_id"]),
            ("component", &["file_key"]),
            ("style", &["file_key"]),
            ("prototype", &["file_key"]),
        ],
    ),
    (
        "airtable",
        "Airtable",
        &[
            ("record", &["base_id", "table", "fields"]),
            ("base", &["workspace"]),
            ("column", &["table", "type"]),
            ("form_view", &["table"]),
        ],
    ),
    (
        "redis",
        "Redis",
        &[
            ("cache_key", &["key", "value", "ttl"]),
            ("stream", &["key", "entries"]),
            ("sorted_set", &["key", "score"]),
            ("pubsub_channel", &["pattern"]),
        ],
    ),
    (
        "elasticsearch",
        "Elasticsearch",
        &[
            ("search_index", &["mappings"]),
            ("indexed_document", &["index", "id"]),
            ("alias", &["index"]),
            ("ingest_pipeline", &["processors"]),
        ],
    ),
    (
        "lambda",
        "AWS Lambda",
        &[
            ("function", &["runtime", "handler"]),
            ("layer", &["zip"]),
            ("event_source", &["function", "queue"]),
            ("concurrency_limit", &["function"]),
        ],
    ),
    (
        "cloudflare",
        "Cloudflare",
        &[
            ("dns_record", &["zone_id", "type", "content"]),
            ("zone", &["domain"]),
            ("firewall_rule", &["zone_id", "expression"]),
            ("cached_page", &["zone_id", "url"]),
        ],
    ),
    (
        "vercel",
        "Vercel",
        &[
            ("preview_deployment", &["project", "git_ref"]),
            ("domain", &["project"]),
            ("env_secret", &["project", "key"]),
            ("edge_config", &["items"]),
        ],
    ),
    (
        "okta",
        "Okta",
        &[
            ("user", &["email", "login"]),
            ("group", &["members"]),
            ("login_session", &["user_id"]),
            ("mfa_factor", &["user_id"]),
        ],
    ),
    (
        "quickbooks",
        "QuickBooks",
        &[
            ("bill", &["vendor", "due_date"]),
            ("expense", &["category", "receipt"]),
            ("vendor", &["address"]),
            ("tax_rate", &["percent"]),
        ],
    ),
    (
        "zoom",
        "Zoom",
        &[
            ("meeting", &["topic", "start_time", "duration"]),
            ("recording", &["meeting_id"]),
            ("webinar", &["topic"]),
            ("breakout_room", &["meeting_id"]),
        ],
    ),
    (
        "news",
        "the news archive",
        &[
            ("article", &["topic", "since"]),
            ("headline", &["country"]),
            ("publisher", &["language"]),
            ("newsletter", &["topic"]),
        ],
    ),
    (
        "translate",
        "the translation service",
        &[
            ("translation", &["text", "source_language", "target_language"]),
            ("glossary", &["terms"]),
            ("language", &["text"]),
            ("transcript", &["audio_url"]),
        ],
    ),
];

/// What services do with things: the verb in the name, and what the description says, in three wordings.
const ACTIONS: &[(&str, [&str; 3])] = &[
    ("create", ["Create a new {} in {}.", "Creates a {} in {}. Returns its id.", "Add a {} to {}."]),
    (
        "list",
        ["List all {}s in {}.", "Returns the {}s of {}, newest first. Paginated.", "Get the {}s that exist in {}."],
    ),
    (
        "get",
        [
            "Get a single {} from {} by its id.",
            "Retrieves one {} with all its fields from {}.",
            "Fetch the details of a {} in {}.",
        ],
    ),
    (
        "update",
        ["Update an existing {} in {}.", "Changes fields of a {} in {}; fields not given stay.", "Modify a {} of {}."],
    ),
    ("delete", ["Delete a {} from {}.", "Permanently removes a {} from {}. Cannot be undone.", "Remove a {} from {}."]),
    (
        "search",
        [
            "Search for {}s in {} by text.",
            "Finds {}s in {} that match a query.",
            "Full-text search over the {}s of {}.",
        ],
    ),
];

/// The catalog.
pub(crate) fn catalog() -> Catalog {
    let mut listings = real();
    listings.extend(SERVICES.iter().enumerate().map(|(style, service)| listing(service.0, synthetic(service, style))));
    Catalog::new(listings)
}

fn listing(name: &str, tools: Vec<Tool>) -> Listing {
    Listing { name: name.to_owned(), state: BackendState::Ready, tools, tags: Vec::new() }
}

fn real() -> Vec<Listing> {
    let servers: Map<String, Value> = serde_json::from_str(include_str!("../fixtures/tools.json")).unwrap();
    let tools = |list: &Value| list.as_array().unwrap().iter().cloned().filter_map(Tool::from_raw).collect();
    servers.iter().map(|(name, list)| listing(name, tools(list))).collect()
}

fn synthetic((_, product, things): &Service, style: usize) -> Vec<Tool> {
    let mut tools = Vec::new();
    for (thing, parameters) in *things {
        for (verb, wordings) in ACTIONS {
            let spoken = thing.replace('_', " ");
            let description = wordings[style % 3].replacen("{}", &spoken, 1).replacen("{}", product, 1);
            tools.extend(Tool::from_raw(json!({
                "name": name(verb, thing, style),
                "description": description,
                "inputSchema": schema(verb, thing, parameters),
            })));
        }
    }
    tools
}

fn name(verb: &str, thing: &str, style: usize) -> String {
    match style % 4 {
        0 => format!("{verb}_{thing}"),
        1 => format!("{verb}-{}", thing.replace('_', "-")),
        2 => format!("{thing}_{verb}"),
        _ => {
            let mut name = verb.to_owned();
            for word in thing.split('_') {
                name.push_str(&word[..1].to_uppercase());
                name.push_str(&word[1..]);
            }
            name
        }
    }
}

fn schema(verb: &str, thing: &str, parameters: &[&str]) -> Value {
    let own: &[&str] = match verb {
        "list" => &["cursor", "page_size"],
        "search" => &["query", "limit"],
        "create" => &[],
        _ => &["id"],
    };
    let shown: &[&str] = if matches!(verb, "create" | "update") { parameters } else { &[] };
    let property = |name: &&str| {
        ((*name).to_owned(), json!({ "type": "string", "description": format!("The {name} of the {thing}") }))
    };
    let properties: Map<String, Value> = own.iter().chain(shown).map(property).collect();
    let required: Vec<&str> = own.iter().chain(shown).take(1).copied().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
