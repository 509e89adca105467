//! Resources: what there is and what is going on, to be read without calling anything.

use serde_json::{Value, json};

use super::Shared;
use super::tools::describe;
use super::uri::{decode, encode, shown};
use crate::runtime::BackendSource;
use toolgate_backends::{Backend, BackendState};
use toolgate_catalog::search::one_line;
use toolgate_catalog::{self, Catalog, ToolRef};
use toolgate_mcp::server::{Fault, ResourceCall};
use toolgate_output::results::Reading;
use toolgate_wire::{Access, CallerScope};

/// Guides: topic, title, text.
pub(super) const TOPICS: [(&str, &str, &str); 4] = [
    ("chain", "How to write a chain", include_str!("guide/chain.md")),
    ("search", "How to find tools", include_str!("guide/search.md")),
    ("results", "Long results", include_str!("guide/results.md")),
    ("errors", "When something fails", include_str!("guide/errors.md")),
];

/// Most bytes of a list; beyond it there are pages.
const MAX_LIST: usize = 200_000;

/// Every resource that has a fixed address.
pub(super) fn list() -> Vec<Value> {
    let fixed = [
        ("overview", "Overview", "What this gateway is and what is behind it.", "text/markdown"),
        ("backends", "Backends", "Every backend: state, tools, restarts.", "application/json"),
        ("tools", "Tools", "Every tool in one line.", "text/plain"),
        ("recent", "Recent runs", "The last runs and what they called.", "application/json"),
        (
            "stats",
            "Statistics",
            "Calls, bytes processed and returned, tokens saved: of all, of this session, per tool.",
            "application/json",
        ),
        ("health", "Health", "Whether all is well, and what is not.", "application/json"),
    ];
    let fixed = fixed.map(|(name, title, description, mime)| {
        json!({ "uri": format!("toolgate://{name}"), "name": name, "title": title, "description": description, "mimeType": mime })
    });
    let guides = TOPICS.map(|(topic, title, _)| {
        json!({ "uri": format!("toolgate://guide/{topic}"), "name": format!("guide/{topic}"), "title": title, "mimeType": "text/markdown" })
    });
    fixed.into_iter().chain(guides).collect()
}

/// Every kind of resource that is named in its address.
pub(super) fn templates() -> Vec<Value> {
    let template = |uri: &str, name: &str, description: &str, mime: &str| json!({ "uriTemplate": uri, "name": name, "description": description, "mimeType": mime });
    vec![
        template(
            "toolgate://backend/{name}",
            "backend",
            "One backend: state, tools, the end of its standard error.",
            "application/json",
        ),
        template("toolgate://tool/{name}", "tool", "One tool: schema, types, a ready call.", "application/json"),
        template("toolgate://result/{id}", "result", "A whole result of which an answer showed a part.", "text/plain"),
        template("toolgate://guide/{topic}", "guide", "How to: chain, search, results, errors.", "text/markdown"),
    ]
}

/// Whether a URI is below a scheme of ours.
pub(super) fn is_own(uri: &str) -> bool {
    uri.starts_with("toolgate://") || uri.starts_with("gatemini://")
}

/// Reads one. `gatemini://` is another spelling of `toolgate://`.
pub(super) async fn read(shared: &Shared, call: &ResourceCall) -> Result<Vec<Value>, Fault> {
    let ResourceCall { uri, scope, caller: session, .. } = call;
    let unknown = || Fault::NotFound(format!("there is no resource {}", shown(uri)));
    let path = uri.strip_prefix("toolgate://").or_else(|| uri.strip_prefix("gatemini://")).ok_or_else(unknown)?;
    let (kind, name) = path.split_once('/').map_or((path, None), |(kind, name)| (kind, Some(decode(name))));
    let (mime, text) = match (kind, name.as_deref()) {
        ("overview", None) => ("text/markdown", overview(shared, &scope.caller)),
        ("backends", None) => json_text(&backends(shared, &scope.caller)),
        ("backend", Some(name)) => json_text(&backend(shared, name, &scope.caller).ok_or_else(unknown)?),
        ("tools", None) => ("text/plain", tools(&shared.gateway.catalog(), &scope.caller)),
        ("tool", Some(name)) => {
            let catalog = shared.gateway.catalog();
            let found = catalog.resolve(name).found().filter(|it| permits(&scope.caller, it));
            json_text(&describe(&shared.gateway, found.ok_or_else(unknown)?, true))
        }
        ("recent", None) => json_text(&shared.gateway.runner().history().recent(&scope.caller)),
        ("stats", None) => json_text(&shared.gateway.runner().history().stats(&scope.caller, Some(*session))),
        ("health", None) => json_text(&health(shared, &scope.caller)),
        ("result", Some(id)) => {
            let results = shared.gateway.runner().results(&scope.caller).ok_or_else(unknown)?;
            let id = id.to_owned();
            let read = results.in_background(move |results| results.read(&id, &Reading::default())).await;
            ("text/plain", read.map_err(|error| Fault::NotFound(error.to_string()))?)
        }
        ("guide", Some(topic)) => {
            let found = TOPICS.iter().find(|(name, ..)| *name == topic);
            ("text/markdown", found.map(|(_, _, text)| (*text).to_owned()).ok_or_else(unknown)?)
        }
        _ => return Err(unknown()),
    };
    Ok(vec![json!({ "uri": uri, "mimeType": mime, "text": text })])
}

fn json_text(value: &Value) -> (&'static str, String) {
    ("application/json", serde_json::to_string_pretty(value).unwrap_or_default())
}

fn overview(shared: &Shared, caller: &CallerScope) -> String {
    let catalog = shared.gateway.catalog();
    let mut text =
        format!("# Toolgate {}\n\n{}\n\n## Backends\n", env!("CARGO_PKG_VERSION"), super::instructions::STEPS);
    for backend in permitted(&catalog, &caller.backends) {
        let tags = if backend.tags().is_empty() { String::new() } else { format!(" [{}]", backend.tags().join(", ")) };
        text.push_str(&format!(
            "- `{}`: {} tools, {}{tags}\n",
            backend.identifier(),
            tools_of(backend, caller).count(),
            one_line(&backend.state().to_string()),
        ));
    }
    text
}

fn permits(caller: &CallerScope, tool: &ToolRef<'_>) -> bool {
    caller.permits_tool(tool.backend.name(), &tool.tool().name)
}

/// The tools of a backend that the caller may use.
fn tools_of<'a>(
    backend: &'a toolgate_catalog::Backend,
    caller: &'a CallerScope,
) -> impl Iterator<Item = &'a toolgate_catalog::ToolEntry> {
    backend.tools().iter().filter(|entry| caller.permits_tool(backend.name(), &entry.tool().name))
}

fn permitted<'a>(catalog: &'a Catalog, access: &'a Access) -> impl Iterator<Item = &'a toolgate_catalog::Backend> {
    catalog.backends().iter().filter(|backend| access.permits(backend.name()))
}

fn backends(shared: &Shared, caller: &CallerScope) -> Value {
    let catalog = shared.gateway.catalog();
    let rows: Vec<Value> = permitted(&catalog, &caller.backends).map(|shown| row(shared, shown, caller)).collect();
    json!({ "backends": rows })
}

/// What fits into a table.
fn row(shared: &Shared, shown: &toolgate_catalog::Backend, caller: &CallerScope) -> Value {
    let connection = shared.gateway.backend(shown.name());
    let state = match (&connection, shown.state()) {
        (Some(backend), _) => match backend.missing_login() {
            Some(_) if is_callable(&backend.state()) => "needs login",
            _ => word(&backend.state()),
        },
        (None, toolgate_catalog::BackendState::Disabled) => "disabled",
        // Only a server whose configuration is incomplete failed without a connection.
        (None, toolgate_catalog::BackendState::Failed { .. }) => "needs configuration",
        (None, _) => "stopped",
    };
    let mut row = json!({
        "name": shown.name(),
        "identifier": shown.identifier(),
        "state": state,
        "tools": tools_of(shown, caller).count(),
        "from_cache": *shown.state() == toolgate_catalog::BackendState::Cached,
        "uri": format!("toolgate://backend/{}", encode(shown.name())),
    });
    if !shown.tags().is_empty() {
        row["tags"] = json!(shown.tags());
    }
    if shared.gateway.origin(shown.name()) == Some(BackendSource::Registered) {
        row["registered_at_run_time"] = json!(true);
    }
    row
}

/// Whether only a login is missing for calls.
fn is_callable(state: &BackendState) -> bool {
    matches!(state, BackendState::Idle | BackendState::Ready(_))
}

fn word(state: &BackendState) -> &'static str {
    match state {
        BackendState::Idle => "idle",
        BackendState::Starting => "starting",
        BackendState::Ready(_) => "ready",
        BackendState::Restarting { .. } => "restarting",
        BackendState::Failed { .. } => "failed",
        BackendState::NeedsLogin { .. } => "needs login",
        BackendState::Stopped => "stopped",
    }
}

fn backend(shared: &Shared, name: &str, caller: &CallerScope) -> Option<Value> {
    let catalog = shared.gateway.catalog();
    let shown = catalog.backend(name).filter(|shown| caller.backends.permits(shown.name()))?;
    let mut about = row(shared, shown, caller);
    about["tool_names"] = tools_of(shown, caller).map(|entry| entry.identifier()).collect();
    if let Some(connection) = shared.gateway.backend(shown.name()) {
        connected(&mut about, &connection);
        about["notices"] = json!(connection.notices(|tool| caller.permits_tool(shown.name(), tool)));
    }
    Some(about)
}

fn connected(about: &mut Value, backend: &Backend) {
    let state = backend.state();
    about["detail"] = json!(match backend.missing_login() {
        Some(command) if is_callable(&state) => BackendState::NeedsLogin { command }.to_string(),
        _ => state.to_string(),
    });
    if let BackendState::Ready(ready) = &state {
        about["server"] = json!({
            "name": ready.server.name, "version": ready.server.version, "protocol": ready.server.protocol,
            "era": ready.era, "instructions": ready.server.instructions,
        });
        about["up_seconds"] = json!(ready.since.elapsed().as_secs());
    }
    let stats = backend.stats();
    about["calls"] = json!({ "in_flight": stats.in_flight, "queued": stats.queued });
    about["restarts"] = json!(stats.restarts);
    about["stderr_tail"] = json!(backend.stderr());
}

fn tools(catalog: &Catalog, caller: &CallerScope) -> String {
    let mut text = String::new();
    let mut left = 0_usize;
    for tool in catalog.tools().filter(|tool| permits(caller, tool)) {
        let line = format!("{}: {}\n", tool.spelling(), one_line(tool.tool().description().unwrap_or_default()));
        if text.len() + line.len() > MAX_LIST {
            left += 1;
        } else {
            text.push_str(&line);
        }
    }
    if left > 0 {
        text.push_str(&format!("… {left} more: list_tools_meta gives all of them, page by page\n"));
    }
    text
}

fn health(shared: &Shared, caller: &CallerScope) -> Value {
    let catalog = shared.gateway.catalog();
    let mut counts = serde_json::Map::new();
    let mut troubles = Vec::new();
    for shown in permitted(&catalog, &caller.backends) {
        let row = row(shared, shown, caller);
        let state = row["state"].as_str().unwrap_or_default().to_owned();
        if let toolgate_catalog::BackendState::Failed { reason } = shown.state() {
            troubles.push(json!({ "backend": shown.name(), "reason": reason }));
        }
        if let toolgate_catalog::BackendState::NeedsLogin { .. } = shown.state() {
            troubles.push(json!({ "backend": shown.name(), "reason": shown.state().to_string() }));
        } else if state == "needs login" {
            let command = shared.gateway.backend(shown.name()).and_then(|backend| backend.missing_login());
            let missing = toolgate_catalog::BackendState::NeedsLogin { command: command.unwrap_or_default() };
            troubles.push(json!({ "backend": shown.name(), "reason": missing.to_string() }));
        }
        let count = counts.get(&state).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(state, json!(count + 1));
    }
    let problems: Vec<String> = shared.gateway.problems().iter().map(ToString::to_string).collect();
    let status = match (troubles.is_empty() && problems.is_empty(), counts.contains_key("starting")) {
        (false, _) => "degraded",
        (true, true) => "starting",
        (true, false) => "ok",
    };
    json!({
        "status": status,
        "backends": counts,
        "tools": permitted(&catalog, &caller.backends).map(|backend| tools_of(backend, caller).count()).sum::<usize>(),
        "troubles": troubles,
        "configuration_problems": problems,
    })
}
