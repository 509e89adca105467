//! Several servers that share sessions through a real Redis, and servers without it.

use crate::harness::{Case, cases};
use crate::processes;
use crate::redis_server::Redis;
use crate::sessions::{Session, call, opened};
use crate::support::{Server, Setup, ask, start};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolgate_service::rpc_sessions::{RedisStore, RpcSessions, SystemClock};

pub(crate) fn cases() -> Vec<Case> {
    cases![two_processes_share_sessions_and_survive_each_other, a_lost_redis_is_a_503_and_recovers_by_itself]
}

async fn open_at(at: SocketAddr) -> Session {
    let body = json!({"functions": ["add"]}).to_string();
    opened(&ask(at, "POST", "/v1/sessions").json(&body).send().await)
}

async fn check(at: SocketAddr, session: &Session, expected: u16) {
    let path = format!("/rpc/{}/add", session.id);
    let answer = ask(at, "POST", &path).bearer(&session.token).json(r#"{"args": [1, 2]}"#).send().await;
    assert_eq!(answer.status, expected, "{answer:?}");
}

async fn two_processes_share_sessions_and_survive_each_other() {
    let redis = Redis::start().await;
    let role = format!("serve {}", redis.url());
    let (one, two) = (processes::start(role.clone()).await, processes::start(role.clone()).await);
    let (of_one, of_two) = (open_at(one.at()).await, open_at(two.at()).await);
    check(two.at(), &of_one, 200).await;
    check(one.at(), &of_two, 200).await;
    // Ended at one, it is ended at the other.
    let revoked = open_at(one.at()).await;
    let path = format!("/v1/sessions/{}", revoked.id);
    assert_eq!(ask(two.at(), "DELETE", &path).send().await.status, 204);
    check(one.at(), &revoked, 401).await;
    // A crash of its owner does not end a session, and the restarted owner knows it.
    one.kill().await;
    check(two.at(), &of_one, 200).await;
    let again = processes::start(role).await;
    check(again.at(), &of_one, 200).await;
    // An orderly shutdown ends those of the one that shuts down, and no others.
    two.stop().await;
    check(again.at(), &of_two, 401).await;
    check(again.at(), &of_one, 200).await;
}

async fn a_lost_redis_is_a_503_and_recovers_by_itself() {
    let redis = Redis::start().await;
    let store = RedisStore::open(&redis.url()).await.expect("a URL");
    let sessions = Arc::new(RpcSessions::new(Arc::new(store), Arc::new(SystemClock)));
    let server = start(Setup { sessions, ..Setup::default() }).await;
    let session = open_at(server.at).await;
    let port = redis.kill().await;
    let since = Instant::now();
    refused(&server, &session).await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    // What needs no session goes on.
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
    assert_eq!(server.get("/readyz").await.json(), json!({"status": "ready", "sessions": "unavailable"}));
    let _redis = Redis::start_at(port).await.expect("its port is still free");
    let after = open_at(server.at).await;
    check(server.at, &after, 200).await;
}

async fn refused(server: &Server, session: &Session) {
    let body = json!({"functions": ["add"]}).to_string();
    for answer in [
        call(server, session, "add", r#"{"args": [1, 2]}"#).await,
        server.ask("POST", "/v1/sessions").json(&body).send().await,
        server.ask("DELETE", &format!("/v1/sessions/{}", session.id)).send().await,
    ] {
        assert_eq!((answer.refusal().as_str(), answer.header("retry-after")), ("503 UNAVAILABLE", Some("1")));
    }
}
