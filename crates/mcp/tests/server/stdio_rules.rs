//! What is answered to what, over a pipe.

use serde_json::{Value, json};

use crate::peer::{MODERN, Pipe, assert_fits, initialize, modern, notification, request};
use crate::service::{Sample, odd_result};

async fn check_legacy(method: &str, params: Value, expected: Value) {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    assert_fits(&pipe.ask(request(1, method, params)).await, &expected);
}

async fn check_modern(method: &str, params: Value, expected: Value) {
    let mut pipe = Pipe::open(Sample::new());
    assert_fits(&pipe.ask(modern(1, method, params)).await, &expected);
}

fn refused(code: i64) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": null, "error": { "code": code, "message": "*" } })
}

#[tokio::test]
async fn initialize_is_answered_in_the_clients_revision() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let found = Pipe::open(Sample::new()).ask(initialize(asked)).await;
        let expected = json!({ "jsonrpc": "2.0", "id": "hello", "result": {
            "protocolVersion": agreed,
            "capabilities": { "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true } },
            "serverInfo": { "name": "sample", "version": "1" },
            "instructions": "Just ask.",
        } });
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn server_discover_lists_revisions_and_capabilities() {
    let found = Pipe::open(Sample::new()).ask(modern(1, "server/discover", json!({}))).await;
    let expected = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "supportedVersions": [MODERN],
        "capabilities": { "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true } },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "sample", "version": "1" } },
        "instructions": "Just ask.",
        "ttlMs": 5000, "cacheScope": "private", "resultType": "complete",
    } });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn replies_to_legacy_requests_have_legacy_fields() {
    let plain = json!({ "id": 1, "result": {} });
    check_legacy("ping", json!({}), plain.clone()).await;
    check_legacy("logging/setLevel", json!({ "level": "debug" }), plain.clone()).await;
    check_legacy("resources/subscribe", json!({ "uri": "sample://a" }), plain.clone()).await;
    check_legacy("resources/unsubscribe", json!({ "uri": "sample://a" }), plain).await;
    let missing = json!({ "error": { "code": -32002, "message": "nothing there", "data": { "uri": "sample://b" } } });
    check_legacy("resources/subscribe", json!({ "uri": "sample://b" }), missing).await;
    let tools =
        json!({ "tools": [{ "name": "odd" }, "*", "*"], "ttlMs": null, "resultType": null, "nextCursor": null });
    check_legacy("tools/list", json!({}), json!({ "result": tools })).await;
    let read = json!({ "contents": [{ "uri": "sample://a", "text": "A" }], "ttlMs": null });
    check_legacy("resources/read", json!({ "uri": "sample://a" }), json!({ "result": read })).await;
    check_legacy("resources/templates/list", json!({}), json!({ "result": { "resourceTemplates": [] } })).await;
}

#[tokio::test]
async fn replies_to_modern_requests_have_modern_fields() {
    let hints = json!({ "ttlMs": 5000, "cacheScope": "private", "resultType": "complete" });
    check_modern("tools/list", json!({}), json!({ "result": hints })).await;
    check_modern("resources/list", json!({}), json!({ "result": hints })).await;
    let read = json!({ "contents": [{ "text": "A" }], "ttlMs": 0, "cacheScope": "private", "resultType": "complete" });
    check_modern("resources/read", json!({ "uri": "sample://a" }), json!({ "result": read })).await;
}

#[tokio::test]
async fn what_is_not_offered_is_an_unknown_method_and_never_an_empty_list() {
    for method in ["prompts/list", "prompts/get", "completion/complete", "tasks/list", "no/such", ""] {
        check_legacy(method, json!({}), refused(-32601)).await;
        check_modern(method, json!({}), refused(-32601)).await;
    }
    for method in ["server/discover", "subscriptions/listen"] {
        check_legacy(method, json!({}), refused(-32601)).await;
    }
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        check_modern(method, json!({ "uri": "sample://a" }), refused(-32601)).await;
    }
}

#[tokio::test]
async fn invalid_parameters_have_their_code() {
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 7 })),
        ("tools/call", json!({ "name": "odd", "arguments": [] })),
        ("tools/call", json!({ "name": "no such tool" })),
        ("tools/list", json!({ "cursor": "mine" })),
        ("resources/read", json!({})),
    ] {
        check_legacy(method, params.clone(), refused(-32602)).await;
        check_modern(method, params, refused(-32602)).await;
    }
    check_modern("subscriptions/listen", json!({}), refused(-32602)).await;
    check_legacy("logging/setLevel", json!({}), refused(-32602)).await;
}

#[tokio::test]
async fn a_missing_resource_has_the_code_of_its_era() {
    let missing = |code: i64| json!({ "error": { "code": code, "data": { "uri": "sample://b" } } });
    check_legacy("resources/read", json!({ "uri": "sample://b" }), missing(-32002)).await;
    check_modern("resources/read", json!({ "uri": "sample://b" }), missing(-32602)).await;
}

#[tokio::test]
async fn a_request_without_a_revision_is_refused_with_what_is_missing() {
    let mut pipe = Pipe::open(Sample::new());
    assert_fits(&pipe.ask(request(1, "tools/list", json!({}))).await, &refused(-32602));
    let mut future = modern(2, "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let unsupported = json!({ "id": 2, "error": { "code": -32022, "data": { "supported": [MODERN] } } });
    assert_fits(&pipe.ask(future).await, &unsupported);
}

#[tokio::test]
async fn a_result_is_unchanged_except_for_the_fields_of_its_era() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    for tool in ["odd", "foreign"] {
        let legacy = pipe.ask(request(1, "tools/call", json!({ "name": tool }))).await;
        assert_eq!(legacy["result"].to_string(), odd_result().to_string());
        let modern = pipe.ask(modern(2, "tools/call", json!({ "name": tool }))).await;
        let mut expected = odd_result();
        expected["resultType"] = json!("complete");
        assert_eq!(modern["result"].to_string(), expected.to_string());
    }
}

#[tokio::test]
async fn arguments_are_unchanged() {
    let arguments =
        json!({ "z": 1, "a": [0.1, 1e300, 18446744073709551615u64, null], "größe": { "b": "\u{0}", "a": "" } });
    let mut pipe = Pipe::legacy(Sample::new()).await;
    let params = json!({ "name": "arguments", "arguments": arguments });
    let found = pipe.ask(request(1, "tools/call", params)).await;
    assert_eq!(found["result"].to_string(), arguments.to_string());
}

#[tokio::test]
async fn an_error_of_a_backend_is_passed_on() {
    let theirs = json!({ "error": { "code": -32077, "message": "theirs", "data": { "a": 1 } } });
    check_legacy("tools/call", json!({ "name": "rejected" }), theirs.clone()).await;
    check_modern("tools/call", json!({ "name": "rejected" }), theirs).await;
}

#[tokio::test]
async fn a_long_list_has_pages_in_one_order() {
    let mut pipe = Pipe::legacy(Sample::with_tools(1203)).await;
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    for pages in 1.. {
        let mut found = pipe.ask(request(1, "tools/list", json!({ "cursor": cursor }))).await;
        let tools = found["result"]["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = found["result"]["nextCursor"].take();
        if cursor.is_null() {
            assert_eq!(pages, 3);
            break;
        }
    }
    assert_eq!(names.len(), 1203);
    assert_eq!(names.last().map(String::as_str), Some("code1202"));
}

#[tokio::test]
async fn an_invalid_message_is_refused_and_the_next_one_served() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    for (line, id, code) in [
        ("{", Value::Null, -32700),
        ("plainly not JSON", Value::Null, -32700),
        (r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":{"a":tru}}"#, json!("x"), -32700),
        (&format!("{}1{}", "[".repeat(200), "]".repeat(200)), Value::Null, -32700),
        ("[]", Value::Null, -32600),
        ("7", Value::Null, -32600),
        (r#"{"id":7}"#, json!(7), -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, json!(7), -32602),
    ] {
        pipe.send_line(line).await;
        let found = pipe.receive().await;
        assert_eq!((&found["id"], &found["error"]["code"]), (&id, &json!(code)), "{line}");
    }
    pipe.send_line("").await;
    pipe.send(notification("notifications/unheard/of", json!({}))).await;
    pipe.send(json!({ "jsonrpc": "2.0", "id": 99, "result": {} })).await;
    assert_fits(&pipe.ask(request(1, "ping", json!({}))).await, &json!({ "id": 1, "result": {} }));
}

#[tokio::test]
async fn every_message_of_a_batch_is_answered() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    pipe.send(json!([request(1, "ping", json!({})), request(2, "ping", json!({})), 3])).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(pipe.receive().await["id"].to_string());
    }
    ids.sort();
    assert_eq!(ids, ["1", "2", "null"]);
}

#[tokio::test]
async fn every_client_has_its_own_caller_number() {
    let sample = Sample::new();
    let (mut one, mut other) = (Pipe::legacy(sample.clone()).await, Pipe::legacy(sample).await);
    let caller = request(1, "resources/read", json!({ "uri": "sample://caller" }));
    let number = |answer: Value| answer["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    let (first, second) = (number(one.ask(caller.clone()).await), number(other.ask(caller.clone()).await));
    assert_ne!(first, second);
    let again = request(2, "resources/read", json!({ "uri": "sample://caller" }));
    assert_eq!(number(one.ask(again).await), first);
}
