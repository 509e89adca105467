//! Sends a program at the door that it is for, and gives the report that the answer has, with the value in it.

use std::io::{Error, Result};

use serde_json::{Value, json};

use crate::gateway::{Connection, Files};
use crate::programs::LENT;
use crate::socket::Socket;

/// The revision of MCP that requests at `/mcp` name.
const PROTOCOL: &str = "2026-07-28";

/// Where and how a program is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// A path of the HTTP API.
    Http(&'static str),
    /// A tool at `/mcp`, answered as JSON.
    Mcp(&'static str),
    /// A tool at `/mcp`, answered as a stream of events.
    McpEvents(&'static str),
    /// `call_tool_chain` at `/mcp`, whose result is kept, and then `query_result` over it with this code.
    McpQuery(&'static str),
    /// The WebSocket.
    Socket,
}

impl Door {
    /// The status and the report of a request.
    pub(crate) fn send(self, connection: &mut Connection, files: &Files, body: &Value) -> Result<(u16, Value)> {
        match self {
            Door::Http(path) => connection.post(path, body),
            Door::Mcp(tool) => call(connection, tool, body, "application/json"),
            Door::McpEvents(tool) => call(connection, tool, body, "text/event-stream"),
            Door::McpQuery(code) => query(connection, body, code),
            Door::Socket => Ok((200, by_socket(files, body)?)),
        }
    }
}

/// Calls a tool of the gateway.
fn call(connection: &mut Connection, tool: &str, arguments: &Value, accept: &str) -> Result<(u16, Value)> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "chaos", "version": "1" },
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = format!(
        "Accept: {accept}\r\nMCP-Protocol-Version: {PROTOCOL}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
    );
    let (status, answer) = connection.post_with("/mcp", &request, &headers)?;
    Ok((status, report_of(tool, answer)))
}

/// The report of a result of MCP, with the value that its content is. What has no report, such as a search, is its text.
fn report_of(tool: &str, mut answer: Value) -> Value {
    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str).map(str::to_owned);
    let mut taken = |path: &str| answer.pointer_mut(path).map(Value::take);
    if tool == "run_code"
        && let Some(report) = taken("/result/structuredContent")
    {
        return report;
    }
    let report = taken("/result/_meta/toolgate~1report");
    match (report, text) {
        (Some(mut report), Some(text)) if report.get("ok") == Some(&Value::Bool(true)) => {
            // A text is shown as it is, any other value as JSON.
            report["value"] = serde_json::from_str(&text).unwrap_or(Value::String(text));
            report
        }
        (Some(report), _) => report,
        (None, Some(text)) => json!({ "ok": answer.pointer("/result/isError").is_none(), "value": text }),
        (None, None) => answer,
    }
}

/// Runs a program whose result is too long to be shown, and a function over the result that is kept.
fn query(connection: &mut Connection, body: &Value, code: &str) -> Result<(u16, Value)> {
    let (status, report) = call(connection, "call_tool_chain", body, "application/json")?;
    let Some(id) = report.pointer("/output/result_id").and_then(Value::as_str) else {
        return Ok((status, report));
    };
    call(connection, "query_result", &json!({ "result_id": id, "code": code }), "application/json")
}

/// Runs a program over a WebSocket of its own, and answers its calls of the lent function with twice their argument.
fn by_socket(files: &Files, body: &Value) -> Result<Value> {
    let mut socket = Socket::open(files, "/v1/run/ws")?;
    let mut body = body.clone();
    body["functions"] = json!({ LENT: { "params": { "n": "number" }, "description": "Doubles." } });
    socket.send(&body.to_string())?;
    loop {
        let mut message: Value = serde_json::from_str(&socket.receive()?).map_err(Error::other)?;
        if let Some(report) = message.get_mut("report") {
            return Ok(report.take());
        }
        if message.get("error").is_some() {
            return Ok(message);
        }
        if let Some(call) = message.get("call") {
            let doubled = message.pointer("/args/0").and_then(Value::as_u64).unwrap_or_default() * 2;
            socket.send(&json!({ "call": call, "result": doubled }).to_string())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_mcp_has_its_value() {
        let answer = |text: &str, report: Value| {
            let content = json!([{ "type": "text", "text": text }]);
            json!({ "result": { "content": content, "_meta": { "toolgate/report": report } } })
        };
        let check = |answer: Value, expected: Value| assert_eq!(report_of("call_tool_chain", answer), expected);
        check(answer("{\"a\":1}", json!({ "ok": true })), json!({ "ok": true, "value": { "a": 1 } }));
        check(answer("7-1", json!({ "ok": true })), json!({ "ok": true, "value": "7-1" }));
        let failed = json!({ "ok": false, "code": "TIMEOUT" });
        check(answer("TIMEOUT: it took too long", failed.clone()), failed);
        let found = json!({ "result": { "content": [{ "type": "text", "text": "first.read" }] } });
        check(found, json!({ "ok": true, "value": "first.read" }));
        let refused = json!({ "error": { "code": -32602 } });
        check(refused.clone(), refused);
    }
}
