//! docs/CONFIGURATION.md and docs/toolgate.schema.json say what the settings are.
//!
//! Both are generated here: keys, types and sentences from the JSON Schema, ranges from what the checker says about a
//! value that is too large, limits from the table of `toolgate_wire`. Defaults are written down in `DEFAULTS`, and a
//! test sets each of them and expects that nothing changes.
//!
//! `UPDATE_DOCUMENTS=1 cargo test -p toolgate-config --test document` writes the files anew.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_config::values::{
    Allowed, Bytes, CallLimitWords, Endpoint, Glob, HostName, KeyHash, Origin, Period, Rate, RunStorePlace, Setting,
    StoreSetting, ToolPath,
};
use toolgate_config::{Checked, Env, Problem, load, schema};
use toolgate_wire::limits::Unit;
use toolgate_wire::{Limit, Profile};

/// The head of the document; tables follow it.
const HEAD: &str = include_str!("document/head.md");

/// The value that a setting has when it is absent: as the document shows it and, where one value can be written that
/// means the same, as JSON.
const DEFAULTS: &[(&str, &str, Option<&str>)] = &[
    ("mcpServers.NAME.type", "by `command` or `url`", None),
    ("mcpServers.NAME.cwd", "the folder that Toolgate runs in", None),
    ("mcpServers.NAME.inheritEnv", "`false`", Some("false")),
    ("mcpServers.NAME.disabled", "`false`", Some("false")),
    ("mcpServers.NAME.enabled", "`true`", Some("true")),
    ("mcpServers.NAME.timeout", "`toolgate.limits.call_timeout`", Some("\"30s\"")),
    ("mcpServers.NAME.start", "`toolgate.start`", Some("\"lazy\"")),
    ("mcpServers.NAME.sandbox", "`false`", Some("false")),
    ("mcpServers.NAME.sandbox.network", "`true`", None),
    ("mcpServers.NAME.sandbox.memory", "1 GB", None),
    ("mcpServers.NAME.sandbox.processes", "512", None),
    ("toolgate.start", "`lazy`", Some("\"lazy\"")),
    ("toolgate.backends.NAME.sandbox", "that of `mcpServers`", None),
    ("toolgate.share", "`false`", Some("false")),
    ("toolgate.tools.run_code", "where there are host functions", None),
    ("toolgate.tools.query_tools", "`true`", Some("true")),
    ("toolgate.backends.NAME.start", "`toolgate.start`", Some("\"lazy\"")),
    ("toolgate.weather.enabled", "where egress or `base_url` allows it", None),
    ("mcpServers.NAME.auth.issuer", "with `clientId`, the first that the server names", None),
    ("mcpServers.NAME.auth.grant", "`authorization_code`", None),
    ("mcpServers.NAME.auth.redirectPort", "any that is free", None),
    ("toolgate.mode", "`code`", Some("\"code\"")),
    ("toolgate.store", "`memory`", Some("\"memory\"")),
    ("toolgate.allow_runtime_registration", "`false`", Some("false")),
    ("toolgate.policy_default", "`allow`", Some("\"allow\"")),
    ("toolgate.policy[].tool", "`*`", None),
    ("toolgate.policy[].stage", "false", Some("false")),
    ("toolgate.policy[].expiry", "24h", Some("\"24h\"")),
    ("toolgate.secrets.commands", "`false`", Some("false")),
    ("toolgate.secrets.store", "`auto`", Some("\"auto\"")),
    ("toolgate.sandbox.engine", "`auto`", None),
    ("toolgate.sandbox.isolation", "`process` on Linux, else `thread`", None),
    ("toolgate.sandbox.reuse", "`never`", Some("\"never\"")),
    ("toolgate.sandbox.max_concurrent_runs", "twice the cores, at least 8", None),
    ("toolgate.sandbox.pool", "2 for `serve`, none for other commands", None),
    ("toolgate.output.intent", "`true`", Some("true")),
    ("toolgate.output.auto_chunk_json", "`true`", Some("true")),
    ("toolgate.output.smart_truncation", "`true`", Some("true")),
    ("toolgate.output.chunk_threshold", "10 KB", Some("10240")),
    ("toolgate.output.format", "`auto`", Some("\"auto\"")),
    ("toolgate.output.max_output_size", "24,000 bytes for MCP clients, else 200,000", None),
    ("toolgate.limits.call_timeout", "30s", Some("\"30s\"")),
    ("toolgate.limits.max_concurrent_calls", "16", Some("16")),
    ("toolgate.limits.start_timeout", "60s", Some("\"60s\"")),
    ("toolgate.limits.max_queued_runs", "256", Some("256")),
    ("toolgate.limits.result_store", "64 MB", Some("\"64MB\"")),
    ("toolgate.limits.result_ttl", "1h", Some("\"1h\"")),
    ("toolgate.limits.shutdown_grace", "10s", Some("\"10s\"")),
    // One-shot commands wait longer where it is absent.
    ("toolgate.limits.type_check", "150ms", None),
    ("toolgate.limits.bytes_in_flight", "256 MB", Some("\"256MB\"")),
    ("toolgate.limits.caller_bytes_in_flight", "128 MB", Some("\"128MB\"")),
    ("toolgate.limits.run_bytes_in_flight", "the memory of the run, at least 16 MB", None),
    ("toolgate.runs.store", "a file in `toolgate/runs` in `$XDG_STATE_HOME` or `~/.local/state`", None),
    (
        "toolgate.runs.key_file",
        "`toolgate/runs.key` in `$XDG_STATE_HOME` or `~/.local/state`",
        Some("\"~/.local/state/toolgate/runs.key\""),
    ),
    ("toolgate.runs.lease", "2s", Some("\"2s\"")),
    ("toolgate.runs.keep", "7d", Some("\"7d\"")),
    ("toolgate.runs.max_size", "1 GB", Some("\"1GB\"")),
    ("toolgate.runs.max_open", "1000", Some("1000")),
    ("toolgate.runs.max_open_size", "1 GB", Some("\"1GB\"")),
    ("toolgate.runs.unknown_calls", "auto", Some("\"auto\"")),
    ("toolgate.cache.enabled", "`true`", Some("true")),
    ("toolgate.cache.dir", "`toolgate` in `$XDG_CACHE_HOME` or `~/.cache`", Some("\"~/.cache/toolgate\"")),
    ("toolgate.http.auth", "`token`", Some("\"token\"")),
    (
        "toolgate.http.token_file",
        "`toolgate/http-token` in `$XDG_STATE_HOME` or `~/.local/state`",
        Some("\"~/.local/state/toolgate/http-token\""),
    ),
    ("toolgate.http.metrics", "`callers`", Some("\"callers\"")),
    ("toolgate.http.metrics_key", "none", None),
    ("toolgate.http.oauth.jwks", "as the issuer's metadata says", None),
    ("toolgate.http.keys[].calls_per_minute", "as many as it likes", None),
    ("toolgate.audit.enabled", "`false`", Some("false")),
    ("toolgate.audit.file", "`~/.local/state/toolgate/audit.jsonl`", None),
    ("toolgate.audit.arguments", "`false`", Some("false")),
    ("toolgate.audit.max_size", "64MB", Some("\"64MB\"")),
    ("toolgate.audit.keep", "10", Some("10")),
    ("toolgate.telemetry.endpoint", "off", None),
    ("toolgate.telemetry.service_name", "`toolgate`", None),
    ("toolgate.backends.NAME.timeout", "`toolgate.limits.call_timeout`", Some("\"30s\"")),
    ("toolgate.backends.NAME.max_concurrent_calls", "`toolgate.limits.max_concurrent_calls`", Some("16")),
    ("toolgate.backends.NAME.prefix", "`true`", Some("true")),
    ("toolgate.backends.NAME.learn_types", "`true`", Some("true")),
    ("toolgate.backends.NAME.tools.NAME.read_only", "as the server says", None),
    ("toolgate.backends.NAME.tools.NAME.destructive", "as the server says", None),
    ("toolgate.backends.NAME.tools.NAME.idempotent", "as the server says", None),
    ("toolgate.backends.NAME.tools.NAME.open_world", "as the server says", None),
    ("toolgate.functions.NAME.method", "`POST`", Some("\"POST\"")),
    ("toolgate.functions.NAME.read_only", "`false`", Some("false")),
    ("toolgate.functions.NAME.idempotent", "`false`", Some("false")),
    ("toolgate.functions.NAME.timeout", "`toolgate.limits.call_timeout`", Some("\"30s\"")),
    ("toolgate.engines.v8.deno", "the variable `TOOLGATE_DENO`, then the search path", None),
    ("toolgate.engines.v8.pool", "1", Some("1")),
    ("toolgate.engines.v8.threshold_ms", "50", Some("50")),
    ("toolgate.engines.typescript", "the variable `TOOLGATE_TSC`, then the search path", None),
    ("toolgate.weather.base_url", "Open-Meteo", None),
    ("toolgate.egress", "`off`", Some("\"off\"")),
];

#[test]
fn the_document_is_fresh() {
    check_file("docs/CONFIGURATION.md", &document());
}

#[test]
fn the_schema_for_editors_is_fresh() {
    let mut text = serde_json::to_string_pretty(&schema::schema()).expect("JSON");
    text.push('\n');
    check_file("docs/toolgate.schema.json", &text);
}

#[test]
fn every_default_is_what_an_absent_setting_means() {
    let absent = read(&base()).unwrap_or_else(|problems| panic!("{problems:?}"));
    for (path, _, value) in DEFAULTS {
        let Some(value) = value else { continue };
        let mut file = base();
        set(&mut file, path, serde_json::from_str(value).expect("JSON"));
        let present = read(&file).unwrap_or_else(|problems| panic!("{path}: {problems:?}"));
        assert_eq!((&present.settings, &present.backends), (&absent.settings, &absent.backends), "{path}");
    }
}

#[test]
fn every_row_of_defaults_belongs_to_a_setting() {
    let document = document();
    for (path, shown, _) in DEFAULTS {
        let key = path.rsplit('.').next().expect("a key");
        let row = document.lines().find(|line| line.starts_with(&format!("| `{key}` ")) && line.contains(shown));
        assert!(row.is_some(), "{path}");
    }
}

/// Compares a file of the repository with what it should be, or writes it when `UPDATE_DOCUMENTS` is set.
fn check_file(path: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        std::fs::write(&file, expected).expect("the document is written");
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{path} is stale at {differs:?}; UPDATE_DOCUMENTS=1 cargo test -p toolgate-config --test document"
    );
}

/// A file in which every section of the schema has a place: servers and functions are called NAME.
fn base() -> Value {
    let hash = format!("sha256:{}", "0".repeat(64));
    json!({
        "mcpServers": { "NAME": { "command": "x" } },
        "toolgate": {
            "http": { "keys": [{ "name": "k", "hash": hash }] },
            "backends": { "NAME": {} },
            "functions": { "NAME": { "url": "https://example.com/" } },
            "policy": [{ "tool": "NAME.*", "do": "ask" }],
        },
    })
}

fn read(file: &Value) -> Result<Checked, Vec<Problem>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolgate.json");
    std::fs::write(&path, file.to_string()).expect("the file is written");
    load(&path, &Env::new(Some("/home/u".into()), "/w"))
}

/// Sets `a.b[].c` in a file, in the first entry of a list.
fn set(file: &mut Value, path: &str, value: Value) {
    let mut node = file;
    for step in path.split('.') {
        let (key, is_list) = step.strip_suffix("[]").map_or((step, false), |key| (key, true));
        if !node.is_object() {
            *node = json!({});
        }
        node = &mut node[key];
        if is_list {
            node = &mut node[0];
        }
    }
    *node = value;
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    let mut seen = Vec::new();
    section(&mut text, "", &schema::schema(), &mut seen);
    text
}

/// Renders an object of the schema as one table, and then the objects in it.
fn section(text: &mut String, path: &str, schema: &Value, seen: &mut Vec<(Value, String)>) {
    if let Some((_, first)) = seen.iter().find(|(known, _)| known == schema) {
        let _ = write!(text, "\n## `{path}`\n\nThe same settings as `{first}`.\n");
        return;
    }
    seen.push((schema.clone(), path.to_owned()));
    let title = if path.is_empty() { "The file".to_owned() } else { format!("`{path}`") };
    let _ = write!(text, "\n## {title}\n\n{}\n\n", sentence(schema));
    text.push_str("| key | type | default | range | |\n|---|---|---|---|---|\n");
    let properties = properties(schema);
    for (key, property) in properties {
        let at = join(path, key);
        let default = default_of(&at, property);
        let _ = writeln!(
            text,
            "| `{key}` | {} | {default} | {} | {} |",
            type_of(property),
            range_of(&at, property),
            sentence(property).replace('|', "\\|")
        );
    }
    for (key, property) in properties {
        if let Some((below, schema)) = object_below(&join(path, key), property) {
            section(text, &below, schema, seen);
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn properties(schema: &Value) -> &Map<String, Value> {
    schema["properties"].as_object().expect("a section has properties")
}

fn sentence(schema: &Value) -> &str {
    schema["description"].as_str().expect("every setting has a sentence")
}

/// The section behind a property, with its path: an object, the entries of a table, the items of a list.
fn object_below<'a>(path: &str, property: &'a Value) -> Option<(String, &'a Value)> {
    let is_section = |schema: &Value| schema.get("properties").is_some();
    if is_section(property) {
        return Some((path.to_owned(), property));
    }
    // A switch that can be a section instead.
    if let Some([switch, section]) = property.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
        && switch["type"] == "boolean"
        && is_section(section)
    {
        return Some((path.to_owned(), section));
    }
    let entries = property.get("additionalProperties").filter(|entries| is_section(entries));
    let items = property.get("items").filter(|items| is_section(items));
    entries.map(|it| (format!("{path}.NAME"), it)).or_else(|| items.map(|it| (format!("{path}[]"), it)))
}

/// The schema of a value without the alternative of a variable and without its sentence.
fn plain(property: &Value) -> Value {
    let mut schema = match property.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([value, variable]) if variable["pattern"] == r"\$\{" => value.clone(),
        _ => property.clone(),
    };
    if let Some(members) = schema.as_object_mut() {
        members.remove("description");
    }
    schema
}

/// The type in words. A new kind of value needs a row here.
fn type_of(property: &Value) -> String {
    let schema = plain(property);
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if schema.get("properties").is_some() {
        return "section".to_owned();
    }
    let is_object = |schema: &Value| schema.get("properties").is_some();
    if let Some(forms) = schema.get("anyOf").and_then(Value::as_array).filter(|forms| forms.iter().any(is_object)) {
        let name = |form: &Value| if is_object(form) { "object".to_owned() } else { type_of(form) };
        return forms.iter().map(name).collect::<Vec<_>>().join(" or ");
    }
    if let Some([first, second]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
        && second.get("items").is_some()
    {
        return format!("{}, or a {}", type_of(first), type_of(second));
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", plural(&type_of(items)));
    }
    if let Some(entries) = schema.get("additionalProperties") {
        return format!("{} by name", plural(&type_of(entries)));
    }
    named_types().iter().find(|(known, _)| *known == schema).map(|(_, name)| (*name).to_owned()).unwrap_or_else(|| {
        panic!("no name for the type {schema}");
    })
}

fn named_types() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "JSON"),
        (json!({"type": "boolean"}), "boolean"),
        (json!({"type": "integer", "minimum": 0}), "integer"),
        (json!({"type": ["string", "number", "boolean"]}), "text"),
        (String::schema(), "text"),
        (Period::schema(), "duration"),
        (Bytes::schema(), "size"),
        (Rate::schema(), "rate"),
        (KeyHash::schema(), "hash"),
        (Endpoint::schema(), "URL"),
        (std::net::SocketAddr::schema(), "address:port"),
        (HostName::schema(), "host name"),
        (Allowed::schema(), "host or network"),
        (Origin::schema(), "origin"),
        (StoreSetting::schema(), "`memory`, `redis://` or `postgres://` URL"),
        (RunStorePlace::schema(), "file or `postgres://` URL"),
        (ToolPath::schema(), "`backend.tool`"),
        (Glob::schema(), "pattern"),
        (CallLimitWords::schema(), "text"),
    ]
}

fn plural(name: &str) -> String {
    match name {
        "host or network" => "hosts and networks".to_owned(),
        name => format!("{name}s"),
    }
}

/// What the checker accepts, from its own message about a value that is too large.
fn range_of(path: &str, property: &Value) -> String {
    let largest = match type_of(property).as_str() {
        "integer" => json!(u64::MAX),
        "size" => json!("1048576GB"),
        "duration" => json!("30d"),
        _ => return String::new(),
    };
    let mut file = base();
    set(&mut file, path, largest);
    let problems = match read(&file) {
        // A problem of one server leaves the others usable.
        Ok(checked) if !checked.incomplete.is_empty() => {
            checked.incomplete.into_values().flat_map(|incomplete| incomplete.problems).collect()
        }
        Ok(_) => return String::new(),
        Err(problems) => problems,
    };
    let message = problems
        .iter()
        .find(|problem| problem.path.replace("[0]", "[]") == path)
        .map(|problem| problem.message.as_str());
    let message = message.unwrap_or_else(|| panic!("{path}: {problems:?}"));
    let from = message.find(|c: char| c.is_ascii_digit()).unwrap_or_else(|| panic!("{path}: {message}"));
    message[from..].replace(" and ", " to ")
}

fn default_of(path: &str, property: &Value) -> String {
    if let Some((_, shown, _)) = DEFAULTS.iter().find(|(known, ..)| *known == path) {
        return (*shown).to_owned();
    }
    if let Some(shown) = default_limit(path) {
        return shown;
    }
    let needs_one = matches!(type_of(property).as_str(), "boolean" | "integer" | "size" | "duration");
    assert!(!needs_one, "{path} has no row in DEFAULTS");
    String::new()
}

/// The default of a profile's limit, by the table that the engine uses.
fn default_limit(path: &str) -> Option<String> {
    let (profile, key) = path.strip_prefix("toolgate.sandbox.limits.")?.split_once('.')?;
    let profile = match profile {
        "compute" => Profile::Compute,
        "chain" => Profile::Chain,
        "snippet" => Profile::Snippet,
        other => panic!("no profile {other}"),
    };
    let key = camel_case(key);
    let limit = Limit::ALL.into_iter().find(|limit| limit.spec().key == key).expect("a limit of the table");
    let value = limit.default(profile).expect("a default");
    Some(match limit.spec().unit {
        Unit::Milliseconds => format!("{}s", value / 1_000),
        Unit::Bytes => Bytes::new(value).to_string(),
        _ => value.to_string(),
    })
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(1);
        name + &head.to_uppercase() + tail
    })
}
