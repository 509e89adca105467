//! A connection to a server reached by Streamable HTTP.
//!
//! Every request is a POST whose answer is one JSON body or a stream of events. Dropping a
//! request closes its stream, which is how a modern server learns that nobody waits; a legacy
//! one is told. A lost legacy session or a server that can't be reached closes the connection,
//! and whoever supervises it opens a new one.

mod body;
mod sse;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::protocol::{EVENT_STREAM, HEADER_LAST_EVENT_ID, HEADER_PROTOCOL_VERSION, HEADER_SESSION_ID, JSON};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use tokio::sync::watch;

use self::body::{Reading, Stream};
use crate::client::inbox::Inbox;
use crate::protocol::MODERN;
use crate::rpc::{self, Closing, LinkError, Outgoing, Protocol};

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a message that expects no answer may take.
const NOTE: Duration = Duration::from_secs(5);
/// How long to wait before resuming a stream, unless the server says otherwise.
const RESUME: Duration = Duration::from_millis(500);
/// The longest wait a server may ask for.
const LONGEST_RESUME: Duration = Duration::from_secs(30);

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct HttpLink {
    wire: Arc<Wire>,
}

#[derive(Debug)]
struct Wire {
    client: Client,
    url: Url,
    /// What the user wants sent.
    headers: HeaderMap,
    session: Mutex<Option<HeaderValue>>,
    inbox: Arc<Inbox>,
    limit: usize,
    closed: watch::Sender<Option<Arc<Closing>>>,
}

impl HttpLink {
    /// Prepares a connection; nothing is sent yet. The error says what is wrong with the settings.
    pub fn new(url: &str, headers: &BTreeMap<String, String>, inbox: Arc<Inbox>, limit: usize) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("not a URL: {error}"))?;
        let headers = header_map(headers)?;
        let client = client()?;
        let (closed, _) = watch::channel(None);
        let session = Mutex::default();
        Ok(Self { wire: Arc::new(Wire { client, url, headers, session, inbox, limit, closed }) })
    }

    /// Sends a request and waits for its result.
    pub async fn request(&self, request: &Outgoing) -> Result<Value, LinkError> {
        let mut interest = Interest { link: self, request, answered: false };
        let outcome = self.exchange(request).await;
        interest.answered = true;
        match &outcome {
            Err(LinkError::Unreachable(reason)) => self.close(closing_of(reason)),
            Err(LinkError::SessionExpired) => self.close(expired()),
            _ => {}
        }
        outcome
    }

    async fn exchange(&self, request: &Outgoing) -> Result<Value, LinkError> {
        let post = self.post(&request.protocol, request.encode());
        let post = request.headers.iter().fold(post, |post, (name, value)| post.header(name, value));
        let response = post.send().await.map_err(unreachable)?;
        self.wire.inbox.touch();
        let response = self.accepted(response).await?;
        if request.method == "initialize" {
            self.keep_session(&response);
        }
        let mut stream = match Reading::of(response, self.wire.limit)? {
            Reading::Json(body) => return body.result_of(request.id, &self.wire.inbox).await,
            Reading::Events(stream) => stream,
        };
        loop {
            if let Some(outcome) = stream.result_of(request.id, self, &request.protocol).await? {
                stream.finish();
                return outcome;
            }
            stream = self.resume(stream, &request.protocol).await?;
        }
    }

    /// Goes on with a stream that ended before its answer came.
    async fn resume(&self, ended: Stream, protocol: &Protocol) -> Result<Stream, LinkError> {
        let lost = || LinkError::Protocol("the stream ended before the answer came".to_owned());
        let last = ended.last_event.clone().ok_or_else(lost)?;
        tokio::time::sleep(ended.retry.unwrap_or(RESUME).min(LONGEST_RESUME)).await;
        let get = self.dressed(self.wire.client.get(self.wire.url.clone()), protocol);
        let response = get.header(HEADER_LAST_EVENT_ID, last).send().await.map_err(unreachable)?;
        match Reading::of(self.accepted(response).await?, self.wire.limit)? {
            Reading::Events(stream) => Ok(stream.after(ended)),
            Reading::Json(_) => Err(lost()),
        }
    }

    /// Hears what a legacy server says outside of any answer, for as long as it offers that.
    pub async fn open_notification_stream(&self, protocol: &Protocol) -> Result<(), LinkError> {
        let get = self.dressed(self.wire.client.get(self.wire.url.clone()), protocol);
        let response = get.send().await.map_err(unreachable)?;
        if let Reading::Events(mut stream) = Reading::of(self.accepted(response).await?, self.wire.limit)? {
            self.wire.inbox.start_listening();
            stream.drain(self, protocol).await?;
        }
        Ok(())
    }

    /// Sends a message that expects no answer, in the background.
    pub fn notify(&self, protocol: &Protocol, message: &Value) {
        let post = self.post(protocol, message.to_string().into_bytes());
        tokio::spawn(async move { tokio::time::timeout(NOTE, post.send()).await.is_ok() });
    }

    /// Sends a message that expects no answer, and waits until the server has it.
    pub async fn tell(&self, protocol: &Protocol, message: &Value) -> Result<(), LinkError> {
        let post = self.post(protocol, message.to_string().into_bytes());
        let sent = tokio::time::timeout(NOTE, post.send()).await;
        let response = sent.map_err(|_| LinkError::Protocol("no answer to a notification".to_owned()))?;
        self.accepted(response.map_err(unreachable)?).await.map(drop)
    }

    /// Waits until the connection is of no more use.
    pub async fn closed(&self) -> Arc<Closing> {
        let mut closed = self.wire.closed.subscribe();
        let closing = closed.wait_for(Option::is_some).await.ok().and_then(|closing| closing.clone());
        closing.unwrap_or_else(|| closing_of("the connection is gone"))
    }

    /// Says goodbye to a server that keeps a session for us.
    pub async fn shut_down(&self, protocol: &Protocol) {
        if self.session().is_some() {
            let delete = self.dressed(self.wire.client.delete(self.wire.url.clone()), protocol);
            let _ = tokio::time::timeout(Duration::from_secs(1), delete.send()).await;
        }
        self.close(closing_of("stopped by us"));
    }

    /// Whether the connection is of no more use.
    pub fn is_closed(&self) -> bool {
        self.wire.closed.borrow().is_some()
    }

    fn close(&self, closing: Arc<Closing>) {
        self.wire.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(closing);
            first
        });
    }

    fn post(&self, protocol: &Protocol, body: Vec<u8>) -> RequestBuilder {
        let post = self.wire.client.post(self.wire.url.clone()).header(CONTENT_TYPE, JSON);
        self.dressed(post, protocol).body(body)
    }

    /// The headers of every request.
    fn dressed(&self, request: RequestBuilder, protocol: &Protocol) -> RequestBuilder {
        let accepted = [JSON, EVENT_STREAM].join(", ");
        let request = request.headers(self.wire.headers.clone()).header(ACCEPT, accepted);
        let request = match protocol {
            Protocol::Opening => return request,
            Protocol::Legacy(version) => request.header(HEADER_PROTOCOL_VERSION, version),
            Protocol::Modern => return request.header(HEADER_PROTOCOL_VERSION, MODERN),
        };
        match self.session() {
            Some(session) => request.header(HEADER_SESSION_ID, session),
            None => request,
        }
    }

    /// The response if the server took the request; else why not.
    async fn accepted(&self, response: Response) -> Result<Response, LinkError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let in_session = self.session().is_some();
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(LinkError::SessionExpired);
        }
        match body::refusal(response).await {
            // What servers built on the older TypeScript SDK say instead of 404.
            LinkError::Rejected(error) if in_session && status == StatusCode::BAD_REQUEST && error.code == -32000 => {
                Err(LinkError::SessionExpired)
            }
            refusal => Err(refusal),
        }
    }

    fn keep_session(&self, response: &Response) {
        let session = response.headers().get(HEADER_SESSION_ID).cloned();
        *self.wire.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn session(&self) -> Option<HeaderValue> {
        self.wire.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn inbox(&self) -> &Inbox {
        &self.wire.inbox
    }
}

/// Somebody waits for the answer to a request.
struct Interest<'a> {
    link: &'a HttpLink,
    request: &'a Outgoing,
    answered: bool,
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        let told_by_closing = self.request.protocol == Protocol::Modern;
        if !self.answered && !told_by_closing && self.request.is_cancellable() {
            self.link.notify(&self.request.protocol, &rpc::cancelled(self.request.id));
        }
    }
}

fn closing_of(reason: &str) -> Arc<Closing> {
    Arc::new(Closing { reason: reason.to_owned(), stderr: String::new(), is_formal: false })
}

fn expired() -> Arc<Closing> {
    Arc::new(Closing { reason: "the session expired".to_owned(), stderr: String::new(), is_formal: true })
}

/// Errors before a response: either nothing was sent, or it is unknown what became of it.
fn unreachable(error: reqwest::Error) -> LinkError {
    let reason = describe(&error);
    if error.is_connect() || error.is_builder() {
        LinkError::Unreachable(reason)
    } else {
        LinkError::Closed { closing: closing_of(&reason), sent: true }
    }
}

/// The innermost cause says what happened; the outer ones repeat the URL, which may hold a secret.
fn describe(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be made".to_owned() };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Headers that describe our own messages: a setting must not contradict the body.
const OURS: [&str; 8] = [
    "accept",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];

fn header_map(headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let header = HeaderName::try_from(name.as_str()).map_err(|_| format!("not a header name: {name}"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is no header value"))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

fn client() -> Result<Client, String> {
    // An error means that a provider is installed already, which is what we want.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT)
        .redirect(same_origin())
        .build()
        .map_err(|error| format!("no HTTP client: {error}"))
}

/// Elsewhere a redirect would carry the user's headers to a stranger, or lose the body.
fn same_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_body && stays && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
    })
}
