//! What happens in time, over HTTP: streams, cancelling, changes, the end.

use serde_json::{Value, json};
use toolgate_mcp::server::Change;

use crate::peer::{Host, assert_fits, modern, notification, request};
use crate::service::Sample;

fn steps(id: u64) -> Value {
    json!({ "name": "steps", "_meta": { "progressToken": id } })
}

fn progress(token: u64) -> Vec<Value> {
    let steps = [(json!(1), "at 1"), (json!(3), "at 3"), (json!(4.5), "at 4.5")];
    let params =
        |(progress, message)| json!({ "progressToken": token, "progress": progress, "total": 5, "message": message });
    steps.map(|step| notification("notifications/progress", params(step))).to_vec()
}

#[tokio::test]
async fn progress_is_a_stream_that_ends_with_the_result() {
    let host = Host::start(Sample::new()).await;
    let session = host.session().await;
    for ask in [
        host.post_modern(&modern(1, "tools/call", steps(1))),
        host.post(&request(1, "tools/call", steps(1))).session(&session),
    ] {
        let answer = ask.send().await;
        assert!(answer.is_stream());
        let events = answer.events();
        assert_eq!(events[..3], progress(1));
        assert_fits(&events[3], &json!({ "id": 1, "result": { "content": [] } }));
        assert_eq!(events.len(), 4);
    }
}

#[tokio::test]
async fn the_response_has_a_media_type_that_the_client_accepts() {
    let host = Host::start(Sample::new()).await;
    let call = modern(1, "tools/call", steps(1));
    let only_json = host.post_modern(&call).header("accept", "application/json").send().await;
    assert!(!only_json.is_stream());
    assert_fits(&only_json.json(), &json!({ "id": 1, "result": "*" }));
    let only_events = host.post_modern(&modern(1, "tools/list", json!({}))).header("accept", "text/event-stream");
    let only_events = only_events.send().await;
    assert!(only_events.is_stream());
    assert_fits(&json!(only_events.events()), &json!([{ "id": 1, "result": "*" }]));
}

#[tokio::test]
async fn a_slow_reply_begins_as_a_stream() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let stream = host.post_modern(&modern(1, "tools/call", json!({ "name": "hang" }))).open().await;
    assert_eq!((stream.status, stream.is_stream()), (200, true));
    drop(stream);
    sample.until(|hung| hung.cancelled == 1).await;
}

#[tokio::test]
async fn a_closed_connection_cancels_its_call() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let session = host.session().await;
    for (ask, count) in [
        (host.post_modern(&modern(1, "tools/call", json!({ "name": "hang" }))), 1),
        (host.post(&request(1, "tools/call", json!({ "name": "hang" }))).session(&session), 2),
        (
            host.post_modern(&modern(1, "tools/call", json!({ "name": "hang" }))).header("accept", "text/event-stream"),
            3,
        ),
    ] {
        let waiting = tokio::spawn(ask.send());
        sample.until(|hung| hung.started == count).await;
        let before = std::time::Instant::now();
        waiting.abort();
        sample.until(|hung| hung.cancelled == count).await;
        assert!(before.elapsed().as_millis() < 100, "{:?}", before.elapsed());
    }
}

#[tokio::test]
async fn a_cancel_notification_ends_the_stream_of_a_legacy_call() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let (session, other) = (host.session().await, host.session().await);
    let waiting =
        tokio::spawn(host.post(&request(7, "tools/call", json!({ "name": "hang" }))).session(&session).send());
    sample.until(|hung| hung.started == 1).await;
    let cancelled = notification("notifications/cancelled", json!({ "requestId": 7 }));
    assert_eq!(host.post(&cancelled).session(&other).send().await.status, 202);
    assert_eq!(sample.hung.borrow().cancelled, 0);
    assert_eq!(host.post(&cancelled).session(&session).send().await.status, 202);
    sample.until(|hung| hung.cancelled == 1).await;
    let answer = waiting.await.unwrap();
    assert!(answer.is_stream() && answer.events().is_empty(), "{}", answer.body);
}

#[tokio::test]
async fn the_end_of_a_session_cancels_its_calls() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let session = host.session().await;
    let waiting =
        tokio::spawn(host.post(&request(7, "tools/call", json!({ "name": "hang" }))).session(&session).send());
    sample.until(|hung| hung.started == 1).await;
    assert_eq!(host.ask("DELETE").session(&session).send().await.status, 204);
    sample.until(|hung| hung.cancelled == 1).await;
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_legacy_stream_has_the_changes_since_initialize() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let session = host.session().await;
    sample.changes.send(Change::Tools.into()).unwrap();
    let mut stream = host.ask("GET").session(&session).open().await;
    assert!(stream.is_stream());
    assert_eq!(stream.next_event().await, Some(notification("notifications/tools/list_changed", json!({}))));
    let mut newer = host.ask("GET").session(&session).open().await;
    assert_eq!(stream.next_event().await, None);
    host.post(&request(1, "resources/subscribe", json!({ "uri": "sample://a" }))).session(&session).send().await;
    sample.changes.send(Change::Resource("sample://a".to_owned()).into()).unwrap();
    let updated = notification("notifications/resources/updated", json!({ "uri": "sample://a" }));
    assert_eq!(newer.next_event().await, Some(updated));
    assert_eq!(host.ask("DELETE").session(&session).send().await.status, 204);
    assert_eq!(newer.next_event().await, None);
}

#[tokio::test]
async fn a_client_that_missed_notices_is_notified_of_all_lists() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let session = host.session().await;
    for _ in 0..1000 {
        sample.changes.send(Change::Prompts.into()).unwrap();
    }
    let mut stream = host.ask("GET").session(&session).open().await;
    for list in ["tools", "resources"] {
        let changed = notification(&format!("notifications/{list}/list_changed"), json!({}));
        assert_eq!(stream.next_event().await, Some(changed));
    }
}

#[tokio::test]
async fn a_client_is_notified_of_what_its_mode_shows() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let session = host.session().await;
    let mut legacy = host.ask("GET").path("/mcp?mode=direct").session(&session).open().await;
    let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    let listen = modern(5, "subscriptions/listen", json!({ "notifications": wanted }));
    let mut modern = host.post_modern(&listen).path("/mcp?mode=direct").open().await;
    assert_fits(&modern.next_event().await.unwrap(), &json!({ "method": "*" }));
    sample.changes.send(Change::Resources.into()).unwrap();
    sample.changes.send(Change::Tools.into()).unwrap();
    for stream in [&mut legacy, &mut modern] {
        let heard = stream.next_event().await.unwrap();
        assert_eq!(heard["method"], "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn a_modern_subscription_ends_at_shutdown() {
    let sample = Sample::new();
    let host = Host::start(sample.clone()).await;
    let listen = modern(5, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let mut stream = host.post_modern(&listen).open().await;
    let tag = json!({ "io.modelcontextprotocol/subscriptionId": 5 });
    let opening = json!({ "_meta": tag, "notifications": { "toolsListChanged": true } });
    assert_eq!(stream.next_event().await, Some(notification("notifications/subscriptions/acknowledged", opening)));
    sample.changes.send(Change::Resources.into()).unwrap();
    sample.changes.send(Change::Tools.into()).unwrap();
    let changed = notification("notifications/tools/list_changed", json!({ "_meta": tag }));
    assert_eq!(stream.next_event().await, Some(changed));
    host.shutdown.cancel();
    assert_fits(&stream.next_event().await.unwrap(), &json!({ "id": 5, "result": { "resultType": "complete" } }));
    assert_eq!(stream.next_event().await, None);
}
