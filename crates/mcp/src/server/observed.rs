//! What a service is told of each request: its method, its target, its client, and how it ended.
//!
//! Methods have names of a fixed set, so that what is counted by them is bounded whatever clients send. Requests that are refused
//! before they reach the dispatcher (no JSON-RPC, no session, too many in flight) are not told of.

use serde_json::Value;

use super::message::{Request, RpcError};
use super::server_message::Answer;
use crate::origin::{RequestOrigin, TraceContext};

/// The methods that the dispatcher serves.
const METHODS: [&str; 18] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];
/// Stands for every other method.
const OTHER_METHOD: &str = "_OTHER";

/// A request before it is served.
#[derive(Debug, Clone, Copy)]
pub struct BegunRequest<'a> {
    /// Its method; `_OTHER` for one that the server does not have.
    pub method: &'static str,
    /// What it names.
    pub target: Option<RequestTarget<'a>>,
    /// Which client it comes from, and which trace it belongs to.
    pub origin: &'a RequestOrigin,
}

/// What a request names, in the client's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget<'a> {
    /// A tool.
    Tool(&'a str),
    /// A prompt.
    Prompt(&'a str),
    /// The URI of a resource.
    Resource(&'a str),
}

/// How a request ended. One that was cancelled has no end: its record is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// It has a result.
    Completed,
    /// Its result says that the tool failed (`isError`).
    ToolFailed,
    /// A JSON-RPC error with this code.
    Failed(i64),
}

/// A request that is being served.
pub trait RequestRecord: Send {
    /// The trace that requests to servers behind belong to.
    fn trace(&self) -> &TraceContext;

    /// The request has ended.
    fn ended(self: Box<Self>, end: RequestEnd);
}

/// The method of a request as it is counted.
pub(super) fn known_method(method: &str) -> &'static str {
    METHODS.iter().find(|known| **known == method).copied().unwrap_or(OTHER_METHOD)
}

/// What a request names.
pub(super) fn target(request: &Request) -> Option<RequestTarget<'_>> {
    let text = |key: &str| request.params.get(key).and_then(Value::as_str);
    match request.method.as_str() {
        "tools/call" => text("name").map(RequestTarget::Tool),
        "prompts/get" => text("name").map(RequestTarget::Prompt),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text("uri").map(RequestTarget::Resource),
        _ => None,
    }
}

impl RequestEnd {
    /// The end of a request with this method.
    pub(super) fn of(method: &str, outcome: &Result<Answer, RpcError>) -> Self {
        let has_failed = |answer: &Answer| match answer {
            Answer::Value(result) => result.get("isError") == Some(&Value::Bool(true)),
            Answer::Text(result) => result.value().member("isError").is_some_and(|it| it.text() == "true"),
            Answer::Tools(..) => false,
        };
        match outcome {
            Err(error) => Self::Failed(error.code),
            Ok(answer) if method == "tools/call" && has_failed(answer) => Self::ToolFailed,
            Ok(_) => Self::Completed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_text::JsonText;
    use crate::server::message::invalid_params;
    use serde_json::json;

    #[test]
    fn a_method_that_the_server_does_not_have_is_other() {
        assert_eq!(known_method("tools/list"), "tools/list");
        for method in ["tools/list ", "", "a/b", "notifications/initialized"] {
            assert_eq!(known_method(method), "_OTHER");
        }
    }

    fn check(method: &str, params: Value, expected: Option<RequestTarget<'_>>) {
        let params = params.as_object().cloned().unwrap();
        assert_eq!(target(&Request { id: json!(1), method: method.to_owned(), params }), expected);
    }

    #[test]
    fn a_request_names_a_tool_a_prompt_or_a_resource() {
        check("tools/call", json!({ "name": "t" }), Some(RequestTarget::Tool("t")));
        check("tools/call", json!({ "name": 7 }), None);
        check("prompts/get", json!({ "name": "p" }), Some(RequestTarget::Prompt("p")));
        check("resources/read", json!({ "uri": "u:1" }), Some(RequestTarget::Resource("u:1")));
        check("tools/list", json!({ "name": "t" }), None);
    }

    #[test]
    fn a_result_that_says_so_is_a_failed_tool() {
        let failed = json!({ "content": [{ "isError": false }], "isError": true });
        let ends = |answer| RequestEnd::of("tools/call", &Ok(answer));
        assert_eq!(ends(Answer::Value(failed.clone())), RequestEnd::ToolFailed);
        assert_eq!(ends(Answer::Text(JsonText::of(&failed))), RequestEnd::ToolFailed);
        assert_eq!(ends(Answer::Text(JsonText::of(&json!({ "isError": "true" })))), RequestEnd::Completed);
        assert_eq!(RequestEnd::of("prompts/get", &Ok(Answer::Value(failed))), RequestEnd::Completed);
        assert_eq!(RequestEnd::of("tools/call", &Err(invalid_params("x"))), RequestEnd::Failed(-32602));
    }
}
