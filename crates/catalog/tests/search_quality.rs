//! Whether a task described in words finds its tool among a thousand.
//!
//! The phrases say what a person would say, not what the tool is called. Each expects one tool, or one of a few that
//! do the same, among the first three hits.
//!
//! Read the rates with care. The search was tuned on [`PHRASES`] and on the `dev` halves of the two tables in `held_out_queries`,
//! so for these a rate says only that nothing got worse. What the other sets missed was never looked at. `LiveMCPBench` has
//! the steps of a public benchmark over 527 tools of real servers: neither tools nor queries were written for this search.
//!
//! |                   | words alone | words and model | tuned on |
//! |-------------------|------------:|----------------:|----------|
//! | `PHRASES`         |        100% |           99.2% | yes      |
//! | written, dev      |       93.7% |           92.1% | yes      |
//! | written, held out |       85.7% |           85.7% | no       |
//! | drawn, dev        |       90.0% |           90.0% | yes      |
//! | drawn, held out   |       67.5% |           77.5% | no       |
//! | LiveMCPBench      |       67.4% |           72.6% | no       |
//!
//! The phrases and the thesaurus have one author, who knew the written ones when adding words, so even their held-out
//! rate flatters. The drawn ones came after most of that work, for tools picked by lot, and many avoid the words of
//! their tool on purpose. `drawn, held out` and `LiveMCPBench` are the nearest to what a stranger would see.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a quality report is printed")]

mod catalog_1000;
mod held_out_queries;
mod live_mcp_bench;

use serde_json::json;
use toolgate_catalog::search::Hit;
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

/// A task in words, and the tools that would each be a right answer.
type Phrase = (&'static str, &'static [&'static str]);

/// How many of the phrases must find their tool.
const WANTED: f64 = 0.9;
const TOP: usize = 3;

const PHRASES: &[Phrase] = &[
    // server-filesystem
    ("read the contents of a text file", &["filesystem.read_text_file", "filesystem.read_file"]),
    ("open several files at once", &["filesystem.read_multiple_files"]),
    ("save text to a file on disk", &["filesystem.write_file"]),
    ("replace some lines in a file", &["filesystem.edit_file"]),
    ("make a new folder on disk", &["filesystem.create_directory"]),
    ("what files are in this directory", &["filesystem.list_directory", "filesystem.list_directory_with_sizes"]),
    ("how large are the files in a folder", &["filesystem.list_directory_with_sizes"]),
    ("show the directory structure as a tree", &["filesystem.directory_tree"]),
    ("rename a file", &["filesystem.move_file"]),
    ("find files matching a glob pattern", &["filesystem.search_files"]),
    ("when was this file last modified", &["filesystem.get_file_info"]),
    ("which directories am I allowed to access", &["filesystem.list_allowed_directories"]),
    ("load an image file as base64", &["filesystem.read_media_file"]),
    // server-memory
    ("remember new entities in the knowledge graph", &["memory.create_entities"]),
    ("link two entities with a relation", &["memory.create_relations"]),
    ("add an observation about an entity", &["memory.add_observations"]),
    ("forget an entity", &["memory.delete_entities"]),
    ("remove wrong observations", &["memory.delete_observations"]),
    ("remove a relationship between entities", &["memory.delete_relations"]),
    ("show the entire knowledge graph", &["memory.read_graph"]),
    ("search the knowledge graph for nodes", &["memory.search_nodes"]),
    ("look up graph nodes by name", &["memory.open_nodes"]),
    // mcp-server-time
    ("what time is it in Tokyo", &["time.get_current_time"]),
    ("current date and time", &["time.get_current_time"]),
    ("convert 3pm from London to New York time zone", &["time.convert_time"]),
    // mcp-server-git
    ("which files have I changed in the working tree", &["git.git_status", "git.git_diff_unstaged"]),
    ("show unstaged changes", &["git.git_diff_unstaged"]),
    ("what is staged for the next commit", &["git.git_diff_staged"]),
    ("compare two branches", &["git.git_diff"]),
    ("commit my changes with a message", &["git.git_commit"]),
    ("stage files", &["git.git_add"]),
    ("unstage everything", &["git.git_reset"]),
    ("commit history of the repository", &["git.git_log"]),
    ("start a new git branch", &["git.git_create_branch"]),
    ("switch to another branch", &["git.git_checkout"]),
    ("show what a commit contains", &["git.git_show"]),
    ("list the git branches", &["git.git_branch"]),
    // server-everything
    ("echo a message back", &["everything.echo"]),
    ("add two numbers", &["everything.get-sum"]),
    ("print the environment variables", &["everything.get-env"]),
    ("compress a file with gzip", &["everything.gzip-file-as-resource"]),
    ("get a tiny image", &["everything.get-tiny-image"]),
    ("run a long operation with progress", &["everything.trigger-long-running-operation"]),
    ("ask the LLM for a sample", &["everything.trigger-sampling-request"]),
    ("research a topic in depth", &["everything.simulate-research-query"]),
    // the services
    ("open a github issue", &["github.create_issue"]),
    ("show my open pull requests", &["github.list_pull_request"]),
    ("file a bug in jira", &["jira.ticket_create"]),
    ("close the sprint in jira", &["jira.sprint_update"]),
    ("log time on a ticket", &["jira.ticket_update", "jira.worklog_create"]),
    ("post a message to a slack channel", &["slack.createMessage"]),
    ("find old slack messages about the launch", &["slack.searchMessage"]),
    ("react with an emoji", &["slack.createReaction"]),
    ("which tables does the postgres database have", &["postgres.list_table"]),
    ("add an index to a postgres table", &["postgres.create_index"]),
    ("refund a customer in stripe", &["stripe.create-refund"]),
    ("send an invoice to a customer", &["stripe.create-invoice"]),
    ("cancel a subscription", &["stripe.delete-subscription", "stripe.update-subscription"]),
    ("schedule an event in my calendar", &["calendar.event_create"]),
    (
        "when am I free this week",
        &["calendar.availability_get", "calendar.availability_list", "calendar.availability_search"],
    ),
    ("send an email to a colleague", &["gmail.createEmail"]),
    ("search my inbox for emails from Anna", &["gmail.searchEmail"]),
    ("write an email draft", &["gmail.createDraft"]),
    ("create a notion page", &["notion.create_page"]),
    ("share a google drive file with someone", &["drive.create-permission"]),
    ("upload an object to an s3 bucket", &["s3.object_create"]),
    ("list s3 buckets", &["s3.bucket_list"]),
    ("which pods are running in the cluster", &["kubernetes.listPod"]),
    ("scale a kubernetes deployment to more replicas", &["kubernetes.updateDeployment"]),
    ("start a docker container", &["docker.create_container"]),
    ("remove unused docker images", &["docker.delete_image"]),
    (
        "recent crashes of the app",
        &["sentry.list-crash-report", "sentry.search-crash-report", "sentry.get-crash-report"],
    ),
    ("mute alerts during maintenance downtime", &["datadog.downtime_create"]),
    (
        "who is on call right now",
        &["pagerduty.listOncallShift", "pagerduty.getOncallShift", "pagerduty.searchOncallShift"],
    ),
    ("add a contact to hubspot", &["hubspot.create_contact"]),
    ("update the stage of a sales deal", &["hubspot.update_deal"]),
    ("new salesforce lead", &["salesforce.create-lead"]),
    ("find help center articles", &["zendesk.help_article_search", "zendesk.help_article_list"]),
    ("check the stock of an inventory item", &["shopify.getInventoryItem", "shopify.listInventoryItem"]),
    ("create a discount code for the shop", &["shopify.createDiscountCode"]),
    ("text someone an SMS", &["twilio.create_sms"]),
    ("assign a task in asana", &["asana.task_update", "asana.task_create"]),
    ("move a trello card", &["trello.updateCard"]),
    ("put songs in a spotify playlist", &["spotify.update_playlist", "spotify.create_playlist"]),
    (
        "will it rain tomorrow, weather forecast",
        &["weather.get-forecast", "weather.list-forecast", "weather.search-forecast"],
    ),
    ("driving route from A to B", &["maps.route_create", "maps.route_get", "maps.route_search"]),
    ("coordinates of an address", &["maps.geocode_create", "maps.geocode_get", "maps.geocode_list"]),
    ("current stock price of a company", &["stocks.getStockQuote", "stocks.listStockQuote"]),
    ("set a cache key in redis", &["redis.cache_key_update", "redis.cache_key_create"]),
    ("change a dns record", &["cloudflare.update-dns-record"]),
    ("schedule a zoom meeting", &["zoom.create-meeting"]),
    ("translate text into German", &["translate.createTranslation"]),
    ("delete a gitlab pipeline", &["gitlab.delete-pipeline"]),
    ("show code snippets", &["gitlab.list-snippet", "gitlab.get-snippet", "gitlab.search-snippet"]),
    ("who are the members of an okta group", &["okta.getGroup", "okta.listGroup"]),
    ("register a new vendor in the accounting software quickbooks", &["quickbooks.create_vendor"]),
    ("find cheap products in the store", &["shopify.searchProduct"]),
    ("place an order for a customer", &["shopify.createOrder"]),
    ("remove a firewall rule", &["cloudflare.delete-firewall-rule"]),
    ("invite someone to a calendar event", &["calendar.attendee_create"]),
    ("get the recording of the last meeting", &["zoom.get-recording"]),
    ("today's headlines", &["news.headline_list", "news.headline_get", "news.headline_search"]),
    ("look for articles about elections", &["news.article_search"]),
    ("air quality near me", &["weather.get-air-quality", "weather.list-air-quality", "weather.search-air-quality"]),
    (
        "what did a company earn last quarter",
        &["stocks.getEarningsReport", "stocks.listEarningsReport", "stocks.searchEarningsReport"],
    ),
    ("make a phone call", &["twilio.create_phone_call"]),
    ("describe a kubernetes node", &["kubernetes.getNode"]),
    ("open an incident", &["pagerduty.createIncident"]),
    ("tick off items on a checklist", &["trello.updateChecklist"]),
    ("insert a record into airtable", &["airtable.create-record"]),
    ("detect the language of a text", &["translate.getLanguage", "translate.searchLanguage", "translate.listLanguage"]),
    ("transcribe an audio recording", &["translate.createTranscript", "translate.getTranscript"]),
    ("merge request review list", &["gitlab.list-merge-request"]),
    ("graph the metric over the last hour", &["datadog.metric_get", "datadog.metric_list", "datadog.metric_search"]),
    // slips of the fingers
    ("creat direcotry on disk", &["filesystem.create_directory"]),
    ("kuberntes pods list", &["kubernetes.listPod"]),
    ("get curent time in timezone", &["time.get_current_time"]),
    // names
    ("git_log", &["git.git_log"]),
    ("everything.get-sum", &["everything.get-sum"]),
    ("readMultipleFiles", &["filesystem.read_multiple_files"]),
];

#[test]
fn nine_of_ten_tasks_find_their_tool_among_the_first_three() {
    assert!(PHRASES.len() >= 60);
    check("phrases", PHRASES, WANTED);
}

#[test]
fn phrases_that_the_search_was_tuned_on_stay_found() {
    check("written, dev", &held_out_queries::dev(held_out_queries::WRITTEN), 0.9);
    check("drawn, dev", &held_out_queries::dev(held_out_queries::DRAWN), 0.87);
}

// What is wanted of the search. These guard against a loss, and are not to be tuned on.
#[test]
fn phrases_that_nothing_was_tuned_on_are_found_as_often_as_they_were() {
    check("written, held out", &held_out_queries::held_out(held_out_queries::WRITTEN), 0.85);
    check("drawn, held out", &held_out_queries::held_out(held_out_queries::DRAWN), 0.77);
}

#[test]
fn seven_of_ten_steps_of_a_public_benchmark_find_their_tool() {
    let (catalog, queries) = live_mcp_bench::read();
    assert_eq!((catalog.tool_count(), queries.len()), (527, 95));
    let queries: Vec<(&str, Vec<&str>)> =
        queries.iter().map(|(query, tools)| (query.as_str(), tools.iter().map(String::as_str).collect())).collect();
    let of_name = |hit: &Hit| hit.tool.clone();
    check_in(&catalog, "LiveMCPBench", queries.iter().map(|(query, tools)| (*query, tools.as_slice())), of_name, 0.7);
}

/// Tasks of two steps, and for each step the tools that do it.
const STEPS: &[(&str, [&[&str]; 2])] = &[
    (
        "find the invoice in stripe and send an email to the customer",
        [&["stripe.search-invoice", "stripe.list-invoice", "stripe.get-invoice"], &["gmail.createEmail"]],
    ),
    (
        "list the failed pipelines in gitlab and create a jira ticket",
        [&["gitlab.list-pipeline", "gitlab.search-pipeline"], &["jira.ticket_create"]],
    ),
    (
        "check the weather forecast, then schedule an event in my calendar",
        [&["weather.get-forecast", "weather.list-forecast", "weather.search-forecast"], &["calendar.event_create"]],
    ),
    (
        "look up the person in hubspot, and then create a deal for them",
        [&["hubspot.search_contact", "hubspot.get_contact", "hubspot.list_contact"], &["hubspot.create_deal"]],
    ),
    ("compress the file and upload it to an s3 bucket", [&["everything.gzip-file-as-resource"], &["s3.object_create"]]),
    ("show the git log and write it to a file", [&["git.git_log"], &["filesystem.write_file"]]),
    (
        "transcribe the interview and create a notion page from it",
        [&["translate.createTranscript", "translate.getTranscript"], &["notion.create_page"]],
    ),
    ("get the current time and commit my changes", [&["time.get_current_time"], &["git.git_commit"]]),
    (
        "delete the kubernetes pod; mute the alerts in datadog",
        [&["kubernetes.deletePod"], &["datadog.downtime_create"]],
    ),
    ("translate the text into French and send it by SMS", [&["translate.createTranslation"], &["twilio.create_sms"]]),
    (
        "find the issue on github and move the trello card",
        [&["github.search_issue", "github.list_issue", "github.get_issue"], &["trello.updateCard"]],
    ),
    (
        "read the log files and post a message to the slack channel",
        [
            &["filesystem.read_file", "filesystem.read_text_file", "filesystem.read_multiple_files"],
            &["slack.createMessage"],
        ],
    ),
    ("read the log files and post a summary", [READS_FILES, TELLS_PEOPLE]),
    ("Read the log files. Then post a summary of them to the team.", [READS_FILES, TELLS_PEOPLE]),
    ("first read the log files, then share the results with everyone", [READS_FILES, TELLS_PEOPLE]),
    ("after reading the log files, tell the team what failed", [READS_FILES, TELLS_PEOPLE]),
    ("post a summary of the log files", [READS_FILES, TELLS_PEOPLE]),
    ("1. open the log files\n2. send a report to the channel", [READS_FILES, TELLS_PEOPLE]),
    ("I need to go through the log files and let the team know", [READS_FILES, TELLS_PEOPLE]),
];

/// The tools that read files.
const READS_FILES: &[&str] = &["filesystem.read_file", "filesystem.read_text_file", "filesystem.read_multiple_files"];
/// The tools that send a message to people.
const TELLS_PEOPLE: &[&str] = &["slack.createMessage", "gmail.createEmail", "twilio.create_sms"];

#[test]
fn a_task_of_two_steps_finds_the_tools_of_both_among_the_first_ten() {
    let catalog = catalog_1000::catalog();
    let mut missed = Vec::new();
    for (task, steps) in STEPS {
        let found: Vec<String> = catalog.search(task, 10, None).iter().map(path).collect();
        if !steps.iter().all(|tools| found.iter().any(|path| tools.contains(&path.as_str()))) {
            missed.push(format!("  {task:?}: wanted {steps:?}, found {found:?}"));
        }
    }
    let rate = 1.0 - missed.len() as f64 / STEPS.len() as f64;
    let report = format!("steps: {:.1}% of {} tasks\n{}", rate * 100.0, STEPS.len(), missed.join("\n"));
    println!("{report}");
    assert!(rate >= 0.9, "{report}");
}

/// The tools of the public Slack server that a task may need, as it describes them.
const SLACK: &[(&str, &str)] = &[
    ("slack_list_channels", "List public or pre-defined channels in the workspace with pagination"),
    ("slack_post_message", "Post a new message to a Slack channel"),
    ("slack_reply_to_thread", "Reply to a specific message thread in Slack"),
    ("slack_add_reaction", "Add a reaction emoji to a message"),
    ("slack_get_channel_history", "Get recent messages from a channel"),
    ("slack_get_users", "Get a list of all users in the workspace with their basic profile information"),
];

#[test]
fn one_query_for_several_steps_finds_both_tools_among_those_of_real_servers() {
    let tool = |&(name, about): &(&str, &str)| Tool::from_raw(json!({ "name": name, "description": about }));
    let tools: Vec<Tool> = SLACK.iter().map(|tool_of| tool(tool_of).unwrap()).collect();
    let slack = Listing { name: "slack".to_owned(), state: BackendState::Ready, tools, tags: Vec::new() };
    let catalog = live_mcp_bench::with(slack);
    assert_eq!(catalog.tool_count(), 527 + SLACK.len());
    let reads = ["read_file", "read_multiple_files", "get_text_file_contents", "document_reader"];
    for task in [
        "read the log files and post a summary",
        "Read the log files, summarize them and post it to the channel",
        "post a summary of the log files",
        "go through the log files, then let the team know what failed",
        "after reading the log files, share the findings with the team",
        "read the log files so that I can send a report",
    ] {
        let found: Vec<String> = catalog.search(task, 10, None).into_iter().map(|hit| hit.tool).collect();
        let has = |wanted: &[&str]| found.iter().any(|tool| wanted.contains(&tool.as_str()));
        assert!(has(&reads) && has(&["slack_post_message"]), "{task:?}: {found:?}");
    }
}

fn path(hit: &Hit) -> String {
    format!("{}.{}", hit.backend, hit.tool)
}

/// At least `wanted` of the phrases find one of their tools among the first three of a thousand.
fn check(table: &str, phrases: &[Phrase], wanted: f64) {
    let catalog = catalog_1000::catalog();
    assert!(catalog.tool_count() >= 1_000);
    check_in(&catalog, table, phrases.iter().copied(), path, wanted);
}

fn check_in<'p>(
    catalog: &Catalog,
    table: &str,
    phrases: impl Iterator<Item = (&'p str, &'p [&'p str])>,
    name: fn(&Hit) -> String,
    wanted: f64,
) {
    let (mut count, mut missed) = (0, Vec::new());
    for (phrase, expected) in phrases {
        count += 1;
        let found: Vec<String> = catalog.search(phrase, TOP, None).iter().map(name).collect();
        if !found.iter().any(|path| expected.contains(&path.as_str())) {
            missed.push(format!("  {phrase:?}: wanted {expected:?}, found {found:?}"));
        }
    }
    let rate = 1.0 - missed.len() as f64 / f64::from(count);
    let report = format!(
        "{table}: {count} phrases over {} tools: {:.1}% found in the top {TOP}\n{}",
        catalog.tool_count(),
        rate * 100.0,
        missed.join("\n"),
    );
    println!("{report}");
    assert!(rate >= wanted, "{report}");
}

#[test]
fn every_expected_tool_exists() {
    let catalog = catalog_1000::catalog();
    let steps = STEPS.iter().flat_map(|(task, steps)| steps.iter().map(move |tools| (*task, *tools)));
    let tables = [PHRASES, held_out_queries::WRITTEN, held_out_queries::DRAWN].concat();
    for (phrase, expected) in tables.into_iter().chain(steps) {
        for path in expected {
            let found = catalog.resolve(path).found();
            assert_eq!(found.map(|tool| tool.path()).as_deref(), Some(*path), "{phrase}");
        }
    }
}
