//! Stores sessions in Redis, shared by several processes: one key each, `sandbox:session:<executionId>`, JSON, with a TTL.
//!
//! Each command has one short timeout, retries included. A dropped connection is retried once, immediately; a connection that
//! does not reply is replaced, since a half-open connection would stay silent for many minutes. So an unreachable Redis is a fast
//! [`SessionStoreError::Unavailable`], and the first command after its return succeeds. Nothing is cached.

use super::{ExecutionId, SessionRecord, SessionStore, SessionStoreError, SessionStoreFuture};
use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, RedisError};
use std::time::{Duration, Instant};

const PREFIX: &str = "sandbox:session:";
const RETRY_AFTER: Duration = Duration::from_secs(1);
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// The least time between two log lines about failed commands.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Stores sessions in Redis.
pub struct RedisStore {
    client: Client,
    time: Duration,
    connection: Mutex<Connection>,
    /// When a failed command was logged last.
    warned: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Connection {
    /// Counts replacements, so that several commands failing on one connection replace it once.
    generation: u64,
    manager: ConnectionManager,
}

/// The text is not a usable Redis URL. The URL is not shown, since it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable redis:// URL: {0}")]
pub struct BadRedisUrl(String);

impl RedisStore {
    /// A store at `redis://…`. Connects with the first command, so Redis may be started later.
    pub async fn open(url: &str) -> Result<Self, BadRedisUrl> {
        Self::with_timeout(url, DEFAULT_COMMAND_TIMEOUT).await
    }

    /// The same with another timeout for each command.
    // Async although nothing is awaited: the connection spawns a task, which needs a runtime.
    pub async fn with_timeout(url: &str, time: Duration) -> Result<Self, BadRedisUrl> {
        let bad = |error: RedisError| BadRedisUrl(format!("{:?}", error.kind()));
        let client = Client::open(url).map_err(bad)?;
        let manager = manager(&client, time).map_err(bad)?;
        Ok(Self {
            client,
            time,
            connection: Mutex::new(Connection { generation: 0, manager }),
            warned: Mutex::default(),
        })
    }

    async fn run<T: FromRedisValue>(&self, command: Cmd) -> Result<T, SessionStoreError> {
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
            Ok(Err(error)) => self.warn(|| tracing::warn!(%error, "a Redis command failed")),
            Err(_) => {
                self.warn(|| tracing::warn!(time_ms = self.time.as_millis(), "a Redis command timed out"));
                self.replace(connection.generation);
            }
        }
        Err(SessionStoreError::Unavailable { retry_after: RETRY_AFTER })
    }

    /// Writes a line, unless there was one a short time ago: `/readyz` needs no key, and each request is a command.
    fn warn(&self, line: impl FnOnce()) {
        let mut warned = self.warned.lock();
        if warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            *warned = Some(Instant::now());
            line();
        }
    }

    fn connection(&self) -> Connection {
        self.connection.lock().clone()
    }

    fn replace(&self, silent: u64) {
        let mut current = self.connection.lock();
        if current.generation == silent
            && let Ok(manager) = manager(&self.client, self.time)
        {
            *current = Connection { generation: silent.wrapping_add(1), manager };
        }
    }
}

/// No retries of its own: they would use up the command's timeout.
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

/// A record that cannot be parsed counts as absent: it grants nothing, and its TTL removes it.
fn parse(text: &str) -> Option<SessionRecord> {
    serde_json::from_str(text).inspect_err(|error| tracing::warn!(%error, "a session in Redis cannot be parsed")).ok()
}

impl SessionStore for RedisStore {
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, ttl: Duration) -> SessionStoreFuture<'a, ()> {
        let mut command = redis::cmd("SET");
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        command.arg(key(id)).arg(serde_json::json!(record).to_string()).arg("PX").arg(ttl);
        Box::pin(self.run(command))
    }

    fn get<'a>(&'a self, id: &'a ExecutionId) -> SessionStoreFuture<'a, Option<SessionRecord>> {
        let mut command = redis::cmd("GET");
        command.arg(key(id));
        Box::pin(async move { Ok(self.run::<Option<String>>(command).await?.as_deref().and_then(parse)) })
    }

    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> SessionStoreFuture<'a, ()> {
        if ids.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let mut command = redis::cmd("DEL");
        command.arg(ids.iter().map(key).collect::<Vec<_>>());
        Box::pin(self.run(command))
    }
}
