//! What a model reads first: how to work, and what there is to work with.
//!
//! Some clients show a model the instructions and no tool until it looks for one, and cut them at 2 KB. So every backend is
//! named with a phrase, in what room there is: the user's own description, or the names of its first tools. What servers
//! say about themselves is not used.

use toolgate_catalog::{Backend, BackendState, Catalog};
use toolgate_mcp::server::{RequestScope, ToolMode};
use toolgate_wire::CallerScope;
use toolgate_wire::foreign_text::{head_bytes, one_line};

use super::Shared;

/// Most bytes of the instructions.
const MAX_SIZE: usize = 2_000;
/// Most characters of a phrase.
const MAX_PHRASE: usize = 120;
/// Characters of a phrase below which more backends are named only.
const MIN_PHRASE: usize = 16;
/// Most characters of a backend's name.
const MAX_NAME: usize = 64;

/// How to work in code mode.
pub(super) const STEPS: &str = "\
Toolgate puts many MCP servers (backends) behind a few tools. Work in three steps:
1. search_tools {task_description}: finds the tools for a task; every hit has a TypeScript signature and a ready call.
2. tool_info {tool_name}: only when a signature is not enough.
3. call_tool_chain {code}: one TypeScript program that calls as many tools as the task needs, as \
`await backend.tool({ ... })`, in parallel with Promise.all where they do not depend on each other. Filter, join and \
count in the program, and `return` only what you need: nothing else reaches your context. console.log is returned too.
A result that was too long is kept: its footer names a result id for read_result and query_result. \
The resource toolgate://guide/chain has more.";

/// How tools are named in direct mode.
const DIRECT: &str = "Toolgate puts many MCP servers (backends) behind one. Their tools are listed as backend__tool.";

/// The instructions for a client.
pub(super) fn instructions(shared: &Shared, scope: &RequestScope) -> String {
    let steps = match scope.mode {
        ToolMode::Code | ToolMode::Both => STEPS,
        ToolMode::Direct => DIRECT,
    };
    let config = shared.gateway.config();
    let described = |name: &str| {
        let incomplete = config.incomplete.get(name).map(|server| server.reason());
        incomplete.or_else(|| config.backends.get(name).and_then(|backend| backend.policy.description.clone()))
    };
    let list = backends(&shared.gateway.catalog(), &scope.caller, described, MAX_SIZE - steps.len());
    format!("{steps}{list}")
}

/// The backends that a caller may use, one to a line, within `room` bytes.
fn backends(
    catalog: &Catalog,
    caller: &CallerScope,
    described: impl Fn(&str) -> Option<String>,
    room: usize,
) -> String {
    let is_offered =
        |backend: &&Backend| caller.backends.permits(backend.name()) && *backend.state() != BackendState::Disabled;
    let all: Vec<&Backend> = catalog.backends().iter().filter(is_offered).collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = "\nBackends:".to_owned();
    let names: usize = all.iter().map(|backend| backend.identifier().len().min(MAX_NAME) + "\n- : ".len()).sum();
    let left = room.saturating_sub(text.len() + MORE_ROOM);
    let share = (left.saturating_sub(names) / all.len()).min(MAX_PHRASE);
    for (index, backend) in all.iter().enumerate() {
        let name = one_line(backend.identifier(), MAX_NAME);
        let phrase = match share >= MIN_PHRASE {
            true => format!(": {}", phrase(backend, caller, described(backend.name()), share)),
            false => String::new(),
        };
        let line = format!("\n- {name}{phrase}");
        if text.len() + line.len() > room.saturating_sub(MORE_ROOM) {
            text.push_str(&format!("\n… {} more: list_tools_meta has all", all.len() - index));
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Bytes for the line that counts the backends which are not named.
const MORE_ROOM: usize = 64;

/// What a backend is for, in at most `room` bytes.
fn phrase(backend: &Backend, caller: &CallerScope, described: Option<String>, room: usize) -> String {
    if let Some(described) = described {
        return cut(&described, room);
    }
    // The reason may be the server's own words.
    if matches!(backend.state(), BackendState::Failed { .. }) && backend.tools().is_empty() {
        return cut("not running", room);
    }
    let permitted = |entry: &&toolgate_catalog::ToolEntry| caller.permits_tool(backend.name(), &entry.tool().name);
    let tools: Vec<&str> = backend.tools().iter().filter(permitted).map(|entry| entry.identifier()).collect();
    let mut text = String::new();
    let mut named = 0;
    for tool in &tools {
        let more = format!(" and {} more", tools.len() - named);
        if text.len() + ", ".len() + tool.len() + more.len() > room {
            break;
        }
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(tool);
        named += 1;
    }
    match (tools.len() - named, named) {
        (0, 0) => cut("still starting", room),
        (0, _) => text,
        (all, 0) => cut(&format!("{all} tools"), room),
        (more, _) => format!("{text} and {more} more"),
    }
}

/// One line of at most `room` bytes.
fn cut(text: &str, room: usize) -> String {
    let line = one_line(text, room);
    head_bytes(&line, room).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolgate_catalog::{Listing, Tool};
    use toolgate_wire::Access;

    fn listing(name: &str, tools: &[&str]) -> Listing {
        let tools =
            tools.iter().filter_map(|tool| Tool::from_raw(json!({ "name": tool, "inputSchema": {} }))).collect();
        Listing { name: name.to_owned(), state: BackendState::Ready, tools, tags: Vec::new() }
    }

    fn text(listings: Vec<Listing>, caller: &CallerScope) -> String {
        let described = |name: &str| match name {
            "crm" => Some("Customers\nand their orders".to_owned()),
            "bad" => Some("needs configuration: set TOKEN".to_owned()),
            _ => None,
        };
        backends(&Catalog::new(listings), caller, described, MAX_SIZE - STEPS.len())
    }

    #[test]
    fn every_backend_has_a_phrase() {
        let off = Listing { state: BackendState::Disabled, ..listing("off", &[]) };
        let failed = |name: &str| {
            let state = BackendState::Failed { reason: "needs configuration: the server's own words".to_owned() };
            Listing { state, ..listing(name, &[]) }
        };
        let up = [listing("tracker", &["list_issues", "create_issue"]), listing("crm", &["find"])];
        let all = up.into_iter().chain([off, failed("bad"), failed("down")]).collect();
        insta::assert_snapshot!(text(all, &CallerScope::default()), @r"
        Backends:
        - bad: needs configuration: set TOKEN
        - crm: Customers and their orders
        - down: not running
        - tracker: create_issue, list_issues
        ");
    }

    #[test]
    fn a_caller_reads_of_its_own_backends_and_tools_alone() {
        let all = || vec![listing("tracker", &["list_issues", "delete_issue"]), listing("crm", &["find"])];
        let caller = CallerScope {
            backends: Access::only(["tracker"]),
            tools: Access::only(["tracker.list_*"]),
            ..CallerScope::default()
        };
        assert_eq!(text(all(), &caller).trim(), "Backends:\n- tracker: list_issues");
        let none = CallerScope { backends: Access::only(["other"]), ..CallerScope::default() };
        assert_eq!(text(all(), &none), "");
    }

    #[test]
    fn many_backends_stay_within_the_bound() {
        let tools: Vec<String> = (0..40).map(|n| format!("a_tool_with_a_name_{n}")).collect();
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        for count in [1, 5, 19, 40, 300] {
            let all = (0..count).map(|n| listing(&format!("backend_{n:03}"), &tools)).collect();
            let shown = text(all, &CallerScope::default());
            assert!(STEPS.len() + shown.len() <= MAX_SIZE, "{count}: {}", shown.len());
            let named = shown.matches("\n- backend_").count();
            assert!(named == count || shown.contains(&format!("… {} more", count - named)), "{shown}");
            assert!(named >= count.min(19), "{count}: {shown}");
        }
    }
}
