//! Who is told of every run: the page's list of runs, the audit log, traces.
//!
//! A listener returns nothing, so it can neither fail nor change a run. It is called on the thread that finishes the run
//! and must not block: what takes longer goes through a bounded queue of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use toolgate_engine::Observer;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::frame::{Stream, Target};
use toolgate_wire::{CallRecord, CallerScope};

use super::history::Transfer;
use super::request::{Door, RunReport, RunRequest, RunTrace};

/// The most calls of a run of which more is kept than the report has.
const MAX_NOTED: usize = 10_000;

/// Of these, calls whose arguments are kept.
const MAX_TOLD: usize = 500;

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

    /// A durable run was paused, decided about or ended.
    fn durable_changed(&self) {}

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
    /// When calls began, in milliseconds from the start of the run, in the order of the report; the first ones of a run with
    /// very many, as in the two lists below.
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

/// What is noted of the calls of a run beyond its report, in the order of the report.
#[derive(Debug, Clone, Default)]
pub(super) struct BegunCalls {
    pub(super) starts: Vec<f64>,
    pub(super) digests: Vec<String>,
    pub(super) arguments: Vec<serde_json::Value>,
}

/// What is noted of one call.
struct NotedCall {
    start: f64,
    digest: Option<String>,
    arguments: Option<serde_json::Value>,
}

impl NotedCall {
    fn new(start: f64, arguments: &str, wanted: ArgumentsWanted) -> Self {
        NotedCall {
            start,
            digest: (wanted >= ArgumentsWanted::Digests).then(|| toolgate_audit::digest(arguments)),
            arguments: (wanted >= ArgumentsWanted::Redacted).then(|| toolgate_audit::redacted(arguments)),
        }
    }
}

impl FromIterator<NotedCall> for BegunCalls {
    fn from_iter<T: IntoIterator<Item = NotedCall>>(calls: T) -> Self {
        let mut begun = BegunCalls::default();
        for call in calls {
            begun.starts.push(call.start);
            begun.digests.extend(call.digest);
            begun.arguments.extend(call.arguments);
        }
        begun
    }
}

/// The calls of a run in the order of its report. A call that is repeated, from a record or in another interpreter, is noted
/// once.
#[derive(Default)]
struct Noted {
    calls: Vec<NotedCall>,
    /// How long the run had been running where its record ends.
    ran: Duration,
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
        [NotedCall::new(0.0, arguments, self.wanted())].into_iter().collect()
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
    noted: Mutex<Noted>,
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
            noted: Mutex::default(),
            next: request.observer.clone(),
        }
    }

    /// Takes what is noted, at the end of the run.
    pub(super) fn take(&self) -> BegunCalls {
        std::mem::take(&mut self.noted.lock().calls).into_iter().collect()
    }
}

impl Observer for CallNotes {
    fn logged(&self, stream: Stream, line: &str) {
        if let Some(next) = &self.next {
            next.logged(stream, line);
        }
    }

    fn call_noted(&self, index: usize, arguments: &str, then: Option<Duration>) {
        {
            let mut noted = self.noted.lock();
            if index == noted.calls.len() && index < MAX_NOTED {
                noted.ran = noted.ran.max(then.unwrap_or_default());
                let start = then.unwrap_or_else(|| noted.ran + self.since.elapsed());
                let wanted = if index < MAX_TOLD { self.wanted } else { self.wanted.min(ArgumentsWanted::Digests) };
                noted.calls.push(NotedCall::new(start.as_secs_f64() * 1e3, arguments, wanted));
            }
        }
        if let Some(next) = &self.next {
            next.call_noted(index, arguments, then);
        }
    }

    fn call_began(&self, target: &Target) {
        if let Some(next) = &self.next {
            next.call_began(target);
        }
    }

    fn call_arguments(&self, target: &Target, arguments: &str, read_only: bool) {
        if !read_only {
            let digest = (self.wanted >= ArgumentsWanted::Digests).then(|| toolgate_audit::digest(arguments));
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
