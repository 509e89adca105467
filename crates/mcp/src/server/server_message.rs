//! Messages to clients.
//!
//! A message is serialised where it is created, in the task of its request, so that the transports only copy bytes. Knows
//! nothing of methods.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use toolgate_wire::BytePermit;

use super::message::RpcError;
use crate::json_text::JsonText;
use crate::rpc;

/// A serialised message to a client.
#[derive(Debug)]
pub(super) struct ServerMessage {
    text: String,
    /// The code of an error reply.
    code: Option<i64>,
    /// Counts the text until the client has taken it, if it is large.
    permit: Option<BytePermit>,
}

impl ServerMessage {
    pub(super) fn notification(method: &str, params: Value) -> Self {
        ServerMessage { text: rpc::notification(method, params).to_string(), code: None, permit: None }
    }

    /// A request to the client, whose reply repeats `id`.
    pub(super) fn request(id: &str, method: &str, params: Value) -> Self {
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        ServerMessage { text, code: None, permit: None }
    }

    /// The reply to request `id`.
    pub(super) fn reply(id: &Value, outcome: Result<Answer, RpcError>) -> Self {
        let jsonrpc = "2.0";
        match outcome {
            Ok(Answer::Text(text)) => Self::passed_on(id, text),
            Ok(result) => {
                let text = written(&Replied { jsonrpc, id, result: &result });
                ServerMessage { text, code: None, permit: None }
            }
            Err(error) => {
                let text = written(&Refused { jsonrpc, id, error: Reason::of(&error) });
                ServerMessage { text, code: Some(error.code), permit: None }
            }
        }
    }

    /// A reply around text that stays where it is, so that a large result is not held twice.
    fn passed_on(id: &Value, result: JsonText) -> Self {
        let (mut text, permit) = result.into_parts();
        one_line(&mut text);
        text.insert_str(0, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":"));
        text.push('}');
        ServerMessage { text, code: None, permit: Some(permit) }
    }

    /// The bytes that no permit counts.
    pub(super) fn uncounted(&self) -> usize {
        if self.permit.is_some() { 0 } else { self.text.len() }
    }

    /// The same, counted by a permit.
    pub(super) fn counted_by(self, permit: BytePermit) -> Self {
        Self { permit: Some(permit), ..self }
    }

    /// The same text between others, and the permit that counts it.
    pub(super) fn framed(self, before: &str, after: &str) -> (String, Option<BytePermit>) {
        let mut text = self.text;
        text.insert_str(0, before);
        text.push_str(after);
        (text, self.permit)
    }

    /// One line of JSON, without the newline.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The code, if the message is an error reply.
    pub(super) fn code(&self) -> Option<i64> {
        self.code
    }
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Answer {
    Value(Value),
    /// The text of an object.
    Text(JsonText),
    /// A page of tools, each serialised in one line, and the members that follow.
    Tools(Vec<Box<RawValue>>, Map<String, Value>),
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Answer::Value(value) => value.serialize(to),
            // Written by `passed_on` instead.
            Answer::Text(text) => text.as_str().serialize(to),
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

/// Text of one line: between the tokens of JSON a space means what a line break means, and strings have no line breaks.
fn one_line(text: &mut String) {
    if text.contains(['\n', '\r']) {
        let mut bytes = std::mem::take(text).into_bytes();
        bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        *text = String::from_utf8(bytes).unwrap_or_default();
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
        assert_eq!(result.code(), None);
        let error = |data| RpcError { code: -32602, message: "no".into(), data };
        let rpc_error = ServerMessage::reply(&json!("i"), Err(error(None)));
        check(&rpc_error, json!({ "jsonrpc": "2.0", "id": "i", "error": { "code": -32602, "message": "no" } }));
        assert_eq!(rpc_error.code(), Some(-32602));
        let rpc_error = ServerMessage::reply(&Value::Null, Err(error(Some(json!([1])))));
        let reason = json!({ "code": -32602, "message": "no", "data": [1] });
        check(&rpc_error, json!({ "jsonrpc": "2.0", "id": null, "error": reason }));
    }

    #[test]
    fn text_of_several_lines_is_passed_on_in_one() {
        let result = JsonText::of_text("{\n \"a\": [1,\r\n2]\n}");
        let reply = ServerMessage::reply(&json!("i"), Ok(Answer::Text(result)));
        assert_eq!(reply.text(), r#"{"jsonrpc":"2.0","id":"i","result":{  "a": [1,  2] }}"#);
        assert_eq!((reply.code(), reply.uncounted()), (None, 0));
    }

    #[test]
    fn a_notification_has_no_id() {
        let message = ServerMessage::notification("notifications/x", json!({ "a": 1 }));
        check(&message, json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "a": 1 } }));
        assert_eq!(message.code(), None);
    }

    #[test]
    fn a_request_to_a_client_has_an_id() {
        let message = ServerMessage::request("a1", "elicitation/create", json!({ "message": "who?" }));
        let params = json!({ "message": "who?" });
        check(&message, json!({ "jsonrpc": "2.0", "id": "a1", "method": "elicitation/create", "params": params }));
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
