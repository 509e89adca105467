//! `register_manual` and `deregister_manual`: backends that an agent adds, where the configuration allows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::arguments::{Refusal, Text, read, read_below, schema_of};
use super::super::{Shared, answer};
use super::{Hints, Tool, ToolFuture};
use crate::runtime::Registration;
use toolgate_mcp::server::ToolCall;

pub(super) static REGISTER: Tool = Tool {
    name: "register_manual",
    title: "Add a backend",
    description: |_, _| REGISTER_DESCRIPTION.to_owned(),
    schema: schema_of::<RegisterArguments>,
    hints: Hints::Changes,
    call: |shared, call| -> ToolFuture { Box::pin(register(shared, call)) },
};

pub(super) static DEREGISTER: Tool = Tool {
    name: "deregister_manual",
    title: "Remove an added backend",
    description: |_, _| DEREGISTER_DESCRIPTION.to_owned(),
    schema: schema_of::<DeregisterArguments>,
    hints: Hints::Changes,
    call: |shared, call| -> ToolFuture { Box::pin(deregister(shared, call)) },
};

const REGISTER_DESCRIPTION: &str = "\
Adds an MCP server as a backend until the gateway ends: a program (command, args, env, cwd) or a server (url, \
headers). Waits until it is up and lists its tools. It can't take the name of another backend. The same may be given \
nested, as manual_call_template: {name, command, args} or {name, config: {mcpServers: {NAME: {command, args}}}}.";

const DEREGISTER_DESCRIPTION: &str = "Removes a backend that register_manual added, by name (or manual_name).";

/// What a template may say beside the arguments of a server. A command or a url decides how the server is reached, so these change nothing.
const IGNORED: [&str; 4] = ["call_template_type", "transport", "type", "config"];
/// The argument that holds a template.
const TEMPLATE: &str = "manual_call_template";

/// How long a new backend may take; `npx` may download first.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Tools listed in the answer.
const MAX_SHOWN: usize = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegisterArguments {
    /// How scripts will call it.
    name: Option<Text>,
    /// The program to start.
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
    /// The Streamable HTTP endpoint, instead of a command.
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    /// All of this nested, instead of the other arguments; or one server under config.mcpServers.
    manual_call_template: Option<Map<String, Value>>,
}

/// What decides how a template is read; its other fields are those of a server.
#[derive(Deserialize, JsonSchema)]
struct Template {
    #[serde(rename = "call_template_type")]
    _call_template_type: Option<TemplateType>,
    name: Option<Value>,
    config: Option<Value>,
    #[serde(rename = "mcpServers")]
    servers: Option<Value>,
}

/// Other kinds of servers are not supported.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TemplateType {
    Mcp,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeregisterArguments {
    name: Option<Text>,
    /// The same under another name.
    manual_name: Option<Text>,
}

async fn register(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let given: RegisterArguments = read(&call.arguments)?;
    let (name, registration) = match &given.manual_call_template {
        None => server(given, "")?,
        Some(template) => {
            let beside = call.arguments.iter().find(|(name, value)| *name != TEMPLATE && !value.is_null());
            if let Some((name, _)) = beside {
                return Err(Refusal(format!("{name}: there is no such argument beside {TEMPLATE}")));
            }
            let fields = unnested(template)?;
            server(read_below(&[TEMPLATE], &fields)?, &format!("{TEMPLATE}."))?
        }
    };
    let name = name.as_str();
    let registered = shared.gateway.register(name, registration, START_TIMEOUT).await;
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
        "tools": tools.iter().take(MAX_SHOWN).collect::<Vec<_>>(),
    })))
}

/// The server that the arguments below `path` describe.
fn server(given: RegisterArguments, path: &str) -> Result<(String, Registration), Refusal> {
    let RegisterArguments { name, command, args, env, cwd, url, headers, .. } = given;
    let name = name.ok_or_else(|| Refusal(format!("{path}name: is missing; it must be a string")))?;
    let registration = match (command, url) {
        (Some(command), None) => Registration::Command {
            command,
            args: args.unwrap_or_default(),
            env: env.unwrap_or_default(),
            cwd: cwd.map(Into::into),
        },
        (None, Some(url)) => Registration::Url { url, headers: headers.unwrap_or_default() },
        (Some(_), Some(_)) => return Err(Refusal(format!("{path}command, url: give one of the two, not both"))),
        (None, None) => {
            return Err(Refusal(format!("{path}command: is missing; give a command to start, or a url")));
        }
    };
    Ok((name.0, registration))
}

/// The arguments of the one server of a template: its own, or those under `config.mcpServers`, by whose key it is called
/// unless the template has a name.
fn unnested(template: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let Template { name, config, servers, .. } = read_below(&[TEMPLATE], template)?;
    let plain = |fields: &Map<String, Value>| -> Map<String, Value> {
        let kept = fields.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let nested = config.and_then(|mut config| config.get_mut("mcpServers").map(Value::take));
    let Some(servers) = nested.or(servers) else { return Ok(plain(template)) };
    let one = servers.as_object().filter(|servers| servers.len() == 1).and_then(|servers| servers.iter().next());
    let Some((key, Value::Object(server))) = one else {
        let what = "must be an object with one server; add several one by one";
        return Err(Refusal(format!("{TEMPLATE}.config.mcpServers: {what}")));
    };
    let mut fields = plain(server);
    fields.insert("name".to_owned(), name.unwrap_or_else(|| key.as_str().into()));
    Ok(fields)
}

async fn deregister(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    permitted(&call)?;
    let DeregisterArguments { name, manual_name } = read(&call.arguments)?;
    let Some(Text(name)) = manual_name.or(name) else {
        return Err(Refusal::new("name: is missing; it must be a string"));
    };
    shared.gateway.deregister(&name).await.map_err(|error| Refusal(error.to_string()))?;
    Ok(answer::pretty(&json!({ "deregistered": name })))
}

/// A caller that is confined to some backends must not get another one by adding it.
fn permitted(call: &ToolCall) -> Result<(), Refusal> {
    if call.scope.caller.sees_all_tools() {
        return Ok(());
    }
    Err(Refusal::new("this caller may use certain backends only, and so not add any"))
}
