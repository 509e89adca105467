//! What is noted of the executions of durable runs until the runs are recorded.
//!
//! A run may be executed here and end in another process, so notes are bounded in number and in bytes, and the oldest make room. A
//! run whose notes are gone is recorded without them.

use std::collections::VecDeque;
use std::sync::Arc;

use toolgate_mcp::RequestOrigin;

use super::listen::CallDetails;
use super::request::RunTrace;

/// Durable runs whose notes wait for their end.
const MAX_KEPT: usize = 1_024;
/// The size of these notes.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// What was noted of an execution of a durable run.
#[derive(Default)]
pub(super) struct KeptNotes {
    pub(super) text: String,
    pub(super) origin: RequestOrigin,
    pub(super) trace: Option<Arc<RunTrace>>,
    pub(super) calls: Arc<CallDetails>,
}

impl KeptNotes {
    fn bytes(&self) -> usize {
        self.text.len() + self.calls.bytes()
    }
}

/// The notes of durable runs, the oldest first.
#[derive(Default)]
pub(super) struct KeptRuns {
    runs: VecDeque<(String, usize, KeptNotes)>,
    bytes: usize,
}

impl KeptRuns {
    pub(super) fn insert(&mut self, id: &str, notes: KeptNotes) {
        self.take(id);
        let bytes = notes.bytes();
        self.runs.push_back((id.to_owned(), bytes, notes));
        self.bytes += bytes;
        while self.runs.len() > MAX_KEPT || self.bytes > MAX_KEPT_BYTES {
            let Some((_, bytes, _)) = self.runs.pop_front() else { return };
            self.bytes -= bytes;
        }
    }

    pub(super) fn take(&mut self, id: &str) -> Option<KeptNotes> {
        let at = self.runs.iter().position(|(known, ..)| known == id)?;
        let (_, bytes, notes) = self.runs.remove(at)?;
        self.bytes -= bytes;
        Some(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_notes_of_durable_runs_make_room() {
        let notes = |bytes: usize| KeptNotes { text: "x".repeat(bytes), ..KeptNotes::default() };
        let mut kept = KeptRuns::default();
        (0..MAX_KEPT + 10).for_each(|run| kept.insert(&run.to_string(), notes(1)));
        assert!(kept.take("9").is_none() && kept.take("10").is_some());
        kept.insert("11", notes(MAX_KEPT_BYTES));
        assert_eq!((kept.runs.len(), kept.bytes), (1, MAX_KEPT_BYTES));
        assert!(kept.take("11").is_some());
        assert_eq!(kept.bytes, 0);
    }
}
