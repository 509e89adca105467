//! Reads responses: one JSON body, or an event stream that contains the reply.
//!
//! Bodies are bounded in size. Resuming a stream is up to the connection.

use std::time::Duration;

use crate::protocol::{EVENT_STREAM, JSON};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::HttpLink;
use super::sse::{Event, Events};
use crate::client::inbox::Inbox;
use crate::rpc::{self, Incoming, LinkError, Protocol};

/// The most bytes read, and the most characters shown, of an error body.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
const MAX_REFUSAL_CHARS: usize = 300;
/// How long to wait for the end of a stream after its reply, so that the HTTP connection can be reused.
const TRAILER_TIMEOUT: Duration = Duration::from_millis(100);

/// A response by its media type.
pub(super) enum Reading {
    Json(Body),
    Events(Stream),
}

impl Reading {
    pub(super) fn of(response: Response, limit: usize) -> Result<Self, LinkError> {
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        match kind {
            Some(kind) if kind.starts_with(EVENT_STREAM.as_bytes()) => Ok(Self::Events(Stream::new(response, limit))),
            Some(kind) if kind.starts_with(JSON.as_bytes()) => Ok(Self::Json(Body { response, limit })),
            Some(kind) => {
                let kind = String::from_utf8_lossy(&kind).into_owned();
                Err(LinkError::Protocol(format!(
                    "the reply has the media type {kind}, expected JSON or an event stream"
                )))
            }
            None => Err(LinkError::Protocol("the reply has no Content-Type".to_owned())),
        }
    }
}

/// One JSON body.
pub(super) struct Body {
    response: Response,
    limit: usize,
}

impl Body {
    pub(super) async fn result_of(self, id: u64, inbox: &Inbox) -> Result<Value, LinkError> {
        let bytes = read(self.response, self.limit).await?.ok_or(LinkError::TooLarge { limit: self.limit })?;
        let messages = match serde_json::from_slice(&bytes) {
            Ok(Value::Array(batch)) => batch,
            Ok(message) => vec![message],
            Err(error) => return Err(LinkError::Protocol(format!("a reply is not valid JSON: {error}"))),
        };
        for message in messages {
            match rpc::classify(message) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => {
                    return outcome.map_err(LinkError::Rejected);
                }
                Incoming::Reply { id: None, outcome: Err(error) } => return Err(LinkError::Rejected(error)),
                Incoming::Notification { method, params } => inbox.handle_notification(&method, &params),
                Incoming::Reply { .. } | Incoming::Request { .. } | Incoming::Malformed => {}
            }
        }
        Err(LinkError::Protocol("the response contains no reply to the request".to_owned()))
    }
}

/// A stream of events.
pub(super) struct Stream {
    response: Response,
    events: Events,
    ready: std::collections::VecDeque<Event>,
    limit: usize,
    /// The id of the last event, from which a stream is resumed.
    pub(super) last_event: Option<String>,
    /// The delay before resuming that the server named.
    pub(super) retry: Option<Duration>,
}

impl Stream {
    fn new(response: Response, limit: usize) -> Self {
        let ready = std::collections::VecDeque::new();
        Self { response, events: Events::new(limit), ready, limit, last_event: None, retry: None }
    }

    /// Continues where another stream ended.
    pub(super) fn after(self, ended: Self) -> Self {
        Self { last_event: ended.last_event, retry: ended.retry, ..self }
    }

    /// Reads up to the reply to `id`; none if the stream ends before.
    pub(super) async fn result_of(
        &mut self,
        id: u64,
        link: &HttpLink,
        protocol: &Protocol,
    ) -> Result<Option<Result<Value, LinkError>>, LinkError> {
        while let Some(event) = self.next().await? {
            let Some(message) = message_in(&event, link.inbox()) else { continue };
            match rpc::classify(message) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => {
                    return Ok(Some(outcome.map_err(LinkError::Rejected)));
                }
                other => handle(other, link, protocol),
            }
        }
        Ok(None)
    }

    /// Reads to the end and handles all messages.
    pub(super) async fn drain(&mut self, link: &HttpLink, protocol: &Protocol) -> Result<(), LinkError> {
        while let Some(event) = self.next().await? {
            if let Some(message) = message_in(&event, link.inbox()) {
                handle(rpc::classify(message), link, protocol);
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Event>, LinkError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last_event = event.id.clone().or(self.last_event.take());
                self.retry = event.retry.map(Duration::from_millis).or(self.retry);
                return Ok(Some(event));
            }
            // An interrupted stream is treated like one that ended: it may be resumed.
            let Ok(Some(chunk)) = self.response.chunk().await else { return Ok(None) };
            let mut complete = Vec::new();
            let fed = self.events.feed(&chunk, &mut complete);
            self.ready.extend(complete);
            if fed.is_err() {
                return Err(LinkError::TooLarge { limit: self.limit });
            }
        }
    }

    /// Reads the rest of the stream in the background, so that its HTTP connection can be reused.
    pub(super) fn finish(mut self) {
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
            let _ = tokio::time::timeout(TRAILER_TIMEOUT, rest).await;
        });
    }
}

fn message_in(event: &Event, inbox: &Inbox) -> Option<Value> {
    if event.data.is_empty() {
        return None;
    }
    inbox.touch();
    let message = serde_json::from_str(&event.data).ok();
    if message.is_none() {
        inbox.malformed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    message
}

fn handle(incoming: Incoming, link: &HttpLink, protocol: &Protocol) {
    match incoming {
        Incoming::Request { id, method } => link.notify(protocol, &link.inbox().answer_request(&id, &method)),
        Incoming::Notification { method, params } => link.inbox().handle_notification(&method, &params),
        Incoming::Reply { .. } => {
            link.inbox().unmatched_replies.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        Incoming::Malformed => {
            link.inbox().malformed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// The body; none if it is larger than `limit`.
async fn read(mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, LinkError> {
    let mut bytes = Vec::new();
    let broken = |_| LinkError::Protocol("the reply was interrupted".to_owned());
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if bytes.len() + chunk.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The error of a refused request: the server's JSON-RPC error if it sent one, else the status and the start of the body.
pub(super) async fn refusal(response: Response) -> LinkError {
    let status = response.status().as_u16();
    let bytes = read(response, MAX_REFUSAL_BYTES).await.ok().flatten().unwrap_or_default();
    let is_about_credentials = matches!(status, 401 | 403);
    if !is_about_credentials
        && let Ok(message) = serde_json::from_slice(&bytes)
        && let Incoming::Reply { outcome: Err(error), .. } = rpc::classify(message)
    {
        return LinkError::Rejected(error);
    }
    let text = String::from_utf8_lossy(&bytes);
    let shown = text.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_CHARS).collect();
    LinkError::Http { status, message: shown }
}
