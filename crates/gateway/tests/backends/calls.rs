//! Calls: values, faults, queue, cancellation, progress.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_backends::{CallError, CallOptions, Effect, ReplyMode, WhenUnready};
use toolgate_mcp::{InteractiveClient, Progress};

use crate::fixture::{TEST_TIMEOUT, call, object, spec, tree, up, up_as, value};

#[tokio::test]
async fn structured_content_is_the_value() {
    let backend = up(&[]).await;
    assert_eq!(value(&backend, "echo", json!({ "b": 1, "a": [null] })).await.to_string(), r#"{"b":1,"a":[null]}"#);
}

#[tokio::test]
async fn key_order_and_large_integers_survive_the_wire() {
    let backend = up(&[]).await;
    let found = value(&backend, "order", json!({})).await.to_string();
    assert_eq!(found, r#"{"z":18446744073709551615,"a":1,"m":-9007199254740993}"#);
}

#[tokio::test]
async fn a_top_level_tools_key_does_not_cost_the_content() {
    let backend = up(&[]).await;
    assert_eq!(value(&backend, "tools_key", json!({})).await, json!("kept"));
}

#[tokio::test]
async fn an_unknown_content_type_is_kept() {
    let backend = up(&[]).await;
    let expected = json!({ "content": [{ "type": "hologram", "beams": 3 }] });
    assert_eq!(value(&backend, "hologram", json!({})).await, expected);
}

#[tokio::test]
async fn a_failure_of_the_tool_is_its_own_error() {
    let backend = up(&[]).await;
    let error = call(&backend, "fail", json!({})).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.effect()), ("no such record", Effect::Failed));
    assert!(matches!(error, CallError::Tool(_)));
}

#[tokio::test]
async fn a_protocol_error_keeps_its_code_and_data() {
    let backend = up(&[]).await;
    let error = call(&backend, "refuse", json!({})).await.unwrap_err();
    let data = Some(json!({ "field": "x" }));
    assert_eq!(error, CallError::Rejected { code: -32602, message: "bad arguments".to_owned(), data });
}

#[tokio::test]
async fn an_unknown_tool_is_named() {
    let backend = up(&[]).await;
    let error = call(&backend, "nowhere", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "fixture has no tool named nowhere");
}

#[tokio::test]
async fn a_call_without_an_answer_times_out_and_the_backend_hears_of_it() {
    let backend = up(&[]).await;
    let options = CallOptions { timeout: Some(Duration::from_millis(50)), ..CallOptions::default() };
    let error = backend.call("hang", object(json!({})), options).await.unwrap_err();
    assert_eq!(error, CallError::Timeout { after: Duration::from_millis(50) });
    assert_eq!(value(&backend, "was_cancelled", json!({})).await, json!("hang"));
}

#[tokio::test]
async fn cancelling_returns_at_once_and_reaches_the_backend_which_stays_usable() {
    let backend = up(&[]).await;
    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = tokio::spawn({
        let backend = backend.clone();
        async move { backend.call("hang", object(json!({})), options).await }
    });
    // The backend has the second call, so it had the first.
    value(&backend, "echo", json!({})).await;
    let asked = Instant::now();
    cancel.cancel();
    assert_eq!(call.await.unwrap().unwrap_err(), CallError::Cancelled { sent: true });
    assert!(asked.elapsed() < Duration::from_millis(100));
    assert_eq!(value(&backend, "was_cancelled", json!({})).await, json!("hang"));
    assert_eq!(backend.stats().in_flight, 0);
}

#[tokio::test]
async fn a_dropped_call_is_a_cancelled_one() {
    let backend = up(&[]).await;
    let dropped = tokio::time::timeout(Duration::from_millis(50), call(&backend, "hang", json!({}))).await;
    assert!(dropped.is_err());
    assert_eq!(value(&backend, "was_cancelled", json!({})).await, json!("hang"));
}

#[tokio::test]
async fn an_answer_after_the_cancellation_is_ignored() {
    let backend = up(&[]).await;
    let options = CallOptions { timeout: Some(Duration::from_millis(50)), ..CallOptions::default() };
    backend.call("answer_late", object(json!({})), options).await.unwrap_err();
    let late = async {
        while backend.stats().stray_replies == 0 {
            value(&backend, "echo", json!({})).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, late).await.unwrap();
}

#[tokio::test]
async fn progress_reaches_the_caller() {
    let backend = up(&[]).await;
    let (sink, mut news) = mpsc::channel(8);
    let options = CallOptions { progress: Some(sink), ..CallOptions::default() };
    backend.call("progress", object(json!({})), options).await.unwrap();
    let mut steps = Vec::new();
    while let Some(step) = news.recv().await {
        steps.push(step);
    }
    let step = |n: f64| Progress { progress: n, total: Some(3.0), message: Some(format!("step {n}")) };
    assert_eq!(steps, [step(1.0), step(2.0), step(3.0)]);
}

#[tokio::test]
async fn waiting_for_a_turn_does_not_eat_the_calls_own_time() {
    let mut spec = spec(&[]);
    spec.max_concurrent_calls = 1;
    let backend = up_as(spec).await;
    let slow = CallOptions { timeout: Some(Duration::from_millis(1500)), ..CallOptions::default() };
    let quick = CallOptions { timeout: Some(Duration::from_millis(1000)), ..CallOptions::default() };
    let (hung, echoed) = tokio::join!(
        backend.call("hang", object(json!({})), slow),
        backend.call("echo", object(json!({ "a": 1 })), quick),
    );
    assert!(matches!(hung, Err(CallError::Timeout { .. })));
    assert_eq!(tree(echoed.unwrap()), json!({ "a": 1 }));
}

#[tokio::test]
async fn a_call_cancelled_in_the_queue_was_never_sent() {
    let mut spec = spec(&[]);
    spec.max_concurrent_calls = 1;
    let backend = up_as(spec).await;
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let with = |cancel: &CancellationToken| CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let (_, queued) = tokio::join!(backend.call("hang", object(json!({})), with(&first)), async {
        let queued = backend.call("echo", object(json!({})), with(&second));
        second.cancel();
        let outcome = queued.await;
        first.cancel();
        outcome
    });
    assert_eq!(queued.unwrap_err().effect(), Effect::NotSent);
}

#[tokio::test]
async fn too_many_waiting_calls_are_turned_away() {
    let mut spec = spec(&[]);
    spec.max_concurrent_calls = 1;
    spec.max_queued_calls = 0;
    let backend = up_as(spec).await;
    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let (_, refused) = tokio::join!(backend.call("hang", object(json!({})), options), async {
        let refused = call(&backend, "echo", json!({})).await;
        cancel.cancel();
        refused
    });
    assert!(matches!(refused, Err(CallError::Overloaded { .. })));
}

#[tokio::test]
async fn many_calls_at_once_each_get_their_own_answer() {
    let backend = up(&[]).await;
    let calls = (0..200).map(|n| {
        let backend = backend.clone();
        tokio::spawn(async move { (n, value(&backend, "echo", json!({ "n": n })).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, found) = call.await.unwrap();
        assert_eq!(found, json!({ "n": n }));
    }
}

#[tokio::test]
async fn a_backend_that_is_not_up_says_so_when_asked_to() {
    let (backend, _) = crate::fixture::start(spec(&["--gate", "/nowhere/at/all"]));
    let options = CallOptions { unready: WhenUnready::Fail, ..CallOptions::default() };
    let error = backend.call("echo", object(json!({})), options).await.unwrap_err();
    assert_eq!(error.to_string(), "fixture is still starting");
    assert_eq!(error.effect(), Effect::NotSent);
}

#[tokio::test]
async fn questions_to_us_are_answered_and_only_ping_is_served() {
    let backend = up(&[]).await;
    let pong = value(&backend, "ask", json!({ "method": "ping" })).await;
    assert_eq!(pong, json!({ "result": {} }));
    let backend = up(&[]).await;
    let refused = value(&backend, "ask", json!({ "method": "roots/list" })).await;
    assert_eq!(refused["error"]["code"], json!(-32601));
    // The capability is declared, so a form is not an unknown method: no person has decided.
    let backend = up(&[]).await;
    let undecided = value(&backend, "ask", json!({ "method": "elicitation/create" })).await;
    assert_eq!(undecided["result"]["action"], json!("cancel"), "{undecided}");
}

#[tokio::test]
async fn a_modern_call_describes_the_client_and_declares_nothing() {
    let backend = up(&["--era", "modern"]).await;
    let meta = value(&backend, "meta", json!({})).await;
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], json!("2026-07-28"));
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta.get("progressToken"), None);
}

#[tokio::test]
async fn a_tool_that_needs_a_person_is_its_own_error() {
    let backend = up(&["--era", "modern"]).await;
    let error = call(&backend, "input", json!({})).await.unwrap_err();
    let CallError::InputRequired { requests, .. } = error else { panic!("{error}") };
    assert_eq!(requests["name"]["method"], json!("elicitation/create"));
}

/// The server does not end the call, and the time of the call is no longer than the one that the server has to end it.
#[tokio::test]
async fn a_question_is_returned_before_the_time_of_its_call_is_over() {
    let backend = up(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = json!({ "file": folder.path().join("names"), "silent": true });
    let client = InteractiveClient::new(&object(json!({ "elicitation": {} })), &object(json!({})));
    let timeout = Some(Duration::from_secs(2));
    let options = CallOptions { timeout, reply: ReplyMode::Asking(client), ..CallOptions::default() };
    let error = backend.call("asks_back", object(arguments), options).await.unwrap_err();
    let CallError::InputRequired { requests, .. } = error else { panic!("{error}") };
    assert_eq!(requests["question"]["params"]["message"], json!("Who is meant?"));
}

#[tokio::test]
async fn the_raw_result_is_there_for_those_who_want_it() {
    let backend = up(&["--era", "modern"]).await;
    let raw = call(&backend, "say", json!({ "texts": ["a", "b"] })).await.unwrap().into_result().into_text();
    let raw: Value = serde_json::from_str(raw.as_str()).unwrap();
    assert_eq!(raw["resultType"], json!("complete"));
    assert_eq!(raw["content"].as_array().map(Vec::len), Some(2));
    assert_eq!(value(&backend, "say", json!({ "texts": ["a", "b"] })).await, json!(["a", "b"]));
}
