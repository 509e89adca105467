//! `get_required_keys_for_tool`: what a tool needs to be told.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::arguments::{Refusal, Text, read, schema_of};
use super::super::{Shared, answer};
use super::{Hints, Tool, ToolFuture, named, wait_for_tool};
use crate::runtime::KeyKind;
use toolgate_config::checked::ValueSection;
use toolgate_mcp::server::ToolCall;
use toolgate_wire::Access;

pub(super) static TOOL: Tool = Tool {
    name: "get_required_keys_for_tool",
    title: "Keys that a tool needs",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<KeysArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(keys(shared, call)) },
};

const DESCRIPTION: &str = "\
Names the keys that a tool depends on: the variables and headers that its backend was configured with (never their \
values), and the arguments that a call must have.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeysArguments {
    /// backend.tool, or the tool alone.
    tool_name: Text,
}

async fn keys(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let KeysArguments { tool_name: Text(name) } = read(&call.arguments)?;
    let name = name.as_str();
    if let Some(missing) = missing_keys(&shared, name, &call.scope.caller.backends) {
        return Ok(answer::pretty(&missing));
    }
    wait_for_tool(&shared, name, &call).await;
    let catalog = shared.gateway.catalog();
    let tool = named(&catalog, name, &call.scope.caller)?;
    let keys: Vec<Value> = configured_keys(&shared, tool.backend.name()).collect();
    let required =
        tool.tool().input_schema().get("required").cloned().filter(Value::is_array).unwrap_or_else(|| json!([]));
    Ok(answer::pretty(&json!({
        "tool": tool.spelling(),
        "backend": tool.backend.name(),
        "keys": keys,
        "required_arguments": required,
    })))
}

/// The variables, headers and credentials that a backend is configured with.
fn configured_keys(shared: &Shared, backend: &str) -> impl Iterator<Item = Value> {
    let keys = shared.gateway.key_names(backend).into_iter();
    keys.map(|key| json!({ "name": key.name, "kind": key.kind.name(), "set": key.is_set }))
}

/// The keys of a backend that cannot be started as it is configured: what it lacks, then what it is configured with.
fn missing_keys(shared: &Shared, tool: &str, access: &Access) -> Option<Value> {
    let config = shared.gateway.config();
    let catalog = shared.gateway.catalog();
    let (name, server) = config.incomplete.iter().find(|(name, _)| {
        let identifier = catalog.backend(name.as_str()).map_or(name.as_str(), |backend| backend.identifier());
        let is_named =
            |spelling: &str| tool.strip_prefix(spelling).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        access.permits(name.as_str()) && (is_named(name.as_str()) || is_named(identifier))
    })?;
    let unset = server.unset().into_iter();
    let unset = unset.map(|unset| json!({ "name": unset.name(), "kind": unset.kind(), "set": false }));
    let unusable = server.unusable().into_iter().map(|(section, setting)| {
        let kind = match section {
            ValueSection::Env => KeyKind::Variable.name(),
            ValueSection::Headers => KeyKind::Header.name(),
            ValueSection::Auth => "credential",
        };
        json!({ "name": setting, "kind": kind, "set": false })
    });
    let keys: Vec<Value> = unset.chain(unusable).chain(configured_keys(shared, name.as_str())).collect();
    Some(
        json!({ "tool": tool, "backend": name.as_str(), "state": server.reason(), "keys": keys, "required_arguments": [] }),
    )
}
