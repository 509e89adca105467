//! One request in, one answer out, whatever carried it here.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::ErrorCode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::era::{self, Era};
use super::list;
use super::message::{Request, RpcError, error, invalid_params, no_such_method};
use super::offer::{self, LIST_TTL};
use super::outgoing::{Answer, Outgoing};
use super::party::{Flight, Party};
use super::service::{Completion, Fault, PromptCall, RequestScope, ResourceCall, Service};
use super::{call, news};
use crate::result::is_question;

/// How long a cancelled request may take to tidy up before it is dropped.
const TIDY_UP: Duration = Duration::from_secs(1);
/// The most values of one completion, by the protocol.
const MOST_VALUES: usize = 100;

/// Where requests are served, for all clients of one door.
pub(super) struct Desk {
    pub(super) service: Arc<dyn Service>,
    /// Nothing new is begun, and what would run for ever ends.
    pub(super) closing: CancellationToken,
}

/// Where the messages on the way to an answer go; nowhere, if the client can't take them.
#[derive(Debug, Clone)]
pub(super) struct Outlet(Option<mpsc::Sender<Outgoing>>);

impl Outlet {
    pub(super) fn to(queue: mpsc::Sender<Outgoing>) -> Self {
        Self(Some(queue))
    }

    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Notifies when there is room; false if nobody takes messages any more.
    pub(super) async fn notify(&self, method: &str, params: Value) -> bool {
        match &self.0 {
            Some(queue) => queue.send(Outgoing::notification(method, params)).await.is_ok(),
            None => false,
        }
    }
}

/// A request with everything it needs to be served.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) era: Era,
    pub(super) party: Arc<Party>,
    pub(super) scope: RequestScope,
    pub(super) outlet: Outlet,
    pub(super) cancel: CancellationToken,
}

impl Asked {
    /// Where the client is in a list.
    fn cursor(&self) -> Option<&Value> {
        self.request.params.get("cursor")
    }

    /// A resource, asked for by this client.
    pub(super) fn resource(&self, uri: &str) -> ResourceCall {
        ResourceCall { uri: uri.to_owned(), scope: self.scope.clone(), caller: self.party.caller }
    }
}

impl Desk {
    /// The answer; none if the request was cancelled. Dropping the future drops the work.
    ///
    /// The request stays in flight until whoever sends the answer has done so: answers that nobody
    /// fetches count against the client.
    pub(super) async fn reply(
        self: &Arc<Self>,
        request: Request,
        era: Era,
        flight: &Flight,
        outlet: Outlet,
    ) -> Option<Outgoing> {
        let id = request.id.clone();
        let cancel = flight.cancel.clone();
        let unanswered = cancel.clone().drop_guard();
        let (party, scope) = (Arc::clone(flight.party()), flight.scope.clone());
        let asked = Asked { request, era, party, scope, outlet, cancel: cancel.clone() };
        let desk = Arc::clone(self);
        // A task of its own, so that a service that panics costs one answer and not the connection.
        let mut work = AbortOnDropHandle::new(tokio::spawn(async move { desk.serve(&asked).await }));
        let outcome = tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = cancel.cancelled() => {
                let _ = timeout(TIDY_UP, &mut work).await;
                return None;
            }
        };
        if cancel.is_cancelled() {
            return None;
        }
        let _ = unanswered.disarm();
        let outcome = outcome.unwrap_or_else(|_| Err(error(ErrorCode::INTERNAL_ERROR, "the server failed")));
        Some(Outgoing::reply(&id, outcome))
    }

    async fn serve(&self, asked: &Asked) -> Result<Answer, RpcError> {
        let result = match (asked.request.method.as_str(), asked.era) {
            ("tools/list", _) => return self.list_tools(asked).await,
            (_, Era::Legacy) => self.serve_legacy(asked).await?,
            (_, Era::Modern) => self.serve_modern(asked).await?,
        };
        Ok(Answer::Value(dressed(result, asked.era)))
    }

    /// There may be thousands, and most are passed on as they came.
    async fn list_tools(&self, asked: &Asked) -> Result<Answer, RpcError> {
        let (service, scope) = (&self.service, &asked.scope);
        service.prepared(scope).await.map_err(refused)?;
        let (names, next) = list::page(service.tool_names(scope), |name| name, asked.cursor())?;
        let tools = names.iter().filter_map(|name| service.tool_text(name, scope)).collect();
        let mut end = end_of_page(next, asked.era);
        dress(&mut end, asked.era);
        Ok(Answer::Tools(tools, end))
    }

    async fn serve_legacy(&self, asked: &Asked) -> Result<Value, RpcError> {
        let request = &asked.request;
        let empty = || Value::Object(Map::new());
        match request.method.as_str() {
            "initialize" => {
                let version = request.params.get("protocolVersion").and_then(Value::as_str);
                Ok(offer::initialize(&*self.service, version))
            }
            "ping" => Ok(empty()),
            // Clients set a level whether or not there is a log; there is none.
            "logging/setLevel" => request.text("level").map(|_| empty()),
            "resources/subscribe" if self.service.announces_resources() => {
                self.watch(request.text("uri")?, asked).await.map(|()| empty())
            }
            "resources/unsubscribe" if self.service.announces_resources() => {
                asked.party.watched.end(request.text("uri")?);
                Ok(empty())
            }
            _ => self.serve_common(asked).await,
        }
    }

    async fn serve_modern(&self, asked: &Asked) -> Result<Value, RpcError> {
        match asked.request.method.as_str() {
            "server/discover" => Ok(offer::discover(&*self.service)),
            "subscriptions/listen" => news::listen(self, asked).await,
            _ => self.serve_common(asked).await,
        }
    }

    async fn serve_common(&self, asked: &Asked) -> Result<Value, RpcError> {
        let (service, request, scope) = (&self.service, &asked.request, &asked.scope);
        match request.method.as_str() {
            "tools/call" => call::call(self, asked).await?.map_err(refused),
            "resources/list" if service.has_resources() => {
                listed(service.resources(scope).await.map_err(refused)?, "resources", "uri", asked)
            }
            "resources/templates/list" if service.has_resources() => {
                let templates = service.resource_templates(scope).await.map_err(refused)?;
                listed(templates, "resourceTemplates", "uriTemplate", asked)
            }
            "resources/read" if service.has_resources() => self.read(asked).await,
            "prompts/list" if service.has_prompts() => {
                listed(service.prompts(scope).await.map_err(refused)?, "prompts", "name", asked)
            }
            "prompts/get" if service.has_prompts() => {
                let name = request.text("name")?.to_owned();
                let arguments = request.object("arguments")?;
                let (scope, caller) = (scope.clone(), asked.party.caller);
                let partner = era::partner(asked.era, request);
                service.prompt(PromptCall { name, arguments, scope, caller, partner }).await.map_err(refused)
            }
            "completion/complete" if service.has_completions() => self.complete(asked).await,
            method => Err(no_such_method(method)),
        }
    }

    async fn read(&self, asked: &Asked) -> Result<Value, RpcError> {
        let uri = asked.request.text("uri")?;
        let outcome = self.service.read(asked.resource(uri)).await;
        let contents = outcome.map_err(|fault| unreadable(fault, asked.era, uri))?;
        let mut result = Map::new();
        result.insert("contents".to_owned(), Value::Array(contents));
        if asked.era == Era::Modern {
            offer::add_ttl(&mut result, 0);
        }
        Ok(Value::Object(result))
    }

    /// Lets a legacy client hear of changes of a resource, until it says otherwise or is gone.
    async fn watch(&self, uri: &str, asked: &Asked) -> Result<(), RpcError> {
        asked.party.watched.check_room(uri)?;
        let outcome = self.service.watch(asked.resource(uri)).await;
        asked.party.watched.begin(uri, outcome.map_err(|fault| unreadable(fault, asked.era, uri))?)
    }

    async fn complete(&self, asked: &Asked) -> Result<Value, RpcError> {
        let request = &asked.request;
        let argument = request.object("argument")?;
        let part = |key: &str| argument.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(name), Some(typed)) = (part("name"), part("value")) else {
            return Err(invalid_params("`argument` needs the strings `name` and `value`"));
        };
        let reference = request.object("ref")?;
        let kind = reference.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("ref/prompt" | "ref/resource")) {
            return Err(invalid_params("`ref` is of type ref/prompt or ref/resource"));
        }
        let (scope, caller) = (asked.scope.clone(), asked.party.caller);
        let completion = Completion { reference: Value::Object(reference), argument: name, typed, scope, caller };
        let mut values = self.service.complete(completion).await.map_err(refused)?;
        let total = values.len();
        values.truncate(MOST_VALUES);
        Ok(json!({ "completion": { "values": values, "total": total, "hasMore": total > values.len() } }))
    }
}

/// A page of objects that are known by their string `name`.
fn listed(entries: Vec<Value>, key: &str, name: &str, asked: &Asked) -> Result<Value, RpcError> {
    let (shown, next) =
        list::page(entries, |entry| entry.get(name).and_then(Value::as_str).unwrap_or_default(), asked.cursor())?;
    let mut result = Map::new();
    result.insert(key.to_owned(), Value::Array(shown));
    result.extend(end_of_page(next, asked.era));
    Ok(Value::Object(result))
}

/// What follows the entries of a page.
fn end_of_page(next: Option<String>, era: Era) -> Map<String, Value> {
    let mut end = Map::new();
    end.extend(next.map(|next| ("nextCursor".to_owned(), Value::String(next))));
    if era == Era::Modern {
        offer::add_ttl(&mut end, LIST_TTL);
    }
    end
}

/// Every modern result says that it is complete or a question, and no legacy one does, whatever a backend wrote there.
fn dressed(mut result: Value, era: Era) -> Value {
    if era == Era::Modern && is_question(&result) {
        return result;
    }
    if let Some(result) = result.as_object_mut() {
        dress(result, era);
    }
    result
}

fn dress(result: &mut Map<String, Value>, era: Era) {
    result.shift_remove("resultType");
    if era == Era::Modern {
        result.insert("resultType".to_owned(), "complete".into());
    }
}

fn refused(fault: Fault) -> RpcError {
    match fault {
        Fault::NotFound(message) | Fault::InvalidParams(message) => invalid_params(message),
        Fault::Internal(message) => error(ErrorCode::INTERNAL_ERROR, message),
        Fault::Rejected { code, message, data } => RpcError { code, message, data },
    }
}

/// Each era has its own code for a resource that is not there.
fn unreadable(fault: Fault, era: Era, uri: &str) -> RpcError {
    match (fault, era) {
        (Fault::NotFound(message), Era::Legacy) => not_there(ErrorCode::RESOURCE_NOT_FOUND, message, uri),
        (Fault::NotFound(message), Era::Modern) => not_there(ErrorCode::INVALID_PARAMS, message, uri),
        (fault, _) => refused(fault),
    }
}

fn not_there(code: ErrorCode, message: String, uri: &str) -> RpcError {
    RpcError { data: Some(json!({ "uri": uri })), ..error(code, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: Value, era: Era, expected: Option<&str>) {
        let result = dressed(json!({ "resultType": said, "inputRequests": {} }), era);
        assert_eq!(result.get("resultType").and_then(Value::as_str), expected, "{said} {era:?}");
        assert_eq!(result["inputRequests"], json!({}));
    }

    #[test]
    fn a_modern_result_is_complete_or_a_question() {
        check(json!("input_required"), Era::Modern, Some("input_required"));
        check(json!("complete"), Era::Modern, Some("complete"));
        check(json!("task"), Era::Modern, Some("complete"));
        check(json!(7), Era::Modern, Some("complete"));
    }

    #[test]
    fn a_legacy_result_has_no_type() {
        for said in ["input_required", "complete", "task"] {
            check(json!(said), Era::Legacy, None);
        }
    }
}
