//! `tool_info`: all about one tool.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::arguments::{Arguments, Refusal};
use super::super::{Shared, answer, waiting};
use super::{Hints, Tool, ToolFuture, named};
use toolgate_catalog::search::ready_call;
use toolgate_catalog::{ToolRef, types};
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "tool_info",
    title: "Describe a tool",
    description: |_, _| DESCRIPTION.to_owned(),
    schema,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(info(shared, call)) },
};

const DESCRIPTION: &str = "\
Describes one tool: its description, TypeScript signature and a ready call. detail=\"full\" adds the input and output \
schemas and the generated types. Take the name from search_tools (backend.tool); a bare tool name works where one \
backend has it.";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "tool_name": { "type": "string", "description": "backend.tool, or the tool alone." },
            "detail": { "type": "string", "enum": ["brief", "full"], "default": "brief" },
        },
        "required": ["tool_name"],
        "additionalProperties": false,
    })
}

async fn info(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let arguments = Arguments::new(&call.arguments, &["tool_name", "detail"])?;
    let name = arguments.text("tool_name")?;
    let full = arguments.choice("detail", &["brief", "full"])? == "full";
    waiting::for_all(&shared, &call.scope.caller.backends, &call.cancel).await;
    let catalog = shared.gateway.catalog();
    let tool = named(&catalog, name, &call.scope.caller)?;
    Ok(answer::json(&shared, &describe(tool, full)))
}

/// What there is to say about a tool.
pub(in super::super) fn describe(tool: ToolRef<'_>, full: bool) -> Value {
    let mut about = json!({
        "tool": tool.spelling(),
        "backend": tool.backend.name(),
        "name": tool.tool().name,
        "state": tool.backend.state().to_string(),
        "description": tool.tool().description(),
        "signature": types::signature(tool),
        "call": ready_call(tool),
    });
    if let Some(annotations) = tool.tool().raw().get("annotations") {
        about["annotations"] = annotations.clone();
    }
    if full {
        about["input_schema"] = tool.tool().input_schema().clone();
        about["output_schema"] = json!(tool.tool().output_schema());
        about["types"] = json!(types::tool_declaration(tool));
    }
    about
}
