//! Spans that wait to be sent.
//!
//! A list under a lock instead of a channel: the sending thread sleeps until spans are due, and is not woken for each of them.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::Span;
use crate::export::MAX_BATCH;

/// Spans that may wait.
const MAX_WAITING: usize = 16_384;
/// How long spans wait for others.
const SPAN_INTERVAL: Duration = Duration::from_secs(1);

/// What waits for the sending thread.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<Span>,
    /// When the first of them has to be sent.
    spans_due: Option<Instant>,
    flushes: Vec<SyncSender<()>>,
    is_closed: bool,
}

/// What the sending thread has to do.
pub(crate) struct Taken {
    pub(crate) spans: Vec<Span>,
    /// To be told once everything before is sent.
    pub(crate) flushes: Vec<SyncSender<()>>,
    /// Whether no more will come.
    pub(crate) is_last: bool,
}

impl Waiting {
    /// Adds spans; the number of those that found no room.
    pub(crate) fn add(&self, spans: Vec<Span>) -> usize {
        let mut state = self.state.lock();
        let room = MAX_WAITING.saturating_sub(state.spans.len());
        let lost = spans.len().saturating_sub(room);
        let is_first = state.spans_due.is_none();
        state.spans_due.get_or_insert_with(|| Instant::now() + SPAN_INTERVAL);
        let before = state.spans.len();
        state.spans.extend(spans.into_iter().take(room));
        let fills_a_batch = before < MAX_BATCH && state.spans.len() >= MAX_BATCH;
        drop(state);
        if is_first || fills_a_batch {
            self.changed.notify_one();
        }
        lost
    }

    /// Asks for everything to be sent now; `done` is told when that has happened.
    pub(crate) fn flush(&self, done: SyncSender<()>) {
        self.state.lock().flushes.push(done);
        self.changed.notify_one();
    }

    /// Says that no more will come.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for something to do, at most until then.
    pub(crate) fn take(&self, until: Instant) -> Taken {
        let mut state = self.state.lock();
        loop {
            let due = state.spans_due.map_or(until, |due| due.min(until));
            let is_due = due <= Instant::now() || state.spans.len() >= MAX_BATCH;
            if is_due || state.is_closed || !state.flushes.is_empty() {
                state.spans_due = None;
                let spans = std::mem::take(&mut state.spans);
                let flushes = std::mem::take(&mut state.flushes);
                return Taken { spans, flushes, is_last: state.is_closed };
            }
            self.changed.wait_until(&mut state, due);
        }
    }
}
