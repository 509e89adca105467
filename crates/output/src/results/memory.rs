//! The result store of a long-running process: in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::{Kept, ResultId, ResultLimits, Whole, is_expired};

/// Bytes that an entry counts besides its text, so that the number of tiny results is bounded as well.
const ENTRY_OVERHEAD: usize = 256;

#[derive(Default)]
pub(super) struct Memory(Mutex<ResultMap>);

/// A result is found only by its owner and its id together.
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
        // Copy before taking the lock, because the text may have megabytes. An owned text is moved.
        let mut text = kept.text.into_owned();
        text.shrink_to_fit();
        let whole = Whole { kind: kept.kind, text: Arc::new(text) };
        let mut map = self.0.lock();
        map.drop_expired(now, limits);
        while map.bytes + cost > limits.max_bytes && map.drop_oldest() {}
        map.bytes += cost;
        map.order.push_back(key.clone());
        map.results.insert(key, (now, whole));
        true
    }

    pub(super) fn get(&self, key: &Key, now: SystemTime, limits: &ResultLimits) -> Option<Whole> {
        let mut map = self.0.lock();
        map.drop_expired(now, limits);
        let (kept_at, whole) = map.results.get(key)?;
        (!is_expired(*kept_at, now, limits)).then(|| whole.clone())
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
    text.len().saturating_add(ENTRY_OVERHEAD)
}
