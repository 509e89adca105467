//! Servers that break the rules: each costs at most the call that met it.

use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_backends::{BackendState, CallError, CallOptions, Effect};
use toolgate_wire::ByteBudget;

use crate::fixture::{TEST_TIMEOUT, call, object, spec, start, state, tree, up, up_as, value};

#[tokio::test]
async fn a_crash_fails_every_call_in_flight_at_once_and_the_backend_comes_back() {
    let backend = up(&[]).await;
    let hanging = tokio::spawn({
        let backend = backend.clone();
        async move { call(&backend, "hang", json!({})).await }
    });
    value(&backend, "echo", json!({})).await;
    let crashed = call(&backend, "crash", json!({})).await.unwrap_err();
    let bystander = hanging.await.unwrap().unwrap_err();
    for error in [crashed, bystander] {
        assert_eq!(error.effect(), Effect::Unknown);
        let CallError::Crashed { reason, stderr } = error else { panic!("{error}") };
        assert_eq!((reason.as_str(), stderr.as_str()), ("exited with code 3", "panic: out of cheese"));
    }
    assert_eq!(value(&backend, "echo", json!({ "back": true })).await, json!({ "back": true }));
    assert_eq!(backend.stats().restarts, 1);
}

#[tokio::test]
async fn garbage_on_stdout_is_skipped_and_counted() {
    let backend = up(&["--garbage"]).await;
    assert_eq!(value(&backend, "garbage", json!({})).await, json!("after the garbage"));
    assert_eq!(backend.stats().garbage, 2 + 5);
}

#[tokio::test]
async fn a_line_of_20_mib_works() {
    let backend = up(&[]).await;
    let text = value(&backend, "large", json!({ "bytes": 20 << 20 })).await;
    assert_eq!(text.as_str().map(str::len), Some(20 << 20));
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_own_call_and_no_other() {
    let mut spec = spec(&[]);
    spec.max_message = 1 << 20;
    let backend = up_as(spec).await;
    let hanging = tokio::spawn({
        let backend = backend.clone();
        async move { call(&backend, "was_cancelled", json!({})).await }
    });
    for tool in ["large", "large_id_first"] {
        let error = call(&backend, tool, json!({ "bytes": 2 << 20 })).await.unwrap_err();
        assert_eq!(error, CallError::TooLarge { limit: 1 << 20 });
    }
    assert!(!hanging.is_finished());
    hanging.abort();
    assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
}

#[tokio::test]
async fn an_answer_over_the_budget_of_its_run_is_refused_with_what_to_do() {
    let backend = up(&[]).await;
    let budget = ByteBudget::new("this run", 1 << 20);
    let options = CallOptions { budget: Some(budget.clone()), ..CallOptions::default() };
    let arguments = object(json!({ "bytes": 2 << 20 }));
    let error = backend.call("large", arguments, options).await.unwrap_err();
    let CallError::OverBudget { refused, sent: true } = &error else { panic!("{error:?}") };
    assert_eq!((refused.budget, refused.limit), ("this run", 1 << 20));
    assert!(error.to_string().ends_with("make fewer calls at one time, or ask for less data in each"), "{error}");
    assert_eq!(budget.used(), 0);
    assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
}

#[tokio::test]
async fn an_answer_that_can_not_be_read_fails_its_call_instead_of_hanging_it() {
    let backend = up(&[]).await;
    for tool in ["deep", "lone_surrogate"] {
        let error = call(&backend, tool, json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::Protocol { .. }), "{error}");
    }
    assert_eq!(value(&backend, "echo", json!({})).await, json!({}));
}

#[tokio::test]
async fn endless_stderr_never_blocks() {
    let backend = up(&["--flood-stderr"]).await;
    assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
    // What a server says on the side is read by a task of its own.
    let heard = async {
        while !backend.stderr().contains("noise") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, heard).await.expect("its words are heard");
    assert!(backend.stderr().len() <= 4096);
}

#[tokio::test]
async fn answers_to_other_ids_and_second_answers_are_ignored() {
    let backend = up(&[]).await;
    assert_eq!(value(&backend, "wrong_id", json!({})).await, json!("yours"));
    assert_eq!(value(&backend, "twice", json!({})).await, json!("first"));
    assert_eq!(value(&backend, "string_id", json!({})).await, json!("found"));
    // The last of them may still be on its way.
    let counted = async {
        while backend.stats().stray_replies < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, counted).await.expect("three replies to no open request");
    assert_eq!(backend.stats().stray_replies, 3);
}

#[tokio::test]
async fn a_server_that_never_reads_fails_to_start_in_bounded_time() {
    let mut spec = spec(&["--never-read"]);
    spec.start_timeout = Duration::from_millis(300);
    let (backend, _) = start(spec);
    let state = state(&backend, |state| matches!(state, BackendState::Restarting { .. })).await;
    assert!(state.to_string().contains("did not come up within 300 ms"), "{state}");
    backend.shut_down().await;
}

#[tokio::test]
async fn a_server_that_stops_reading_is_noticed_and_replaced() {
    let mut spec = spec(&["--deaf-after-start"]);
    spec.probe.timeout = Duration::from_millis(100);
    let backend = up_as(spec).await;
    let pid = backend.stats().pid;
    let options = CallOptions { timeout: Some(Duration::from_millis(100)), ..CallOptions::default() };
    // Larger than a pipe, so that even writing it never ends.
    let large = object(json!({ "text": "x".repeat(1 << 20) }));
    let error = backend.call("echo", large, options).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }));
    state(&backend, |state| !state.is_ready()).await;
    state(&backend, BackendState::is_ready).await;
    assert_ne!(backend.stats().pid, pid);
}

#[tokio::test]
async fn a_server_that_closes_its_input_is_replaced() {
    let backend = up(&[]).await;
    let pid = backend.stats().pid;
    assert_eq!(value(&backend, "stop_reading", json!({})).await, json!("closed"));
    let options = CallOptions { timeout: Some(TEST_TIMEOUT), ..CallOptions::default() };
    let _ = backend.call("echo", object(json!({})), options).await;
    state(&backend, |state| state.is_ready() && backend.stats().pid != pid).await;
    assert_eq!(value(&backend, "echo", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_server_that_can_not_start_is_called_failed_with_its_last_words() {
    let (backend, _) = start(spec(&["--exit", "7"]));
    let failed = state(&backend, |state| matches!(state, BackendState::Failed { .. })).await;
    let expected =
        BackendState::Failed { reason: "exited with code 7".to_owned(), stderr: "cannot start: no licence".to_owned() };
    assert_eq!(failed, expected);
    let asked = Instant::now();
    let error = call(&backend, "echo", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "fixture is not running: exited with code 7");
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_program_that_does_not_exist_fails_at_once() {
    let mut spec = spec(&[]);
    if let toolgate_backends::BackendKind::Stdio { command, .. } = &mut spec.kind {
        *command = "no-such-program-anywhere".to_owned();
    }
    let (backend, _) = start(spec);
    let failed = state(&backend, |state| *state != BackendState::Starting).await;
    assert!(failed.to_string().starts_with("not running: can't run no-such-program-anywhere"), "{failed}");
}

#[tokio::test]
async fn hostile_tool_entries_are_kept_as_data_or_left_out() {
    let backend = up(&["--hostile"]).await;
    let tools = backend.tools();
    let named = |name: &str| tools.iter().filter(|tool| tool.name == name).collect::<Vec<_>>();
    assert_eq!(named("twin").len(), 1);
    assert_eq!(named("twin")[0].description(), Some("first"));
    assert_eq!(named("__proto__").len(), 1);
    assert_eq!(named("a\n\u{1b}[2J`${x}`").len(), 1);
    assert_eq!(*named("no schema")[0].input_schema(), json!({ "type": "object" }));
    assert_eq!(named("odd schema")[0].output_schema(), None);
    assert!(tools.iter().all(|tool| !tool.name.is_empty() && tool.name.len() < 5000));
    assert_eq!(value(&backend, "__proto__", json!({ "a": 1 })).await, json!({ "a": 1 }));
}

#[tokio::test]
async fn two_thousand_tools_are_listed_page_by_page() {
    let backend = up(&["--tools", "2000"]).await;
    let count = backend.tools().iter().filter(|tool| tool.name.starts_with("tool_")).count();
    assert_eq!(count, 2000);
}

#[tokio::test]
async fn pages_that_lead_in_a_circle_end() {
    let backend = up(&["--circle"]).await;
    assert!(backend.tools().iter().any(|tool| tool.name == "echo"));
}

#[tokio::test]
async fn tools_that_were_not_declared_are_found() {
    let backend = up(&["--undeclared"]).await;
    assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
}

#[tokio::test]
async fn a_call_that_waits_its_turn_outlives_a_crash_of_the_one_before() {
    let mut spec = spec(&[]);
    spec.max_concurrent_calls = 1;
    let backend = up_as(spec).await;
    let (crashed, echoed) = tokio::join!(call(&backend, "crash", json!({})), call(&backend, "echo", json!({ "a": 1 })));
    assert!(matches!(crashed, Err(CallError::Crashed { .. })));
    assert_eq!(tree(echoed.unwrap()), json!({ "a": 1 }));
}

#[tokio::test]
async fn a_schema_keeps_the_order_of_its_keys() {
    let backend = up(&[]).await;
    let tools = backend.tools();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.raw()["inputSchema"].to_string(), r#"{"type":"object","z":1,"a":2}"#);
}
