//! Handles POST, GET and DELETE at `/mcp`: determines era and session of a request and passes it to the dispatcher.
//!
//! Who may send requests is decided before: by the host guard, and by layers in front of the router.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::protocol::ErrorCode;
use crate::protocol::HEADER_SESSION_ID;
use axum::extract::{ConnectInfo, Request as HttpRequest};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use toolgate_wire::{ByteBudget, BytePermit};

use super::events::EventStream;
use super::negotiation::{self, Accepts};
use super::outgoing::Outgoing;
use super::refusal::Refusal;
use super::session::{LegacySession, LegacySessions, OpenError, SessionHolder};
use super::{HttpOptions, body, headers, json, stream};
use crate::buffer::process_budget;
use crate::json_text::{JsonText, MAX_TREE_FACTOR};
use crate::server::MAX_CLIENT_BYTES;
use crate::server::change_notices;
use crate::server::client::Client;
use crate::server::dispatcher::{Dispatcher, NotificationSink};
use crate::server::era::{self, Era};
use crate::server::message::{Message, Request, RpcError, error, invalid_params, is_id, not_json};
use crate::server::server_message::ServerMessage;
use crate::server::service::{RequestScope, Service};

/// The most messages in one batch of a legacy client.
const MAX_BATCH_MESSAGES: usize = 100;

/// The endpoint's state: dispatcher, settings, legacy sessions.
pub(super) struct Endpoint {
    dispatcher: Arc<Dispatcher>,
    options: HttpOptions,
    sessions: LegacySessions,
    hash: RandomState,
    /// Counts the messages of callers that have no budget of their own.
    budget: ByteBudget,
}

/// The sender of a request.
struct HttpCaller {
    headers: HeaderMap,
    scope: RequestScope,
    /// Counts the bytes of the caller's messages.
    budget: ByteBudget,
    /// Counts the message until its requests are answered.
    permit: Option<Arc<BytePermit>>,
    /// Hash of the credentials: a session is usable only with those it was opened with.
    holder: u64,
    /// Hash of credentials and address: requests with the same number share their turn in queues.
    number: u64,
}

impl Endpoint {
    pub(super) fn new(service: Arc<dyn Service>, options: HttpOptions) -> Self {
        let dispatcher = Arc::new(Dispatcher { service, closing: options.shutdown.clone() });
        let budget = process_budget().child("the callers of /mcp", MAX_CLIENT_BYTES);
        Self { dispatcher, options, sessions: LegacySessions::default(), hash: RandomState::new(), budget }
    }

    /// A POST: one message, or a batch.
    pub(super) async fn handle_post(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let mut caller = self.identify(parts)?;
        negotiation::check_content_type(&caller.headers)?;
        let accepts = Accepts::of(&caller.headers)?;
        let (bytes, permit) = body::read(body, &caller.budget, self.options.max_message).await?;
        let text = JsonText::read(bytes, permit).map_err(|(_, error)| Refusal::bad(not_json(&error)))?;
        let id = text.value().member("id").and_then(|id| serde_json::from_str(id.text()).ok()).filter(is_id);
        let most = self.options.max_message.saturating_mul(MAX_TREE_FACTOR);
        let tree = text.into_tree(most).map_err(|error| Refusal::no_tree(&error).to(&id.unwrap_or_default()))?;
        let (message, permit) = tree;
        caller.permit = Some(Arc::new(permit));
        match message {
            Value::Array(batch) => self.handle_batch(caller, batch).await,
            message => match Message::read(message) {
                Message::Request(request) => {
                    let id = request.id.clone();
                    self.handle_request(caller, request, accepts).await.map_err(|refusal| refusal.to(&id))
                }
                Message::Notification { method, params } => self.handle_notification(&caller, &method, &params),
                Message::Reply { id, result } => {
                    self.take_reply(&caller, &id, result);
                    Ok(StatusCode::ACCEPTED.into_response())
                }
                Message::Malformed { id, error } => Err(Refusal::bad(error).to(&id)),
            },
        }
    }

    /// Checks `Host` and `Origin`, and determines the scope of the request.
    fn identify(&self, parts: Parts) -> Result<HttpCaller, Refusal> {
        if let Some(guard) = &self.options.host_guard {
            guard.check(&parts.uri, &parts.headers).map_err(|error| Refusal::forbidden(&error.to_string()))?;
        }
        let mut scope = parts.extensions.get::<RequestScope>().unwrap_or(&self.options.scope).clone();
        if let Some(mode) = negotiation::tool_mode(&parts.uri)? {
            scope.mode = mode;
        }
        let key = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let (holder, number) = (self.hash.hash_one(key), self.hash.hash_one((key, address)));
        let budget = parts.extensions.get::<ByteBudget>().unwrap_or(&self.budget).clone();
        Ok(HttpCaller { headers: parts.headers, scope, budget, permit: None, holder, number })
    }

    async fn handle_request(
        &self,
        caller: HttpCaller,
        request: Request,
        accepts: Accepts,
    ) -> Result<Response, Refusal> {
        if headers::is_modern(&caller.headers, &request) {
            self.check_modern(&caller, &request).map_err(Refusal::bad)?;
            let client = Arc::new(Client::new(caller.number));
            return self.serve(&client, caller, request, Era::Modern, accepts).await;
        }
        if era::is_initialize(&request) {
            return self.initialize(caller, request).await;
        }
        let session = self.session(&caller)?;
        self.serve(&session.client, caller, request, Era::Legacy, accepts).await
    }

    fn check_modern(&self, caller: &HttpCaller, request: &Request) -> Result<(), RpcError> {
        let version = era::check_complete(request)?;
        let is_call = request.method == "tools/call";
        let name = request.params.get("name").and_then(Value::as_str).filter(|_| is_call);
        let tool = name.and_then(|name| self.dispatcher.service.tool(name, &caller.scope));
        let schema = tool.as_ref().and_then(|tool| tool.get("inputSchema"));
        headers::check(&caller.headers, request, version, schema)?;
        era::check_modern(request)
    }

    async fn serve(
        &self,
        client: &Arc<Client>,
        caller: HttpCaller,
        request: Request,
        era: Era,
        accepts: Accepts,
    ) -> Result<Response, Refusal> {
        let mut in_flight = client.register(&request.id, caller.scope).map_err(Refusal::bad)?;
        in_flight.permit = caller.permit;
        Ok(stream::respond(&self.dispatcher, request, era, in_flight, accepts).await)
    }

    /// Answers `initialize` of a legacy client and opens a session for it.
    async fn initialize(&self, caller: HttpCaller, request: Request) -> Result<Response, Refusal> {
        let client = Arc::new(Client::new(Client::next_number()));
        let holder = SessionHolder { credentials: caller.holder, caller: caller.scope.caller.name.clone() };
        let in_flight = client.register(&request.id, caller.scope).map_err(Refusal::bad)?;
        let changes = self.dispatcher.service.changes();
        let failed = || {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                error(ErrorCode::INTERNAL_ERROR, "the session could not be opened"),
            )
        };
        let reply = self
            .dispatcher
            .reply(request, Era::Legacy, &in_flight, NotificationSink::none())
            .await
            .ok_or_else(failed)?;
        let name = self.sessions.open(client, holder, changes).map_err(|error| match error {
            OpenError::NoRandomness => failed(),
            OpenError::TooMany => Refusal::too_many_sessions(),
        })?;
        let mut response = reply.into_response();
        let name = HeaderValue::from_str(&name).map_err(|_| failed())?;
        response.headers_mut().insert(HEADER_SESSION_ID, name);
        Ok(response)
    }

    /// The legacy session that a request belongs to.
    fn session(&self, caller: &HttpCaller) -> Result<Arc<LegacySession>, Refusal> {
        if headers::names_unknown(&caller.headers) {
            return Err(Refusal::bad(invalid_params(
                "MCP-Protocol-Version names a revision that this server does not support",
            )));
        }
        let name = caller.headers.get(HEADER_SESSION_ID).ok_or_else(Refusal::no_session)?;
        let session = name.to_str().ok().and_then(|name| self.sessions.find(name, caller.holder));
        session.ok_or_else(Refusal::unknown_session)
    }

    /// Takes the reply of a legacy client to a question. One without a session answers nothing.
    fn take_reply(&self, caller: &HttpCaller, id: &Value, result: Option<Value>) {
        if let Ok(session) = self.session(caller) {
            session.client.questions.answer(id, result);
        }
    }

    fn handle_notification(
        &self,
        caller: &HttpCaller,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Response, Refusal> {
        // A modern client cancels by closing the connection, so its notifications need no session.
        let is_stateless = headers::names_modern(&caller.headers) && !caller.headers.contains_key(HEADER_SESSION_ID);
        if !is_stateless {
            let session = self.session(caller)?;
            if method == "notifications/cancelled" {
                session.client.cancel(params);
            }
        }
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Batches existed in the first revision of Streamable HTTP. The messages are handled concurrently; the replies are sent
    /// together.
    async fn handle_batch(&self, caller: HttpCaller, batch: Vec<Value>) -> Result<Response, Refusal> {
        let session = self.session(&caller)?;
        if batch.is_empty() || batch.len() > MAX_BATCH_MESSAGES {
            let problem = format!("a batch has 1 to {MAX_BATCH_MESSAGES} messages");
            return Err(Refusal::bad(error(ErrorCode::INVALID_REQUEST, problem)));
        }
        let mut replies = Vec::new();
        let mut running = tokio::task::JoinSet::new();
        for message in batch {
            match Message::read(message) {
                Message::Request(request) => match session.client.register(&request.id, caller.scope.clone()) {
                    Ok(mut in_flight) => {
                        in_flight.permit.clone_from(&caller.permit);
                        let dispatcher = Arc::clone(&self.dispatcher);
                        running.spawn(async move {
                            dispatcher.reply(request, Era::Legacy, &in_flight, NotificationSink::none()).await
                        });
                    }
                    Err(error) => replies.push(ServerMessage::reply(&request.id, Err(error))),
                },
                Message::Notification { method, params } => drop(self.handle_notification(&caller, &method, &params)?),
                Message::Malformed { id, error } => replies.push(ServerMessage::reply(&id, Err(error))),
                Message::Reply { id, result } => session.client.questions.answer(&id, result),
            }
        }
        while let Some(finished) = running.join_next().await {
            replies.extend(finished.ok().flatten());
        }
        if replies.is_empty() {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        Ok(json::list(replies))
    }

    /// A GET: the stream of change notifications of a legacy session.
    pub(super) fn open_stream(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let caller = self.identify(request.into_parts().0)?;
        if headers::names_modern(&caller.headers) {
            return Err(Refusal::only_post());
        }
        if !Accepts::of(&caller.headers)?.events {
            return Err(Refusal::not_acceptable("a GET is answered with text/event-stream, which Accept must include"));
        }
        let session = self.session(&caller)?;
        let scope = caller.scope;
        let (queue, outgoing) = Outgoing::without_reply();
        let end = session.next_stream();
        let cancel = end.clone().drop_guard();
        let dispatcher = Arc::clone(&self.dispatcher);
        tokio::spawn(async move {
            let mut changes = session.take_changes().unwrap_or_else(|| dispatcher.service.changes());
            let sink = NotificationSink::to(queue);
            tokio::select! {
                () = end.cancelled() => {}
                () = dispatcher.closing.cancelled() => {}
                () = session.client.disconnected() => {}
                () = change_notices::forward_changes(&dispatcher, &session.client, &scope, &mut changes, &sink) => {}
            }
            session.return_changes(changes);
        });
        Ok(EventStream::new(None, outgoing, cancel).into_response())
    }

    /// A DELETE: ends a legacy session.
    pub(super) fn end_session(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let caller = self.identify(request.into_parts().0)?;
        if headers::names_modern(&caller.headers) {
            return Err(Refusal::only_post());
        }
        let name = caller.headers.get(HEADER_SESSION_ID).ok_or_else(Refusal::no_session)?;
        match name.to_str().is_ok_and(|name| self.sessions.end(name, caller.holder)) {
            true => Ok(StatusCode::NO_CONTENT.into_response()),
            false => Err(Refusal::unknown_session()),
        }
    }
}
