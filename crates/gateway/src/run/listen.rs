//! Who is told of every run: the page's list of runs, the audit log, traces.
//!
//! A listener returns nothing, so it can neither fail nor change a run. It is called on the thread that finishes the run
//! and must not block: what takes longer goes through a bounded queue of its own.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use toolgate_engine::Observer;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::frame::{Stream, Target};
use toolgate_wire::{CallRecord, CallerScope};

use super::history::Transfer;
use super::request::{Door, RunReport, RunRequest, RunTrace};

/// The most calls of a run of which more is kept than the report has.
const MAX_NOTED: usize = 10_000;

/// What a listener wants to know of the arguments of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArgumentsWanted {
    /// Nothing.
    #[default]
    None,
    /// Their digests.
    Digests,
    /// Their digests, and the arguments with secrets replaced.
    Redacted,
}

/// Is told of every run.
pub trait RunListener: Send + Sync + 'static {
    /// A run has ended.
    fn ended(&self, run: &EndedRun<'_>);

    /// A call of a run that may have an effect is about to be made.
    fn call_begins(&self, call: &BegunCall<'_>) {
        let _ = call;
    }

    /// The bytes that a run kept out of a context window are known better than at its end: this many more.
    fn saved_more(&self, caller: &str, bytes: i64) {
        let _ = (caller, bytes);
    }

    /// Whether runs need ids of spans for it.
    fn wants_traces(&self) -> bool {
        false
    }

    /// What it wants to know of arguments.
    fn wants_arguments(&self) -> ArgumentsWanted {
        ArgumentsWanted::None
    }
}

/// A run at its end.
#[derive(Debug, Clone, Copy)]
pub struct EndedRun<'a> {
    /// The door that it came by.
    pub door: Door,
    /// Who asked.
    pub caller: &'a CallerScope,
    /// The client's session, if it has one.
    pub session: Option<u64>,
    /// The program; `None` for a call that a client made without one.
    pub text: Option<&'a str>,
    /// Which client asked, and which trace it belongs to.
    pub origin: &'a RequestOrigin,
    /// The ids of its spans, if traces are sent.
    pub trace: Option<&'a RunTrace>,
    /// When calls began, in milliseconds from the start of the run. Of a run that went on from its record only the last
    /// calls of the report are here, as in the two lists below.
    pub call_starts: &'a [f64],
    /// The digests of their arguments, if a listener wants them.
    pub call_digests: &'a [String],
    /// The arguments with secrets replaced, if a listener wants them.
    pub call_arguments: &'a [serde_json::Value],
    /// The report.
    pub report: &'a RunReport,
    /// Bytes before the output was shaped, and bytes returned.
    pub transfer: Transfer,
    /// Bytes that stayed out of a context window, as far as they are known.
    pub saved: u64,
}

impl EndedRun<'_> {
    /// Which of the noted calls is this call of the report.
    pub fn noted(&self, call: usize) -> Option<usize> {
        let repeated = self.report.report.calls.len().saturating_sub(self.call_starts.len());
        call.checked_sub(repeated)
    }
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct BegunCall<'a> {
    /// The run.
    pub run: &'a str,
    /// The door that the run came by.
    pub door: Door,
    /// Who asked.
    pub caller: &'a CallerScope,
    /// Which client asked.
    pub origin: &'a RequestOrigin,
    /// What is called.
    pub target: &'a Target,
    /// The digest of its arguments, if a listener wants it.
    pub digest: Option<&'a str>,
}

/// What is noted of the calls of a run beyond its report.
#[derive(Debug, Clone, Default)]
pub(super) struct BegunCalls {
    pub(super) starts: Vec<f64>,
    pub(super) digests: Vec<String>,
    pub(super) arguments: Vec<serde_json::Value>,
}

impl BegunCalls {
    fn add_arguments(&mut self, arguments: &str, wanted: ArgumentsWanted) {
        if wanted >= ArgumentsWanted::Digests {
            self.digests.push(toolgate_audit::digest(arguments));
        }
        if wanted >= ArgumentsWanted::Redacted {
            self.arguments.push(toolgate_audit::redacted(arguments));
        }
    }
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

    pub(super) fn want_traces(&self) -> bool {
        self.0.read().iter().any(|listener| listener.wants_traces())
    }

    fn wanted(&self) -> ArgumentsWanted {
        self.0.read().iter().map(|listener| listener.wants_arguments()).max().unwrap_or_default()
    }

    /// What is noted of a call without a program.
    pub(super) fn of_one_call(&self, arguments: &str) -> BegunCalls {
        let mut calls = BegunCalls { starts: vec![0.0], ..BegunCalls::default() };
        calls.add_arguments(arguments, self.wanted());
        calls
    }
}

/// Notes when calls begin and with which arguments, and passes everything on to the observer of the request.
pub(super) struct CallNotes {
    since: Instant,
    run: String,
    door: Door,
    caller: CallerScope,
    origin: RequestOrigin,
    wanted: ArgumentsWanted,
    listeners: Arc<Listeners>,
    calls: Mutex<BegunCalls>,
    next: Option<Arc<dyn Observer>>,
}

impl CallNotes {
    pub(super) fn new(request: &RunRequest, id: &str, since: Instant, listeners: Arc<Listeners>) -> Self {
        CallNotes {
            since,
            run: id.to_owned(),
            door: request.door,
            caller: request.caller.clone(),
            origin: request.origin.clone(),
            wanted: listeners.wanted(),
            listeners,
            calls: Mutex::default(),
            next: request.observer.clone(),
        }
    }

    /// What is noted so far.
    pub(super) fn so_far(&self) -> BegunCalls {
        self.calls.lock().clone()
    }
}

impl Observer for CallNotes {
    fn logged(&self, stream: Stream, line: &str) {
        if let Some(next) = &self.next {
            next.logged(stream, line);
        }
    }

    fn call_began(&self, target: &Target) {
        {
            let mut calls = self.calls.lock();
            if calls.starts.len() < MAX_NOTED {
                calls.starts.push(self.since.elapsed().as_secs_f64() * 1e3);
            }
        }
        if let Some(next) = &self.next {
            next.call_began(target);
        }
    }

    fn call_arguments(&self, target: &Target, arguments: &str, read_only: bool) {
        if self.wanted > ArgumentsWanted::None {
            let mut calls = self.calls.lock();
            if calls.digests.len() < MAX_NOTED {
                calls.add_arguments(arguments, self.wanted);
            }
        }
        if !read_only {
            let digest = self.calls.lock().digests.last().cloned();
            let (run, door, caller, origin) = (self.run.as_str(), self.door, &self.caller, &self.origin);
            let call = BegunCall { run, door, caller, origin, target, digest: digest.as_deref() };
            self.listeners.tell(|listener| listener.call_begins(&call));
        }
        if let Some(next) = &self.next {
            next.call_arguments(target, arguments, read_only);
        }
    }

    fn call_ended(&self, record: &CallRecord) {
        if let Some(next) = &self.next {
            next.call_ended(record);
        }
    }
}
