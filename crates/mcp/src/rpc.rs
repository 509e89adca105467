//! JSON-RPC as it is on the wire, untyped.
//!
//! Results stay raw values. A decoder that guesses a result's type from its keys loses data: a
//! tool result with a top-level `tools` key would pass for a list of tools. Here the request
//! that is answered says what the answer is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

/// How a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// Why, for a reader.
    pub reason: String,
    /// The end of a child's standard error.
    pub stderr: String,
    /// Whether the other side is well, so that there is no reason to pause before coming back.
    pub is_formal: bool,
}

/// Why a request got no result.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkError {
    /// The connection is gone; `sent` says whether the request may have gone out before.
    Closed {
        /// How it ended.
        closing: Arc<Closing>,
        /// Whether the request may have gone out.
        sent: bool,
    },
    /// The request never left.
    Unreachable(String),
    /// The server forgot our session; the request was not served.
    SessionExpired,
    /// The server answered with an error.
    Rejected(RpcError),
    /// The server refused at the HTTP level.
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// The answer was larger than allowed.
    TooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// The answer could not be read.
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
            Self::TooLarge { limit } => write!(f, "the answer is larger than {limit} bytes"),
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
    /// What came with it.
    pub data: Option<Value>,
}

impl RpcError {
    fn read(error: Value) -> Self {
        let Value::Object(mut error) = error else {
            return Self { code: 0, message: error.to_string(), data: None };
        };
        let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
        Self { code, message, data: error.shift_remove("data") }
    }
}

/// One message from the other side, by what it asks of us.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// An answer. Without an id only when the server could not read ours.
    Reply {
        /// The request that it answers.
        id: Option<u64>,
        /// Its result or error.
        outcome: Result<Value, RpcError>,
    },
    /// A question to us.
    Request {
        /// Its id, of any type.
        id: Value,
        /// Its method.
        method: String,
    },
    /// Something to know.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// JSON, but no message.
    Nonsense,
}

/// Sorts one decoded message.
pub fn sort(message: Value) -> Incoming {
    let Value::Object(mut message) = message else { return Incoming::Nonsense };
    let id = message.shift_remove("id");
    match message.shift_remove("method") {
        Some(Value::String(method)) => match id {
            Some(id) if !id.is_null() => Incoming::Request { id, method },
            _ => Incoming::Notification { method, params: message.shift_remove("params").unwrap_or_default() },
        },
        Some(_) => Incoming::Nonsense,
        None => reply(id, message),
    }
}

fn reply(id: Option<Value>, mut message: Map<String, Value>) -> Incoming {
    let id = id.as_ref().and_then(number);
    match (message.shift_remove("error"), message.shift_remove("result")) {
        (None | Some(Value::Null), Some(result)) => Incoming::Reply { id, outcome: Ok(result) },
        (Some(error), _) => Incoming::Reply { id, outcome: Err(RpcError::read(error)) },
        (None, None) => Incoming::Nonsense,
    }
}

/// Our ids are numbers; some servers turn them into strings on the way back.
/// An id of ours, however it came back.
pub fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str().and_then(|text| text.parse().ok()))
}

/// One request of ours.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Unique on its connection.
    pub id: u64,
    /// The method.
    pub method: &'static str,
    /// The parameters.
    pub params: Map<String, Value>,
    /// The revision the request is written in.
    pub protocol: Protocol,
    /// Headers that repeat parts of the request, for servers reached by HTTP.
    pub headers: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Frame<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Map<String, Value>,
}

/// The revision a request is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// Before a revision is agreed on.
    Opening,
    /// A session of the older family, at this revision.
    Legacy(String),
    /// Stateless.
    Modern,
}

impl Outgoing {
    /// The request as text; maps with string keys always have one.
    pub fn encode(&self) -> Vec<u8> {
        let frame = Frame { jsonrpc: "2.0", id: self.id, method: self.method, params: &self.params };
        serde_json::to_vec(&frame).unwrap_or_default()
    }

    /// Whether the server should hear that nobody waits any more. Not for the opening words, which
    /// some servers take as the first message of a session whatever they say, nor for probes.
    pub fn is_cancellable(&self) -> bool {
        !matches!(self.method, "initialize" | "server/discover" | "ping")
    }
}

/// A notification of ours.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The word that nobody waits for the request any more.
pub fn cancelled(id: u64) -> Value {
    notification("notifications/cancelled", json!({ "requestId": id, "reason": "the caller no longer waits" }))
}

/// The requests that wait for an answer on one connection.
#[derive(Debug, Default)]
pub struct Pending(Mutex<Table>);

type Outcome = Result<Value, LinkError>;

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    closed: Option<Arc<Closing>>,
}

impl Pending {
    /// Expects an answer to `id`.
    pub fn open(&self, id: u64) -> Result<oneshot::Receiver<Outcome>, LinkError> {
        let mut table = self.lock();
        if let Some(closing) = &table.closed {
            return Err(LinkError::Closed { closing: Arc::clone(closing), sent: false });
        }
        let (answer, wait) = oneshot::channel();
        table.waiting.insert(id, answer);
        Ok(wait)
    }

    /// Delivers an answer; false if nobody waits for it.
    pub fn settle(&self, id: u64, outcome: Outcome) -> bool {
        let waiter = self.lock().waiting.remove(&id);
        waiter.is_some_and(|waiter| waiter.send(outcome).is_ok())
    }

    /// Delivers an answer that names no request: clear only while exactly one is open.
    pub fn settle_the_only_one(&self, outcome: Outcome) -> bool {
        let only = {
            let table = self.lock();
            let mut ids = table.waiting.keys();
            ids.next().copied().filter(|_| ids.next().is_none())
        };
        only.is_some_and(|id| self.settle(id, outcome))
    }

    /// Fails everything that waits, but keeps the connection.
    pub fn fail_all(&self, error: &LinkError) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for waiter in waiting.into_values() {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// No longer expects an answer to `id`.
    pub fn forget(&self, id: u64) {
        self.lock().waiting.remove(&id);
    }

    /// Fails everything that waits and everything to come.
    pub fn close(&self, closing: &Arc<Closing>) {
        self.lock().closed = Some(Arc::clone(closing));
        self.fail_all(&LinkError::Closed { closing: Arc::clone(closing), sent: true });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: Value, expected: Incoming) {
        assert_eq!(sort(message), expected);
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
    fn a_method_with_an_id_is_a_question() {
        check(json!({ "id": "q", "method": "ping" }), Incoming::Request { id: json!("q"), method: "ping".to_owned() });
        check(
            json!({ "id": null, "method": "news" }),
            Incoming::Notification { method: "news".to_owned(), params: Value::Null },
        );
    }

    #[test]
    fn what_is_no_message_is_nonsense() {
        for nonsense in [json!(1), json!("hi"), json!({}), json!({ "id": 1 }), json!({ "method": 1 })] {
            check(nonsense, Incoming::Nonsense);
        }
    }

    #[tokio::test]
    async fn an_answer_is_delivered_once() {
        let pending = Pending::default();
        let wait = pending.open(1).unwrap();
        assert!(pending.settle(1, Ok(json!("first"))));
        assert!(!pending.settle(1, Ok(json!("second"))));
        assert_eq!(wait.await.unwrap(), Ok(json!("first")));
    }

    #[test]
    fn an_answer_without_an_id_is_taken_only_when_it_is_clear_whose_it_is() {
        let pending = Pending::default();
        let _one = pending.open(1).unwrap();
        let _two = pending.open(2).unwrap();
        assert!(!pending.settle_the_only_one(Ok(Value::Null)));
        pending.forget(2);
        assert!(pending.settle_the_only_one(Ok(Value::Null)));
    }
}
