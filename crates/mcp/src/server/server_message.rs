//! Messages to clients.
//!
//! A message is serialised where it is created, in the task of its request, so that the transports only copy bytes. Knows
//! nothing of methods.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::message::RpcError;
use crate::rpc;

/// A serialised message to a client.
#[derive(Debug, Clone)]
pub(super) struct ServerMessage {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Notification,
    Request,
    Result,
    /// An error with this code.
    Error(i64),
}

impl ServerMessage {
    pub(super) fn notification(method: &str, params: Value) -> Self {
        ServerMessage { text: rpc::notification(method, params).to_string(), kind: Kind::Notification }
    }

    /// A request to the client, whose reply repeats `id`.
    pub(super) fn request(id: &str, method: &str, params: Value) -> Self {
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        ServerMessage { text, kind: Kind::Request }
    }

    /// The reply to request `id`.
    pub(super) fn reply(id: &Value, outcome: Result<Answer, RpcError>) -> Self {
        let jsonrpc = "2.0";
        match outcome {
            Ok(result) => {
                ServerMessage { text: written(&Replied { jsonrpc, id, result: &result }), kind: Kind::Result }
            }
            Err(error) => {
                let text = written(&Refused { jsonrpc, id, error: Reason::of(&error) });
                ServerMessage { text, kind: Kind::Error(error.code) }
            }
        }
    }

    /// One line of JSON, without the newline.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Whether it comes before a reply, as notifications and requests do.
    pub(super) fn precedes_reply(&self) -> bool {
        matches!(self.kind, Kind::Notification | Kind::Request)
    }

    /// The code, if the message is an error reply.
    pub(super) fn code(&self) -> Option<i64> {
        match self.kind {
            Kind::Error(code) => Some(code),
            Kind::Notification | Kind::Request | Kind::Result => None,
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Value(Value),
    /// A page of tools, each serialised in one line, and the members that follow.
    Tools(Vec<Box<RawValue>>, Map<String, Value>),
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Answer::Value(value) => value.serialize(to),
            Answer::Tools(tools, rest) => {
                let mut object = to.serialize_map(Some(1 + rest.len()))?;
                object.serialize_entry("tools", tools)?;
                for (key, value) in rest {
                    object.serialize_entry(key, value)?;
                }
                object.end()
            }
        }
    }
}

#[derive(Serialize)]
struct Replied<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: &'a Answer,
}

#[derive(Serialize)]
struct Refused<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    error: Reason<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Value>,
}

impl<'a> Reason<'a> {
    fn of(RpcError { code, message, data }: &'a RpcError) -> Self {
        Reason { code: *code, message, data: data.as_ref() }
    }
}

/// JSON values always serialise.
fn written(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &ServerMessage, expected: Value) {
        assert_eq!(serde_json::from_str::<Value>(message.text()).unwrap(), expected);
        assert!(!message.text().contains('\n'));
    }

    #[test]
    fn an_answer_is_a_result_or_an_error() {
        let result = ServerMessage::reply(&json!(1), Ok(Answer::Value(json!({ "a": "x\ny" }))));
        check(&result, json!({ "jsonrpc": "2.0", "id": 1, "result": { "a": "x\ny" } }));
        assert_eq!((result.code(), result.precedes_reply()), (None, false));
        let error = |data| RpcError { code: -32602, message: "no".into(), data };
        let rpc_error = ServerMessage::reply(&json!("i"), Err(error(None)));
        check(&rpc_error, json!({ "jsonrpc": "2.0", "id": "i", "error": { "code": -32602, "message": "no" } }));
        assert_eq!(rpc_error.code(), Some(-32602));
        let rpc_error = ServerMessage::reply(&Value::Null, Err(error(Some(json!([1])))));
        let reason = json!({ "code": -32602, "message": "no", "data": [1] });
        check(&rpc_error, json!({ "jsonrpc": "2.0", "id": null, "error": reason }));
    }

    #[test]
    fn a_notification_has_no_id() {
        let message = ServerMessage::notification("notifications/x", json!({ "a": 1 }));
        check(&message, json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "a": 1 } }));
        assert_eq!((message.code(), message.precedes_reply()), (None, true));
    }

    #[test]
    fn a_request_to_a_client_comes_before_the_reply() {
        let message = ServerMessage::request("a1", "elicitation/create", json!({ "message": "who?" }));
        let params = json!({ "message": "who?" });
        check(&message, json!({ "jsonrpc": "2.0", "id": "a1", "method": "elicitation/create", "params": params }));
        assert!(message.precedes_reply());
    }

    #[test]
    fn a_list_of_texts_is_a_list_of_values() {
        let entries = ["{\"name\":\"a\"}", "{}"].map(|text| RawValue::from_string(text.to_owned()).unwrap());
        let rest = json!({ "nextCursor": "x" }).as_object().cloned().unwrap();
        let page = ServerMessage::reply(&json!(1), Ok(Answer::Tools(entries.into(), rest)));
        let result = json!({ "tools": [{ "name": "a" }, {}], "nextCursor": "x" });
        check(&page, json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
    }
}
