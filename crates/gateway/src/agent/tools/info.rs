//! `tool_info`: all about one tool.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::arguments::{Refusal, Text, read, schema_of};
use super::super::{Shared, answer};
use super::{Hints, Tool, ToolFuture, host_functions, named, wait_for_tool};
use crate::runtime::Gateway;
use toolgate_catalog::search::ready_call;
use toolgate_catalog::types::learned::known_signature;
use toolgate_catalog::{ToolRef, types};
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "tool_info",
    title: "Describe a tool",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<InfoArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(info(shared, call)) },
};

const DESCRIPTION: &str = "\
Describes one tool: its description, TypeScript signature and a ready call. detail=\"full\" adds the input and output \
schemas and the generated types. Take the name from search_tools (backend.tool); a bare tool name works where one \
backend has it.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InfoArguments {
    /// backend.tool, or the tool alone.
    tool_name: Text,
    #[serde(default)]
    detail: Detail,
}

#[derive(PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Detail {
    #[default]
    Brief,
    Full,
}

async fn info(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let InfoArguments { tool_name: Text(name), detail } = read(&call.arguments)?;
    let (name, full) = (name.as_str(), detail == Detail::Full);
    wait_for_tool(&shared, name, &call).await;
    let catalog = shared.gateway.catalog();
    if let Some(function) = shared.gateway.functions(&call.scope.caller).get(name) {
        return Ok(answer::bounded_json(&shared, &call.scope.caller, &host_functions::describe(function, full)));
    }
    let tool = named(&catalog, name, &call.scope.caller)?;
    Ok(answer::bounded_json(&shared, &call.scope.caller, &describe(&shared.gateway, tool, full)))
}

/// What there is to say about a tool.
pub(in super::super) fn describe(gateway: &Gateway, tool: ToolRef<'_>, full: bool) -> Value {
    let learned = gateway.learned_types();
    let mut about = json!({
        "tool": tool.spelling(),
        "backend": tool.backend.name(),
        "name": tool.tool().name,
        "state": tool.backend.state().to_string(),
        "description": tool.tool().description(),
        "signature": known_signature(tool, &learned),
        "call": ready_call(tool),
    });
    if let Some(annotations) = tool.tool().annotations() {
        about["annotations"] = annotations.clone();
    }
    if gateway.breaks_its_schema(tool.backend.name(), &tool.tool().name) {
        about["note"] = json!(types::BREAKS_ITS_SCHEMA);
    }
    if full {
        about["input_schema"] = tool.tool().input_schema().clone();
        about["output_schema"] = json!(tool.tool().output_schema());
        about["types"] = json!(types::tool_declaration_with(tool, &learned));
    }
    about
}
