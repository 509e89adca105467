//! Who is told of every run: the page's list of runs, the audit log, traces.
//!
//! A listener returns nothing, so it can neither fail nor change a run. It is called on the thread that finishes the run
//! and must not block: what takes longer goes through a bounded queue of its own.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use toolgate_engine::Observer;
use toolgate_wire::frame::{Stream, Target};
use toolgate_wire::{CallRecord, CallerScope};

use super::history::Transfer;
use super::request::{Door, RunReport};

/// The most calls of a run whose start is kept.
const MAX_STARTS: usize = 1_000;

/// Is told of every run.
pub trait RunListener: Send + Sync + 'static {
    /// A run has ended.
    fn ended(&self, run: &EndedRun<'_>);

    /// The bytes that a run kept out of a context window are known better than at its end: this many more.
    fn saved_more(&self, caller: &str, bytes: i64) {
        let _ = (caller, bytes);
    }
}

/// A run at its end.
#[derive(Debug, Clone, Copy)]
pub struct EndedRun<'a> {
    /// The door that it came by.
    pub door: Door,
    /// Who asked.
    pub caller: &'a CallerScope,
    /// The program; `None` for a call that a client made without one.
    pub text: Option<&'a str>,
    /// When each call of the report began, in milliseconds from the start of the run. Shorter than the list of calls
    /// where that is not known.
    pub call_starts: &'a [f64],
    /// The report.
    pub report: &'a RunReport,
    /// Bytes before the output was shaped, and bytes returned.
    pub transfer: Transfer,
    /// Bytes that stayed out of a context window, as far as they are known.
    pub saved: u64,
}

/// The listeners of one runner.
#[derive(Default)]
pub(super) struct Listeners(RwLock<Arc<[Arc<dyn RunListener>]>>);

impl Listeners {
    pub(super) fn add(&self, listener: Arc<dyn RunListener>) {
        let mut all = self.0.write();
        *all = all.iter().cloned().chain([listener]).collect();
    }

    pub(super) fn tell(&self, tell: impl Fn(&dyn RunListener)) {
        let all = Arc::clone(&self.0.read());
        all.iter().for_each(|listener| tell(&**listener));
    }

    pub(super) fn are_there(&self) -> bool {
        !self.0.read().is_empty()
    }
}

/// Notes when calls begin, and passes everything on to the observer of the request.
pub(super) struct CallStarts {
    since: Instant,
    starts: Mutex<Vec<f64>>,
    next: Option<Arc<dyn Observer>>,
}

impl CallStarts {
    pub(super) fn new(since: Instant, next: Option<Arc<dyn Observer>>) -> Self {
        CallStarts { since, starts: Mutex::default(), next }
    }

    /// The starts so far, in milliseconds.
    pub(super) fn so_far(&self) -> Vec<f64> {
        self.starts.lock().clone()
    }
}

impl Observer for CallStarts {
    fn logged(&self, stream: Stream, line: &str) {
        if let Some(next) = &self.next {
            next.logged(stream, line);
        }
    }

    fn call_began(&self, target: &Target) {
        {
            let mut starts = self.starts.lock();
            if starts.len() < MAX_STARTS {
                starts.push(self.since.elapsed().as_secs_f64() * 1e3);
            }
        }
        if let Some(next) = &self.next {
            next.call_began(target);
        }
    }

    fn call_ended(&self, record: &CallRecord) {
        if let Some(next) = &self.next {
            next.call_ended(record);
        }
    }
}
