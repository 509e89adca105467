//! JSON-RPC messages from clients.
//!
//! Checks the envelope only; parameters stay raw JSON and are read by the handlers.

use crate::json_text::{NotJson, TreeError};
use crate::protocol::ErrorCode;
use serde_json::{Map, Value};
use toolgate_wire::OverBudget;
use toolgate_wire::foreign_text::clipped;

pub(super) use crate::rpc::RpcError;

/// The most bytes of a request id, and of a progress token: replies and notifications repeat them, and no budget counts them there.
pub(super) const MAX_ID_BYTES: usize = 1024;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// A string or a number; the reply repeats it unchanged.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

impl Request {
    /// The `_meta` of the parameters.
    pub(super) fn meta(&self) -> Option<&Map<String, Value>> {
        self.params.get("_meta")?.as_object()
    }

    /// A string among the parameters.
    pub(super) fn text(&self, key: &str) -> Result<&str, RpcError> {
        let found = self.params.get(key).and_then(Value::as_str);
        found.ok_or_else(|| invalid_params(format!("{} needs a string `{key}`", self.method)))
    }

    /// An object among the parameters; empty if absent.
    pub(super) fn object(&self, key: &str) -> Result<Map<String, Value>, RpcError> {
        match self.params.get(key) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(invalid_params(format!("`{key}` of {} is not an object", self.method))),
        }
    }
}

/// A message from a client, by its kind.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Request(Request),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// A reply to a request of this server: its result, or nothing where the client refused.
    Reply {
        id: Value,
        result: Option<Value>,
    },
    /// Not a JSON-RPC message; `id` is null where none could be read.
    Malformed {
        id: Value,
        error: RpcError,
    },
}

impl Message {
    pub(crate) fn read(message: Value) -> Self {
        let Value::Object(mut message) = message else { return malformed(Value::Null, "a message must be an object") };
        let id = message.shift_remove("id");
        let echo = id.clone().filter(is_id).unwrap_or_default();
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return malformed(echo, "`jsonrpc` is not \"2.0\"");
        }
        let method = match message.shift_remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return malformed(echo, "`method` is not a string"),
            None if message.contains_key("result") || message.contains_key("error") => {
                return Self::Reply { id: echo, result: message.shift_remove("result") };
            }
            None => return malformed(echo, "the message has no method"),
        };
        let params = match message.shift_remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Self::Malformed { id: echo, error: invalid_params("`params` is not an object") },
        };
        match id {
            None => Self::Notification { method, params },
            Some(id) if is_id(&id) => Self::Request(Request { id, method, params }),
            Some(_) => malformed(Value::Null, "`id` is neither a number nor a string of at most 1024 bytes"),
        }
    }
}

/// Whether a value may be repeated in messages as a request id or a progress token.
pub(super) fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= MAX_ID_BYTES,
        other => other.is_number(),
    }
}

fn malformed(id: Value, reason: &str) -> Message {
    Message::Malformed { id, error: error(ErrorCode::INVALID_REQUEST, reason) }
}

pub(super) fn error(code: ErrorCode, message: impl Into<String>) -> RpcError {
    RpcError { code: code.0, message: message.into(), data: None }
}

pub(super) fn invalid_params(message: impl Into<String>) -> RpcError {
    error(ErrorCode::INVALID_PARAMS, message)
}

pub(super) fn no_such_method(method: &str) -> RpcError {
    let shown = clipped(method, 100);
    error(ErrorCode::METHOD_NOT_FOUND, format!("no such method: {shown}"))
}

pub(super) fn not_json(error_: &NotJson) -> RpcError {
    error(ErrorCode::PARSE_ERROR, format!("the message is not valid JSON: {error_}"))
}

/// The message is JSON, but does not become a tree.
pub(super) fn no_tree(error_: &TreeError) -> RpcError {
    match error_ {
        TreeError::NotJson(reason) => not_json(reason),
        TreeError::TooManyValues { .. } => {
            error(ErrorCode::INVALID_REQUEST, format!("the message is refused: {error_}"))
        }
        TreeError::OverBudget(refused) => over_budget(refused),
    }
}

/// The message does not fit into the byte budget of its client; it was not executed.
pub(super) fn over_budget(refused: &OverBudget) -> RpcError {
    error(ErrorCode::INTERNAL_ERROR, refused.to_string())
}

pub(super) fn too_large(limit: usize) -> RpcError {
    error(ErrorCode::INVALID_REQUEST, format!("the message is larger than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_code(message: Value, id: Value, code: i64) {
        match Message::read(message.clone()) {
            Message::Malformed { id: found, error } => assert_eq!((found, error.code), (id, code), "{message}"),
            other => panic!("{message}: {other:?}"),
        }
    }

    #[test]
    fn an_id_is_echoed_as_it_came() {
        for id in [json!(1), json!("1"), json!("größe"), json!(-3), json!(1.5)] {
            let Message::Request(request) = Message::read(json!({ "jsonrpc": "2.0", "id": id, "method": "m" })) else {
                panic!("no request");
            };
            assert_eq!(request.id, id);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_where_it_has_one() {
        check_code(json!(1), Value::Null, -32600);
        check_code(json!({ "id": 1, "method": "m" }), json!(1), -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": 1 }), json!(1), -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": 1, "method": 2 }), json!(1), -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": null, "method": "m" }), Value::Null, -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": { "a": 1 }, "method": "m" }), Value::Null, -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": "x".repeat(MAX_ID_BYTES + 1), "method": "m" }), Value::Null, -32600);
        check_code(json!({ "jsonrpc": "2.0", "id": 1, "method": "m", "params": [1] }), json!(1), -32602);
    }

    #[test]
    fn a_message_without_an_id_is_a_notification_and_one_with_a_result_is_a_reply() {
        let read = Message::read(json!({ "jsonrpc": "2.0", "method": "m" }));
        assert_eq!(read, Message::Notification { method: "m".to_owned(), params: Map::new() });
        let reply = Message::read(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
        assert_eq!(reply, Message::Reply { id: json!(1), result: Some(json!({})) });
        let refused = Message::read(json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": 1 } }));
        assert_eq!(refused, Message::Reply { id: json!("a"), result: None });
    }
}
