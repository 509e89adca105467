//! JSON-RPC messages of the client side, and the requests that wait for a reply.
//!
//! Messages are read in place and results stay JSON text, which takes no more memory than the message. A decoder that guesses a result's type from its keys loses data: a tool result with a top-level
//! `tools` key would be taken for a list of tools. Here the request determines what its result is. No I/O.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use toolgate_wire::foreign_text::head;
use toolgate_wire::{ByteBudget, BytePermit, OverBudget};

use crate::buffer::{MAX_UNCOUNTED_BYTES, Overflow};
use crate::client::auth::AuthError;
use crate::client::redact::Redactor;
use crate::json_text::{self, JsonText, TreeError};

/// The longest message of an error reply that is kept, in characters.
const MAX_ERROR_CHARS: usize = 64 << 10;

/// The longest id of a server's request as it is written: the answer repeats it, and no budget counts answers.
const MAX_REQUEST_ID_BYTES: usize = 1024;

/// How a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The reason, for people.
    pub reason: String,
    /// The last output of a child process on standard error.
    pub stderr: String,
    /// Whether the end is no sign of trouble (an expired session), so that reconnecting needs no delay.
    pub is_expected: bool,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkError {
    /// The connection is closed; `sent` says whether the request may have been sent before.
    Closed {
        /// How it ended.
        closing: Arc<Closing>,
        /// Whether the request may have been sent.
        sent: bool,
    },
    /// The server could not be reached; the request was not sent.
    Unreachable(String),
    /// The arguments cannot be sent to the server; nothing was.
    InvalidArguments(String),
    /// The server no longer knows the session; the request was not executed.
    SessionExpired,
    /// The server replied with a JSON-RPC error.
    Rejected(RpcError),
    /// The server refused the HTTP request.
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// The reply exceeds the size limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The request or its reply does not fit into a byte budget; `sent` says whether the server has the request.
    OverBudget {
        /// Which budget.
        refused: OverBudget,
        /// Whether the request was sent.
        sent: bool,
    },
    /// The reply has more values than this process reads into memory.
    TooManyValues {
        /// The bound in bytes of memory.
        limit: usize,
    },
    /// There is no token for the server, so the request was not executed.
    Auth(AuthError),
    /// The server violated the protocol.
    Protocol(String),
}

impl LinkError {
    /// Why a reply of a server whose messages have at most `limit` bytes is not kept.
    pub(crate) fn of_reply(reason: Overflow, limit: usize) -> Self {
        match reason {
            Overflow::TooLong => Self::TooLarge { limit },
            Overflow::OverBudget(refused) => Self::OverBudget { refused, sent: true },
        }
    }

    /// The same without configured secrets, which a server may repeat in what it says.
    pub(crate) fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Rejected(error) => Self::Rejected(error.redacted(redactor)),
            Self::InvalidArguments(reason) => Self::InvalidArguments(redactor.redact(&reason)),
            Self::Http { status, message } => Self::Http { status, message: redactor.redact(&message) },
            Self::Unreachable(reason) => Self::Unreachable(redactor.redact(&reason)),
            Self::Protocol(reason) => Self::Protocol(redactor.redact(&reason)),
            Self::Closed { closing, sent } => {
                let Closing { reason, stderr, is_expected } = &*closing;
                let (reason, stderr) = (redactor.redact(reason), redactor.redact(stderr));
                Self::Closed { closing: Arc::new(Closing { reason, stderr, is_expected: *is_expected }), sent }
            }
            Self::Auth(error) => Self::Auth(error.redacted(redactor)),
            Self::SessionExpired | Self::TooLarge { .. } | Self::OverBudget { .. } | Self::TooManyValues { .. } => self,
        }
    }
}

impl From<TreeError> for LinkError {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::NotJson(reason) => Self::Protocol(format!("a reply is not valid JSON: {reason}")),
            TreeError::TooManyValues { limit } => Self::TooManyValues { limit },
            TreeError::OverBudget(refused) => Self::OverBudget { refused, sent: true },
        }
    }
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed { closing, .. } => f.write_str(&closing.reason),
            Self::Unreachable(reason) => write!(f, "can't be reached: {reason}"),
            Self::InvalidArguments(reason) => f.write_str(reason),
            Self::SessionExpired => f.write_str("the session expired"),
            Self::Rejected(error) => write!(f, "{} (code {})", error.message, error.code),
            Self::Http { status, message } => write!(f, "HTTP {status}: {message}"),
            Self::TooLarge { limit } => write!(f, "the reply is larger than {limit} bytes"),
            Self::OverBudget { refused, .. } => refused.fmt(f),
            Self::TooManyValues { limit } => {
                write!(f, "the values of the reply take more than {limit} bytes of memory: ask for less data")
            }
            Self::Auth(error) => error.fmt(f),
            Self::Protocol(reason) => f.write_str(reason),
        }
    }
}

/// The error object of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The code, as sent.
    pub code: i64,
    /// The message.
    pub message: String,
    /// The data.
    pub data: Option<Value>,
}

impl RpcError {
    /// Reads an error of any shape; data that is not small is dropped.
    fn read(error: toolgate_json::Value<'_>) -> Self {
        let clipped = |text: &str| head(text, MAX_ERROR_CHARS).to_owned();
        if error.shape() != toolgate_json::Shape::Object {
            return Self { code: 0, message: clipped(error.text()), data: None };
        }
        let code = error.member("code").and_then(|code| serde_json::from_str(code.text()).ok()).unwrap_or(0);
        let message = error.member("message").filter(|message| message.shape() == toolgate_json::Shape::String);
        let message = message.map(|message| clipped(&toolgate_json::unquote(message.text())));
        let data = error.member("data").and_then(|data| json_text::small_tree(data.text()));
        Self { code, message: message.unwrap_or_else(|| "no error message given".to_owned()), data }
    }

    /// The same without configured secrets, in its data too.
    fn redacted(self, redactor: &Redactor) -> Self {
        let is_cut = self.message.chars().count() >= MAX_ERROR_CHARS;
        let message = if is_cut { redactor.redact_cut(&self.message) } else { redactor.redact(&self.message) };
        Self { code: self.code, message, data: self.data.map(|data| redactor.redact_json(data)) }
    }
}

/// A message from the server, by its kind.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming<'a> {
    /// A reply. It has no id only if the server could not read the request.
    Reply {
        /// The id of the request.
        id: Option<u64>,
        /// The text of its result, or its error.
        outcome: Result<&'a str, RpcError>,
    },
    /// A request to this client.
    Request {
        /// Its id, of any type.
        id: Value,
        /// Its method.
        method: String,
        /// Its parameters, if they are small.
        params: Value,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// JSON, but not a JSON-RPC message that can be answered.
    Malformed,
}

/// Classifies a message.
pub(crate) fn classify(message: toolgate_json::Value<'_>) -> Incoming<'_> {
    json_text::off_runtime(message.len(), || classify_here(message))
}

fn classify_here(message: toolgate_json::Value<'_>) -> Incoming<'_> {
    use toolgate_json::Shape;
    if message.shape() != Shape::Object {
        return Incoming::Malformed;
    }
    let [mut id, mut method, mut params, mut result, mut error] = [None; 5];
    for entry in message.entries() {
        let member = match entry.key.map(toolgate_json::unquote).as_deref() {
            Some("id") => &mut id,
            Some("method") => &mut method,
            Some("params") => &mut params,
            Some("result") => &mut result,
            Some("error") => &mut error,
            _ => continue,
        };
        *member = Some(entry.value);
    }
    let is_given = |value: &toolgate_json::Value<'_>| value.text() != "null";
    let id = id.filter(is_given);
    let is_long = id.is_some_and(|id| id.len() > MAX_REQUEST_ID_BYTES);
    let id = id.filter(|_| !is_long).map(|id| json_text::small_tree(id.text()).unwrap_or_default());
    let Some(method) = method else {
        let id = id.as_ref().and_then(request_id);
        return match (error, result) {
            (Some(error), None) => Incoming::Reply { id, outcome: Err(RpcError::read(error)) },
            (Some(error), Some(_)) if is_given(&error) => Incoming::Reply { id, outcome: Err(RpcError::read(error)) },
            (_, Some(result)) => Incoming::Reply { id, outcome: Ok(result.text()) },
            (None, None) => Incoming::Malformed,
        };
    };
    if method.shape() != Shape::String || is_long {
        return Incoming::Malformed;
    }
    let method = toolgate_json::unquote(method.text()).into_owned();
    let params = params.and_then(|params| json_text::small_tree(params.text())).unwrap_or_default();
    match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    }
}

/// The messages of a text: those of a batch, or the one that it is.
pub(crate) fn messages(text: &JsonText) -> impl Iterator<Item = toolgate_json::Value<'_>> {
    let whole = text.value();
    let is_batch = whole.shape() == toolgate_json::Shape::Array;
    let batch = is_batch.then(|| whole.entries().map(|entry| entry.value));
    batch.into_iter().flatten().chain((!is_batch).then_some(whole))
}

/// The id of a request of this client. They are numbers; some servers send them back as strings.
pub(crate) fn request_id(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str().and_then(|text| text.parse().ok()))
}

/// A request to the server.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingRequest {
    /// Unique per connection.
    pub(crate) id: u64,
    /// The method.
    pub(crate) method: &'static str,
    /// The parameters.
    pub(crate) params: Map<String, Value>,
    /// The revision of the request.
    pub(crate) protocol: Protocol,
    /// Headers that repeat parts of the request, for HTTP.
    pub(crate) headers: Vec<(String, String)>,
    /// Counts the bytes of the request and of its reply.
    pub(crate) budget: ByteBudget,
}

/// An encoded message, and the permit that counts it until it is sent.
#[derive(Debug)]
pub(crate) struct OutgoingText {
    pub(crate) bytes: Vec<u8>,
    pub(crate) permit: BytePermit,
}

impl OutgoingText {
    /// A message of this client's own, or an answer of it: small, because the id of a server's request is bounded.
    pub(crate) fn of(message: &Value) -> Self {
        Self { bytes: message.to_string().into_bytes(), permit: ByteBudget::unlimited().empty_permit() }
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Map<String, Value>,
}

/// The revision of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// `initialize`: no revision is agreed on yet.
    Handshake,
    /// The legacy era, at this revision.
    Legacy(String),
    /// The modern era.
    Modern,
}

impl OutgoingRequest {
    /// The request as JSON text; a map with string keys always serialises. Its parameters are freed.
    pub(crate) async fn encode(&mut self) -> Result<OutgoingText, LinkError> {
        let params = std::mem::take(&mut self.params);
        let frame = Frame { jsonrpc: "2.0", id: self.id, method: self.method, params: &params };
        let mut bytes = serde_json::to_vec(&frame).unwrap_or_default();
        drop(params);
        bytes.shrink_to_fit();
        let counted = if bytes.len() > MAX_UNCOUNTED_BYTES { bytes.len() } else { 0 };
        let permit = self.budget.reserve(counted).await;
        Ok(OutgoingText { bytes, permit: permit.map_err(|refused| LinkError::OverBudget { refused, sent: false })? })
    }

    /// Whether the server is notified when the request is dropped. Not for the handshake, where some servers do not expect a
    /// notification, nor for probes.
    pub(crate) fn is_cancellable(&self) -> bool {
        !matches!(self.method, "initialize" | "server/discover" | "ping")
    }
}

/// A notification to the other side.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The notification that a request is cancelled.
pub(crate) fn cancelled(id: u64) -> Value {
    notification("notifications/cancelled", json!({ "requestId": id, "reason": "the caller no longer waits" }))
}

/// The requests of one connection that wait for a reply.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies(Mutex<Table>);

type Outcome = Result<JsonText, LinkError>;

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    closed: Option<Arc<Closing>>,
}

impl PendingReplies {
    /// Registers request `id` and returns where its reply arrives.
    pub(crate) fn open(&self, id: u64) -> Result<oneshot::Receiver<Outcome>, LinkError> {
        let mut table = self.0.lock();
        if let Some(closing) = &table.closed {
            return Err(LinkError::Closed { closing: Arc::clone(closing), sent: false });
        }
        let (answer, wait) = oneshot::channel();
        table.waiting.insert(id, answer);
        Ok(wait)
    }

    /// Delivers a reply; false if the request is not waiting.
    pub(crate) fn settle(&self, id: u64, outcome: Outcome) -> bool {
        let waiter = self.0.lock().waiting.remove(&id);
        waiter.is_some_and(|waiter| waiter.send(outcome).is_ok())
    }

    /// Delivers a reply without an id, if exactly one request is waiting.
    pub(crate) fn settle_only_open(&self, outcome: Outcome) -> bool {
        let only = {
            let table = self.0.lock();
            let mut ids = table.waiting.keys();
            ids.next().copied().filter(|_| ids.next().is_none())
        };
        only.is_some_and(|id| self.settle(id, outcome))
    }

    /// Fails all waiting requests; the connection stays open.
    pub(crate) fn fail_all(&self, error: &LinkError) {
        let waiting = std::mem::take(&mut self.0.lock().waiting);
        for waiter in waiting.into_values() {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Removes request `id`.
    pub(crate) fn forget(&self, id: u64) {
        self.0.lock().waiting.remove(&id);
    }

    /// Fails all waiting requests and all later ones.
    pub(crate) fn close(&self, closing: &Arc<Closing>) {
        self.0.lock().closed = Some(Arc::clone(closing));
        self.fail_all(&LinkError::Closed { closing: Arc::clone(closing), sent: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: Value, expected: Incoming<'_>) {
        assert_eq!(classify(JsonText::of(&message).value()), expected);
    }

    fn text(value: Value) -> Outcome {
        Ok(JsonText::of(&value))
    }

    #[test]
    fn a_result_stays_as_it_came() {
        let result = json!({ "tools": [], "content": [{ "type": "hologram" }] });
        check(
            json!({ "jsonrpc": "2.0", "id": 3, "result": result }),
            Incoming::Reply { id: Some(3), outcome: Ok(&result.to_string()) },
        );
    }

    #[test]
    fn an_id_may_come_back_as_a_string() {
        check(json!({ "id": "3", "result": null }), Incoming::Reply { id: Some(3), outcome: Ok("null") });
        check(json!({ "id": "x", "result": 1 }), Incoming::Reply { id: None, outcome: Ok("1") });
    }

    #[test]
    fn an_error_wins_over_a_result() {
        let error = RpcError { code: -32601, message: "no".to_owned(), data: Some(json!(1)) };
        check(
            json!({ "id": 1, "result": {}, "error": { "code": -32601, "message": "no", "data": 1 } }),
            Incoming::Reply { id: Some(1), outcome: Err(error) },
        );
    }

    #[test]
    fn an_error_of_any_shape_is_an_error() {
        let error = RpcError { code: 0, message: "\"broken\"".to_owned(), data: None };
        check(json!({ "id": 1, "error": "broken" }), Incoming::Reply { id: Some(1), outcome: Err(error) });
    }

    #[test]
    fn a_method_with_an_id_is_a_request() {
        let request = |params| Incoming::Request { id: json!("q"), method: "ping".to_owned(), params };
        check(json!({ "id": "q", "method": "ping" }), request(Value::Null));
        check(json!({ "id": "q", "method": "ping", "params": { "a": 1 } }), request(json!({ "a": 1 })));
        check(
            json!({ "id": null, "method": "news" }),
            Incoming::Notification { method: "news".to_owned(), params: Value::Null },
        );
    }

    #[test]
    fn a_request_whose_id_the_answer_could_not_repeat_is_malformed() {
        let request = |length: usize| json!({ "id": "x".repeat(length), "method": "ping" });
        let longest = MAX_REQUEST_ID_BYTES - 2;
        let id = json!("x".repeat(longest));
        check(request(longest), Incoming::Request { id, method: "ping".to_owned(), params: Value::Null });
        check(request(longest + 1), Incoming::Malformed);
        check(json!({ "id": vec![1; MAX_REQUEST_ID_BYTES], "method": "ping" }), Incoming::Malformed);
        check(json!({ "id": "x".repeat(2_000), "result": 1 }), Incoming::Reply { id: None, outcome: Ok("1") });
    }

    #[test]
    fn what_is_no_message_is_malformed() {
        for malformed in [json!(1), json!("hi"), json!({}), json!({ "id": 1 }), json!({ "method": 1 })] {
            check(malformed, Incoming::Malformed);
        }
    }

    #[test]
    fn the_data_of_an_error_is_kept_while_it_is_small() {
        let error = json!({ "code": 5, "message": "m".repeat(MAX_ERROR_CHARS + 9), "data": vec![1; 1_000_000] });
        let read = RpcError::read(JsonText::of(&error).value());
        assert_eq!((read.code, read.message.len(), read.data), (5, MAX_ERROR_CHARS, None));
    }

    #[test]
    fn a_batch_is_its_messages() {
        let count = |text: Value| messages(&JsonText::of(&text)).count();
        assert_eq!((count(json!([{}, 1])), count(json!({})), count(json!([]))), (2, 1, 0));
    }

    #[tokio::test]
    async fn an_answer_is_delivered_once() {
        let pending = PendingReplies::default();
        let wait = pending.open(1).unwrap();
        assert!(pending.settle(1, text(json!("first"))));
        assert!(!pending.settle(1, text(json!("second"))));
        assert_eq!(wait.await.unwrap(), text(json!("first")));
    }

    #[test]
    fn a_reply_without_an_id_is_taken_only_while_one_request_waits() {
        let pending = PendingReplies::default();
        let _one = pending.open(1).unwrap();
        let _two = pending.open(2).unwrap();
        assert!(!pending.settle_only_open(text(Value::Null)));
        pending.forget(2);
        assert!(pending.settle_only_open(text(Value::Null)));
    }
}
