//! Stores sessions in the memory of one process, bounded in number.
//!
//! Sessions do not survive the process and are not shared with others.

use super::{Clock, ExecutionId, SessionRecord, SessionStore, SessionStoreError, SessionStoreFuture};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

/// The least time between two sweeps of expired records; a sweep happens when a record is added.
const SWEEP_INTERVAL_MS: u64 = 1000;
const MAX_SESSIONS: usize = 100_000;

/// Stores sessions in memory, bounded in number.
pub struct MemorySessionStore {
    clock: Arc<dyn Clock>,
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    records: HashMap<ExecutionId, SessionRecord>,
    next_sweep: u64,
}

impl MemorySessionStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, capacity: MAX_SESSIONS, kept: Mutex::default() }
    }

    fn keep(&self, id: &ExecutionId, record: &SessionRecord) -> Result<(), SessionStoreError> {
        let now = self.clock.now_ms();
        let mut kept = self.kept.lock();
        if now >= kept.next_sweep {
            kept.records.retain(|_, record| record.expires_at > now);
            kept.next_sweep = now.saturating_add(SWEEP_INTERVAL_MS);
        }
        if kept.records.len() >= self.capacity {
            return Err(SessionStoreError::Full);
        }
        kept.records.insert(id.clone(), record.clone());
        Ok(())
    }
}

impl SessionStore for MemorySessionStore {
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, _: Duration) -> SessionStoreFuture<'a, ()> {
        Box::pin(ready(self.keep(id, record)))
    }

    fn get<'a>(&'a self, id: &'a ExecutionId) -> SessionStoreFuture<'a, Option<SessionRecord>> {
        Box::pin(ready(Ok(self.kept.lock().records.get(id).cloned())))
    }

    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> SessionStoreFuture<'a, ()> {
        let mut kept = self.kept.lock();
        for id in ids {
            kept.records.remove(id);
        }
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TokenHash;
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn record(expires_at: u64) -> SessionRecord {
        let token_hash = TokenHash::of("t");
        SessionRecord { token_hash, expires_at, functions: vec![], owner: String::new(), owner_key: None }
    }

    #[test]
    fn a_full_store_refuses_until_something_expires() {
        let clock = Arc::new(Hand(AtomicU64::new(0)));
        let store = MemorySessionStore { capacity: 2, ..MemorySessionStore::new(clock.clone()) };
        let put = |expires_at| store.keep(&ExecutionId::random().expect("randomness"), &record(expires_at));
        assert_eq!([put(500), put(9000), put(9000)], [Ok(()), Ok(()), Err(SessionStoreError::Full)]);
        clock.0.store(SWEEP_INTERVAL_MS, Ordering::Relaxed);
        assert_eq!([put(9000), put(9000)], [Ok(()), Err(SessionStoreError::Full)]);
    }
}
