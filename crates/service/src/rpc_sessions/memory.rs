//! Stores sessions in the memory of one process, bounded in number. Sessions of one owner leave room for those of others.
//!
//! Sessions do not survive the process and are not shared with others.

use super::{Clock, ExecutionId, SessionRecord, SessionStore, SessionStoreError, SessionStoreFuture};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use toolgate_wire::CallerShares;

/// The least time between two sweeps of expired records; a sweep happens when a record is added.
const SWEEP_INTERVAL_MS: u64 = 1000;
const MAX_SESSIONS: usize = 100_000;

/// Stores sessions in memory, bounded in number.
pub struct MemorySessionStore {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

struct Kept {
    records: HashMap<ExecutionId, SessionRecord>,
    by_owner: CallerShares<String>,
    next_sweep: u64,
}

impl Kept {
    fn empty(capacity: usize) -> Mutex<Self> {
        Mutex::new(Kept { records: HashMap::new(), by_owner: CallerShares::new(capacity), next_sweep: 0 })
    }

    fn sweep(&mut self, now: u64) {
        let Kept { records, by_owner, .. } = self;
        records.retain(|_, record| {
            let stays = record.expires_at > now;
            if !stays {
                by_owner.remove(record.owner.as_str(), 1);
            }
            stays
        });
        self.next_sweep = now.saturating_add(SWEEP_INTERVAL_MS);
    }

    /// Whether an owner may have one more. Where there are no keys, there is one owner.
    fn has_room_for(&self, owner: &str) -> bool {
        if owner.is_empty() { self.by_owner.fits(1) } else { self.by_owner.permits(owner, 1) }
    }

    fn remove(&mut self, id: &ExecutionId) {
        if let Some(record) = self.records.remove(id) {
            self.by_owner.remove(record.owner.as_str(), 1);
        }
    }
}

impl MemorySessionStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Kept::empty(MAX_SESSIONS) }
    }

    fn keep(&self, id: &ExecutionId, record: &SessionRecord) -> Result<(), SessionStoreError> {
        let now = self.clock.now_ms();
        let mut kept = self.kept.lock();
        if now >= kept.next_sweep {
            kept.sweep(now);
        }
        kept.remove(id);
        if !kept.has_room_for(&record.owner) {
            return Err(SessionStoreError::Full);
        }
        kept.by_owner.add(record.owner.clone(), 1);
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
        ids.iter().for_each(|id| kept.remove(id));
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

    fn record(expires_at: u64, owner: &str) -> SessionRecord {
        let (token_hash, owner) = (TokenHash::of("t"), owner.to_owned());
        SessionRecord { token_hash, expires_at, functions: vec![], owner, owner_key: None }
    }

    fn store(capacity: usize, clock: &Arc<Hand>) -> MemorySessionStore {
        MemorySessionStore { kept: Kept::empty(capacity), ..MemorySessionStore::new(clock.clone()) }
    }

    #[test]
    fn a_full_store_refuses_until_something_expires() {
        let clock = Arc::new(Hand(AtomicU64::new(0)));
        let store = store(2, &clock);
        let put = |expires_at| store.keep(&ExecutionId::random().expect("randomness"), &record(expires_at, ""));
        assert_eq!([put(500), put(9000), put(9000)], [Ok(()), Ok(()), Err(SessionStoreError::Full)]);
        clock.0.store(SWEEP_INTERVAL_MS, Ordering::Relaxed);
        assert_eq!([put(9000), put(9000)], [Ok(()), Err(SessionStoreError::Full)]);
    }

    #[test]
    fn the_sessions_of_one_owner_leave_room_for_others() {
        let clock = Arc::new(Hand(AtomicU64::new(0)));
        let store = store(8, &clock);
        let opened = |owner: &str| {
            let open = || store.keep(&ExecutionId::random().expect("randomness"), &record(900, owner));
            (0..8).filter(|_| open().is_ok()).count()
        };
        assert_eq!((opened("greedy"), opened("other")), (4, 2));
        clock.0.store(SWEEP_INTERVAL_MS, Ordering::Relaxed);
        assert_eq!(opened("other"), 4, "what has expired counts no more");
        let kept = store.kept.lock();
        assert_eq!((kept.by_owner.used(), kept.records.len()), (4, 4));
    }
}
