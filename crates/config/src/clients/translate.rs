//! Translates one entry of a client's file to Toolgate's format.
//!
//! Names of keys differ, and so do the places of tool filters, which must survive: a filter that is dropped widens what an
//! agent may do. What has no equivalent is reported with the reason.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::Client;
use crate::raw::Server;
use crate::vars::escape;

/// A key that is left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedKey {
    /// The key in the client's file.
    pub key: String,
    /// Why it has no equivalent.
    pub why: &'static str,
}

/// An entry in Toolgate's format.
pub(super) struct Translated {
    /// For `mcpServers`.
    pub(super) entry: Map<String, Json>,
    /// For `toolgate.backends`: the tool filters.
    pub(super) settings: Map<String, Json>,
    pub(super) dropped: Vec<DroppedKey>,
}

/// Translates an entry. `project` is the project directory, from which the client starts its servers.
pub(super) fn translate(client: Option<Client>, entry: Json, project: Option<&Path>) -> Translated {
    let Json::Object(mut entry) = entry else {
        return Translated { entry: Map::new(), settings: Map::new(), dropped: Vec::new() };
    };
    if client.is_some_and(|client| !client.fills_variables()) {
        each_value(&mut entry, &escape);
    }
    match client {
        Some(Client::Codex) => from_codex(&mut entry),
        None if entry.contains_key("bearer_token_env_var") => from_codex(&mut entry),
        Some(Client::Gemini) => from_gemini(&mut entry),
        Some(Client::Windsurf) => rename(&mut entry, "serverUrl", "url"),
        Some(Client::Zed) => from_zed(&mut entry),
        Some(Client::OpenCode) => from_opencode(&mut entry),
        Some(Client::Cline) => seconds(&mut entry, "timeout"),
        Some(Client::Claude | Client::ClaudeCode | Client::Cursor | Client::VsCode) | None => {}
    }
    login(&mut entry);
    let settings = filters(&mut entry);
    if let Some(project) = project {
        in_project(&mut entry, project);
    }
    let (kept, dropped): (Vec<_>, Vec<_>) =
        entry.into_iter().partition(|(key, _)| Server::KEYS.contains(&key.as_str()));
    let dropped = dropped.into_iter().map(|(key, _)| DroppedKey { why: why_dropped(&key), key }).collect();
    Translated { entry: kept.into_iter().collect(), settings, dropped }
}

fn why_dropped(key: &str) -> &'static str {
    match key {
        "trust" | "autoApprove" | "alwaysAllow" | "default_tools_approval_mode" | "tools" => {
            "the client decides about approvals, for Toolgate as a whole"
        }
        "alwaysLoad" => "`toolgate connect` has the client load Toolgate's own tools",
        "startup_timeout_sec" | "startup_timeout_ms" => "toolgate.limits.start_timeout is for all servers",
        "oauth" | "auth" | "authProviderType" | "headersHelper" => "`toolgate login` logs in by itself",
        "source" | "settings" | "gallery" | "version" | "dev" | "metadata" => "only the client uses it",
        _ => "Toolgate has no such setting",
    }
}

/// The client that the user registered, under the keys that clients have for it. What else a client keeps of a login is
/// its own.
fn login(entry: &mut Map<String, Json>) {
    if entry.get("type").and_then(Json::as_str) == Some("openapi") {
        return;
    }
    let mut auth = Map::new();
    for key in ["auth", "oauth"] {
        let Some(Json::Object(found)) = entry.get(key) else { continue };
        let mut take = |names: &[&str], to: &str| {
            if let Some(value) = names.iter().find_map(|name| found.get(*name)) {
                auth.entry(to).or_insert_with(|| value.clone());
            }
        };
        take(&["clientId", "client_id", "CLIENT_ID"], "clientId");
        take(&["clientSecret", "client_secret", "CLIENT_SECRET"], "clientSecret");
        take(&["scopes"], "scopes");
        take(&["callbackPort", "redirectPort"], "redirectPort");
        take(&["authorizationUrl"], "authorizationUrl");
        take(&["tokenUrl"], "tokenUrl");
        if let (Some(scope), false) = (found.get("scope").and_then(Json::as_str), auth.contains_key("scopes")) {
            auth.insert("scopes".to_owned(), scope.split_whitespace().collect());
        }
        if !auth.is_empty() {
            entry.shift_remove(key);
        } else if key == "auth" {
            // Ours has another form: what is left is told as left out.
            rename(entry, "auth", "oauth");
        }
    }
    if !auth.is_empty() {
        entry.insert("auth".to_owned(), Json::Object(auth));
    }
}

/// Takes the tool filters out of an entry, as settings of the backend.
fn filters(entry: &mut Map<String, Json>) -> Map<String, Json> {
    let mut settings = Map::new();
    let lists = [
        ("allow", ["enabled_tools", "enabledTools", "includeTools"]),
        ("deny", ["disabled_tools", "disabledTools", "excludeTools"]),
    ];
    for (setting, keys) in lists {
        for key in keys {
            let Some(Json::Array(names)) = entry.get(key) else { continue };
            // Gemini also writes `tool(arguments)`.
            let name = |text: &str| text.split('(').next().unwrap_or(text).to_owned();
            let names: Vec<String> = names.iter().filter_map(Json::as_str).map(name).collect();
            // An empty list of hidden tools says nothing; an empty list of shown ones hides all.
            if setting == "allow" || !names.is_empty() {
                settings.insert(setting.to_owned(), json!(names));
            }
            entry.shift_remove(key);
        }
    }
    settings
}

/// Makes paths absolute that the client resolves in its project.
fn in_project(entry: &mut Map<String, Json>, project: &Path) {
    let folder = escape(&project.to_string_lossy());
    each_value(entry, &|text| text.replace("${workspaceFolder}", &folder));
    let is_relative = |text: &str| !text.starts_with(['/', '~', '$']) && !text.contains(":\\");
    let absolute = |text: &str| format!("{folder}/{}", text.trim_start_matches("./"));
    for key in ["cwd", "envFile", "command"] {
        if let Some(Json::String(text)) = entry.get_mut(key)
            && is_relative(text)
            && (key != "command" || text.contains('/'))
        {
            *text = if text == "." { folder.clone() } else { absolute(text) };
        }
    }
    if entry.contains_key("command") && !entry.contains_key("cwd") {
        entry.insert("cwd".to_owned(), json!(folder));
    }
}

fn each_value(entry: &mut Map<String, Json>, change: &dyn Fn(&str) -> String) {
    entry.values_mut().for_each(|value| each_text(value, change));
}

fn each_text(json: &mut Json, change: &dyn Fn(&str) -> String) {
    match json {
        Json::String(text) => *text = change(text),
        Json::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Json::Object(map) => map.values_mut().for_each(|item| each_text(item, change)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn rename(entry: &mut Map<String, Json>, from: &str, to: &str) {
    if let Some(value) = entry.shift_remove(from) {
        entry.entry(to).or_insert(value);
    }
}

/// A number of seconds gets its unit; in Toolgate's files a bare number means milliseconds.
fn seconds(entry: &mut Map<String, Json>, key: &str) {
    if let Some(number) = entry.get(key).filter(|value| value.is_number()).cloned() {
        entry.insert(key.to_owned(), json!(format!("{number}s")));
    }
}

/// Codex names environment variables, which become `${…}`, and counts seconds.
fn from_codex(entry: &mut Map<String, Json>) {
    let text = |value: Json| value.as_str().map(str::to_owned);
    if let Some(Json::Array(names)) = entry.shift_remove("env_vars") {
        for name in names.into_iter().filter_map(text) {
            member(entry, "env", &name, format!("${{{name}}}"));
        }
    }
    for (name, value) in object(entry.shift_remove("http_headers")) {
        member(entry, "headers", &name, text(value).unwrap_or_default());
    }
    for (name, variable) in object(entry.shift_remove("env_http_headers")) {
        member(entry, "headers", &name, format!("${{{}}}", text(variable).unwrap_or_default()));
    }
    if let Some(variable) = entry.shift_remove("bearer_token_env_var").and_then(text) {
        member(entry, "headers", "Authorization", format!("Bearer ${{{variable}}}"));
    }
    if let Some(seconds) = entry.shift_remove("tool_timeout_sec").filter(Json::is_number) {
        entry.insert("timeout".to_owned(), json!(format!("{seconds}s")));
    }
}

/// Gemini CLI has two keys for URLs and substitutes `$NAME` too.
fn from_gemini(entry: &mut Map<String, Json>) {
    each_value(entry, &braced);
    if entry.contains_key("httpUrl") {
        entry.shift_remove("url");
    } else if entry.contains_key("url") && !entry.contains_key("type") {
        entry.insert("type".to_owned(), json!("sse"));
    }
    rename(entry, "httpUrl", "url");
}

/// `$NAME` as `${NAME}`.
fn braced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        out.push('$');
        let length = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, tail) = after.split_at(length);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        out.push_str(&if is_name { format!("{{{name}}}") } else { name.to_owned() });
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Older files of Zed have the command as an object.
fn from_zed(entry: &mut Map<String, Json>) {
    if let Some(Json::Object(command)) = entry.get("command").cloned() {
        entry.shift_remove("command");
        for (key, value) in command {
            entry.insert(if key == "path" { "command".to_owned() } else { key }, value);
        }
    }
    entry.retain(|_, value| !value.is_null());
}

/// opencode has the command as a list, and `{env:NAME}`.
fn from_opencode(entry: &mut Map<String, Json>) {
    each_value(entry, &|text| text.replace("{env:", "${env:").replace("{file:", "${file:"));
    match entry.get("type").and_then(Json::as_str) {
        Some("remote") => drop(entry.insert("type".to_owned(), json!("http"))),
        Some("local") => drop(entry.shift_remove("type")),
        _ => {}
    }
    if let Some(Json::Array(words)) = entry.get("command").cloned() {
        let mut words = words.into_iter();
        if let Some(program) = words.next() {
            entry.insert("command".to_owned(), program);
        }
        entry.insert("args".to_owned(), Json::Array(words.collect()));
    }
    rename(entry, "environment", "env");
    // It bounds the listing of tools, not a call.
    rename(entry, "timeout", "timeout for listing tools");
}

fn object(json: Option<Json>) -> Map<String, Json> {
    match json {
        Some(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

fn member(entry: &mut Map<String, Json>, section: &str, name: &str, value: String) {
    let section = entry.entry(section).or_insert_with(|| json!({}));
    if let Json::Object(map) = section {
        map.entry(name).or_insert(Json::String(value));
    }
}
