//! What is answered to what, over HTTP.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use toolgate_mcp::server::{RequestScope, ToolMode};

use crate::peer::{Ask, Host, MODERN, assert_fits, initialize, modern, notification, request};
use crate::service::{Sample, odd_result};

async fn host() -> Host {
    Host::start(Sample::new()).await
}

fn refused(code: i64) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "*" } })
}

async fn check(ask: Ask, status: u16, expected: Value) {
    let answer = ask.send().await;
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_fits(&answer.json(), &expected);
}

#[tokio::test]
async fn a_legacy_session_lasts_from_initialize_to_delete() {
    let host = host().await;
    let greeting = host.post(&initialize("2025-06-18")).send().await;
    assert_fits(&greeting.json(), &json!({ "id": "hello", "result": { "protocolVersion": "2025-06-18" } }));
    let name = greeting.header("mcp-session-id").unwrap();
    assert!(name.len() >= 32 && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
    let initialized = host.post(&notification("notifications/initialized", json!({}))).session(&name).send().await;
    assert_eq!((initialized.status, initialized.body.as_str()), (202, ""));
    let list = || host.post(&request(1, "tools/list", json!({})));
    check(list().session(&name), 200, json!({ "id": 1, "result": { "tools": "*", "resultType": null } })).await;
    assert_eq!(host.ask("DELETE").session(&name).send().await.status, 204);
    check(list().session(&name), 404, refused(-32001)).await;
    check(list(), 400, refused(-32600)).await;
    check(list().session("guessed"), 404, refused(-32001)).await;
    assert_eq!(host.ask("DELETE").session(&name).send().await.status, 404);
}

#[tokio::test]
async fn a_modern_client_needs_no_session() {
    let host = host().await;
    let found = json!({ "id": 1, "result": { "supportedVersions": [MODERN], "resultType": "complete" } });
    check(host.post_modern(&modern(1, "server/discover", json!({}))), 200, found).await;
    let answer = host.post_modern(&modern(1, "tools/call", json!({ "name": "odd" }))).send().await;
    let mut expected = odd_result();
    expected["resultType"] = json!("complete");
    assert_eq!(answer.json()["result"].to_string(), expected.to_string());
    assert_eq!(answer.header("mcp-session-id"), None);
}

#[tokio::test]
async fn some_errors_have_an_http_status_for_modern_clients() {
    let host = host().await;
    for method in ["no/such", "initialize", "ping", "logging/setLevel", "prompts/list"] {
        check(host.post_modern(&modern(1, method, json!({}))), 404, refused(-32601)).await;
    }
    check(host.post_modern(&modern(1, "tools/call", json!({ "name": "no" }))), 200, refused(-32602)).await;
    check(host.post_modern(&request(1, "tools/list", json!({}))), 400, refused(-32602)).await;
    let mut future = modern(1, "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let ask = host.post(&future).header("mcp-protocol-version", "2099-01-01").header("mcp-method", "tools/list");
    check(ask, 400, refused(-32022)).await;
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let host = host().await;
    let list = modern(1, "tools/list", json!({}));
    let call = |arguments: Value| modern(1, "tools/call", json!({ "name": "odd", "arguments": arguments }));
    let modern_version = |body: &Value| host.post(body).header("mcp-protocol-version", MODERN);
    for ask in [
        host.post(&list),
        host.post(&list).header("mcp-protocol-version", "2025-11-25").header("mcp-method", "tools/list"),
        modern_version(&list),
        modern_version(&list).header("mcp-method", "tools/call"),
        host.post_modern(&list).header("mcp-method", "tools/list"),
        modern_version(&call(json!({}))).header("mcp-method", "tools/call"),
        modern_version(&call(json!({}))).header("mcp-method", "tools/call").header("mcp-name", "hang"),
        host.post_modern(&call(json!({ "region": "eu" }))),
        host.post_modern(&call(json!({ "region": "eu" }))).header("mcp-param-region", "us"),
        host.post_modern(&call(json!({}))).header("mcp-param-region", "us"),
    ] {
        check(ask, 400, refused(-32020)).await;
    }
    let encoded =
        host.post_modern(&call(json!({ "region": "größe" }))).header("mcp-param-region", "=?base64?Z3LDtsOfZQ==?=");
    check(encoded, 200, json!({ "result": "*" })).await;
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused() {
    let host = host().await;
    let discover = modern(1, "server/discover", json!({}));
    let own = format!("http://{}", host.address);
    check(host.post_modern(&discover).header("origin", &own), 200, json!({ "result": "*" })).await;
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "127.0.0.1.evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ] {
        assert_eq!(host.post_modern(&discover).header(name, value).send().await.status, 403, "{name} {value}");
        assert_eq!(host.ask("GET").header(name, value).send().await.status, 403, "{name} {value}");
        assert_eq!(host.ask("DELETE").header(name, value).send().await.status, 403, "{name} {value}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let host = host().await;
    let mut broken = host.post(&json!(null));
    for (body, code) in [(json!(7), -32600), (json!({ "jsonrpc": "2.0", "id": 1 }), -32600)] {
        assert_eq!(host.post(&body).send().await.json()["error"]["code"], json!(code));
    }
    broken = broken.header("content-type", "text/plain");
    assert_eq!(broken.send().await.status, 415);
    let unreadable = host.post(&modern(1, "tools/list", json!({}))).header("accept", "text/html");
    assert_eq!(unreadable.send().await.status, 406);
    assert_eq!(host.ask("PUT").send().await.status, 405);
    assert_eq!(host.ask("GET").header("mcp-protocol-version", MODERN).send().await.status, 405);
    assert_eq!(host.ask("GET").send().await.status, 400);
    let session = host.session().await;
    let unknown =
        host.post(&request(1, "ping", json!({}))).session(&session).header("mcp-protocol-version", "1999-01-01");
    check(unknown, 400, refused(-32602)).await;
}

#[tokio::test]
async fn a_message_of_20_mib_is_refused_and_the_next_one_served() {
    let host = host().await;
    let large = modern(1, "tools/call", json!({ "name": "odd", "arguments": { "text": "x".repeat(20 << 20) } }));
    let reason = "the message is larger than 16777216 bytes";
    check(host.post_modern(&large), 413, json!({ "error": { "code": -32600, "message": reason } })).await;
    check(host.post_modern(&modern(1, "tools/list", json!({}))), 200, json!({ "result": "*" })).await;
}

#[tokio::test]
async fn the_mode_is_chosen_in_the_query() {
    let host = host().await;
    for (path, name) in
        [("/mcp", "code1"), ("/mcp?mode=code", "code1"), ("/mcp?mode=direct", "direct1"), ("/mcp?mode=both", "both1")]
    {
        let expected = json!({ "result": { "tools": ["*", { "name": name }, "*"] } });
        check(host.post_modern(&modern(1, "tools/list", json!({}))).path(path), 200, expected).await;
    }
    let wrong = host.post_modern(&modern(1, "tools/list", json!({}))).path("/mcp?mode=neither");
    assert_eq!(wrong.send().await.status, 400);
}

/// Stands in for an authenticating layer: puts the scope of a known key into the request.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let mode = match request.headers().get("authorization").and_then(|value| value.to_str().ok()) {
        Some("Bearer one") => ToolMode::Code,
        Some("Bearer two") => ToolMode::Direct,
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    request.extensions_mut().insert(RequestScope { mode, ..RequestScope::default() });
    next.run(request).await
}

#[tokio::test]
async fn a_layer_in_front_decides_the_scope_of_every_request() {
    let host = Host::start_behind(Sample::new(), |router| router.layer(from_fn(authenticate))).await;
    let list = modern(1, "tools/list", json!({}));
    assert_eq!(host.post_modern(&list).send().await.status, 401);
    for (key, name) in [("Bearer one", "code1"), ("Bearer two", "direct1")] {
        let expected = json!({ "result": { "tools": ["*", { "name": name }, "*"] } });
        check(host.post_modern(&list).header("authorization", key), 200, expected).await;
    }
    let greeting = host.post(&initialize("2025-11-25")).header("authorization", "Bearer one").send().await;
    let name = greeting.header("mcp-session-id").unwrap();
    let ping = || host.post(&request(1, "ping", json!({}))).session(&name);
    check(ping().header("authorization", "Bearer one"), 200, json!({ "result": {} })).await;
    check(ping().header("authorization", "Bearer two"), 404, refused(-32001)).await;
    assert_eq!(ping().send().await.status, 401);
}

#[tokio::test]
async fn a_batch_of_a_legacy_client_has_one_response() {
    let host = host().await;
    let session = host.session().await;
    let batch =
        json!([request(1, "ping", json!({})), notification("notifications/x", json!({})), request(2, "no", json!({}))]);
    let answer = host.post(&batch).session(&session).send().await;
    let mut replies = answer.json().as_array().unwrap().clone();
    replies.sort_by_key(|reply| reply["id"].as_u64());
    assert_fits(&json!(replies), &json!([{ "id": 1, "result": {} }, { "id": 2, "error": { "code": -32601 } }]));
    assert_eq!(host.post(&json!([])).session(&session).send().await.status, 400);
    assert_eq!(host.post(&json!([notification("n", json!({}))])).session(&session).send().await.status, 202);
}
