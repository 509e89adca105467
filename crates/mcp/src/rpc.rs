//! JSON-RPC messages of the client side, and the requests that wait for a reply.
//!
//! Results stay raw JSON. A decoder that guesses a result's type from its keys loses data: a tool result with a top-level
//! `tools` key would be taken for a list of tools. Here the request determines what its result is. No I/O.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

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
    /// The server violated the protocol.
    Protocol(String),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed { closing, .. } => f.write_str(&closing.reason),
            Self::Unreachable(reason) => write!(f, "can't be reached: {reason}"),
            Self::SessionExpired => f.write_str("the session expired"),
            Self::Rejected(error) => write!(f, "{} (code {})", error.message, error.code),
            Self::Http { status, message } => write!(f, "HTTP {status}: {message}"),
            Self::TooLarge { limit } => write!(f, "the reply is larger than {limit} bytes"),
            Self::Protocol(reason) => f.write_str(reason),
        }
    }
}

/// The error object of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The code, as sent.
    pub code: i64,
    /// The message, as sent.
    pub message: String,
    /// The data, as sent.
    pub data: Option<Value>,
}

impl RpcError {
    fn read(error: Value) -> Self {
        let Value::Object(mut error) = error else {
            return Self { code: 0, message: error.to_string(), data: None };
        };
        let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no error message given").to_owned();
        Self { code, message, data: error.shift_remove("data") }
    }
}

/// A message from the server, by its kind.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// A reply. It has no id only if the server could not read the request.
    Reply {
        /// The id of the request.
        id: Option<u64>,
        /// Its result or error.
        outcome: Result<Value, RpcError>,
    },
    /// A request to this client.
    Request {
        /// Its id, of any type.
        id: Value,
        /// Its method.
        method: String,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// JSON, but not a JSON-RPC message.
    Malformed,
}

/// Classifies a decoded message.
pub(crate) fn classify(message: Value) -> Incoming {
    let Value::Object(mut message) = message else { return Incoming::Malformed };
    let id = message.shift_remove("id");
    match message.shift_remove("method") {
        Some(Value::String(method)) => match id {
            Some(id) if !id.is_null() => Incoming::Request { id, method },
            _ => Incoming::Notification { method, params: message.shift_remove("params").unwrap_or_default() },
        },
        Some(_) => Incoming::Malformed,
        None => reply(id, message),
    }
}

fn reply(id: Option<Value>, mut message: Map<String, Value>) -> Incoming {
    let id = id.as_ref().and_then(request_id);
    match (message.shift_remove("error"), message.shift_remove("result")) {
        (None | Some(Value::Null), Some(result)) => Incoming::Reply { id, outcome: Ok(result) },
        (Some(error), _) => Incoming::Reply { id, outcome: Err(RpcError::read(error)) },
        (None, None) => Incoming::Malformed,
    }
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
    /// The request as JSON text; a map with string keys always serialises.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let frame = Frame { jsonrpc: "2.0", id: self.id, method: self.method, params: &self.params };
        serde_json::to_vec(&frame).unwrap_or_default()
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

type Outcome = Result<Value, LinkError>;

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

    fn check(message: Value, expected: Incoming) {
        assert_eq!(classify(message), expected);
    }

    #[test]
    fn a_result_stays_as_it_came() {
        let result = json!({ "tools": [], "content": [{ "type": "hologram" }] });
        check(
            json!({ "jsonrpc": "2.0", "id": 3, "result": result }),
            Incoming::Reply { id: Some(3), outcome: Ok(result) },
        );
    }

    #[test]
    fn an_id_may_come_back_as_a_string() {
        check(json!({ "id": "3", "result": null }), Incoming::Reply { id: Some(3), outcome: Ok(Value::Null) });
        check(json!({ "id": "x", "result": 1 }), Incoming::Reply { id: None, outcome: Ok(json!(1)) });
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
        check(json!({ "id": "q", "method": "ping" }), Incoming::Request { id: json!("q"), method: "ping".to_owned() });
        check(
            json!({ "id": null, "method": "news" }),
            Incoming::Notification { method: "news".to_owned(), params: Value::Null },
        );
    }

    #[test]
    fn what_is_no_message_is_malformed() {
        for malformed in [json!(1), json!("hi"), json!({}), json!({ "id": 1 }), json!({ "method": 1 })] {
            check(malformed, Incoming::Malformed);
        }
    }

    #[tokio::test]
    async fn an_answer_is_delivered_once() {
        let pending = PendingReplies::default();
        let wait = pending.open(1).unwrap();
        assert!(pending.settle(1, Ok(json!("first"))));
        assert!(!pending.settle(1, Ok(json!("second"))));
        assert_eq!(wait.await.unwrap(), Ok(json!("first")));
    }

    #[test]
    fn a_reply_without_an_id_is_taken_only_while_one_request_waits() {
        let pending = PendingReplies::default();
        let _one = pending.open(1).unwrap();
        let _two = pending.open(2).unwrap();
        assert!(!pending.settle_only_open(Ok(Value::Null)));
        pending.forget(2);
        assert!(pending.settle_only_open(Ok(Value::Null)));
    }
}
