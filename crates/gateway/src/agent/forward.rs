//! The backends' own resources and prompts, for clients in direct mode.
//!
//! A resource keeps its URI, since results of tools refer to it by that; of two backends that list one URI, the first
//! by name has it. A prompt is named as a tool is. Nothing is kept here: whose something is, is looked up in the lists
//! that each backend's connection keeps.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::names::{Named, is_bare, named};
use super::uri::shown;
use super::{Shared, caller_in, prompts, resources, waiting};
use toolgate_backends::{Backend, BackendState, CallError, WatchError};
use toolgate_bridge::RequestContext;
use toolgate_json::Shape;
use toolgate_mcp::client::{ClientRequest, ItemList, ListKind, MAX_ID_BYTES};
use toolgate_mcp::result::ToolResult;
use toolgate_mcp::server::{
    Completion, Fault, PromptCall, RequestScope, RequestTarget, ResourceCall, ServiceAnswer, Watch,
};
use toolgate_wire::{Access, ByteBudget};

/// How long one backend may take to list what it has; those that take longer are left out.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The most memory of a question or of completions.
const MAX_SMALL_BYTES: usize = 4 << 20;
/// What a server answers that has no such resource, in the legacy revisions.
const NO_SUCH_RESOURCE: i64 = -32002;

/// Everything of a kind: resources and templates under their own URIs, each once, prompts under the names they have here.
pub(super) async fn list(shared: &Shared, access: &Access, kind: ListKind) -> Vec<Value> {
    match kind {
        ListKind::Resources | ListKind::Templates => by_uri(shared, access, kind).await,
        ListKind::Prompts => {
            let rows = prompts_named(shared, access).await.into_iter();
            rows.map(|(row, _, entry)| prompt_object(row.name, entry)).collect()
        }
    }
}

async fn by_uri(shared: &Shared, access: &Access, kind: ListKind) -> Vec<Value> {
    let found = listed(shared, access, kind).await;
    let entries = found.iter().flat_map(|(_, list)| list.entries());
    let mut seen = HashSet::new();
    // What is below our own schemes is ours.
    let shown = entries.filter(|entry| id(entry, kind).is_some_and(|id| !resources::is_own(id) && seen.insert(id)));
    shown.cloned().collect()
}

/// What a resource holds, as its backend gives it.
pub(super) async fn read(shared: &Shared, call: ResourceCall) -> Result<ServiceAnswer, Fault> {
    let backend = owner(shared, &call.uri, &call.scope.caller.backends).await.ok_or_else(|| no_resource(&call.uri))?;
    permit(shared, &backend, "resources/read", json!({ "uri": call.uri }), &call.scope).await?;
    let budget = budget(shared, &call.scope, call.caller);
    let target = Some(RequestTarget::Resource(&call.uri));
    let sent = shared.gateway.observe_sent(backend.name(), "resources/read", target, &call.trace);
    let request = ClientRequest::Read { uri: call.uri };
    let result = backend.ask(request, None, call.caller, budget, sent.context()).await;
    sent.answered(&result);
    let result = result.map_err(fault)?;
    let has_contents = result.member("contents", Shape::Array).is_some();
    let contents = result.into_text().into_member("contents").filter(|_| has_contents);
    contents.map(ServiceAnswer::Text).ok_or_else(|| Fault::Internal(format!("{} gave no contents", backend.name())))
}

/// Counts what a backend answers until the client has taken it.
fn budget(shared: &Shared, scope: &RequestScope, number: u64) -> ByteBudget {
    shared.gateway.runner().caller_budget(&caller_in(scope, number))
}

/// Lets a client hear of changes of a backend's resource. One that no list has is none here: a backend might take any.
pub(super) async fn watch(shared: &Shared, call: &ResourceCall) -> Result<Watch, Fault> {
    let backend = lister(shared, &call.uri, &call.scope.caller.backends).await.ok_or_else(|| no_resource(&call.uri))?;
    permit(shared, &backend, "resources/subscribe", json!({ "uri": call.uri }), &call.scope).await?;
    let watching = backend.watch_resource(&call.uri).await.map_err(|error| match error {
        WatchError::Call(error) => fault(error),
        error @ (WatchError::NotSupported(_) | WatchError::TooMany(_)) => Fault::InvalidParams(error.to_string()),
    })?;
    Ok(Watch::of(backend.name(), watching))
}

fn no_resource(uri: &str) -> Fault {
    Fault::NotFound(format!("there is no resource {}", shown(uri)))
}

/// A prompt, filled in by its backend.
pub(super) async fn prompt(shared: &Shared, call: PromptCall) -> Result<ServiceAnswer, Fault> {
    let unknown = || Fault::NotFound(format!("there is no prompt named {}", shown(&call.name)));
    let (own, backend) = find_prompt(shared, &call.scope.caller.backends, &call.name).await.ok_or_else(unknown)?;
    permit(shared, &backend, "prompts/get", json!({ "name": own, "arguments": call.arguments }), &call.scope).await?;
    let budget = budget(shared, &call.scope, call.caller);
    let sent =
        shared.gateway.observe_sent(backend.name(), "prompts/get", Some(RequestTarget::Prompt(&own)), &call.trace);
    let request = ClientRequest::Prompt { name: own, arguments: call.arguments };
    let client = call.interactive_client.as_ref();
    let result = backend.ask(request, client, call.caller, budget, sent.context()).await;
    sent.answered(&result);
    let result = result.map_err(fault)?;
    if result.requests_input() {
        return small(result).map(ServiceAnswer::Value);
    }
    match result.member("messages", Shape::Array) {
        Some(_) => Ok(ServiceAnswer::Text(result.into_text())),
        None => Err(Fault::Internal(format!("{} gave no messages", backend.name()))),
    }
}

/// The tree of a result that is small by its nature.
fn small(result: ToolResult) -> Result<Value, Fault> {
    let tree = result.into_text().into_tree(MAX_SMALL_BYTES);
    tree.map(|(tree, _)| tree).map_err(|error| Fault::Internal(error.to_string()))
}

/// Values for an argument of a backend's prompt or template.
pub(super) async fn complete(shared: &Shared, completion: Completion) -> Result<Vec<String>, Fault> {
    let text = |key: &str| completion.reference.get(key).and_then(Value::as_str);
    let access = &completion.scope.caller.backends;
    let found = match (text("name"), text("uri")) {
        (Some(name), _) => find_prompt(shared, access, name)
            .await
            .map(|(own, backend)| (json!({ "type": "ref/prompt", "name": own }), backend)),
        (None, Some(uri)) => {
            let mut templates = listed(shared, access, ListKind::Templates).await.into_iter();
            templates
                .find(|(_, list)| list.get(uri).is_some())
                .map(|(backend, _)| (completion.reference.clone(), backend))
        }
        (None, None) => None,
    };
    let Some((reference, backend)) = found else { return Ok(Vec::new()) };
    permit(shared, &backend, "completion/complete", json!({ "ref": reference }), &completion.scope).await?;
    let request = ClientRequest::Complete { reference, argument: completion.argument, typed: completion.typed };
    let budget = budget(shared, &completion.scope, completion.caller);
    let sent = shared.gateway.observe_sent(backend.name(), "completion/complete", None, &completion.trace);
    let result = backend.ask(request, None, completion.caller, budget, sent.context()).await;
    sent.answered(&result);
    let result = small(result.map_err(fault)?)?;
    let values = result.pointer("/completion/values").and_then(Value::as_array);
    Ok(values.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

/// Whether the policy lets the client make this request of a backend.
async fn permit(
    shared: &Shared,
    backend: &Backend,
    method: &str,
    params: Value,
    scope: &RequestScope,
) -> Result<(), Fault> {
    let asked = RequestContext::of(&scope.caller);
    let permitted = shared.gateway.bridge().permit_request(backend.name(), method, params, &asked).await;
    permitted.map_err(|error| Fault::InvalidParams(error.message))
}

/// What the backends list, in the order of their names.
async fn listed(shared: &Shared, access: &Access, kind: ListKind) -> Vec<(Backend, Arc<ItemList>)> {
    waiting::for_all(shared, access, &CancellationToken::new()).await;
    let backends = shared.gateway.backends().into_iter().filter(|backend| access.permits(backend.name()));
    let mut asked: JoinSet<(Backend, Arc<ItemList>)> = backends
        .map(|backend| async move {
            // What it lists besides tools is in no cache.
            if backend.state() == BackendState::Idle {
                let _ = backend.ready(LIST_TIMEOUT).await;
            }
            let list = backend.list(kind, LIST_TIMEOUT).await;
            (backend, list)
        })
        .collect();
    let mut answers = Vec::new();
    while let Some(answer) = asked.join_next().await {
        answers.extend(answer.ok());
    }
    answers.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
    answers
}

/// Whose resource this is: who lists it, or a template of it, or who alone has resources at all.
async fn owner(shared: &Shared, uri: &str, access: &Access) -> Option<Backend> {
    if let Some(backend) = lister(shared, uri, access).await {
        return Some(backend);
    }
    // Tools refer to resources that no list has.
    let permitted = shared.gateway.backends().into_iter().filter(|backend| access.permits(backend.name()));
    let mut having = permitted.filter(|backend| backend.has(ListKind::Resources));
    having.next().filter(|_| having.next().is_none())
}

/// Who lists this resource, or a template of it.
async fn lister(shared: &Shared, uri: &str, access: &Access) -> Option<Backend> {
    if uri.len() > MAX_ID_BYTES {
        return None;
    }
    let mut resources = listed(shared, access, ListKind::Resources).await.into_iter();
    if let Some((backend, _)) = resources.find(|(_, list)| list.get(uri).is_some()) {
        return Some(backend);
    }
    let templates = listed(shared, access, ListKind::Templates).await;
    let fitting = templates.iter().filter_map(|(backend, list)| {
        let fits = list.entries().iter().filter_map(|entry| fit(id(entry, ListKind::Templates)?, uri));
        Some((fits.max()?, backend))
    });
    // Of equals the first: `max_by_key` would take the last.
    let closest = fitting.reduce(|best, other| if other.0 > best.0 { other } else { best });
    closest.map(|(_, backend)| backend.clone())
}

/// How much of a URI a template spells out, if it may be a template of it.
fn fit(template: &str, uri: &str) -> Option<usize> {
    let (head, rest) = template.split_once('{')?;
    let tail = rest.rsplit_once('}')?.1;
    let middle = uri.strip_prefix(head)?;
    (!head.is_empty() && middle.ends_with(tail)).then_some(head.len() + tail.len())
}

fn id(entry: &Value, kind: ListKind) -> Option<&str> {
    entry.get(kind.id()).and_then(Value::as_str)
}

async fn prompts_named(shared: &Shared, access: &Access) -> Vec<(Named, Backend, Value)> {
    let config = shared.gateway.config();
    // Names are made among all prompts, so that they are the same for every caller.
    let found = listed(shared, &Access::All, ListKind::Prompts).await;
    let owned = found.iter().flat_map(|(backend, list)| {
        let names = list.entries().iter().filter_map(|entry| id(entry, ListKind::Prompts));
        names.map(|own| (backend.name().to_owned(), own.to_owned()))
    });
    let rows = named(owned, |backend| is_bare(&config, backend), prompts::is_taken);
    let permitted = rows.into_iter().filter(|row| access.permits(&row.backend));
    permitted
        .filter_map(|row| {
            let (backend, list) = found.iter().find(|(backend, _)| backend.name() == row.backend)?;
            let entry = list.get(&row.own)?.clone();
            Some((row, backend.clone(), entry))
        })
        .collect()
}

async fn find_prompt(shared: &Shared, access: &Access, name: &str) -> Option<(String, Backend)> {
    let mut rows = prompts_named(shared, access).await.into_iter();
    rows.find(|(row, ..)| row.name == name).map(|(row, backend, _)| (row.own, backend))
}

fn prompt_object(name: String, entry: Value) -> Value {
    let Value::Object(mut prompt) = entry else { return json!({ "name": name }) };
    prompt.insert("name".to_owned(), Value::String(name));
    // Clients refuse the whole list for one prompt whose arguments are no list.
    if prompt.get("arguments").is_some_and(|arguments| !arguments.is_array()) {
        prompt.shift_remove("arguments");
    }
    Value::Object(prompt)
}

/// A backend's own error is passed on as it came.
fn fault(error: CallError) -> Fault {
    match error {
        CallError::Rejected { code: NO_SUCH_RESOURCE, message, .. } => Fault::NotFound(message),
        CallError::Rejected { code, message, data } => Fault::Rejected { code, message, data },
        error => Fault::Internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, uri: &str, expected: Option<usize>) {
        assert_eq!(fit(template, uri), expected, "{template} {uri}");
    }

    #[test]
    fn a_template_fits_what_it_spells_out() {
        check("db://{table}/rows", "db://people/rows", Some(10));
        check("db://{table}/rows", "db://people/columns", None);
        check("db://{+path}", "db://a/b/c", Some(5));
        check("other://{x}", "db://a", None);
    }

    #[test]
    fn a_template_that_spells_out_nothing_fits_nothing() {
        check("{+everything}", "db://a", None);
        check("db://fixed", "db://fixed", None);
        check("db://{open", "db://x", None);
    }
}
