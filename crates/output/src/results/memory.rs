//! The result store of a long-running process: in memory.
//!
//! A full store makes room at the owner that has the most, oldest first, so that no owner removes the results of another one
//! that has less.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use toolgate_wire::CallerShares;

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

struct ResultMap {
    results: HashMap<Key, (SystemTime, Whole)>,
    /// The results of each owner, oldest first. No queue is empty.
    order: HashMap<Arc<str>, VecDeque<Key>>,
    /// The bytes of each owner.
    bytes: CallerShares<Arc<str>>,
}

impl Default for ResultMap {
    fn default() -> Self {
        // The bound comes with each result: see `ResultLimits`.
        Self { results: HashMap::new(), order: HashMap::new(), bytes: CallerShares::new(usize::MAX) }
    }
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
        map.bytes.add(Arc::clone(&key.owner), cost);
        map.make_room(limits.max_bytes);
        map.order.entry(Arc::clone(&key.owner)).or_default().push_back(key.clone());
        map.results.insert(key, (now, whole));
        true
    }

    pub(super) fn get(&self, key: &Key, now: SystemTime, limits: &ResultLimits) -> Option<Whole> {
        let mut map = self.0.lock();
        map.drop_expired_of(&key.owner, now, limits);
        let (kept_at, whole) = map.results.get(key)?;
        (!is_expired(*kept_at, now, limits)).then(|| whole.clone())
    }
}

impl ResultMap {
    /// Removes results of the owner that has the most until all are within the bound. The new result counts already and is
    /// not in its queue yet, so that an owner whose new result is all it has removes those of the next one.
    fn make_room(&mut self, max_bytes: usize) {
        while self.bytes.used() > max_bytes {
            let owners = self.order.keys().max_by_key(|owner| self.bytes.of::<str>(owner));
            let Some(owner) = owners.cloned() else { return };
            self.drop_oldest(&owner);
        }
    }

    fn drop_expired(&mut self, now: SystemTime, limits: &ResultLimits) {
        let owners: Vec<_> = self.order.keys().cloned().collect();
        owners.iter().for_each(|owner| self.drop_expired_of(owner, now, limits));
    }

    fn drop_expired_of(&mut self, owner: &Arc<str>, now: SystemTime, limits: &ResultLimits) {
        let expired = |map: &Self| {
            let oldest = map.order.get(owner).and_then(VecDeque::front).and_then(|key| map.results.get(key));
            oldest.is_some_and(|(kept_at, _)| is_expired(*kept_at, now, limits))
        };
        while expired(self) {
            self.drop_oldest(owner);
        }
    }

    fn drop_oldest(&mut self, owner: &Arc<str>) {
        let Some(queue) = self.order.get_mut(owner) else { return };
        let oldest = queue.pop_front();
        if queue.is_empty() {
            self.order.remove(owner);
        }
        if let Some((_, whole)) = oldest.and_then(|key| self.results.remove(&key)) {
            self.bytes.remove::<str>(owner, cost(&whole.text));
        }
    }
}

fn cost(text: &str) -> usize {
    text.len().saturating_add(ENTRY_OVERHEAD)
}
