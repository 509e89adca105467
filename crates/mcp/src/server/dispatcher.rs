//! From one request to one reply, independent of the transport.
//!
//! Selects the handler by method and era, cancels it when the client does, and turns faults of the service into JSON-RPC
//! errors. Reading and writing messages is up to the transports.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{ErrorCode, MODERN};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::client::{Client, InFlight};
use super::era::{self, Era};
use super::handshake::{self, LIST_TTL_MS};
use super::list;
use super::message::{Request, RpcError, error, invalid_params, no_such_method};
use super::observed::{self, BegunRequest, RequestEnd};
use super::server_message::{Answer, ServerMessage};
use super::service::{
    Completion, Fault, PromptCall, RequestScope, ResourceCall, Service, ServiceAnswer, TASKS_EXTENSION, TaskCall,
    TaskRequest,
};
use super::{call, change_notices};
use crate::buffer::MAX_UNCOUNTED_BYTES;
use crate::json_text::TreeError;
use crate::origin::{RequestOrigin, client_name};
use crate::result::requests_input;

/// How long a cancelled request may take to end by itself before its future is dropped.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a large reply waits until those before it are read.
const REPLY_BUDGET_TIMEOUT: Duration = Duration::from_secs(30);
/// The most memory of a tree that is made of a text with one member twice.
const MAX_TREE_BYTES: usize = 128 << 20;
/// The most values in one completion; the protocol's bound.
const MAX_COMPLETION_VALUES: usize = 100;

/// Dispatches the requests of all clients of one transport to a service.
pub(super) struct Dispatcher {
    pub(super) service: Arc<dyn Service>,
    /// Cancelled at shutdown: ends subscriptions, which otherwise have no end.
    pub(super) closing: CancellationToken,
}

/// Sends notifications that precede a reply; discards them if the client does not accept a stream.
#[derive(Debug, Clone)]
pub(super) struct NotificationSink(Option<mpsc::Sender<ServerMessage>>);

impl NotificationSink {
    pub(super) fn to(queue: mpsc::Sender<ServerMessage>) -> Self {
        Self(Some(queue))
    }

    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Sends a request to the client once the queue has room; false if the client no longer reads.
    pub(super) async fn ask(&self, id: &str, method: &str, params: Value) -> bool {
        match &self.0 {
            Some(queue) => queue.send(ServerMessage::request(id, method, params)).await.is_ok(),
            None => false,
        }
    }

    /// Sends a notification if the queue has room, else drops it.
    pub(super) fn notify_if_room(&self, method: &str, params: Value) {
        if let Some(queue) = &self.0 {
            let _ = queue.try_send(ServerMessage::notification(method, params));
        }
    }

    /// Sends a notification once the queue has room; false if the client no longer reads.
    pub(super) async fn notify(&self, method: &str, params: Value) -> bool {
        match &self.0 {
            Some(queue) => queue.send(ServerMessage::notification(method, params)).await.is_ok(),
            None => false,
        }
    }
}

/// A request and the context in which it is served.
pub(super) struct RequestContext {
    pub(super) request: Request,
    pub(super) era: Era,
    pub(super) client: Arc<Client>,
    pub(super) scope: RequestScope,
    pub(super) sink: NotificationSink,
    pub(super) cancel: CancellationToken,
    pub(super) withdrawn: CancellationToken,
    /// Which client it comes from, and which trace what it causes belongs to.
    pub(super) origin: RequestOrigin,
}

impl RequestContext {
    /// The cursor of a list request.
    fn cursor(&self) -> Option<&Value> {
        self.request.params.get("cursor")
    }

    /// A request of this client for a resource.
    pub(super) fn resource(&self, uri: &str) -> ResourceCall {
        let (scope, trace) = (self.scope.clone(), self.origin.trace.clone());
        ResourceCall { uri: uri.to_owned(), scope, caller: self.client.number, trace }
    }
}

impl Dispatcher {
    /// The reply; none if the request was cancelled. Dropping the future drops the handler.
    ///
    /// The caller keeps `in_flight` until it has sent the reply, so that replies which the client does not read count
    /// against its limit.
    pub(super) async fn reply(
        self: &Arc<Self>,
        request: Request,
        era: Era,
        in_flight: &InFlight,
        sink: NotificationSink,
    ) -> Option<ServerMessage> {
        let id = request.id.clone();
        let cancel = in_flight.cancel.clone();
        let unanswered = cancel.clone().drop_guard();
        let (client, scope) = (Arc::clone(in_flight.client()), in_flight.scope.clone());
        let withdrawn = in_flight.withdrawn.clone();
        let mut origin = origin_of(&request, era, &client);
        let method = observed::known_method(&request.method);
        let begun = BegunRequest { method, target: observed::target(&request), origin: &origin };
        // Dropped without an end where the request is cancelled.
        let record = self.service.observe(&begun);
        if let Some(record) = &record {
            origin.trace = record.trace().clone();
        }
        let context = RequestContext { request, era, client, scope, sink, cancel: cancel.clone(), withdrawn, origin };
        let dispatcher = Arc::clone(self);
        // A separate task: a panic in the service then fails one request instead of the connection.
        let mut work = AbortOnDropHandle::new(tokio::spawn(async move { dispatcher.serve(&context).await }));
        let outcome = tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = cancel.cancelled() => {
                let _ = timeout(CANCEL_TIMEOUT, &mut work).await;
                return None;
            }
        };
        if cancel.is_cancelled() {
            return None;
        }
        let _ = unanswered.disarm();
        let outcome = outcome.unwrap_or_else(|_| Err(error(ErrorCode::INTERNAL_ERROR, "internal error of the server")));
        // Looked for only for a record: a result may be long.
        let end = record.as_ref().map(|_| RequestEnd::of(method, &outcome));
        let reply = self.counted(&id, ServerMessage::reply(&id, outcome), in_flight).await;
        if let (Some(record), Some(end)) = (record, end) {
            record.ended(reply.code().map_or(end, RequestEnd::Failed));
        }
        Some(reply)
    }

    /// A large reply counts for its caller until the client has taken it. It waits a bounded time for those before it, which clients
    /// that do not read lose (`http::reply_body`); nothing else that waits needs what it holds.
    async fn counted(&self, id: &Value, reply: ServerMessage, in_flight: &InFlight) -> ServerMessage {
        let bytes = reply.uncounted();
        if bytes <= MAX_UNCOUNTED_BYTES {
            return reply;
        }
        let budget = self.service.reply_budget(&in_flight.scope, in_flight.client().number);
        match timeout(REPLY_BUDGET_TIMEOUT, budget.reserve(bytes)).await {
            Ok(Ok(permit)) => reply.counted_by(permit),
            // What it did stays done: the client must not take this for a request that was not carried out.
            refused => {
                let reason = match refused {
                    Ok(Err(refused)) => refused.to_string(),
                    _ => "other answers to this caller hold too many bytes that were not taken yet".to_owned(),
                };
                let message = format!(
                    "the request was carried out, but its reply is dropped: {reason}. Do not repeat it if it changes something; \
                     read what was asked for before, or ask for less data"
                );
                ServerMessage::reply(id, Err(error(ErrorCode::INTERNAL_ERROR, message)))
            }
        }
    }

    async fn serve(&self, context: &RequestContext) -> Result<Answer, RpcError> {
        let result = match (context.request.method.as_str(), context.era) {
            ("tools/list", _) => return self.list_tools(context).await,
            (_, Era::Legacy) => self.serve_legacy(context).await?,
            (_, Era::Modern) => self.serve_modern(context).await?,
        };
        let may_be_task = context.request.method == "tools/call" && self.speaks_of_tasks(context);
        match result {
            ServiceAnswer::Value(result) => Ok(Answer::Value(with_result_type(result, context.era, may_be_task))),
            ServiceAnswer::Text(result) => {
                let kind = (context.era == Era::Modern).then_some("\"complete\"");
                result
                    .with_member("resultType", kind, MAX_TREE_BYTES)
                    .map(Answer::Text)
                    .map_err(|error| no_reply(&error))
            }
        }
    }

    /// Whether both sides have the extension for tasks.
    fn speaks_of_tasks(&self, context: &RequestContext) -> bool {
        let declared = || era::capabilities(&context.request);
        let has = || declared().get("extensions").and_then(|it| it.get(TASKS_EXTENSION)).is_some_and(Value::is_object);
        context.era == Era::Modern && self.service.has_tasks() && has()
    }

    /// A request about a task.
    async fn serve_task(&self, context: &RequestContext, asked: TaskRequest) -> Result<Value, RpcError> {
        if !self.speaks_of_tasks(context) {
            let needed = json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } });
            let message = "this request needs a client with the extension for tasks";
            return Err(RpcError { data: Some(needed), ..error(ErrorCode::MISSING_CLIENT_CAPABILITY, message) });
        }
        let elicitation = era::capabilities(&context.request).remove("elicitation");
        let shows_forms = elicitation.as_ref().and_then(Value::as_object);
        let call = TaskCall {
            task: context.request.text("taskId")?.to_owned(),
            request: asked,
            scope: context.scope.clone(),
            shows_forms: shows_forms.is_some_and(|modes| modes.is_empty() || modes.contains_key("form")),
        };
        self.service.task(call).await.map_err(rpc_error)
    }

    /// A separate path: the list may have thousands of tools, most of which are serialised already.
    async fn list_tools(&self, context: &RequestContext) -> Result<Answer, RpcError> {
        let (service, scope) = (&self.service, &context.scope);
        service.prepared(scope).await.map_err(rpc_error)?;
        let (names, next) = list::page(service.tool_names(scope), |name| name, context.cursor())?;
        let tools = names.iter().filter_map(|name| service.tool_text(name, scope)).collect();
        let mut end = end_of_page(next, context.era);
        set_result_type(&mut end, context.era);
        Ok(Answer::Tools(tools, end))
    }

    async fn serve_legacy(&self, context: &RequestContext) -> Result<ServiceAnswer, RpcError> {
        let request = &context.request;
        let empty = || ServiceAnswer::Value(Value::Object(Map::new()));
        match request.method.as_str() {
            "initialize" => {
                let version = request.params.get("protocolVersion").and_then(Value::as_str);
                let name = request.params.get("clientInfo").and_then(client_name);
                name.into_iter().for_each(|name| drop(context.client.name.set(name)));
                let declared = request.params.get("capabilities").and_then(Value::as_object).cloned();
                declared.into_iter().for_each(|declared| drop(context.client.capabilities.set(declared)));
                Ok(handshake::initialize(&*self.service, &context.scope, version).into())
            }
            "ping" => Ok(empty()),
            // Accepted and ignored: many clients set a level although this server sends no log messages.
            "logging/setLevel" => request.text("level").map(|_| empty()),
            "resources/subscribe" if self.service.announces_resources() => {
                self.watch(request.text("uri")?, context).await.map(|()| empty())
            }
            "resources/unsubscribe" if self.service.announces_resources() => {
                context.client.watched.end(request.text("uri")?);
                Ok(empty())
            }
            _ => self.serve_common(context).await,
        }
    }

    async fn serve_modern(&self, context: &RequestContext) -> Result<ServiceAnswer, RpcError> {
        match context.request.method.as_str() {
            "server/discover" => Ok(handshake::discover(&*self.service, &context.scope)),
            "subscriptions/listen" => change_notices::listen(self, context).await,
            "tasks/get" if self.service.has_tasks() => self.serve_task(context, TaskRequest::Get).await,
            "tasks/cancel" if self.service.has_tasks() => self.serve_task(context, TaskRequest::Cancel).await,
            "tasks/update" if self.service.has_tasks() => {
                let responses = context.request.object("inputResponses")?;
                self.serve_task(context, TaskRequest::Update(responses)).await
            }
            _ => return self.serve_common(context).await,
        }
        .map(ServiceAnswer::Value)
    }

    async fn serve_common(&self, context: &RequestContext) -> Result<ServiceAnswer, RpcError> {
        let (service, request, scope) = (&self.service, &context.request, &context.scope);
        match request.method.as_str() {
            "tools/call" => call::call(self, context).await?.map_err(rpc_error),
            "resources/list" if service.has_resources() => {
                let resources = service.resources(scope).await.map_err(rpc_error)?;
                listed(resources, "resources", "uri", context).map(ServiceAnswer::Value)
            }
            "resources/templates/list" if service.has_resources() => {
                let templates = service.resource_templates(scope).await.map_err(rpc_error)?;
                listed(templates, "resourceTemplates", "uriTemplate", context).map(ServiceAnswer::Value)
            }
            "resources/read" if service.has_resources() => self.read(context).await,
            "prompts/list" if service.has_prompts() => {
                let prompts = service.prompts(scope).await.map_err(rpc_error)?;
                listed(prompts, "prompts", "name", context).map(ServiceAnswer::Value)
            }
            "prompts/get" if service.has_prompts() => {
                let name = request.text("name")?.to_owned();
                let arguments = request.object("arguments")?;
                let (scope, caller, trace) = (scope.clone(), context.client.number, context.origin.trace.clone());
                let interactive_client = era::interactive_client(context.era, request);
                service
                    .prompt(PromptCall { name, arguments, scope, caller, interactive_client, trace })
                    .await
                    .map_err(rpc_error)
            }
            "completion/complete" if service.has_completions() => {
                self.complete(context).await.map(ServiceAnswer::Value)
            }
            method => Err(no_such_method(method)),
        }
    }

    async fn read(&self, context: &RequestContext) -> Result<ServiceAnswer, RpcError> {
        let uri = context.request.text("uri")?;
        let outcome = self.service.read(context.resource(uri)).await;
        let contents = outcome.map_err(|fault| resource_error(fault, context.era, uri))?;
        let mut rest = Map::new();
        if context.era == Era::Modern {
            handshake::add_ttl(&mut rest, 0);
        }
        match contents {
            ServiceAnswer::Value(contents) => {
                let mut result = Map::from_iter([("contents".to_owned(), contents)]);
                result.extend(rest);
                Ok(Value::Object(result).into())
            }
            ServiceAnswer::Text(contents) => Ok(ServiceAnswer::Text(contents.wrapped_as("contents", &rest))),
        }
    }

    /// Subscribes a legacy client to a resource, until it unsubscribes or disconnects.
    async fn watch(&self, uri: &str, context: &RequestContext) -> Result<(), RpcError> {
        context.client.watched.check_room(uri)?;
        let outcome = self.service.watch(context.resource(uri)).await;
        context.client.watched.begin(uri, outcome.map_err(|fault| resource_error(fault, context.era, uri))?)
    }

    async fn complete(&self, context: &RequestContext) -> Result<Value, RpcError> {
        let request = &context.request;
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
        let (scope, caller, trace) = (context.scope.clone(), context.client.number, context.origin.trace.clone());
        let reference = Value::Object(reference);
        let completion = Completion { reference, argument: name, typed, scope, caller, trace };
        let mut values = self.service.complete(completion).await.map_err(rpc_error)?;
        let total = values.len();
        values.truncate(MAX_COMPLETION_VALUES);
        Ok(json!({ "completion": { "values": values, "total": total, "hasMore": total > values.len() } }))
    }
}

/// Which client a request comes from. A client of stateless requests over HTTP has no session.
fn origin_of(request: &Request, era: Era, client: &Client) -> RequestOrigin {
    let is_stateless = era == Era::Modern && client.transport == "tcp";
    client.note_revision(request);
    RequestOrigin {
        protocol: if era == Era::Modern { Some(MODERN) } else { client.protocol.get().copied() },
        session: if is_stateless { 0 } else { client.number },
        transport: client.transport,
        ..RequestOrigin::of(request.meta(), client.name.get().map(String::as_str)).with_request(&request.id)
    }
}

/// A page of objects that are identified by their string member `name`.
fn listed(entries: Vec<Value>, key: &str, name: &str, context: &RequestContext) -> Result<Value, RpcError> {
    let (shown, next) =
        list::page(entries, |entry| entry.get(name).and_then(Value::as_str).unwrap_or_default(), context.cursor())?;
    let mut result = Map::new();
    result.insert(key.to_owned(), Value::Array(shown));
    result.extend(end_of_page(next, context.era));
    Ok(Value::Object(result))
}

/// The members that follow the entries of a page.
fn end_of_page(next: Option<String>, era: Era) -> Map<String, Value> {
    let mut end = Map::new();
    end.extend(next.map(|next| ("nextCursor".to_owned(), Value::String(next))));
    if era == Era::Modern {
        handshake::add_ttl(&mut end, LIST_TTL_MS);
    }
    end
}

/// Sets `resultType`: in the modern era `complete`, `input_required`, or `task` where the client may get one; in the legacy era
/// absent, whatever a backend wrote.
fn with_result_type(mut result: Value, era: Era, may_be_task: bool) -> Value {
    let is_task = may_be_task && result.get("resultType").is_some_and(|kind| kind == "task");
    if era == Era::Modern && (is_task || requests_input(&result)) {
        return result;
    }
    if let Some(result) = result.as_object_mut() {
        set_result_type(result, era);
    }
    result
}

fn set_result_type(result: &mut Map<String, Value>, era: Era) {
    result.shift_remove("resultType");
    if era == Era::Modern {
        result.insert("resultType".to_owned(), "complete".into());
    }
}

/// The result came and cannot be passed on.
fn no_reply(problem: &TreeError) -> RpcError {
    error(ErrorCode::INTERNAL_ERROR, format!("the result cannot be passed on: {problem}"))
}

fn rpc_error(fault: Fault) -> RpcError {
    match fault {
        Fault::NotFound(message) | Fault::InvalidParams(message) => invalid_params(message),
        Fault::Internal(message) => error(ErrorCode::INTERNAL_ERROR, message),
        Fault::Rejected { code, message, data } => RpcError { code, message, data },
    }
}

/// The error code for a missing resource depends on the era.
fn resource_error(fault: Fault, era: Era, uri: &str) -> RpcError {
    match (fault, era) {
        (Fault::NotFound(message), Era::Legacy) => resource_not_found(ErrorCode::RESOURCE_NOT_FOUND, message, uri),
        (Fault::NotFound(message), Era::Modern) => resource_not_found(ErrorCode::INVALID_PARAMS, message, uri),
        (fault, _) => rpc_error(fault),
    }
}

fn resource_not_found(code: ErrorCode, message: String, uri: &str) -> RpcError {
    RpcError { data: Some(json!({ "uri": uri })), ..error(code, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: Value, era: Era, expected: Option<&str>) {
        let result = with_result_type(json!({ "resultType": said, "inputRequests": {} }), era, false);
        assert_eq!(result.get("resultType").and_then(Value::as_str), expected, "{said} {era:?}");
        assert_eq!(result["inputRequests"], json!({}));
    }

    #[test]
    fn a_modern_result_is_complete_or_requests_input() {
        check(json!("input_required"), Era::Modern, Some("input_required"));
        check(json!("complete"), Era::Modern, Some("complete"));
        check(json!("task"), Era::Modern, Some("complete"));
        check(json!(7), Era::Modern, Some("complete"));
        let task = with_result_type(json!({ "resultType": "task", "taskId": "1" }), Era::Modern, true);
        assert_eq!(task["resultType"], "task", "for a client that has the extension");
    }

    #[test]
    fn a_legacy_result_has_no_type() {
        for said in ["input_required", "complete", "task"] {
            check(json!(said), Era::Legacy, None);
        }
    }
}
