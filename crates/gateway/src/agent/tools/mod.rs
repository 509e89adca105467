//! The tools, one file each or a few that belong together.

pub(super) mod chain;
mod compute;
mod data_file;
mod find;
mod fix_run;
mod host_functions;
mod info;
mod keys;
mod list;
mod registration;
mod results;
mod run_status;
mod snippet;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

pub(super) use info::describe;
pub(super) use run_status::paused_text;

use super::arguments::Refusal;
use super::{Shared, waiting};
use toolgate_bridge::unready;
use toolgate_catalog::{BackendState, Catalog, Resolution, ToolRef, UnknownName};
use toolgate_mcp::server::{RequestScope, ToolCall};
use toolgate_wire::CallerScope;

/// A result on its way.
pub(super) type ToolFuture = Pin<Box<dyn Future<Output = Result<Value, Refusal>> + Send>>;

/// One tool of the agent's.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    /// What a model reads.
    description: fn(&Shared, &RequestScope) -> String,
    /// JSON Schema of the arguments.
    schema: fn() -> Value,
    hints: Hints,
    pub(super) call: fn(Arc<Shared>, ToolCall) -> ToolFuture,
}

/// What a client may rely on when it decides whether to ask its user.
#[derive(Clone, Copy)]
enum Hints {
    /// Only looks at what the gateway knows.
    Reads,
    /// Runs a pure function over what the gateway keeps.
    Computes,
    /// Calls tools that change nothing.
    Queries,
    /// Does whatever the tools it calls do.
    Acts,
    /// Changes the gateway itself.
    Changes,
}

impl Tool {
    /// The tool as clients list it.
    pub(super) fn object(&self, shared: &Shared, scope: &RequestScope) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": (self.description)(shared, scope),
            "inputSchema": (self.schema)(),
            "annotations": annotations(self.title, self.hints),
            // Claude Code otherwise defers tools of servers that were not added by `toolgate connect`, and its model has to find
            // them first.
            "_meta": { "anthropic/alwaysLoad": true },
        })
    }
}

fn annotations(title: &str, hints: Hints) -> Value {
    let (reads, destroys, repeats, open) = match hints {
        Hints::Reads | Hints::Computes => (true, false, true, false),
        Hints::Queries => (true, false, true, true),
        Hints::Acts => (false, true, false, true),
        Hints::Changes => (false, true, false, true),
    };
    json!({
        "title": title, "readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": repeats,
        "openWorldHint": open,
    })
}

static ALL: [&Tool; 14] = [
    &chain::TOOL,
    &chain::QUERY,
    &find::TOOL,
    &info::TOOL,
    &list::TOOL,
    &keys::TOOL,
    &snippet::TOOL,
    &compute::TOOL,
    &results::READ,
    &results::QUERY,
    &run_status::TOOL,
    &fix_run::TOOL,
    &registration::REGISTER,
    &registration::DEREGISTER,
];

/// The tools that can be called, in the order in which they are listed: all that the configuration does not switch off.
pub(super) fn callable(shared: &Shared) -> Vec<&'static Tool> {
    let config = shared.gateway.config();
    let settings = &config.settings;
    let mut off: Vec<&str> = Vec::new();
    if !settings.tools.query_tools {
        off.push(chain::QUERY.name);
    }
    if settings.tools.run_code == Some(false) {
        off.push(snippet::TOOL.name);
    }
    if settings.data.is_empty() {
        off.push(compute::TOOL.name);
    }
    if !settings.allow_runtime_registration {
        off.extend([registration::REGISTER.name, registration::DEREGISTER.name]);
    }
    ALL.into_iter().filter(|tool| !off.contains(&tool.name)).collect()
}

/// Those of them that are of use to a caller.
pub(super) fn listed(shared: &Shared, caller: &CallerScope) -> Vec<&'static Tool> {
    let mut tools = callable(shared);
    // Without host functions, call_tool_chain does all that run_code does.
    let is_wanted = shared.gateway.config().settings.tools.run_code == Some(true);
    if !is_wanted && shared.gateway.functions(caller).is_empty() {
        tools.retain(|tool| tool.name != snippet::TOOL.name);
    }
    if compute::sources(&shared.gateway.config(), caller).next().is_none() {
        tools.retain(|tool| tool.name != compute::TOOL.name);
    }
    tools
}

/// Whether a tool of the agent's has this name, or may have it by a change of the configuration.
pub(super) fn is_taken(name: &str) -> bool {
    ALL.iter().any(|tool| tool.name == name)
}

/// Waits for backends of which nothing is known yet, if the tool is not among those that are known.
async fn wait_for_tool(shared: &Shared, name: &str, call: &ToolCall) {
    let caller = &call.scope.caller;
    if named(&shared.gateway.catalog(), name, caller).is_err() {
        waiting::for_all(shared, &caller.backends, &call.cancel).await;
    }
}

/// The tool that a caller named, among those it may use.
fn named<'a>(catalog: &'a Catalog, name: &str, caller: &CallerScope) -> Result<ToolRef<'a>, Refusal> {
    let permits = |found: &ToolRef<'_>| caller.permits_tool(found.backend.name(), &found.tool().name);
    let shown = super::uri::shown(name);
    match catalog.resolve(name) {
        Resolution::Found(found) if permits(&found) => Ok(found),
        Resolution::Ambiguous(several) => {
            let mut permitted = several.into_iter().filter(permits);
            match (permitted.next(), permitted.next()) {
                (Some(one), None) => Ok(one),
                (Some(one), Some(two)) => {
                    let names: Vec<String> = [one, two].into_iter().chain(permitted).map(|it| it.spelling()).collect();
                    Err(Refusal(format!(
                        "tool_name: several backends have {shown}: say which, as {}",
                        names.join(" or ")
                    )))
                }
                (None, _) => Err(unknown(catalog, name, caller)),
            }
        }
        Resolution::Found(_) | Resolution::Unknown => Err(unknown(catalog, name, caller)),
    }
}

fn unknown(catalog: &Catalog, name: &str, caller: &CallerScope) -> Refusal {
    // Of a backend that is down nothing is known: the name may be right.
    let is_named = |backend: &&toolgate_catalog::Backend| {
        let names = [backend.name(), backend.identifier()];
        names.iter().any(|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with('.')))
    };
    let mut named = catalog.backends().iter().filter(|backend| caller.backends.permits(backend.name()));
    if let Some(down) = named.find(is_named).filter(|backend| backend.tools().is_empty())
        && *down.state() != BackendState::Ready
    {
        return Refusal(format!("tool_name: {}", unready(down.name(), None, down.state())));
    }
    let permits = |found: &ToolRef<'_>| caller.permits_tool(found.backend.name(), &found.tool().name);
    let may_be_named = |near: &String| catalog.resolve(near).found().is_some_and(|it| permits(&it));
    let near: Vec<String> = catalog.suggest(UnknownName::Tool, name).into_iter().filter(may_be_named).collect();
    let advice = match near.as_slice() {
        [] => "; search_tools finds tools by what they do".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    Refusal(format!("tool_name: there is no tool named {}{advice}", super::uri::shown(name)))
}
