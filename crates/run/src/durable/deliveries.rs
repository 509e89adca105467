//! Bounds the webhooks that are being sent: one may be tried for minutes, and holds its body meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Messages that are being delivered by one process.
const MAX_DELIVERIES: usize = 256;
/// Of these, messages about runs of one caller: others get a turn.
const MAX_DELIVERIES_OF_CALLER: usize = 32;

/// The messages that are being delivered, by the caller of their run.
#[derive(Clone, Default)]
pub(super) struct Deliveries(Arc<Mutex<HashMap<String, usize>>>);

impl Deliveries {
    /// Counts one more message until what is returned is dropped. `None` where there are too many.
    pub(super) fn begin(&self, caller: &str) -> Option<Delivering> {
        let mut counts = self.0.lock();
        let of_caller = counts.get(caller).copied().unwrap_or_default();
        if of_caller >= MAX_DELIVERIES_OF_CALLER || counts.values().sum::<usize>() >= MAX_DELIVERIES {
            return None;
        }
        counts.insert(caller.to_owned(), of_caller + 1);
        Some(Delivering { all: self.clone(), caller: caller.to_owned() })
    }
}

/// A message that is being delivered.
pub(super) struct Delivering {
    all: Deliveries,
    caller: String,
}

impl Drop for Delivering {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(deliveries: &Deliveries, caller: &str) -> Vec<Delivering> {
        std::iter::from_fn(|| deliveries.begin(caller)).collect()
    }

    #[test]
    fn a_caller_leaves_room_for_others_and_all_are_bounded() {
        let deliveries = Deliveries::default();
        let mut held: Vec<Vec<Delivering>> = Vec::new();
        for number in 0..MAX_DELIVERIES / MAX_DELIVERIES_OF_CALLER {
            held.push(begun(&deliveries, &format!("caller {number}")));
        }
        assert!(held.iter().all(|of_caller| of_caller.len() == MAX_DELIVERIES_OF_CALLER));
        assert!(deliveries.begin("another").is_none());
        held.pop();
        assert_eq!(begun(&deliveries, "another").len(), MAX_DELIVERIES_OF_CALLER);
        drop(held);
        assert!(deliveries.0.lock().is_empty(), "callers without a message are forgotten");
    }
}
