//! Sessions of one process, in its memory.

use super::{Clock, ExecutionId, SessionRecord, SessionStore, StoreError, StoreFuture};
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Expired records are swept out when a new one comes, at most this often.
const SWEEP_EVERY_MS: u64 = 1000;
const MAX_SESSIONS: usize = 100_000;

/// Keeps sessions in memory, bounded in number.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    records: HashMap<ExecutionId, SessionRecord>,
    next_sweep: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, capacity: MAX_SESSIONS, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, id: &ExecutionId, record: &SessionRecord) -> Result<(), StoreError> {
        let now = self.clock.now_ms();
        let mut kept = self.kept();
        if now >= kept.next_sweep {
            kept.records.retain(|_, record| record.expires_at > now);
            kept.next_sweep = now.saturating_add(SWEEP_EVERY_MS);
        }
        if kept.records.len() >= self.capacity {
            return Err(StoreError::Full);
        }
        kept.records.insert(id.clone(), record.clone());
        Ok(())
    }
}

impl SessionStore for MemoryStore {
    fn put<'a>(&'a self, id: &'a ExecutionId, record: &'a SessionRecord, _: Duration) -> StoreFuture<'a, ()> {
        Box::pin(ready(self.keep(id, record)))
    }

    fn get<'a>(&'a self, id: &'a ExecutionId) -> StoreFuture<'a, Option<SessionRecord>> {
        Box::pin(ready(Ok(self.kept().records.get(id).cloned())))
    }

    fn remove<'a>(&'a self, ids: &'a [ExecutionId]) -> StoreFuture<'a, ()> {
        let mut kept = self.kept();
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
        SessionRecord { token_hash: TokenHash::of("t"), expires_at, functions: vec![], owner: String::new() }
    }

    #[test]
    fn a_full_store_refuses_until_something_expires() {
        let clock = Arc::new(Hand(AtomicU64::new(0)));
        let store = MemoryStore { capacity: 2, ..MemoryStore::new(clock.clone()) };
        let put = |expires_at| store.keep(&ExecutionId::random().expect("randomness"), &record(expires_at));
        assert_eq!([put(500), put(9000), put(9000)], [Ok(()), Ok(()), Err(StoreError::Full)]);
        clock.0.store(SWEEP_EVERY_MS, Ordering::Relaxed);
        assert_eq!([put(9000), put(9000)], [Ok(()), Err(StoreError::Full)]);
    }
}
