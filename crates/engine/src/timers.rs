//! The timers of one worker.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use toolgate_wire::CallId;

use crate::pump::Lost;

/// Longest delay in milliseconds: one day, which is beyond every deadline.
const MAX_DELAY_MS: f64 = 86_400_000.0;

/// Running timers, ordered by their due time.
#[derive(Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, CallId)>,
    at: HashMap<CallId, Instant>,
}

impl Timers {
    /// Starts a timer. A delay that is negative or not a number makes it due at once.
    pub(crate) fn arm(&mut self, id: CallId, delay: f64) -> Result<(), Lost> {
        if self.at.contains_key(&id) {
            return Err(Lost::Violation("a timer number used twice"));
        }
        let at = Instant::now() + Duration::from_secs_f64(delay.clamp(0.0, MAX_DELAY_MS).max(0.0) / 1e3);
        self.due.insert((at, id));
        self.at.insert(id, at);
        Ok(())
    }

    /// Stops a timer; does nothing when it is not running.
    pub(crate) fn disarm(&mut self, id: CallId) {
        if let Some(at) = self.at.remove(&id) {
            self.due.remove(&(at, id));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes the timers that are due and returns them in order.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<CallId> {
        let mut ids = Vec::new();
        while let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.disarm(id);
            ids.push(id);
        }
        ids
    }
}
