//! `search_tools`: from a task to the tools that do it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::arguments::{Count, Refusal, Text, read, schema_of};
use super::super::{Shared, answer, waiting};
use super::{Hints, Tool, ToolFuture, host_functions};
use toolgate_catalog::ToolRef;
use toolgate_catalog::search::Hit;
use toolgate_catalog::types::learned::known_signature;
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "search_tools",
    title: "Search tools",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<SearchArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(search(shared, call)) },
};

const DESCRIPTION: &str = "\
Finds the tools for a task, best first. Describe what you want to do in plain words, or give a tool's name. Every hit \
is one line as call_tool_chain calls it: `backend.tool(arguments): result — what it does`. brief=false gives JSON with \
whole descriptions, ready calls and input schemas; tool_info tells more of one tool.";

/// Host functions among the hits: they are few words each, and must not take the place of tools.
const MAX_FUNCTIONS: usize = 3;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// What you want to do, such as "create a GitHub issue".
    task_description: Text,
    #[serde(default = "default_limit")]
    limit: Count<1, 100>,
    #[serde(default = "default_brief")]
    brief: bool,
    /// Only tools of backends with this tag.
    tag: Option<String>,
}

fn default_limit() -> Count<1, 100> {
    Count(10)
}

fn default_brief() -> bool {
    true
}

async fn search(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let SearchArguments { task_description: Text(task), limit, brief, tag } = read(&call.arguments)?;
    let (task, limit) = (task.as_str(), limit.0 as usize);
    let tag = tag.as_deref().filter(|tag| !tag.is_empty());
    let caller = &call.scope.caller;
    waiting::for_all(&shared, &caller.backends, &call.cancel).await;

    let catalog = shared.gateway.catalog();
    // Who may use a few tools must find as many of them as anyone else would.
    let tagged =
        |tool: ToolRef<'_>| tag.is_none_or(|tag| tool.backend.tags().iter().any(|own| own.eq_ignore_ascii_case(tag)));
    let hits = catalog
        .search_where(task, limit, |tool| caller.permits_tool(tool.backend.name(), &tool.tool().name) && tagged(tool));
    let functions = match tag {
        Some(_) => Vec::new(),
        None => host_functions::found(&shared.gateway.functions(caller), task),
    };
    let functions: Vec<String> = functions.into_iter().take(MAX_FUNCTIONS).collect();
    let note = waiting::note(&shared, &caller.backends);
    let nothing = if note.is_none() { NOTHING } else { NOTHING_ELSEWHERE };
    let hint = (hits.is_empty() && functions.is_empty()).then_some(nothing);
    let learned = shared.gateway.learned_types();
    if brief {
        let (asked, others): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(|hit| is_asked_for(hit, task));
        let line = |hit: Hit| match catalog.tool(&hit.backend, &hit.tool) {
            Some(found) => hit.line_with(found, &learned),
            None => hit.line,
        };
        let asked = asked.into_iter().map(line);
        let found = asked.chain(functions).chain(others.into_iter().map(line)).take(limit);
        let lines = found.chain(hint.map(str::to_owned)).chain(note);
        return Ok(answer::text(lines.collect::<Vec<_>>().join("\n")));
    }
    let rows: Vec<Value> = hits
        .iter()
        .map(|hit| {
            let found = catalog.tool(&hit.backend, &hit.tool);
            let mut row = row(hit, found.map(|found| found.spelling()));
            if let Some(found) = found {
                row["signature"] = json!(known_signature(found, &learned));
                row["description"] = json!(found.tool().description());
                row["input_schema"] = found.tool().input_schema().clone();
            }
            row
        })
        .collect();
    let mut result = json!({ "tools": rows });
    if !functions.is_empty() {
        result["functions"] = json!(functions);
    }
    for (key, text) in [("hint", hint.map(str::to_owned)), ("note", note)] {
        if let Some(text) = text {
            result[key] = json!(text);
        }
    }
    Ok(answer::json(&shared, &result))
}

/// Whether a task has the name of the tool, alone or with that of its backend.
fn is_asked_for(hit: &Hit, task: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | ',' | ';' | ':' | '?');
    let path = format!("{}.{}", hit.backend, hit.tool);
    task.split(is_separator).any(|word| word == hit.tool || word == path)
}

const NOTHING: &str = "nothing fits; try other words, or list_tools_meta for everything there is";

/// Where the tools of some backends are not known: they may fit.
const NOTHING_ELSEWHERE: &str = "nothing fits among the tools that are known, which are not all";

fn row(hit: &Hit, spelling: Option<String>) -> Value {
    json!({
        "tool": spelling.unwrap_or_else(|| format!("{}.{}", hit.backend, hit.tool)),
        "description": hit.description,
        "signature": hit.signature,
        "call": hit.call,
    })
}
