//! A connection to a server by Streamable HTTP.
//!
//! Every request is a POST, answered by one JSON body or an event stream. Dropping a request closes its stream, which
//! cancels it at a modern server; a legacy server gets a notification. An expired legacy session or an unreachable server
//! closes the connection; reconnecting is up to the code that opened it.

mod body;
pub(crate) mod sse;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{EVENT_STREAM, HEADER_LAST_EVENT_ID, HEADER_PROTOCOL_VERSION, HEADER_SESSION_ID, JSON};
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use self::body::{Reading, Stream};
use crate::buffer::process_budget;
use crate::client::auth::{Authorizer, Challenge, Retry, SecretText};
use crate::client::inbox::Inbox;
use crate::client::redact::Redactor;
use crate::json_text::JsonText;
use crate::protocol::MODERN;
use crate::rpc::{self, Closing, LinkError, OutgoingRequest, OutgoingText, Protocol};

/// How long connecting to a server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sending a notification may take, and how long it may wait behind others.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Notifications and answers that are sent at one time, on a connection each.
const MAX_SENDING: usize = 16;
/// Those that are sent or wait; further ones are dropped. A server chooses how many answers there are.
const MAX_QUEUED: usize = 1024;
/// The delay before a stream is resumed, unless the server names another.
const RESUME_DELAY: Duration = Duration::from_millis(500);
/// The longest delay a server may name.
const MAX_RESUME_DELAY: Duration = Duration::from_secs(30);

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct HttpLink {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    url: Url,
    /// Headers from the configuration.
    headers: HeaderMap,
    /// Removes their values from what the server says.
    redactor: Redactor,
    /// Gets tokens, for a server that asks for OAuth.
    authorizer: Option<Arc<Authorizer>>,
    session: Mutex<Option<HeaderValue>>,
    inbox: Arc<Inbox>,
    limit: usize,
    /// Places of notifications and answers that are sent or wait.
    queued: Arc<Semaphore>,
    /// Turns of those that are sent.
    sending: Semaphore,
    closed: watch::Sender<Option<Arc<Closing>>>,
}

impl HttpLink {
    /// Prepares a connection without sending anything. The error names the invalid setting.
    pub fn new(url: &str, headers: &BTreeMap<String, String>, inbox: Arc<Inbox>, limit: usize) -> Result<Self, String> {
        Self::prepare(url, headers, None, inbox, limit)
    }

    /// The same for a server that may ask for OAuth. A configured `Authorization` header is not sent.
    pub fn authorized(
        url: &str,
        headers: &BTreeMap<String, String>,
        authorizer: Arc<Authorizer>,
        inbox: Arc<Inbox>,
        limit: usize,
    ) -> Result<Self, String> {
        Self::prepare(url, headers, Some(authorizer), inbox, limit)
    }

    fn prepare(
        url: &str,
        headers: &BTreeMap<String, String>,
        authorizer: Option<Arc<Authorizer>>,
        inbox: Arc<Inbox>,
        limit: usize,
    ) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("not a URL: {error}"))?;
        let redactor = Redactor::new(headers);
        let mut headers = header_map(headers)?;
        if authorizer.is_some() {
            headers.remove(AUTHORIZATION);
        }
        let client = client()?;
        let (closed, _) = watch::channel(None);
        let session = Mutex::default();
        let (queued, sending) = (Arc::new(Semaphore::new(MAX_QUEUED)), Semaphore::new(MAX_SENDING));
        let inner =
            Inner { client, url, headers, redactor, authorizer, session, inbox, limit, queued, sending, closed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Removes the values of its headers from what is shown.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Sends a request and waits for its result.
    pub(crate) async fn request(&self, mut request: OutgoingRequest) -> Result<JsonText, LinkError> {
        let text = request.encode().await?;
        let mut pending = PendingRequest { link: self, request: &request, answered: false };
        let outcome = self.exchange(&request, text).await;
        pending.answered = true;
        match &outcome {
            Err(LinkError::Unreachable(reason)) => self.close(closing_of(reason)),
            Err(LinkError::SessionExpired) => self.close(expired()),
            _ => {}
        }
        outcome
    }

    async fn exchange(&self, request: &OutgoingRequest, text: OutgoingText) -> Result<JsonText, LinkError> {
        let OutgoingText { bytes, permit } = text;
        let post = self.post(&request.protocol, bytes);
        let post = request.headers.iter().fold(post, |post, (name, value)| post.header(name, value));
        let response = self.send(post).await?;
        drop(permit);
        self.inner.inbox.touch();
        let response = self.accepted(response).await?;
        if request.method == "initialize" {
            self.keep_session(&response);
        }
        let mut stream = match Reading::of(response, &request.budget, self.inner.limit)? {
            Reading::Json(body) => return body.result_of(request.id, &self.inner.inbox).await,
            Reading::Events(stream) => *stream,
        };
        loop {
            if let Some(outcome) = stream.result_of(request.id, self, &request.protocol).await? {
                stream.finish();
                return outcome;
            }
            stream = self.resume(stream, request).await?;
        }
    }

    /// Resumes a stream that ended before the reply.
    async fn resume(&self, ended: Stream, request: &OutgoingRequest) -> Result<Stream, LinkError> {
        let lost = || LinkError::Protocol("the stream ended before the reply".to_owned());
        let last = ended.last_event.clone().ok_or_else(lost)?;
        tokio::time::sleep(ended.retry.unwrap_or(RESUME_DELAY).min(MAX_RESUME_DELAY)).await;
        let get = self.with_headers(self.inner.client.get(self.inner.url.clone()), &request.protocol);
        let response = self.send(get.header(HEADER_LAST_EVENT_ID, last)).await?;
        match Reading::of(self.accepted(response).await?, &request.budget, self.inner.limit)? {
            Reading::Events(stream) => Ok(stream.after(ended)),
            Reading::Json(_) => Err(lost()),
        }
    }

    /// Receives the notifications of a legacy server on a GET stream, until that ends.
    pub(crate) async fn open_notification_stream(&self, protocol: &Protocol) -> Result<(), LinkError> {
        let get = self.with_headers(self.inner.client.get(self.inner.url.clone()), protocol);
        let response = self.accepted(self.send(get).await?).await?;
        if let Reading::Events(mut stream) = Reading::of(response, process_budget(), self.inner.limit)? {
            self.inner.inbox.start_listening();
            stream.drain(self, protocol).await?;
        }
        Ok(())
    }

    /// Sends a notification or an answer in the background; drops it if too many wait because the server does not take them.
    pub(crate) fn notify(&self, protocol: &Protocol, message: &Value) {
        let Ok(place) = Arc::clone(&self.inner.queued).try_acquire_owned() else {
            tracing::debug!(url = %self.inner.url.origin().ascii_serialization(), "a notification is dropped");
            return;
        };
        let (link, protocol, text) = (self.clone(), protocol.clone(), message.to_string());
        tokio::spawn(async move {
            let _place = place;
            let Ok(Ok(_turn)) = timeout(NOTIFICATION_TIMEOUT, link.inner.sending.acquire()).await else { return };
            // Boxed, so that a task that waits is small.
            let send = Box::pin(link.send(link.post(&protocol, text.into_bytes())));
            let _ = timeout(NOTIFICATION_TIMEOUT, send).await;
        });
    }

    /// Sends a notification and waits until the server has received it.
    pub(crate) async fn tell(&self, protocol: &Protocol, message: &Value) -> Result<(), LinkError> {
        let post = self.post(protocol, message.to_string().into_bytes());
        let sent = timeout(NOTIFICATION_TIMEOUT, self.send(post)).await;
        let response = sent.map_err(|_| LinkError::Protocol("sending a notification timed out".to_owned()))?;
        self.accepted(response?).await.map(drop)
    }

    /// Sends a request with the token of the login, if there is one; once more with another token if the server refuses
    /// it, which means that it did not execute the request.
    async fn send(&self, request: RequestBuilder) -> Result<Response, LinkError> {
        let Some(authorizer) = &self.inner.authorizer else { return request.send().await.map_err(unreachable) };
        let sent = authorizer.access_token().await.map_err(LinkError::Auth)?;
        let again = request.try_clone();
        let response = with_token(request, sent.as_ref()).send().await.map_err(unreachable)?;
        let Some(challenge) = challenge_of(&response) else { return Ok(response) };
        drop(response);
        match authorizer.after_refusal(sent.as_ref(), &challenge).await.map_err(LinkError::Auth)? {
            Retry::AfterLogin(error) => Err(LinkError::Auth(error)),
            Retry::With(token) => {
                let Some(again) = again else {
                    return Err(LinkError::Protocol("a request can't be repeated".to_owned()));
                };
                let response = with_token(again, Some(&token)).send().await.map_err(unreachable)?;
                match challenge_of(&response) {
                    Some(challenge) => Err(LinkError::Auth(authorizer.after_second_refusal(&token, challenge).await)),
                    None => Ok(response),
                }
            }
        }
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&self) -> Arc<Closing> {
        let mut closed = self.inner.closed.subscribe();
        let closing = closed.wait_for(Option::is_some).await.ok().and_then(|closing| closing.clone());
        closing.unwrap_or_else(|| closing_of("the connection is closed"))
    }

    /// Ends the session at the server, if there is one, and closes the connection.
    pub(crate) async fn shut_down(&self, protocol: &Protocol) {
        if self.session().is_some() {
            let delete = self.with_headers(self.inner.client.delete(self.inner.url.clone()), protocol);
            let _ = timeout(Duration::from_secs(1), self.send(delete)).await;
        }
        self.close(closing_of("stopped by toolgate"));
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.closed.borrow().is_some()
    }

    fn close(&self, closing: Arc<Closing>) {
        self.inner.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(closing);
            first
        });
    }

    fn post(&self, protocol: &Protocol, body: Vec<u8>) -> RequestBuilder {
        let post = self.inner.client.post(self.inner.url.clone()).header(CONTENT_TYPE, JSON);
        self.with_headers(post, protocol).body(body)
    }

    /// The headers of every request.
    fn with_headers(&self, request: RequestBuilder, protocol: &Protocol) -> RequestBuilder {
        let accepted = [JSON, EVENT_STREAM].join(", ");
        let request = request.headers(self.inner.headers.clone()).header(ACCEPT, accepted);
        let request = match protocol {
            Protocol::Handshake => return request,
            Protocol::Legacy(version) => request.header(HEADER_PROTOCOL_VERSION, version),
            Protocol::Modern => return request.header(HEADER_PROTOCOL_VERSION, MODERN),
        };
        match self.session() {
            Some(session) => request.header(HEADER_SESSION_ID, session),
            None => request,
        }
    }

    /// The response if its status is a success, else the reason.
    async fn accepted(&self, response: Response) -> Result<Response, LinkError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let in_session = self.session().is_some();
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(LinkError::SessionExpired);
        }
        match body::refusal(response, &self.inner.redactor).await {
            // Servers built on older versions of the TypeScript SDK send this instead of 404.
            LinkError::Rejected(error) if in_session && status == StatusCode::BAD_REQUEST && error.code == -32000 => {
                Err(LinkError::SessionExpired)
            }
            refusal => Err(refusal),
        }
    }

    fn keep_session(&self, response: &Response) {
        let session = response.headers().get(HEADER_SESSION_ID).cloned();
        *self.inner.session.lock() = session;
    }

    fn session(&self) -> Option<HeaderValue> {
        self.inner.session.lock().clone()
    }

    fn inbox(&self) -> &Inbox {
        &self.inner.inbox
    }
}

/// A request that waits for its reply; dropping it before cancels the request at the server.
struct PendingRequest<'a> {
    link: &'a HttpLink,
    request: &'a OutgoingRequest,
    answered: bool,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let cancelled_by_close = self.request.protocol == Protocol::Modern;
        if !self.answered && !cancelled_by_close && self.request.is_cancellable() {
            self.link.notify(&self.request.protocol, &rpc::cancelled(self.request.id));
        }
    }
}

fn with_token(request: RequestBuilder, token: Option<&SecretText>) -> RequestBuilder {
    match token.and_then(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()) {
        Some(mut value) => {
            value.set_sensitive(true);
            request.header(AUTHORIZATION, value)
        }
        None => request,
    }
}

/// The challenge of a response that refuses the token.
fn challenge_of(response: &Response) -> Option<Challenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE);
    let challenge = Challenge::of_headers(headers.iter().filter_map(|header| header.to_str().ok()));
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(challenge),
        StatusCode::FORBIDDEN => Some(challenge).filter(Challenge::is_insufficient_scope),
        _ => None,
    }
}

fn closing_of(reason: &str) -> Arc<Closing> {
    Arc::new(Closing { reason: reason.to_owned(), stderr: String::new(), is_expected: false })
}

fn expired() -> Arc<Closing> {
    Arc::new(Closing { reason: "the session expired".to_owned(), stderr: String::new(), is_expected: true })
}

/// An error before the response: either nothing was sent, or it is unknown whether the request was executed.
fn unreachable(error: reqwest::Error) -> LinkError {
    let reason = describe(&error);
    if error.is_connect() || error.is_builder() {
        LinkError::Unreachable(reason)
    } else {
        LinkError::Closed { closing: closing_of(&reason), sent: true }
    }
}

/// The innermost cause: the outer ones repeat the URL, which may contain a secret.
fn describe(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be made".to_owned() };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Headers that the client sets itself: a configured value could contradict the body.
const RESERVED_HEADERS: [&str; 8] = [
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
        if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let header = HeaderName::try_from(name.as_str()).map_err(|_| format!("not a header name: {name}"))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is not a valid header value"))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

fn client() -> Result<Client, String> {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(same_origin())
        .build()
        .map_err(|error| format!("no HTTP client: {error}"))
}

/// Follows redirects within the origin only: others would send the configured headers to another server, or drop the body.
fn same_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_body && stays && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
    })
}
