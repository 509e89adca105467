//! What a session grants, to whom and until when; over the store in memory.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolgate_service::rpc_sessions::{
    AuthoriseError, Clock, MemorySessionStore, Opened, RpcSessions, SessionOwner, SessionStoreError, SessionTtl,
};

/// A clock that a test moves.
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn at(now: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis().try_into().expect("a sensible step"), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn minute() -> SessionTtl {
    SessionTtl::new(Duration::from_secs(60)).expect("in range")
}

pub(crate) fn alice() -> SessionOwner {
    SessionOwner { name: "alice".to_owned(), key: Some("of her key".to_owned()) }
}

pub(crate) async fn opened(sessions: &RpcSessions) -> Opened {
    sessions.open(alice(), vec!["add".into(), "api.list".into()], minute()).await.expect("opened")
}

pub(crate) async fn check(sessions: &RpcSessions, session: &Opened, function: &str, expected: &str) {
    check_parts(sessions, session.execution_id.as_str(), session.token.reveal(), function, expected).await;
}

async fn check_parts(sessions: &RpcSessions, id: &str, token: &str, function: &str, expected: &str) {
    let found = match sessions.authorise(id, token, function).await {
        Ok(grant) => format!("{} for {}", grant.function, grant.owner.name),
        Err(AuthoriseError::Refused) => "refused".to_owned(),
        Err(AuthoriseError::Store(error)) => error.to_string(),
    };
    assert_eq!(found, expected, "{function} in {id:?}");
}

fn in_memory() -> (RpcSessions, Arc<Hand>) {
    let clock = Hand::at(1_700_000_000_000);
    (RpcSessions::new(Arc::new(MemorySessionStore::new(clock.clone())), clock.clone()), clock)
}

#[tokio::test]
async fn a_session_grants_its_functions_and_no_other() {
    let (sessions, _) = in_memory();
    let session = opened(&sessions).await;
    check(&sessions, &session, "add", "add for alice").await;
    check(&sessions, &session, "api.list", "api.list for alice").await;
    for other in ["ad", "list", "httpCall", "", "ADD"] {
        check(&sessions, &session, other, "refused").await;
    }
}

#[tokio::test]
async fn every_guess_is_refused_alike() {
    let (sessions, _) = in_memory();
    let (session, other) = (opened(&sessions).await, opened(&sessions).await);
    let (id, token) = (session.execution_id.as_str(), session.token.reveal());
    let zeros = "0".repeat(32);
    for (id, token) in [
        (id, other.token.reveal()),
        (other.execution_id.as_str(), token),
        (id, ""),
        (id, &token[1..]),
        (id, &token.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A")),
        (&zeros, token),
        (&zeros, ""),
        ("", token),
        ("*", token),
        (&id.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"), token),
    ] {
        check_parts(&sessions, id, token, "add", "refused").await;
    }
}

#[tokio::test]
async fn a_session_ends_when_its_time_is_over() {
    let (sessions, clock) = in_memory();
    let session = opened(&sessions).await;
    assert_eq!(session.expires_at, 1_700_000_060_000);
    clock.advance(Duration::from_millis(59_999));
    check(&sessions, &session, "add", "add for alice").await;
    clock.advance(Duration::from_millis(1));
    check(&sessions, &session, "add", "refused").await;
}

#[tokio::test]
async fn only_its_owner_revokes_a_session() {
    let (sessions, _) = in_memory();
    let session = opened(&sessions).await;
    let id = session.execution_id.as_str();
    assert_eq!(sessions.revoke(id, "mallory").await, Ok(false));
    assert_eq!(sessions.revoke("nonsense", "alice").await, Ok(false));
    check(&sessions, &session, "add", "add for alice").await;
    assert_eq!(sessions.revoke(id, "alice").await, Ok(true));
    check(&sessions, &session, "add", "refused").await;
    assert_eq!(sessions.revoke(id, "alice").await, Ok(false));
}

#[tokio::test]
async fn a_revocation_ends_one_session_and_no_other() {
    let (sessions, _) = in_memory();
    let (session, other) = (opened(&sessions).await, opened(&sessions).await);
    assert_eq!(sessions.revoke(session.execution_id.as_str(), "alice").await, Ok(true));
    check(&sessions, &session, "add", "refused").await;
    check(&sessions, &other, "add", "add for alice").await;
}

#[tokio::test]
async fn after_the_shutdown_no_session_is_open_and_none_can_be_opened() {
    let (sessions, _) = in_memory();
    let session = opened(&sessions).await;
    sessions.close().await.expect("closed");
    check(&sessions, &session, "add", "refused").await;
    let late = sessions.open(alice(), vec![], minute()).await;
    assert_eq!(late.map(|_| ()), Err(SessionStoreError::Closed));
    sessions.close().await.expect("closing twice is harmless");
}

#[test]
fn a_lifetime_has_bounds() {
    let ok = |ms| SessionTtl::new(Duration::from_millis(ms)).is_ok();
    assert_eq!([99, 100, 86_400_000, 86_400_001].map(ok), [false, true, true, false]);
    let error = SessionTtl::new(Duration::ZERO).expect_err("out of range");
    assert_eq!(json!(error.to_string()), "a session lasts between 100 ms and 86400000 ms");
}
