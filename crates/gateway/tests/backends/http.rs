//! Servers reached by HTTP, in both eras.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, watch};
use toolgate_backends::{Backend, BackendKind, BackendSpec, BackendState, CallError, CallOptions, Effect};
use toolgate_mcp::TraceContext;
use toolgate_mcp::client::{ClientRequest, ListKind};
use toolgate_mcp::protocol::Era;
use toolgate_wire::ByteBudget;

use crate::fixture::{
    TEST_TIMEOUT, call, lists_changed, object, start, state, tools_with, tree, up_as, updated, value,
};
use crate::server::Server;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn spec(server: &Server) -> BackendSpec {
    let headers = BTreeMap::from([
        ("Authorization".to_owned(), "Bearer s3cret".to_owned()),
        ("Accept".to_owned(), "nothing".to_owned()),
    ]);
    BackendSpec::new("http", BackendKind::Http { url: server.url.clone(), headers, login: None })
}

async fn up(era: Era) -> (Arc<Server>, Backend) {
    let server = Server::start(era).await;
    let backend = up_as(spec(&server)).await;
    (server, backend)
}

async fn until<T: Clone>(watch: &watch::Sender<T>, fits: impl FnMut(&T) -> bool) -> T {
    let mut watch = watch.subscribe();
    tokio::time::timeout(TEST_TIMEOUT, watch.wait_for(fits)).await.expect("in time").unwrap().clone()
}

#[tokio::test]
async fn both_eras_are_found_and_spoken() {
    for era in ERAS {
        let (_server, backend) = up(era).await;
        let BackendState::Ready(ready) = backend.state() else { panic!("{}", backend.state()) };
        assert_eq!(ready.era, era);
        assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
    }
}

#[tokio::test]
async fn the_users_headers_go_with_every_request_but_can_not_replace_ours() {
    for era in ERAS {
        let (server, backend) = up(era).await;
        value(&backend, "echo", json!({})).await;
        let headers = server.last("tools/call").unwrap().headers;
        assert_eq!(headers["authorization"], "Bearer s3cret");
        assert_eq!(headers["accept"], "application/json, text/event-stream");
    }
}

#[tokio::test]
async fn a_modern_request_repeats_itself_in_headers() {
    let (server, backend) = up(Era::Modern).await;
    value(&backend, "echo", json!({ "region": "eu" })).await;
    let headers = server.last("tools/call").unwrap().headers;
    let named =
        ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region"].map(|name| headers[name].as_str());
    assert_eq!(named, ["2026-07-28", "tools/call", "echo", "eu"]);
    assert_eq!(headers.get("mcp-session-id"), None);
}

#[tokio::test]
async fn a_legacy_request_names_its_session_and_revision() {
    let (server, backend) = up(Era::Legacy).await;
    value(&backend, "echo", json!({})).await;
    let headers = server.last("tools/call").unwrap().headers;
    assert_eq!(headers["mcp-session-id"], "session-1");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
    assert_eq!(headers.get("mcp-method"), None);
}

#[tokio::test]
async fn an_answer_may_come_in_a_stream_after_progress_and_questions() {
    for era in ERAS {
        let (server, backend) = up(era).await;
        let (sink, mut news) = mpsc::channel(4);
        let options = CallOptions { progress: Some(sink), ..CallOptions::default() };
        let reply = backend.call("stream", object(json!({})), options).await.unwrap();
        assert_eq!(tree(reply), json!("streamed"));
        assert_eq!(news.recv().await.map(|news| news.progress), Some(1.0));
        until(&server.heard, |heard| heard.iter().any(|method| method == "answer")).await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_is_resumed_where_it_ended() {
    for era in ERAS {
        let (_server, backend) = up(era).await;
        assert_eq!(value(&backend, "resume", json!({})).await, json!("resumed"));
    }
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_opened_again_within_the_call() {
    let (server, backend) = up(Era::Legacy).await;
    server.forget_sessions();
    assert_eq!(value(&backend, "echo", json!({ "a": 1 })).await, json!({ "a": 1 }));
    assert_eq!(server.times("initialize"), 2);
}

#[tokio::test]
async fn what_else_is_asked_of_a_server_that_forgot_the_session_is_asked_again() {
    let (server, backend) = up(Era::Legacy).await;
    let read = ClientRequest::Read { uri: "web://one".to_owned() };
    let prompt = ClientRequest::Prompt { name: "greet".to_owned(), arguments: object(json!({ "whom": "you" })) };
    let reference = json!({ "type": "ref/prompt", "name": "greet" });
    let complete = ClientRequest::Complete { reference, argument: "whom".to_owned(), typed: "y".to_owned() };
    for (question, key) in [(read, "contents"), (prompt, "messages"), (complete, "completion")] {
        server.forget_sessions();
        let asked = backend.ask(question, None, 1, ByteBudget::unlimited(), &TraceContext::default()).await;
        let result = asked.unwrap().into_text();
        assert!(result.value().member(key).is_some(), "{key}: {}", result.as_str());
    }
    server.forget_sessions();
    assert_eq!(backend.list(ListKind::Resources, TEST_TIMEOUT).await.entries().len(), 2);
    assert_eq!(server.times("initialize"), 5);
}

#[tokio::test]
async fn a_list_is_kept_until_the_server_says_that_it_changed() {
    for era in ERAS {
        let server = Server::start(era).await;
        let (backend, mut news) = start(spec(&server));
        backend.ready(TEST_TIMEOUT).await.unwrap();
        for _ in 0..3 {
            assert!(backend.list(ListKind::Resources, TEST_TIMEOUT).await.get("web://one").is_some());
        }
        assert!(server.times("resources/list") <= 2, "once before the stream of news is open, and once after");
        server.grow("web://three");
        lists_changed(&mut news, ListKind::Resources).await;
        while backend.list(ListKind::Resources, TEST_TIMEOUT).await.get("web://three").is_none() {
            lists_changed(&mut news, ListKind::Resources).await;
        }
    }
}

#[tokio::test]
async fn a_watched_resource_is_asked_for_and_told_of_until_nobody_watches_it() {
    for era in ERAS {
        let server = Server::start(era).await;
        let (backend, mut news) = start(spec(&server));
        let watching = backend.watch_resource("web://one").await.unwrap();
        let second = backend.watch_resource("web://one").await.unwrap();
        for uri in ["web://two", "web://one"] {
            server.tell("notifications/resources/updated", &json!({ "uri": uri }));
        }
        assert_eq!(updated(&mut news).await, "web://one");
        drop(watching);
        let other = backend.watch_resource("web://two").await.unwrap();
        match era {
            Era::Legacy => {
                assert_eq!((server.times("resources/subscribe"), server.times("resources/unsubscribe")), (2, 0));
                drop(second);
                until(&server.heard, |heard| heard.iter().any(|method| method == "resources/unsubscribe")).await;
                let ended = server.last("resources/unsubscribe").unwrap();
                assert_eq!(ended.message["params"]["uri"], "web://one");
            }
            Era::Modern => {
                let wanted = || server.last("subscriptions/listen").unwrap().message["params"]["notifications"].clone();
                assert_eq!(wanted()["resourceSubscriptions"], json!(["web://one", "web://two"]));
                let before = server.times("subscriptions/listen");
                drop(second);
                until(&server.heard, |_| server.times("subscriptions/listen") > before).await;
                assert_eq!(wanted()["resourceSubscriptions"], json!(["web://two"]));
            }
        }
        server.tell("notifications/resources/updated", &json!({ "uri": "web://one" }));
        server.tell("notifications/resources/updated", &json!({ "uri": "web://two" }));
        assert_eq!(updated(&mut news).await, "web://two");
        drop(other);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_closes_its_stream() {
    for era in ERAS {
        let (server, backend) = up(era).await;
        let options = CallOptions { timeout: Some(Duration::from_millis(100)), ..CallOptions::default() };
        let error = backend.call("hang", object(json!({})), options).await.unwrap_err();
        assert!(matches!(error, CallError::Timeout { .. }));
        until(&server.hung_up, |count| *count == 1).await;
        if era == Era::Legacy {
            until(&server.heard, |heard| heard.iter().any(|method| method == "notifications/cancelled")).await;
        }
        assert_eq!(value(&backend, "echo", json!({})).await, json!({}));
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_an_error() {
    let server = Server::start(Era::Modern).await;
    let mut spec = spec(&server);
    spec.max_message = 1 << 16;
    let backend = up_as(spec).await;
    let error = call(&backend, "large", json!({})).await.unwrap_err();
    assert_eq!(error, CallError::TooLarge { limit: 1 << 16 });
}

#[tokio::test]
async fn changed_tools_are_heard_of_and_announced() {
    for era in ERAS {
        let server = Server::start(era).await;
        let (backend, mut news) = start(spec(&server));
        tools_with(&mut news, "grow").await;
        value(&backend, "grow", json!({})).await;
        tools_with(&mut news, "fresh").await;
    }
}

#[tokio::test]
async fn a_refusal_keeps_its_status() {
    let (server, backend) = up(Era::Modern).await;
    *server.refuse_with.lock().unwrap() = Some(429);
    let error = call(&backend, "echo", json!({})).await.unwrap_err();
    assert_eq!(error, CallError::Http { status: 429, message: "go away".to_owned() });
    assert_eq!(error.effect(), Effect::Failed);
    *server.refuse_with.lock().unwrap() = None;
    assert_eq!(value(&backend, "echo", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_server_that_wants_other_credentials_is_not_asked_in_the_other_era() {
    let server = Server::start(Era::Legacy).await;
    *server.refuse_with.lock().unwrap() = Some(401);
    let (backend, _) = start(spec(&server));
    let state = state(&backend, |state| matches!(state, BackendState::Restarting { .. })).await;
    assert!(state.to_string().ends_with("HTTP 401: go away"), "{state}");
    assert_eq!(*server.heard.borrow(), ["server/discover"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again() {
    // A port that was free a moment ago and is nobody's now.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let (backend, _) =
        start(BackendSpec::new("away", BackendKind::Http { url, headers: BTreeMap::new(), login: None }));
    let state = state(&backend, |state| matches!(state, BackendState::Restarting { .. })).await;
    assert!(state.to_string().contains("refused"), "{state}");
}

#[tokio::test]
async fn settings_that_can_not_work_fail_at_once() {
    for (url, header, expected) in
        [("nowhere", "x", "not a URL"), ("http://localhost/", "not a name", "not a header name: not a name")]
    {
        let headers = BTreeMap::from([(header.to_owned(), String::new())]);
        let (backend, _) =
            start(BackendSpec::new("bad", BackendKind::Http { url: url.to_owned(), headers, login: None }));
        let state = state(&backend, |state| *state != BackendState::Starting).await;
        assert!(matches!(state, BackendState::Failed { .. }));
        assert!(state.to_string().contains(expected), "{state}");
    }
}

#[tokio::test]
async fn stopping_ends_the_session_on_the_server() {
    let (server, backend) = up(Era::Legacy).await;
    let before = server.heard.borrow().len();
    backend.shut_down().await;
    assert!(server.heard.borrow().len() > before);
}
