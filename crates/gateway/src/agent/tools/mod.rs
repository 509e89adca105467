//! The tools, one file each or a few that belong together.

pub(super) mod chain;
mod find;
mod fix_run;
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

use super::Shared;
use super::arguments::Refusal;
use toolgate_catalog::{Catalog, Resolution, ToolRef, UnknownName};
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
        })
    }
}

fn annotations(title: &str, hints: Hints) -> Value {
    let (reads, destroys, repeats, open) = match hints {
        Hints::Reads | Hints::Computes => (true, false, true, false),
        Hints::Acts => (false, true, false, true),
        Hints::Changes => (false, true, false, true),
    };
    json!({
        "title": title, "readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": repeats,
        "openWorldHint": open,
    })
}

static ALWAYS: [&Tool; 10] = [
    &chain::TOOL,
    &find::TOOL,
    &info::TOOL,
    &list::TOOL,
    &keys::TOOL,
    &snippet::TOOL,
    &results::READ,
    &results::QUERY,
    &run_status::TOOL,
    &fix_run::TOOL,
];

/// The tools there are, in the order in which they are listed.
pub(super) fn available(shared: &Shared) -> Vec<&'static Tool> {
    let mut tools = ALWAYS.to_vec();
    if shared.gateway.config().settings.allow_runtime_registration {
        tools.extend([&registration::REGISTER, &registration::DEREGISTER]);
    }
    tools
}

/// Whether a tool of the agent's has this name, or may have it by a change of the configuration.
pub(super) fn is_taken(name: &str) -> bool {
    let registration = [&registration::REGISTER, &registration::DEREGISTER];
    ALWAYS.iter().chain(&registration).any(|tool| tool.name == name)
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
                (None, _) => Err(unknown(catalog, name, permits)),
            }
        }
        Resolution::Found(_) | Resolution::Unknown => Err(unknown(catalog, name, permits)),
    }
}

fn unknown(catalog: &Catalog, name: &str, permits: impl Fn(&ToolRef<'_>) -> bool) -> Refusal {
    let may_be_named = |near: &String| catalog.resolve(near).found().is_some_and(|it| permits(&it));
    let near: Vec<String> = catalog.suggest(UnknownName::Tool, name).into_iter().filter(may_be_named).collect();
    let advice = match near.as_slice() {
        [] => "; search_tools finds tools by what they do".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    Refusal(format!("tool_name: there is no tool named {}{advice}", super::uri::shown(name)))
}
