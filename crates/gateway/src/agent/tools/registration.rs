//! `register_manual` and `deregister_manual`: backends that an agent adds, where the configuration allows it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::arguments::{Arguments, Refusal};
use super::super::{Shared, answer};
use super::{Hints, Tool, ToolFuture};
use crate::runtime::Registration;
use toolgate_mcp::server::ToolCall;
use toolgate_wire::Access;

pub(super) static REGISTER: Tool = Tool {
    name: "register_manual",
    title: "Add a backend",
    description: |_, _| REGISTER_DESCRIPTION.to_owned(),
    schema: register_schema,
    hints: Hints::Changes,
    call: |shared, call| -> ToolFuture { Box::pin(register(shared, call)) },
};

pub(super) static DEREGISTER: Tool = Tool {
    name: "deregister_manual",
    title: "Remove an added backend",
    description: |_, _| DEREGISTER_DESCRIPTION.to_owned(),
    schema: deregister_schema,
    hints: Hints::Changes,
    call: |shared, call| -> ToolFuture { Box::pin(deregister(shared, call)) },
};

const REGISTER_DESCRIPTION: &str = "\
Adds an MCP server as a backend until the gateway ends: a program (command, args, env, cwd) or a server (url, \
headers). Waits until it is up and lists its tools. It can't take the name of another backend.";

const DEREGISTER_DESCRIPTION: &str = "Removes a backend that register_manual added.";

/// How long a new backend may take; `npx` may download first.
const START: Duration = Duration::from_secs(60);
/// Tools listed in the answer.
const SHOWN: usize = 50;

fn register_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "How scripts will call it." },
            "command": { "type": "string", "description": "The program to start." },
            "args": { "type": "array", "items": { "type": "string" } },
            "env": { "type": "object", "additionalProperties": { "type": "string" } },
            "cwd": { "type": "string" },
            "url": { "type": "string", "description": "The Streamable HTTP endpoint, instead of a command." },
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}

fn deregister_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
        "additionalProperties": false,
    })
}

async fn register(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let arguments = Arguments::new(&call.arguments, &["name", "command", "args", "env", "cwd", "url", "headers"])?;
    let name = arguments.text("name")?;
    let registration = match (arguments.optional_text("command")?, arguments.optional_text("url")?) {
        (Some(command), None) => Registration::Command {
            command: command.to_owned(),
            args: arguments.texts("args")?,
            env: arguments.named_texts("env")?,
            cwd: arguments.optional_text("cwd")?.map(Into::into),
        },
        (None, Some(url)) => Registration::Url { url: url.to_owned(), headers: arguments.named_texts("headers")? },
        (Some(_), Some(_)) => return Err(Refusal::new("command, url: give one of the two, not both")),
        (None, None) => return Err(Refusal::new("command: is missing; give a command to start, or a url")),
    };
    let registered = shared.gateway.register(name, registration, START).await;
    registered.map_err(|error| Refusal(error.to_string()))?;
    let catalog = shared.gateway.catalog();
    let backend = catalog.backend(name);
    let tools: Vec<String> = backend
        .into_iter()
        .flat_map(|it| it.tools().iter().map(move |tool| format!("{}.{}", it.identifier(), tool.identifier())))
        .collect();
    Ok(answer::pretty(&json!({
        "registered": name,
        "tool_count": tools.len(),
        "tools": tools.iter().take(SHOWN).collect::<Vec<_>>(),
    })))
}

async fn deregister(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let arguments = Arguments::new(&call.arguments, &["name"])?;
    let name = arguments.text("name")?;
    shared.gateway.deregister(name).await.map_err(|error| Refusal(error.to_string()))?;
    Ok(answer::pretty(&json!({ "deregistered": name })))
}

/// A caller that is confined to some backends must not get another one by adding it.
fn permitted(call: &ToolCall) -> Result<(), Refusal> {
    match call.scope.caller.backends {
        Access::All => Ok(()),
        Access::Only(_) => Err(Refusal::new("this caller may use certain backends only, and so not add any")),
    }
}
