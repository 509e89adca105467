//! A worker's timers, by time.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use toolgate_wire::CallId;

use crate::pump::Lost;

/// What is to go off, and when.
#[derive(Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, CallId)>,
    at: HashMap<CallId, Instant>,
}

impl Timers {
    pub(crate) fn arm(&mut self, id: CallId, delay: f64) -> Result<(), Lost> {
        if self.at.contains_key(&id) {
            return Err(Lost::Breach("a timer number used twice"));
        }
        // A day is beyond every deadline; NaN and negatives fire at once.
        let at = Instant::now() + Duration::from_secs_f64(delay.clamp(0.0, 86_400_000.0).max(0.0) / 1e3);
        self.due.insert((at, id));
        self.at.insert(id, at);
        Ok(())
    }

    pub(crate) fn disarm(&mut self, id: CallId) {
        if let Some(at) = self.at.remove(&id) {
            self.due.remove(&(at, id));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(crate) fn due(&mut self, now: Instant) -> Vec<CallId> {
        let mut ids = Vec::new();
        while let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.disarm(id);
            ids.push(id);
        }
        ids
    }
}
