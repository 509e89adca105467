//! Results in memory, for a process that serves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Kept, ResultId, ResultLimits, Whole, is_expired};

/// What an entry costs besides its text, so that many tiny results are bounded too.
const OVERHEAD: usize = 256;

#[derive(Default)]
pub(super) struct Memory(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    results: HashMap<ResultId, (SystemTime, Whole)>,
    /// Oldest first.
    order: VecDeque<ResultId>,
    bytes: usize,
}

impl Memory {
    /// False if the result is larger than the store.
    pub(super) fn put(&self, id: &ResultId, kept: Kept<'_>, now: SystemTime, limits: &ResultLimits) -> bool {
        let cost = cost(&kept.text);
        if cost > limits.max_bytes {
            return false;
        }
        // Copied outside the lock: it may be megabytes. A text that is owned is moved, not copied.
        let mut text = kept.text.into_owned();
        text.shrink_to_fit();
        let whole = Whole { kind: kept.kind, text: Arc::new(text) };
        let mut shelf = self.shelf();
        shelf.drop_expired(now, limits);
        while shelf.bytes + cost > limits.max_bytes && shelf.drop_oldest() {}
        shelf.bytes += cost;
        shelf.order.push_back(id.clone());
        shelf.results.insert(id.clone(), (now, whole));
        true
    }

    pub(super) fn get(&self, id: &ResultId, now: SystemTime, limits: &ResultLimits) -> Option<Whole> {
        let mut shelf = self.shelf();
        shelf.drop_expired(now, limits);
        let (kept_at, whole) = shelf.results.get(id)?;
        (!is_expired(*kept_at, now, limits)).then(|| whole.clone())
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn drop_expired(&mut self, now: SystemTime, limits: &ResultLimits) {
        let expired = |shelf: &Self| {
            let oldest = shelf.order.front().and_then(|id| shelf.results.get(id));
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
