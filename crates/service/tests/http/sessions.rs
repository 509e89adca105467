//! The RPC bridge: sessions and calls in them.

use crate::harness::{Case, cases};
use crate::support::{Answer, Server, Setup, globs, hold, http, key, rate, start};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use toolgate_config::checked::Key;
use toolgate_service::AdmissionRules;
use toolgate_service::rpc_sessions::{Clock, MemorySessionStore, RpcSessions};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_session_grants_the_functions_it_names,
        a_call_gives_a_result_or_an_error,
        bad_sessions_and_calls_are_refused_with_a_pointer,
        every_refused_call_gets_the_same_answer,
        an_ended_session_is_refused,
        a_session_ends_with_the_key_that_opened_it,
        a_session_ends_when_its_key_is_replaced,
        a_session_grants_no_more_than_its_key,
        calls_count_against_the_keys_rate,
        a_session_that_ends_while_the_body_is_sent_is_refused,
        a_shutdown_ends_calls_and_sessions,
    ]
}

/// A session as its holder knows it.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) token: String,
}

pub(crate) async fn open(server: &Server, functions: Value) -> Session {
    let answer = server.post("/v1/sessions", json!({"functions": functions, "ttlMs": 60_000})).await;
    opened(&answer)
}

pub(crate) fn opened(answer: &Answer) -> Session {
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")), "{answer:?}");
    let reply = answer.json();
    let text = |field: &str| reply[field].as_str().unwrap_or_else(|| panic!("{field} in {reply}")).to_owned();
    Session { id: text("executionId"), token: text("token") }
}

pub(crate) async fn call(server: &Server, session: &Session, function: &str, body: &str) -> Answer {
    let path = format!("/rpc/{}/{function}", session.id);
    server.ask("POST", &path).bearer(&session.token).json(body).send().await
}

async fn a_session_grants_the_functions_it_names() {
    let server = start(Setup::default()).await;
    let answer = server.post("/v1/sessions", json!({"functions": ["add"], "ttlMs": 1000})).await;
    let session = opened(&answer);
    let reply = answer.json();
    assert_eq!((session.id.len(), session.token.len()), (32, 32));
    assert_eq!(reply["url"], json!(format!("http://{}/rpc/{}", server.at, session.id)));
    assert!(reply["expiresAt"].as_u64().is_some_and(|at| at > 1_700_000_000_000));
    assert_eq!(call(&server, &session, "add", r#"{"args": [1, 2]}"#).await.json(), json!({"result": 3.0}));
    assert_eq!(call(&server, &session, "fail", r#"{"args": []}"#).await.refusal(), "401 UNAUTHORIZED");
}

async fn a_call_gives_a_result_or_an_error() {
    let server = start(Setup::default()).await;
    let session = open(&server, json!(["add", "fail"])).await;
    let failed = call(&server, &session, "fail", r#"{"args": []}"#).await;
    assert_eq!((failed.status, failed.json()), (200, json!({"error": {"code": "FAILED", "message": "no luck"}})));
    let misfit = call(&server, &session, "add", r#"{"args": ["x"]}"#).await;
    assert_eq!((misfit.status, &misfit.json()["error"]["code"]), (200, &json!("INVALID_ARGUMENTS")));
}

async fn bad_sessions_and_calls_are_refused_with_a_pointer() {
    let server = start(Setup::default()).await;
    for (body, pointer) in [
        (json!({}), "/functions"),
        (json!({"functions": "add"}), "/functions"),
        (json!({"functions": ["add", "nope"]}), "/functions/1"),
        (json!({"functions": [], "ttlMs": 1}), "/ttlMs"),
        (json!({"functions": [], "ttlMs": 1e10 as u64}), "/ttlMs"),
        (json!({"functions": [], "owner": "me"}), "/owner"),
    ] {
        let answer = server.post("/v1/sessions", body.clone()).await;
        assert_eq!(answer.refusal(), format!("400 INVALID_INPUT {pointer}"), "{body}");
    }
    let session = open(&server, json!(["add"])).await;
    for (body, refusal) in [
        ("{}", "400 INVALID_INPUT /args"),
        (r#"{"args": {}}"#, "400 INVALID_INPUT /args"),
        ("", "400 INVALID_INPUT "),
        (&format!(r#"{{"args": ["{}"]}}"#, "x".repeat(128 * 1024)), "413 TOO_LARGE"),
    ] {
        assert_eq!(call(&server, &session, "add", body).await.refusal(), refusal);
    }
    // The cap is for the whole body, and what is just below it is taken.
    let large = format!(r#"{{"args": ["{}"]}}"#, "x".repeat(128 * 1024 - 14));
    assert_eq!((large.len(), call(&server, &session, "add", &large).await.status), (128 * 1024, 200));
}

struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

async fn every_refused_call_gets_the_same_answer() {
    let clock = Arc::new(Hand(AtomicU64::new(1_000_000)));
    let sessions = RpcSessions::new(Arc::new(MemorySessionStore::new(clock.clone())), clock.clone());
    let server = start(Setup { sessions: Arc::new(sessions), ..Setup::default() }).await;
    let expired = open(&server, json!(["add"])).await;
    clock.0.fetch_add(60_000, Ordering::Relaxed);
    let alive = open(&server, json!(["add"])).await;
    let body = r#"{"args": [1, 2]}"#;
    let other = |id: &str, token: &str| Session { id: id.to_owned(), token: token.to_owned() };
    let guesses = [
        call(&server, &expired, "add", body).await,
        call(&server, &other(&alive.id, &expired.token), "add", body).await,
        call(&server, &other(&alive.id, ""), "add", body).await,
        call(&server, &other(&"0".repeat(32), &alive.token), "add", body).await,
        call(&server, &other("nonsense", &alive.token), "add", body).await,
        call(&server, &other("%ff", &alive.token), "add", body).await,
        call(&server, &alive, "fail", body).await,
        call(&server, &alive, "nope", body).await,
        call(&server, &expired, "add", "no JSON").await,
        server.ask("POST", &format!("/rpc/{}/add", alive.id)).json(body).send().await,
        server.ask("POST", &format!("/rpc/{}/add", alive.id)).send().await,
    ];
    assert_eq!(guesses[0].refusal(), "401 UNAUTHORIZED");
    for guess in &guesses {
        assert_eq!(guess, &guesses[0]);
    }
    assert_eq!(call(&server, &alive, "add", body).await.status, 200);
}

async fn an_ended_session_is_refused() {
    let server = start(Setup::default()).await;
    let session = open(&server, json!(["add"])).await;
    let path = format!("/v1/sessions/{}", session.id);
    let ended = server.ask("DELETE", &path).send().await;
    assert_eq!((ended.status, ended.body.as_str()), (204, ""));
    assert_eq!(call(&server, &session, "add", r#"{"args": [1, 2]}"#).await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(server.ask("DELETE", &path).send().await.refusal(), "404 NOT_FOUND");
    assert_eq!(server.ask("DELETE", "/v1/sessions/x").send().await.refusal(), "404 NOT_FOUND");
}

async fn open_as(server: &Server, key: &str, functions: Value) -> Session {
    let body = json!({ "functions": functions }).to_string();
    opened(&server.ask("POST", "/v1/sessions").bearer(key).json(&body).send().await)
}

async fn a_session_ends_with_the_key_that_opened_it() {
    let server = start(Setup { http: http(vec![key("one"), key("two")]), ..Setup::default() }).await;
    let session = open_as(&server, "one-key", json!(["add"])).await;
    let path = format!("/v1/sessions/{}", session.id);
    let foreign = server.ask("DELETE", &path).bearer("two-key").send().await;
    assert_eq!(foreign.refusal(), "404 NOT_FOUND");
    let body = r#"{"args": [1, 2]}"#;
    assert_eq!(call(&server, &session, "add", body).await.status, 200);
    server.service.change(AdmissionRules::new(http(vec![key("two")]), None));
    assert_eq!(call(&server, &session, "add", body).await.refusal(), "401 UNAUTHORIZED");
    server.service.change(AdmissionRules::new(http(vec![]), None));
    assert_eq!(call(&server, &session, "add", body).await.refusal(), "401 UNAUTHORIZED");
}

async fn a_session_ends_when_its_key_is_replaced() {
    let server = start(Setup { http: http(vec![key("one"), key("two")]), ..Setup::default() }).await;
    let (session, other) =
        (open_as(&server, "one-key", json!(["add"])).await, open_as(&server, "two-key", json!(["add"])).await);
    let body = r#"{"args": [1, 2]}"#;
    let mut changed = key("two");
    changed.rate = rate("100/s");
    let replaced = Key { name: "one".to_owned(), ..key("new") };
    server.service.change(AdmissionRules::new(http(vec![replaced, changed]), None));
    assert_eq!(call(&server, &session, "add", body).await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(call(&server, &other, "add", body).await.status, 200, "other rights are no other key");
    let again = open_as(&server, "new-key", json!(["add"])).await;
    assert_eq!(call(&server, &again, "add", body).await.status, 200);
}

async fn a_session_grants_no_more_than_its_key() {
    let mut few = key("few");
    few.functions = globs(&["a*"]);
    let server = start(Setup { http: http(vec![few]), ..Setup::default() }).await;
    let body = json!({"functions": ["fail"]}).to_string();
    let more = server.ask("POST", "/v1/sessions").bearer("few-key").json(&body).send().await;
    assert_eq!(more.refusal(), "400 INVALID_INPUT /functions/0");
}

async fn calls_count_against_the_keys_rate() {
    let mut slow = key("slow");
    slow.rate = rate("2/h");
    let server = start(Setup { http: http(vec![slow]), ..Setup::default() }).await;
    let session = open_as(&server, "slow-key", json!(["add"])).await;
    let body = r#"{"args": [1, 2]}"#;
    assert_eq!(call(&server, &session, "add", body).await.status, 200);
    assert_eq!(call(&server, &session, "add", body).await.refusal(), "429 RATE_LIMITED");
    let guess = Session { token: "wrong".into(), ..session };
    assert_eq!(call(&server, &guess, "add", body).await.refusal(), "401 UNAUTHORIZED");
}

async fn a_session_that_ends_while_the_body_is_sent_is_refused() {
    let server = start(Setup::default()).await;
    let session = open(&server, json!(["add"])).await;
    let path = format!("/rpc/{}/add", session.id);
    let request = server.ask("POST", &path).bearer(&session.token).header("Content-Type", "application/json");
    let mut slow = request.header("Content-Length", "16").begin().await;
    slow.write_all(br#"{"args": "#).await.expect("sent");
    // The body's slowness is the point: it has to take longer than the service trusts its first look.
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    assert_eq!(server.ask("DELETE", &format!("/v1/sessions/{}", session.id)).send().await.status, 204);
    slow.write_all(b"[1, 2]}").await.expect("sent");
    assert_eq!(crate::support::read(slow).await.refusal(), "401 UNAUTHORIZED");
}

async fn a_shutdown_ends_calls_and_sessions() {
    let mut hold = hold();
    let server = start(Setup {
        functions: [hold.function.clone()].into_iter().collect(),
        server: toolgate_service::ServerLimits { grace: std::time::Duration::from_millis(50), ..Default::default() },
        ..Setup::default()
    })
    .await;
    let session = open(&server, json!(["hold"])).await;
    let path = format!("/rpc/{}/hold", session.id);
    let call = server.ask("POST", &path).bearer(&session.token).json(r#"{"args": []}"#).begin().await;
    hold.began.recv().await.expect("it began");
    server.shutdown.begin.cancel();
    let ended = crate::support::read(call).await;
    assert_eq!((ended.status, &ended.json()["error"]["code"]), (200, &json!("ABORTED")));
    server.service.close().await.expect("closed");
}
