//! Sessions shared by several processes through Redis, one key each: `sandbox:session:<executionId>`, JSON, with a TTL.
//!
//! A command has one short span of time in all. A dropped connection costs one immediate second try; one that is silent is given
//! up and replaced, since a half-open connection would stay silent for many minutes. So a lost Redis is a fast
//! [`StoreError::Unavailable`], and the first command after its return succeeds.

use super::{ExecutionId, SessionRecord, SessionStore, StoreError, StoreFuture};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, RedisError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PREFIX: &str = "sandbox:session:";
const RETRY_AFTER: Duration = Duration::from_secs(1);
const DEFAULT_TIME: Duration = Duration::from_millis(500);

/// Keeps sessions in Redis.
pub struct RedisStore {
    client: Client,
    time: Duration,
    connection: Mutex<Connection>,
}

#[derive(Clone)]
struct Connection {
    /// Counts replacements, so that many commands failing on one connection replace it once.
    generation: u64,
    manager: ConnectionManager,
}

/// The text is no address of a Redis. It is not shown: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a redis:// URL that can be used: {0}")]
pub struct BadRedisUrl(String);

impl RedisStore {
    /// A store at `redis://…`. Connects with the first command, so a Redis that is down now may come later.
    pub async fn open(url: &str) -> Result<Self, BadRedisUrl> {
        Self::with_time(url, DEFAULT_TIME).await
    }

    /// The same with another span of time for each command.
    // Async although nothing is awaited: the connection starts a task, so there must be a runtime around.
    pub async fn with_time(url: &str, time: Duration) -> Result<Self, BadRedisUrl> {
        let bad = |error: RedisError| BadRedisUrl(format!("{:?}", error.kind()));
        let client = Client::open(url).map_err(bad)?;
        let manager = manager(&client, time).map_err(bad)?;
        Ok(Self { client, time, connection: Mutex::new(Connection { generation: 0, manager }) })
    }

    async fn run<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let mut connection = self.connection();
        let manager = &mut connection.manager;
        let tries = async {
            match command.query_async::<T>(manager).await {
                Err(error) if error.is_io_error() => command.query_async::<T>(manager).await,
                answer => answer,
            }
        };
        match tokio::time::timeout(self.time, tries).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => tracing::warn!(%error, "a Redis command failed"),
            Err(_) => {
                tracing::warn!(time_ms = self.time.as_millis(), "Redis did not answer in time");
                self.replace(connection.generation);
            }
        }
        Err(StoreError::Unavailable { retry_after: RETRY_AFTER })
    }

    fn connection(&self) -> Connection {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, silent: u64) {
        let mut current = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if current.generation == silent
            && let Ok(manager) = manager(&self.client, self.time)
        {
            *current = Connection { generation: silent.wrapping_add(1), manager };
        }
    }
}

/// No retries inside: they would spend the caller's time waiting.
fn manager(client: &Client, time: Duration) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(time))
        .set_response_timeout(None);
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

fn key(id: &ExecutionId) -> String {
    format!("{PREFIX}{id}")
}

/// What can't be read counts as absent: it grants nothing, and its TTL takes it away.
fn parse(text: &str) -> Option<SessionRecord> {
    serde_json::from_str(text).inspect_err(|error| tracing::warn!(%error, "a session in Redis can't be read")).ok()
}

impl SessionStore for RedisStore {
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, ttl: Duration) -> StoreFuture<'a, ()> {
        let mut command = redis::cmd("SET");
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        command.arg(key(id)).arg(serde_json::json!(record).to_string()).arg("PX").arg(ttl);
        Box::pin(self.run(command))
    }

    fn get<'a>(&'a self, id: &'a ExecutionId) -> StoreFuture<'a, Option<SessionRecord>> {
        let mut command = redis::cmd("GET");
        command.arg(key(id));
        Box::pin(async move { Ok(self.run::<Option<String>>(command).await?.as_deref().and_then(parse)) })
    }

    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> StoreFuture<'a, ()> {
        if ids.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let mut command = redis::cmd("DEL");
        command.arg(ids.iter().map(key).collect::<Vec<_>>());
        Box::pin(self.run(command))
    }
}
