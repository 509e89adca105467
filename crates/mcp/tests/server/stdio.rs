//! What happens in time, over a pipe: cancelling, progress, changes, load, the end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use toolgate_mcp::server::Change;

use crate::peer::{Pipe, assert_fits, initialize, modern, notification, request, soon};
use crate::service::Sample;

fn hang(id: impl Into<Value>) -> Value {
    modern(id, "tools/call", json!({ "name": "hang" }))
}

#[tokio::test]
async fn a_call_that_hangs_delays_no_other() {
    let sample = Sample::new();
    let mut pipe = Pipe::open(sample.clone());
    for id in 0..50 {
        pipe.send(hang(id)).await;
    }
    sample.until(|hung| hung.started == 50).await;
    assert_fits(&pipe.ask(modern("last", "tools/list", json!({}))).await, &json!({ "id": "last", "result": "*" }));
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_is_not_answered() {
    let sample = Sample::new();
    let mut pipe = Pipe::legacy(sample.clone()).await;
    for id in [json!(1), json!("1")] {
        pipe.send(request(id, "tools/call", json!({ "name": "hang" }))).await;
    }
    sample.until(|hung| hung.started == 2).await;
    let before = std::time::Instant::now();
    pipe.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    sample.until(|hung| hung.cancelled == 1).await;
    assert!(before.elapsed().as_millis() < 100, "{:?}", before.elapsed());
    assert_fits(&pipe.ask(request(2, "ping", json!({}))).await, &json!({ "id": 2 }));
    pipe.send(notification("notifications/cancelled", json!({ "requestId": "no such request" }))).await;
    assert!(pipe.falls_silent().await);
}

#[tokio::test]
async fn the_end_of_input_cancels_what_is_in_flight_and_ends_the_server() {
    let sample = Sample::new();
    let mut pipe = Pipe::open(sample.clone());
    pipe.send(hang(1)).await;
    sample.until(|hung| hung.started == 1).await;
    let before = std::time::Instant::now();
    pipe.writer.shutdown().await.unwrap();
    sample.until(|hung| hung.cancelled == 1).await;
    assert!(before.elapsed().as_millis() < 100, "{:?}", before.elapsed());
    soon(pipe.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_before_the_end_of_input_are_answered() {
    let mut pipe = Pipe::open(Sample::new());
    pipe.send(initialize("2025-11-25")).await;
    pipe.send(request(1, "tools/list", json!({}))).await;
    pipe.writer.shutdown().await.unwrap();
    let (one, other) = (pipe.receive().await, pipe.receive().await);
    assert!(one["result"].is_object() && other["result"].is_object(), "{one} {other}");
}

#[tokio::test]
async fn progress_increases_and_precedes_the_result() {
    let mut pipe = Pipe::open(Sample::new());
    for token in [json!("mine"), json!(7)] {
        let params = json!({ "name": "steps", "_meta": { "progressToken": token } });
        pipe.send(modern(1, "tools/call", params)).await;
        for (progress, message) in [(json!(1), "at 1"), (json!(3), "at 3"), (json!(4.5), "at 4.5")] {
            let params = json!({ "progressToken": token, "progress": progress, "total": 5, "message": message });
            assert_eq!(pipe.receive().await, notification("notifications/progress", params));
        }
        assert_fits(&pipe.receive().await, &json!({ "id": 1, "result": "*" }));
    }
}

#[tokio::test]
async fn progress_is_not_sent_unless_requested() {
    let mut pipe = Pipe::open(Sample::new());
    let found = pipe.ask(modern(1, "tools/call", json!({ "name": "steps" }))).await;
    assert_fits(&found, &json!({ "id": 1, "result": "*" }));
}

#[tokio::test]
async fn a_legacy_client_is_notified_of_lists_and_watched_resources() {
    let sample = Sample::new();
    let mut pipe = Pipe::legacy(sample.clone()).await;
    pipe.ask(request(1, "resources/subscribe", json!({ "uri": "sample://a" }))).await;
    for change in [
        Change::Prompts,
        Change::Resource("sample://unwatched".to_owned()),
        Change::Tools,
        Change::Resource("sample://a".to_owned()),
        Change::Resources,
    ] {
        sample.changes.send(change.into()).unwrap();
    }
    for (method, params) in [
        ("tools/list_changed", json!({})),
        ("resources/updated", json!({ "uri": "sample://a" })),
        ("resources/list_changed", json!({})),
    ] {
        assert_eq!(pipe.receive().await, notification(&format!("notifications/{method}"), params));
    }
}

#[tokio::test]
async fn a_modern_client_is_notified_of_what_it_named_until_it_cancels() {
    let sample = Sample::new();
    let mut pipe = Pipe::open(sample.clone());
    let wanted = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["sample://b", "sample://a"] });
    let tag = json!({ "io.modelcontextprotocol/subscriptionId": "sub" });
    let opening = pipe.ask(modern("sub", "subscriptions/listen", json!({ "notifications": wanted }))).await;
    let accepted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["sample://a"] });
    let acknowledged = json!({ "_meta": tag, "notifications": accepted });
    assert_eq!(opening, notification("notifications/subscriptions/acknowledged", acknowledged));
    for change in [Change::Resources, Change::Prompts, Change::Tools, Change::Resource("sample://a".to_owned())] {
        sample.changes.send(change.into()).unwrap();
    }
    assert_eq!(pipe.receive().await, notification("notifications/tools/list_changed", json!({ "_meta": tag })));
    let updated = notification("notifications/resources/updated", json!({ "uri": "sample://a", "_meta": tag }));
    assert_eq!(pipe.receive().await, updated);
    pipe.send(notification("notifications/cancelled", json!({ "requestId": "sub" }))).await;
    assert_fits(&pipe.ask(modern(2, "tools/list", json!({}))).await, &json!({ "id": 2 }));
    sample.changes.send(Change::Tools.into()).ok();
    assert!(pipe.falls_silent().await);
}

#[tokio::test]
async fn a_message_of_20_mib_is_refused_by_its_id_and_the_next_one_served() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    for id in [json!(7), json!("seven")] {
        let params = json!({ "name": "odd", "arguments": { "text": "x".repeat(20 << 20) } });
        let found = pipe.ask(request(id.clone(), "tools/call", params)).await;
        let reason = "the message is larger than 16777216 bytes";
        assert_fits(&found, &json!({ "id": id, "error": { "code": -32600, "message": reason } }));
    }
    assert_fits(&pipe.ask(request(8, "ping", json!({}))).await, &json!({ "id": 8, "result": {} }));
}

#[tokio::test]
async fn a_message_of_10_mib_is_served() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    let arguments = json!({ "text": "x".repeat(10 << 20) });
    let found = pipe.ask(request(1, "tools/call", json!({ "name": "arguments", "arguments": arguments }))).await;
    assert!(found["result"] == arguments);
}

#[tokio::test]
async fn a_panic_in_the_service_fails_one_request() {
    let mut pipe = Pipe::legacy(Sample::new()).await;
    let found = pipe.ask(request(1, "tools/call", json!({ "name": "panic" }))).await;
    assert_fits(&found, &json!({ "id": 1, "error": { "code": -32603, "message": "internal error of the server" } }));
    assert_fits(&pipe.ask(request(2, "ping", json!({}))).await, &json!({ "id": 2 }));
}

#[tokio::test]
async fn an_id_in_flight_is_refused() {
    let sample = Sample::new();
    let mut pipe = Pipe::open(sample.clone());
    pipe.send(hang(1)).await;
    sample.until(|hung| hung.started == 1).await;
    assert_fits(&pipe.ask(hang(1)).await, &json!({ "id": 1, "error": { "code": -32600 } }));
}

#[tokio::test]
async fn a_client_that_does_not_read_gets_back_pressure() {
    const COUNT: usize = 3000;
    let mut pipe = Pipe::open(Sample::new());
    let mut reading = pipe.split_off();
    let mut flood = tokio::spawn(async move {
        for id in 0..COUNT {
            pipe.send(modern(id, "tools/call", json!({ "name": "large" }))).await;
        }
    });
    let held_up = tokio::time::timeout(Duration::from_secs(2), &mut flood).await;
    assert!(held_up.is_err(), "the server took everything");
    for _ in 0..COUNT {
        assert!(reading.receive().await["id"].is_number());
    }
    flood.await.unwrap();
}

#[tokio::test]
async fn requests_in_flight_finish_at_shutdown() {
    let sample = Sample::new();
    let mut pipe = Pipe::open(sample.clone());
    let notifications = json!({ "notifications": { "toolsListChanged": true } });
    pipe.ask(modern("sub", "subscriptions/listen", notifications)).await;
    pipe.shutdown.cancel();
    let ended = json!({ "id": "sub", "result": {
        "resultType": "complete", "_meta": { "io.modelcontextprotocol/subscriptionId": "sub" },
    } });
    assert_fits(&pipe.receive().await, &ended);
    soon(pipe.server).await.unwrap().unwrap();
}
