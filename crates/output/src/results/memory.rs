//! Results in memory, for a process that serves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Kept, ResultId, ResultLimits, Whole, is_expired};

/// What an entry costs besides its text, so that many tiny results are bounded too.
const OVERHEAD: usize = 256;

#[derive(Default)]
pub(super) struct Memory(Mutex<ResultMap>);

/// A result is found under its id by the owner it is kept for, and by nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) owner: Arc<str>,
    pub(super) id: ResultId,
}

#[derive(Default)]
struct ResultMap {
    results: HashMap<Key, (SystemTime, Whole)>,
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Memory {
    /// False if the result is larger than the store.
    pub(super) fn put(&self, key: Key, kept: Kept<'_>, now: SystemTime, limits: &ResultLimits) -> bool {
        let cost = cost(&kept.text);
        if cost > limits.max_bytes {
            return false;
        }
        // Copied outside the lock: it may be megabytes. A text that is owned is moved, not copied.
        let mut text = kept.text.into_owned();
        text.shrink_to_fit();
        let whole = Whole { kind: kept.kind, text: Arc::new(text) };
        let mut map = self.map();
        map.drop_expired(now, limits);
        while map.bytes + cost > limits.max_bytes && map.drop_oldest() {}
        map.bytes += cost;
        map.order.push_back(key.clone());
        map.results.insert(key, (now, whole));
        true
    }

    pub(super) fn get(&self, key: &Key, now: SystemTime, limits: &ResultLimits) -> Option<Whole> {
        let mut map = self.map();
        map.drop_expired(now, limits);
        let (kept_at, whole) = map.results.get(key)?;
        (!is_expired(*kept_at, now, limits)).then(|| whole.clone())
    }

    fn map(&self) -> MutexGuard<'_, ResultMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResultMap {
    fn drop_expired(&mut self, now: SystemTime, limits: &ResultLimits) {
        let expired = |map: &Self| {
            let oldest = map.order.front().and_then(|id| map.results.get(id));
            oldest.is_some_and(|(kept_at, _)| is_expired(*kept_at, now, limits))
        };
        while expired(self) && self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(id) = self.order.pop_front() else { return false };
        if let Some((_, whole)) = self.results.remove(&id) {
            self.bytes = self.bytes.saturating_sub(cost(&whole.text));
        }
        true
    }
}

fn cost(text: &str) -> usize {
    text.len().saturating_add(OVERHEAD)
}
