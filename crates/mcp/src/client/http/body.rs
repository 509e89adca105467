//! What a server sends back: one JSON body, or a stream of events with the answer among them.

use std::time::Duration;

use crate::protocol::{EVENT_STREAM, JSON};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::HttpLink;
use super::sse::{Event, Events};
use crate::client::inbox::Inbox;
use crate::rpc::{self, Incoming, LinkError, Protocol};

/// How much of a refusal is read, and how much of it is shown.
const REFUSAL_READ: usize = 64 << 10;
const REFUSAL_SHOWN: usize = 300;
/// How long the end of an answered stream is waited for, so that the connection can be used again.
const TRAILER: Duration = Duration::from_millis(100);

/// A response by the shape of its body.
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
                Err(LinkError::Protocol(format!("an answer of type {kind}")))
            }
            None => Err(LinkError::Protocol("an answer without a type".to_owned())),
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
            Err(error) => return Err(LinkError::Protocol(format!("an answer is not readable JSON: {error}"))),
        };
        for message in messages {
            match rpc::sort(message) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => {
                    return outcome.map_err(LinkError::Rejected);
                }
                Incoming::Reply { id: None, outcome: Err(error) } => return Err(LinkError::Rejected(error)),
                Incoming::Notification { method, params } => inbox.notice(&method, &params),
                Incoming::Reply { .. } | Incoming::Request { .. } | Incoming::Nonsense => {}
            }
        }
        Err(LinkError::Protocol("the answer was to another request".to_owned()))
    }
}

/// A stream of events.
pub(super) struct Stream {
    response: Response,
    events: Events,
    ready: std::collections::VecDeque<Event>,
    limit: usize,
    /// Where to resume.
    pub(super) last_event: Option<String>,
    /// How long to wait before resuming.
    pub(super) retry: Option<Duration>,
}

impl Stream {
    fn new(response: Response, limit: usize) -> Self {
        let ready = std::collections::VecDeque::new();
        Self { response, events: Events::new(limit), ready, limit, last_event: None, retry: None }
    }

    /// Goes on where another stream ended.
    pub(super) fn after(self, ended: Self) -> Self {
        Self { last_event: ended.last_event, retry: ended.retry, ..self }
    }

    /// Reads up to the answer to `id`; none if the stream ends before.
    pub(super) async fn result_of(
        &mut self,
        id: u64,
        link: &HttpLink,
        protocol: &Protocol,
    ) -> Result<Option<Result<Value, LinkError>>, LinkError> {
        while let Some(event) = self.next().await? {
            let Some(message) = message_in(&event, link.inbox()) else { continue };
            match rpc::sort(message) {
                Incoming::Reply { id: Some(answered), outcome } if answered == id => {
                    return Ok(Some(outcome.map_err(LinkError::Rejected)));
                }
                other => take(other, link, protocol),
            }
        }
        Ok(None)
    }

    /// Reads to the end, for what is said on the way.
    pub(super) async fn drain(&mut self, link: &HttpLink, protocol: &Protocol) -> Result<(), LinkError> {
        while let Some(event) = self.next().await? {
            if let Some(message) = message_in(&event, link.inbox()) {
                take(rpc::sort(message), link, protocol);
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
            // A stream that breaks off is like one that ends: it may be resumed.
            let Ok(Some(chunk)) = self.response.chunk().await else { return Ok(None) };
            let mut complete = Vec::new();
            let fed = self.events.feed(&chunk, &mut complete);
            self.ready.extend(complete);
            if fed.is_err() {
                return Err(LinkError::TooLarge { limit: self.limit });
            }
        }
    }

    /// Reads an answered stream to its end in the background, so that its connection is used again.
    pub(super) fn finish(mut self) {
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
            let _ = tokio::time::timeout(TRAILER, rest).await;
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
        inbox.garbage.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    message
}

fn take(incoming: Incoming, link: &HttpLink, protocol: &Protocol) {
    match incoming {
        Incoming::Request { id, method } => link.notify(protocol, &link.inbox().answer(&id, &method)),
        Incoming::Notification { method, params } => link.inbox().notice(&method, &params),
        Incoming::Reply { .. } => {
            link.inbox().stray.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        Incoming::Nonsense => {
            link.inbox().garbage.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// The body, or nothing if it is larger than `limit`.
async fn read(mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, LinkError> {
    let mut bytes = Vec::new();
    let broken = |_| LinkError::Protocol("the answer broke off".to_owned());
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if bytes.len() + chunk.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Why a server refused: its JSON-RPC error if it sent one, else the status and some text.
pub(super) async fn refusal(response: Response) -> LinkError {
    let status = response.status().as_u16();
    let bytes = read(response, REFUSAL_READ).await.ok().flatten().unwrap_or_default();
    let is_about_access = matches!(status, 401 | 403);
    if !is_about_access
        && let Ok(message) = serde_json::from_slice(&bytes)
        && let Incoming::Reply { outcome: Err(error), .. } = rpc::sort(message)
    {
        return LinkError::Rejected(error);
    }
    let text = String::from_utf8_lossy(&bytes);
    let shown = text.chars().filter(|c| !c.is_control()).take(REFUSAL_SHOWN).collect();
    LinkError::Http { status, message: shown }
}
