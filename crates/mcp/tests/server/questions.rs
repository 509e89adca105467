//! A result that requests input, for clients of earlier revisions: they are asked while their request is open.

use serde_json::{Value, json};

use crate::peer::{Host, Pipe, assert_fits, initialize, modern, notification, request};
use crate::service::Sample;

fn with_forms(elicitation: Value) -> Value {
    let mut hello = initialize("2025-06-18");
    hello["params"]["capabilities"] = json!({ "elicitation": elicitation });
    hello
}

fn asks(id: u64) -> Value {
    request(id, "tools/call", json!({ "name": "asks" }))
}

/// Checks that a message asks this by a form, and gives the reply with this result.
fn reply(message: &Value, asked: &str, result: Value) -> Value {
    reply_to(message, json!({ "message": asked, "requestedSchema": { "type": "object" } }), result)
}

/// The same for a URL to open.
fn reply_to_url(message: &Value, asked: &str, result: Value) -> Value {
    reply_to(message, json!({ "mode": "url", "message": asked, "requestedSchema": { "type": "object" } }), result)
}

fn reply_to(message: &Value, params: Value, result: Value) -> Value {
    assert_eq!((&message["method"], &message["params"]), (&json!("elicitation/create"), &params), "{message}");
    assert!(message["id"].is_string(), "{message}");
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
}

/// What the service is told in the end. What a client cannot be asked counts as dismissed.
fn told(who: Value, place: Value, when: Value) -> Value {
    let responses = json!({ "who": who, "where": place, "when": when });
    json!({ "structuredContent": { "inputResponses": responses, "requestState": "kept" }, "resultType": null })
}

#[tokio::test]
async fn a_legacy_client_with_forms_is_asked_over_its_pipe() {
    let mut pipe = Pipe::open(Sample::new());
    pipe.ask(with_forms(json!({}))).await;
    pipe.send(notification("notifications/initialized", json!({}))).await;
    let question = pipe.ask(asks(1)).await;
    let (accept, cancel) = (json!({ "action": "accept", "content": { "name": "Ann" } }), json!({ "action": "cancel" }));
    // A reply to something else changes nothing, whoever wrote its id.
    pipe.send(json!({ "jsonrpc": "2.0", "id": "other", "result": { "action": "accept" } })).await;
    pipe.send(json!({ "jsonrpc": "2.0", "id": 1, "result": { "action": "accept" } })).await;
    let next = pipe.ask(reply(&question, "who?", accept.clone())).await;
    let refused = json!({ "jsonrpc": "2.0", "id": next["id"], "error": { "code": -32601, "message": "no" } });
    reply(&next, "when?", json!({}));
    let done = pipe.ask(refused).await;
    assert_fits(&done, &json!({ "id": 1, "result": told(accept, cancel.clone(), cancel) }));
    assert!(pipe.falls_silent().await);
}

#[tokio::test]
async fn a_legacy_client_with_forms_is_asked_in_the_stream_of_its_request() {
    let host = Host::start(Sample::new()).await;
    let hello = host.post(&with_forms(json!({ "form": {}, "url": {} }))).send().await;
    let session = hello.header("mcp-session-id").unwrap();
    let other = host.post(&with_forms(json!({}))).send().await.header("mcp-session-id").unwrap();
    let mut stream = host.post(&asks(1)).session(&session).open().await;
    assert!(stream.is_stream());
    let accept = |word: &str| json!({ "action": "accept", "content": { "word": word } });
    let question = stream.next_event().await.unwrap();
    // A reply of another session, or of none, is none.
    let forged = reply(&question, "who?", accept("forged"));
    assert_eq!(host.post(&forged).session(&other).send().await.status, 202);
    assert_eq!(host.post(&forged).send().await.status, 202);
    assert_eq!(host.post(&reply(&question, "who?", accept("one"))).session(&session).send().await.status, 202);
    let question = stream.next_event().await.unwrap();
    let opened = json!({ "action": "accept" });
    host.post(&reply_to_url(&question, "where?", opened.clone())).session(&session).send().await;
    let question = stream.next_event().await.unwrap();
    host.post(&reply(&question, "when?", accept("two"))).session(&session).send().await;
    let done = stream.next_event().await.unwrap();
    assert_fits(&done, &json!({ "id": 1, "result": told(accept("one"), opened, accept("two")) }));
}

#[tokio::test]
async fn a_client_is_asked_nothing_that_it_does_not_declare() {
    let nobody = json!({ "id": 1, "result": { "structuredContent": "nobody" } });
    let mut pipe = Pipe::legacy(Sample::new()).await;
    assert_fits(&pipe.ask(asks(1)).await, &nobody);
    let mut pipe = Pipe::open(Sample::new());
    pipe.ask(with_forms(json!({ "url": {} }))).await;
    let question = pipe.ask(asks(1)).await;
    let (opened, cancel) = (json!({ "action": "accept" }), json!({ "action": "cancel" }));
    let done = pipe.ask(reply_to_url(&question, "where?", opened.clone())).await;
    assert_fits(&done, &json!({ "id": 1, "result": told(cancel.clone(), opened, cancel) }));
    // Without a stream there is no way to ask.
    let host = Host::start(Sample::new()).await;
    let session = host.post(&with_forms(json!({}))).send().await.header("mcp-session-id").unwrap();
    let answer = host.post(&asks(1)).session(&session).header("accept", "application/json").send().await;
    assert_fits(&answer.json(), &nobody);
    // A modern client is told by the result, as before.
    let mut pipe = Pipe::open(Sample::new());
    let asked = pipe.ask(modern(1, "tools/call", json!({ "name": "asks" }))).await;
    assert_fits(&asked, &json!({ "result": { "resultType": "input_required", "requestState": "kept" } }));
}

#[tokio::test]
async fn a_client_that_cancels_is_not_waited_for() {
    let mut pipe = Pipe::open(Sample::new());
    pipe.ask(with_forms(json!({}))).await;
    let question = pipe.ask(asks(1)).await;
    pipe.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    pipe.send(reply(&question, "who?", json!({ "action": "accept" }))).await;
    assert_fits(&pipe.ask(request(2, "ping", json!({}))).await, &json!({ "id": 2 }));
    assert!(pipe.falls_silent().await);
}
