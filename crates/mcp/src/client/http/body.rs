//! Reads responses: one JSON body, or an event stream that contains the reply.
//!
//! Bodies are bounded in size. Resuming a stream is up to the connection.

use std::time::Duration;

use crate::protocol::{EVENT_STREAM, JSON};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use toolgate_wire::{ByteBudget, BytePermit};

use super::HttpLink;
use super::sse::{Event, Events};
use crate::buffer::Buffer;
use crate::client::inbox::Inbox;
use crate::client::redact::Redactor;
use crate::json_text::{JsonText, range_in};
use crate::rpc::{self, Incoming, LinkError, Protocol};
use toolgate_wire::foreign_text::{one_line, stripped};

/// The most bytes read, and the most characters shown, of an error body.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
const MAX_REFUSAL_CHARS: usize = 300;
/// How long to wait for the end of a stream after its reply, so that the HTTP connection can be reused.
const TRAILER_TIMEOUT: Duration = Duration::from_millis(100);

/// A response by its media type.
pub(super) enum Reading {
    Json(Body),
    Events(Box<Stream>),
}

impl Reading {
    pub(super) fn of(response: Response, budget: &ByteBudget, limit: usize) -> Result<Self, LinkError> {
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        match kind {
            Some(kind) if kind.starts_with(EVENT_STREAM.as_bytes()) => {
                Ok(Self::Events(Box::new(Stream::new(response, budget, limit))))
            }
            Some(kind) if kind.starts_with(JSON.as_bytes()) => {
                Ok(Self::Json(Body { response, budget: budget.clone(), limit }))
            }
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
    budget: ByteBudget,
    limit: usize,
}

impl Body {
    pub(super) async fn result_of(self, id: u64, inbox: &Inbox) -> Result<JsonText, LinkError> {
        let (bytes, permit) = read(self.response, &self.budget, self.limit).await?;
        let text = JsonText::read(bytes, permit)
            .map_err(|(_, error)| LinkError::Protocol(format!("a reply is not valid JSON: {error}")))?;
        let mut found = None;
        for message in rpc::messages(&text) {
            match rpc::classify(message) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => {
                    let result = outcome.map_err(LinkError::Rejected)?;
                    found = Some(range_in(text.as_str(), result));
                    break;
                }
                Incoming::Reply { id: None, outcome: Err(error) } => return Err(LinkError::Rejected(error)),
                Incoming::Notification { method, params } => inbox.handle_notification(&method, &params),
                Incoming::Reply { .. } | Incoming::Request { .. } | Incoming::Malformed => {}
            }
        }
        let no_reply = || LinkError::Protocol("the response contains no reply to the request".to_owned());
        found.map(|part| text.cut(part)).ok_or_else(no_reply)
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
    fn new(response: Response, budget: &ByteBudget, limit: usize) -> Self {
        let ready = std::collections::VecDeque::new();
        let events = Events::new(budget.clone(), limit);
        Self { response, events, ready, limit, last_event: None, retry: None }
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
    ) -> Result<Option<Result<JsonText, LinkError>>, LinkError> {
        while let Some(event) = self.next().await? {
            let Some(text) = message_in(event, link.inbox()) else { continue };
            let result = match rpc::classify(text.value()) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => match outcome {
                    Ok(result) => range_in(text.as_str(), result),
                    Err(error) => return Ok(Some(Err(LinkError::Rejected(error)))),
                },
                other => {
                    handle(other, Some(id), link, protocol);
                    continue;
                }
            };
            return Ok(Some(Ok(text.cut(result))));
        }
        Ok(None)
    }

    /// Reads to the end and handles all messages.
    pub(super) async fn drain(&mut self, link: &HttpLink, protocol: &Protocol) -> Result<(), LinkError> {
        while let Some(event) = self.next().await? {
            if let Some(text) = message_in(event, link.inbox()) {
                handle(rpc::classify(text.value()), None, link, protocol);
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
            fed.map_err(|reason| LinkError::of_reply(reason, self.limit))?;
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

fn message_in(event: Event, inbox: &Inbox) -> Option<JsonText> {
    let (data, permit) = event.data.filter(|(data, _)| !data.is_empty())?;
    inbox.touch();
    // The encoding of an event stream has no errors: bytes that are not UTF-8 are replaced.
    let data = match std::str::from_utf8(&data) {
        Ok(_) => data,
        Err(_) => String::from_utf8_lossy(&data).into_owned().into_bytes(),
    };
    let text = JsonText::read(data, permit).ok();
    if text.is_none() {
        inbox.malformed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    text
}

/// Handles what is no reply; `call` is the request in whose stream it came.
fn handle(incoming: Incoming<'_>, call: Option<u64>, link: &HttpLink, protocol: &Protocol) {
    match incoming {
        Incoming::Request { id, method, params } => {
            link.notify(protocol, &link.inbox().answer_request(call, &id, &method, params));
        }
        Incoming::Notification { method, params } => link.inbox().handle_notification(&method, &params),
        Incoming::Reply { .. } => {
            link.inbox().unmatched_replies.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        Incoming::Malformed => {
            link.inbox().malformed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// The body, and the permit that counts it.
async fn read(mut response: Response, budget: &ByteBudget, limit: usize) -> Result<(Vec<u8>, BytePermit), LinkError> {
    let refused = |reason| LinkError::of_reply(reason, limit);
    let broken = |_| LinkError::Protocol("the reply was interrupted".to_owned());
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut buffer = Buffer::announced(budget, announced.unwrap_or(0), limit).await.map_err(refused)?;
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        buffer.push(&chunk).map_err(refused)?;
    }
    Ok(buffer.finish())
}

/// The error of a refused request: the server's JSON-RPC error if it sent one, else the status and the start of the body.
pub(super) async fn refusal(response: Response, redactor: &Redactor) -> LinkError {
    let status = response.status().as_u16();
    let body = read(response, &ByteBudget::unlimited(), MAX_REFUSAL_BYTES).await;
    let (bytes, permit) = body.unwrap_or_else(|_| (Vec::new(), ByteBudget::unlimited().empty_permit()));
    let is_about_credentials = matches!(status, 401 | 403);
    let bytes = match JsonText::read(bytes, permit) {
        Ok(text) => match rpc::classify(text.value()) {
            Incoming::Reply { outcome: Err(error), .. } if !is_about_credentials => {
                return LinkError::Rejected(error).redacted(redactor);
            }
            _ => text.into_parts().0.into_bytes(),
        },
        Err((bytes, _)) => bytes,
    };
    // In this order: a secret that is interrupted by control characters, or cut by the bound, must not be shown.
    let text = redactor.redact(&stripped(&String::from_utf8_lossy(&bytes)));
    LinkError::Http { status, message: one_line(&text, MAX_REFUSAL_CHARS) }
}
