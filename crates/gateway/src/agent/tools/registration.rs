//! `register_manual` and `deregister_manual`: backends that an agent adds, where the configuration allows it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::arguments::{Arguments, Refusal};
use super::super::{Shared, answer};
use super::{Hints, Tool, ToolFuture};
use crate::runtime::Registration;
use toolgate_mcp::server::ToolCall;

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
headers). Waits until it is up and lists its tools. It can't take the name of another backend. The same may be given \
nested, as manual_call_template: {name, command, args} or {name, config: {mcpServers: {NAME: {command, args}}}}.";

const DEREGISTER_DESCRIPTION: &str = "Removes a backend that register_manual added, by name (or manual_name).";

/// The arguments of one server.
const FIELDS: [&str; 7] = ["name", "command", "args", "env", "cwd", "url", "headers"];
/// What a template may say beside them. A command or a url decides how the server is reached, so these change nothing.
const IGNORED: [&str; 4] = ["call_template_type", "transport", "type", "config"];
/// The argument that holds a template.
const TEMPLATE: &str = "manual_call_template";

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
            "manual_call_template": {
                "type": "object",
                "description": "All of this nested, instead of the other arguments; or one server under config.mcpServers.",
            },
        },
        "additionalProperties": false,
    })
}

fn deregister_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "manual_name": { "type": "string", "description": "The same under another name." },
        },
        "additionalProperties": false,
    })
}

async fn register(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let (name, registration) = match call.arguments.get(TEMPLATE).filter(|template| !template.is_null()) {
        None => server(&call.arguments)?,
        Some(template) => {
            Arguments::new(&call.arguments, &[TEMPLATE])?;
            let inside = |Refusal(text)| Refusal(format!("{TEMPLATE}.{text}"));
            server(&unnested(template)?).map_err(inside)?
        }
    };
    let name = name.as_str();
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

/// Reads the arguments of one server.
fn server(given: &Map<String, Value>) -> Result<(String, Registration), Refusal> {
    let arguments = Arguments::new(given, &FIELDS)?;
    let name = arguments.text("name")?.to_owned();
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
    Ok((name, registration))
}

/// The arguments of the one server of a template: its own, or those under `config.mcpServers`, by whose key it is called
/// unless the template has a name.
fn unnested(template: &Value) -> Result<Map<String, Value>, Refusal> {
    let wrong = |path: &str, what: &str| Refusal(format!("{TEMPLATE}{path}: must be {what}"));
    let template = template.as_object().ok_or_else(|| wrong("", "an object"))?;
    let kind = template.get("call_template_type").filter(|kind| !kind.is_null());
    if kind.is_some_and(|kind| kind.as_str() != Some("mcp")) {
        return Err(wrong(".call_template_type", "mcp; other kinds of servers are not supported"));
    }
    let plain = |fields: &Map<String, Value>| -> Map<String, Value> {
        let kept = fields.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let servers = template.get("config").and_then(|config| config.get("mcpServers")).or(template.get("mcpServers"));
    let Some(servers) = servers else { return Ok(plain(template)) };
    let one = servers.as_object().filter(|servers| servers.len() == 1).and_then(|servers| servers.iter().next());
    let Some((key, Value::Object(server))) = one else {
        return Err(wrong(".config.mcpServers", "an object with one server; add several one by one"));
    };
    let mut fields = plain(server);
    fields.insert("name".to_owned(), template.get("name").cloned().unwrap_or_else(|| key.as_str().into()));
    Ok(fields)
}

async fn deregister(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let arguments = Arguments::new(&call.arguments, &["name", "manual_name"])?;
    let name = match arguments.optional_text("manual_name")? {
        Some(_) => arguments.text("manual_name")?,
        None => arguments.text("name")?,
    };
    shared.gateway.deregister(name).await.map_err(|error| Refusal(error.to_string()))?;
    Ok(answer::pretty(&json!({ "deregistered": name })))
}

/// A caller that is confined to some backends must not get another one by adding it.
fn permitted(call: &ToolCall) -> Result<(), Refusal> {
    if call.scope.caller.sees_all_tools() {
        return Ok(());
    }
    Err(Refusal::new("this caller may use certain backends only, and so not add any"))
}
