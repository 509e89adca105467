//! Sessions of the RPC bridge: who may call which host functions from outside, and until when.
//!
//! [`Sessions`] opens, checks and ends them; a [`SessionStore`] keeps what it needs for that, in memory or in Redis. A token is
//! known to its holder alone: the store has its SHA-256. Nothing is cached in between, so a revocation at one replica counts at
//! the next call at any other.
//!
//! It does not run functions, and it does not decide who may open a session.

mod clock;
mod id;
mod memory;
mod record;
mod redis;
mod service;

pub use clock::{Clock, SystemClock};
pub use id::{ExecutionId, Token, TokenHash};
pub use memory::MemoryStore;
pub use record::SessionRecord;
pub use redis::{BadRedisUrl, RedisStore};
pub use service::{AuthoriseError, BadTtl, Grant, Opened, SessionTtl, Sessions};

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A store's answer, on its way.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps session records by execution id. Every method answers soon, with an error if need be.
pub trait SessionStore: Send + Sync + 'static {
    /// Keeps a record for at least this long, and not much longer.
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, ttl: Duration) -> StoreFuture<'a, ()>;

    /// The record, if it is there. It may have expired: the caller has the clock.
    fn get<'a>(&'a self, id: &'a ExecutionId) -> StoreFuture<'a, Option<SessionRecord>>;

    /// Forgets records; those that are not there are no error.
    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> StoreFuture<'a, ()>;
}

/// Why the store gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It can't be reached now; it may be back soon.
    #[error("the session store is not available")]
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// It holds as many sessions as it may.
    #[error("the session store is full")]
    Full,
    /// This process is shutting down.
    #[error("no new sessions: shutting down")]
    Closed,
    /// The operating system gave no random numbers.
    #[error("no random numbers for a session")]
    NoRandomness,
}
