//! The same sessions through a real Redis, and without it.

use crate::memory::{alice, check, minute, opened};
use crate::redis_server::Redis;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_service::rpc_sessions::{AuthoriseError, RedisStore, RpcSessions, SessionStoreError, SystemClock};

const UNAVAILABLE: &str = "the session store is not available";

impl Redis {
    async fn sessions(&self) -> RpcSessions {
        sessions_at(&self.url()).await
    }

    async fn query<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.url()).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("connected");
        let mut parts = command.iter();
        let mut query = redis::cmd(parts.next().expect("a command"));
        parts.for_each(|part| {
            query.arg(part);
        });
        query.query_async(&mut connection).await.expect("an answer")
    }
}

async fn sessions_at(url: &str) -> RpcSessions {
    let store = RedisStore::open(url).await.expect("a URL");
    RpcSessions::new(Arc::new(store), Arc::new(SystemClock))
}

#[tokio::test]
async fn two_replicas_share_sessions() {
    let redis = Redis::start().await;
    let (one, two) = (redis.sessions().await, redis.sessions().await);
    let session = opened(&one).await;
    check(&two, &session, "add", "add for alice").await;
    check(&two, &session, "other", "refused").await;
    assert_eq!(two.revoke(session.execution_id.as_str(), "alice").await, Ok(true));
    check(&one, &session, "add", "refused").await;
}

#[tokio::test]
async fn a_session_survives_a_crash_of_its_owner_and_not_its_shutdown() {
    let redis = Redis::start().await;
    let (one, two) = (redis.sessions().await, redis.sessions().await);
    let (crashed, closed) = (opened(&one).await, opened(&two).await);
    drop(one);
    let again = redis.sessions().await;
    check(&again, &crashed, "add", "add for alice").await;
    two.close().await.expect("closed");
    check(&again, &closed, "add", "refused").await;
    check(&again, &crashed, "add", "add for alice").await;
}

#[tokio::test]
async fn redis_holds_a_hash_under_a_key_with_a_ttl() {
    let redis = Redis::start().await;
    let session = opened(&redis.sessions().await).await;
    let key = format!("sandbox:session:{}", session.execution_id);
    let ttl: i64 = redis.query(&["PTTL", &key]).await;
    assert!((1..=60_000).contains(&ttl), "{ttl}");
    let text: String = redis.query(&["GET", &key]).await;
    assert!(!text.contains(session.token.reveal()), "the token itself is kept");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let hash = record["tokenHash"].take();
    assert_eq!(hash.as_str().map(str::len), Some(64));
    let functions = ["add", "api.list"];
    let expected = serde_json::json!({
        "tokenHash": null, "expiresAt": session.expires_at, "functions": functions, "owner": "alice", "ownerKey": "of her key",
    });
    assert_eq!(record, expected);
}

#[tokio::test]
async fn a_record_that_can_not_be_read_grants_nothing() {
    let redis = Redis::start().await;
    let sessions = redis.sessions().await;
    let session = opened(&sessions).await;
    let key = format!("sandbox:session:{}", session.execution_id);
    for nonsense in ["", "{}", "null", r#"{"tokenHash":"x","expiresAt":1,"functions":["add"],"owner":""}"#] {
        let _: () = redis.query(&["SET", &key, nonsense]).await;
        check(&sessions, &session, "add", "refused").await;
    }
}

#[tokio::test]
async fn a_lost_redis_is_a_fast_error_and_its_return_is_noticed() {
    let redis = Redis::start().await;
    let sessions = redis.sessions().await;
    let before = opened(&sessions).await;
    let port = redis.kill().await;
    let start = Instant::now();
    check(&sessions, &before, "add", UNAVAILABLE).await;
    let Err(SessionStoreError::Unavailable { retry_after }) = sessions.open(alice(), vec![], minute()).await else {
        panic!("the store is gone")
    };
    assert!(!retry_after.is_zero());
    assert_eq!(
        sessions.revoke(before.execution_id.as_str(), "alice").await,
        Err(SessionStoreError::Unavailable { retry_after })
    );
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let redis = Redis::start_at(port).await.expect("its port is still free");
    let after = opened(&sessions).await;
    check(&sessions, &after, "add", "add for alice").await;
    // Nothing was saved, so what was there before is unknown now, as after any expiry.
    check(&sessions, &before, "add", "refused").await;
    drop(redis);
}

#[tokio::test]
async fn a_redis_that_is_not_there_yet_may_come_later() {
    let port = Redis::start().await.kill().await;
    let sessions = sessions_at(&format!("redis://127.0.0.1:{port}/")).await;
    let early = sessions.authorise(&"0".repeat(32), "t", "add").await;
    assert!(matches!(early, Err(AuthoriseError::Store(SessionStoreError::Unavailable { .. }))), "{early:?}");
    let _redis = Redis::start_at(port).await.expect("its port is still free");
    let session = opened(&sessions).await;
    check(&sessions, &session, "add", "add for alice").await;
}

/// Leads to Redis, until the first connection is cut: it stays open and silent from then on, as after a pulled cable.
struct Cable {
    at: SocketAddr,
    cut: CancellationToken,
    is_cut: Arc<Notify>,
}

async fn cable_to(redis: u16) -> Cable {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    let (cut, is_cut) = (CancellationToken::new(), Arc::new(Notify::new()));
    let cable = Cable { at, cut: cut.clone(), is_cut: is_cut.clone() };
    tokio::spawn(async move {
        let mut first = Some((cut, is_cut));
        while let Ok((mut client, _)) = listener.accept().await {
            let cut = first.take();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", redis)).await.expect("Redis is there");
                let Some((cut, is_cut)) = cut else { return drop(copy_bidirectional(&mut client, &mut server).await) };
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    () = cut.cancelled() => is_cut.notify_one(),
                }
                std::future::pending::<()>().await;
            });
        }
    });
    cable
}

#[tokio::test]
async fn a_silent_connection_is_replaced() {
    let redis = Redis::start().await;
    let cable = cable_to(redis.port).await;
    let url = format!("redis://{}/", cable.at);
    let store = RedisStore::with_timeout(&url, Duration::from_millis(300)).await.expect("a URL");
    let sessions = RpcSessions::new(Arc::new(store), Arc::new(SystemClock));
    let session = opened(&sessions).await;
    cable.cut.cancel();
    cable.is_cut.notified().await;
    let start = Instant::now();
    check(&sessions, &session, "add", UNAVAILABLE).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    check(&sessions, &session, "add", "add for alice").await;
}

#[tokio::test]
async fn a_server_that_never_greets_is_a_fast_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let sessions = sessions_at(&format!("redis://{}/", listener.local_addr().expect("an address"))).await;
    let start = Instant::now();
    let hung = sessions.open(alice(), vec![], minute()).await;
    assert!(matches!(hung, Err(SessionStoreError::Unavailable { .. })), "{hung:?}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_no_redis_url_is_refused_without_showing_it() {
    for url in ["", "http://u:s3cret@h/", "redis://u:s3cret@h:x/"] {
        let error = RedisStore::open(url).await.map(|_| ()).expect_err("no Redis");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
