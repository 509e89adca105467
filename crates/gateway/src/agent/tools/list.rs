//! `list_tools_meta`: everything there is, a page at a time.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::arguments::{self, Count, Refusal, schema_of};
use super::super::{Shared, answer, waiting};
use super::{Hints, Tool, ToolFuture};
use toolgate_catalog::ToolRef;
use toolgate_catalog::search::one_line;
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "list_tools_meta",
    title: "List all tools",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<ListArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(list(shared, call)) },
};

const DESCRIPTION: &str = "\
Lists the names and one-line descriptions of all tools, a page at a time: give next_cursor back as cursor for the \
next page. To find a tool for a task, search_tools is better.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// next_cursor of the page before.
    cursor: Option<String>,
    #[serde(default = "default_page_size")]
    page_size: Count<1, 500>,
}

fn default_page_size() -> Count<1, 500> {
    Count(50)
}

async fn list(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let ListArguments { cursor, page_size } = arguments::read(&call.arguments)?;
    let after = cursor.filter(|cursor| !cursor.is_empty()).map(|cursor| read(&cursor)).transpose()?;
    let size = page_size.0 as usize;
    let caller = &call.scope.caller;
    waiting::for_all(&shared, &caller.backends, &call.cancel).await;

    let catalog = shared.gateway.catalog();
    let permitted: Vec<ToolRef<'_>> =
        catalog.tools().filter(|it| caller.permits_tool(it.backend.name(), &it.tool().name)).collect();
    let begins = after.map_or(0, |(backend, tool)| {
        permitted
            .partition_point(|it| (it.backend.name(), it.tool().name.as_str()) <= (backend.as_str(), tool.as_str()))
    });
    let page: Vec<ToolRef<'_>> = permitted.iter().skip(begins).take(size).copied().collect();
    let rows: Vec<Value> = page
        .iter()
        .map(
            |it| json!({ "tool": it.spelling(), "description": one_line(it.tool().description().unwrap_or_default()) }),
        )
        .collect();
    let mut result = json!({ "tools": rows, "total": permitted.len() });
    if let Some(last) = page.last().filter(|_| begins + page.len() < permitted.len()) {
        result["next_cursor"] = json!(write(*last));
    }
    if let Some(note) = waiting::note(&shared, &caller.backends) {
        result["note"] = json!(note);
    }
    Ok(answer::json(&shared, &result))
}

/// A place by the names around it and not by a number: tools that come or go meanwhile move nothing else.
fn write(last: ToolRef<'_>) -> String {
    URL_SAFE_NO_PAD.encode(json!([last.backend.name(), last.tool().name]).to_string())
}

fn read(cursor: &str) -> Result<(String, String), Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| Refusal::new("cursor: is not one of ours; leave it out for the first page"))
}
