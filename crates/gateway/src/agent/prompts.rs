//! Prompts: beginnings of a conversation that lead the way.

use serde_json::{Value, json};

use super::uri::shown;
use toolgate_mcp::server::{Fault, PromptCall};

/// Every prompt.
pub(super) fn list() -> Vec<Value> {
    vec![
        json!({ "name": "discover", "title": "What can I do here?", "description": "Look around: which backends and tools there are." }),
        json!({
            "name": "find_tool", "title": "Find a tool", "description": "Find the tools for a task and use them.",
            "arguments": [{ "name": "task", "description": "What you want to do.", "required": true }],
        }),
        json!({ "name": "backend_status", "title": "Backend status", "description": "Which backends run, and what is wrong with those that do not." }),
    ]
}

/// Whether one of these has this name.
pub(super) fn is_taken(name: &str) -> bool {
    matches!(name, "discover" | "find_tool" | "backend_status")
}

/// A prompt, filled in.
pub(super) fn get(call: &PromptCall) -> Result<Value, Fault> {
    let text = match call.name.as_str() {
        "discover" => DISCOVER.to_owned(),
        "find_tool" => {
            let task =
                call.arguments.get("task").and_then(Value::as_str).map(str::trim).filter(|task| !task.is_empty());
            let Some(task) = task else {
                return Err(Fault::InvalidParams("task: is missing; it must be a string".to_owned()));
            };
            format!(
                "Find the tools for this task and do it: {task}\n\nCall search_tools with the task first. If a signature is \
                 not enough, call tool_info. Then write one program for call_tool_chain that does the whole task and \
                 returns only what answers it."
            )
        }
        "backend_status" => STATUS.to_owned(),
        other => return Err(Fault::NotFound(format!("there is no prompt named {}", shown(other)))),
    };
    Ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }))
}

const DISCOVER: &str = "\
Look around in Toolgate: read the resource toolgate://overview, then call list_tools_meta (scope by scope if there are \
many tools). Tell me in a few lines which backends there are, what each is for, and three things I could ask you to do \
with them together.";

const STATUS: &str = "\
Read the resources toolgate://backends and toolgate://health. Tell me which backends are ready, which are not and why \
(toolgate://backend/{name} has the end of a backend's standard error), and what I should do about it.";
