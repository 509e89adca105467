//! Sessions of the RPC bridge: which host functions the holder of a token may call, and until when.
//!
//! [`RpcSessions`] opens, checks and ends them; a [`SessionStore`] stores them, in memory or in Redis. The store has only the
//! SHA-256 of a token. Nothing is cached in between, so a revocation at one replica takes effect at the next call at any other.
//!
//! It does not run functions, and it does not decide who may open a session.

mod clock;
mod id;
mod memory;
mod record;
mod redis;
mod sessions;

pub use clock::{Clock, SystemClock};
pub use id::{ExecutionId, Token, TokenHash};
pub use memory::MemorySessionStore;
pub use record::{SessionOwner, SessionRecord};
pub use redis::{BadRedisUrl, RedisStore};
pub use sessions::{AuthoriseError, BadTtl, Opened, RpcSessions, SessionGrant, SessionTtl};

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The pending result of a store.
pub type SessionStoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

/// Stores session records by execution id. Every method completes within a bounded time.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a record for at least this long, and not much longer.
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, ttl: Duration) -> SessionStoreFuture<'a, ()>;

    /// The record, if it exists. It may have expired; checking that is up to the caller.
    fn get<'a>(&'a self, id: &'a ExecutionId) -> SessionStoreFuture<'a, Option<SessionRecord>>;

    /// Removes records; missing ones are no error.
    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> SessionStoreFuture<'a, ()>;
}

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionStoreError {
    /// The store cannot be reached at this time.
    #[error("the session store is not available")]
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// The limit on sessions is reached.
    #[error("the session store is full")]
    Full,
    /// This process is shutting down.
    #[error("no new sessions: shutting down")]
    Closed,
    /// The operating system provided no random bytes.
    #[error("the system provides no random numbers")]
    NoRandomness,
}
