//! What becomes of a request at `/mcp`.

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
use tokio::sync::mpsc;

use super::events::Events;
use super::guard::{self, Accepts};
use super::refusal::Refusal;
use super::session::{Session, Sessions};
use super::{HttpOptions, body, headers, json, stream};
use crate::server::desk::{Desk, Outlet};
use crate::server::era::{self, Era};
use crate::server::message::{Message, Request, RpcError, error, invalid_params, not_json};
use crate::server::news;
use crate::server::outgoing::Outgoing;
use crate::server::party::Party;
use crate::server::service::{RequestScope, Service};

/// Messages in one batch of a legacy client.
const MOST_IN_BATCH: usize = 100;
/// Changes that may wait for a slow reader.
const QUEUE: usize = 16;

/// The endpoint: its service, its sessions, its rules.
pub(super) struct Door {
    desk: Arc<Desk>,
    options: HttpOptions,
    sessions: Sessions,
    hash: RandomState,
}

/// Who asks, and how.
struct Visit {
    headers: HeaderMap,
    scope: RequestScope,
    /// Whose sessions are whose.
    holder: u64,
    /// Who shares a queue with whom.
    caller: u64,
}

impl Door {
    pub(super) fn new(service: Arc<dyn Service>, options: HttpOptions) -> Self {
        let desk = Arc::new(Desk { service, closing: options.shutdown.clone() });
        Self { desk, options, sessions: Sessions::default(), hash: RandomState::new() }
    }

    /// A POST: one message, or a batch of them.
    pub(super) async fn take(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let visit = self.admit(parts)?;
        guard::check_content_type(&visit.headers)?;
        let accepts = Accepts::of(&visit.headers)?;
        let bytes = body::read(body, self.options.max_message).await?;
        let message = serde_json::from_slice(&bytes).map_err(|error| Refusal::bad(not_json(&error)))?;
        drop(bytes);
        match message {
            Value::Array(batch) => self.take_batch(visit, batch).await,
            message => match Message::read(message) {
                Message::Request(request) => {
                    let id = request.id.clone();
                    self.ask(visit, request, accepts).await.map_err(|refusal| refusal.to(&id))
                }
                Message::Notification { method, params } => self.note(&visit, &method, &params),
                Message::Reply => Ok(StatusCode::ACCEPTED.into_response()),
                Message::Malformed { id, error } => Err(Refusal::bad(error).to(&id)),
            },
        }
    }

    /// Who comes in at all.
    fn admit(&self, parts: Parts) -> Result<Visit, Refusal> {
        guard::check_way_in(&parts, &self.options)?;
        let mut scope = match (parts.extensions.get::<RequestScope>(), &self.options.authenticate) {
            // A guard in front of this door has decided already.
            (Some(scope), _) => scope.clone(),
            (None, Some(authenticate)) => authenticate(&parts.headers).map_err(Refusal::unauthorized)?,
            (None, None) => self.options.scope.clone(),
        };
        if let Some(view) = guard::view(&parts.uri)? {
            scope.mode = view;
        }
        let key = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let (holder, caller) = (self.hash.hash_one(key), self.hash.hash_one((key, address)));
        Ok(Visit { headers: parts.headers, scope, holder, caller })
    }

    async fn ask(&self, visit: Visit, request: Request, accepts: Accepts) -> Result<Response, Refusal> {
        if headers::is_modern(&visit.headers, &request) {
            self.check_modern(&visit, &request).map_err(Refusal::bad)?;
            let party = Arc::new(Party::new(visit.caller));
            return self.serve(&party, visit.scope, request, Era::Modern, accepts).await;
        }
        if era::is_greeting(&request) {
            return self.greet(visit, request).await;
        }
        let session = self.session(&visit)?;
        self.serve(&session.party, visit.scope, request, Era::Legacy, accepts).await
    }

    fn check_modern(&self, visit: &Visit, request: &Request) -> Result<(), RpcError> {
        let version = era::check_complete(request)?;
        let is_call = request.method == "tools/call";
        let name = request.params.get("name").and_then(Value::as_str).filter(|_| is_call);
        let tool = name.and_then(|name| self.desk.service.tool(name, &visit.scope));
        let schema = tool.as_ref().and_then(|tool| tool.get("inputSchema"));
        headers::check(&visit.headers, request, version, schema)?;
        era::check_modern(request)
    }

    async fn serve(
        &self,
        party: &Arc<Party>,
        scope: RequestScope,
        request: Request,
        era: Era,
        accepts: Accepts,
    ) -> Result<Response, Refusal> {
        let flight = party.board(&request.id, scope).map_err(Refusal::bad)?;
        Ok(stream::respond(&self.desk, request, era, flight, accepts).await)
    }

    /// A legacy client introduces itself and gets a session.
    async fn greet(&self, visit: Visit, request: Request) -> Result<Response, Refusal> {
        let party = Arc::new(Party::new(Party::number()));
        let flight = party.board(&request.id, visit.scope).map_err(Refusal::bad)?;
        let changes = self.desk.service.changes();
        let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error(ErrorCode::INTERNAL_ERROR, "no session"));
        let reply = self.desk.reply(request, Era::Legacy, &flight, Outlet::none()).await.ok_or_else(failed)?;
        let name = self.sessions.open(party, visit.holder, changes).ok_or_else(failed)?;
        let mut response = reply.into_response();
        let name = HeaderValue::from_str(&name).map_err(|_| failed())?;
        response.headers_mut().insert(HEADER_SESSION_ID, name);
        Ok(response)
    }

    /// The legacy session that a request belongs to.
    fn session(&self, visit: &Visit) -> Result<Arc<Session>, Refusal> {
        if headers::names_unknown(&visit.headers) {
            return Err(Refusal::bad(invalid_params("MCP-Protocol-Version names no revision that is spoken here")));
        }
        let name = visit.headers.get(HEADER_SESSION_ID).ok_or_else(Refusal::no_session)?;
        let session = name.to_str().ok().and_then(|name| self.sessions.find(name, visit.holder));
        session.ok_or_else(Refusal::unknown_session)
    }

    fn note(&self, visit: &Visit, method: &str, params: &Map<String, Value>) -> Result<Response, Refusal> {
        // A modern client cancels by closing; there is nothing else it could tell us.
        let is_stateless = headers::names_modern(&visit.headers) && !visit.headers.contains_key(HEADER_SESSION_ID);
        if !is_stateless {
            let session = self.session(visit)?;
            if method == "notifications/cancelled" {
                session.party.cancel(params);
            }
        }
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// The first revision of Streamable HTTP had batches: answered all at once, each for itself.
    async fn take_batch(&self, visit: Visit, batch: Vec<Value>) -> Result<Response, Refusal> {
        let session = self.session(&visit)?;
        if batch.is_empty() || batch.len() > MOST_IN_BATCH {
            let problem = format!("a batch has 1 to {MOST_IN_BATCH} messages");
            return Err(Refusal::bad(error(ErrorCode::INVALID_REQUEST, problem)));
        }
        let mut replies = Vec::new();
        let mut running = tokio::task::JoinSet::new();
        for message in batch {
            match Message::read(message) {
                Message::Request(request) => match session.party.board(&request.id, visit.scope.clone()) {
                    Ok(flight) => {
                        let desk = Arc::clone(&self.desk);
                        running.spawn(async move { desk.reply(request, Era::Legacy, &flight, Outlet::none()).await });
                    }
                    Err(error) => replies.push(Outgoing::reply(&request.id, Err(error))),
                },
                Message::Notification { method, params } => drop(self.note(&visit, &method, &params)?),
                Message::Malformed { id, error } => replies.push(Outgoing::reply(&id, Err(error))),
                Message::Reply => {}
            }
        }
        while let Some(finished) = running.join_next().await {
            replies.extend(finished.ok().flatten());
        }
        if replies.is_empty() {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        Ok(json::list(&replies))
    }

    /// A GET: the stream of what changes, for a legacy client.
    pub(super) fn overhear(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let visit = self.admit(request.into_parts().0)?;
        if headers::names_modern(&visit.headers) {
            return Err(Refusal::only_post());
        }
        if !Accepts::of(&visit.headers)?.events {
            return Err(Refusal::not_acceptable("this is a text/event-stream"));
        }
        let session = self.session(&visit)?;
        let scope = visit.scope;
        let (queue, messages) = mpsc::channel(QUEUE);
        let end = session.next_stream();
        let cancel = end.clone().drop_guard();
        let desk = Arc::clone(&self.desk);
        tokio::spawn(async move {
            let mut changes = session.take_changes().unwrap_or_else(|| desk.service.changes());
            let outlet = Outlet::to(queue);
            tokio::select! {
                () = end.cancelled() => {}
                () = desk.closing.cancelled() => {}
                () = session.party.left() => {}
                () = news::relay(&desk, &session.party, &scope, &mut changes, &outlet) => {}
            }
            session.give_back(changes);
        });
        Ok(Events::new(None, messages, cancel).into_response())
    }

    /// A DELETE: a legacy client ends its session.
    pub(super) fn end(&self, request: HttpRequest) -> Result<Response, Refusal> {
        let visit = self.admit(request.into_parts().0)?;
        if headers::names_modern(&visit.headers) {
            return Err(Refusal::only_post());
        }
        let name = visit.headers.get(HEADER_SESSION_ID).ok_or_else(Refusal::no_session)?;
        match name.to_str().is_ok_and(|name| self.sessions.end(name, visit.holder)) {
            true => Ok(StatusCode::NO_CONTENT.into_response()),
            false => Err(Refusal::unknown_session()),
        }
    }
}
