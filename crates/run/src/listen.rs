//! Who is told of every run: the page's list of runs, the audit log, traces.
//!
//! A listener returns nothing, so it can neither fail nor change a run. It must not block: what takes longer goes through a bounded
//! queue of its own. One whose work grows with the calls of a run hears of its end later, on a thread for that (`later`).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use toolgate_engine::Observer;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::frame::{Stream, Target};
use toolgate_wire::{CallRecord, CallerScope};

use super::door::Door;
use super::request::{RunReport, RunRequest, RunTrace};
use super::statistics::Transfer;

/// The most calls of a run of which more is kept than the report has.
const MAX_NOTED: usize = 10_000;

/// Of these, calls whose arguments are kept.
const MAX_TOLD: usize = 500;

/// Arguments up to this size are kept as they are, so that their digest is not made while the run waits for it.
const MAX_KEPT_ARGUMENTS: usize = 1 << 10;

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
    /// What was noted of its calls beyond the report; of a run with very many, of the first ones.
    pub noted: &'a Arc<CallDetails>,
    /// When it ended.
    pub at: SystemTime,
    /// The report; without its value, its logs and its warnings for a listener that hears of it later.
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
#[derive(Debug, Default)]
pub struct CallDetails(Vec<NotedCall>);

impl CallDetails {
    /// When each call began, in milliseconds from the start of the run.
    pub fn starts(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.0.iter().map(|call| call.start)
    }

    /// The digest of the arguments of a call, if a listener wants digests.
    pub fn digest(&self, at: usize) -> Option<String> {
        let call = self.0.get(at)?;
        call.digest.clone().or_else(|| call.text.as_deref().map(toolgate_audit::digest))
    }

    /// The arguments of a call with secrets replaced, if a listener wants them.
    pub fn arguments(&self, at: usize) -> Option<serde_json::Value> {
        let call = self.0.get(at).filter(|call| call.wanted >= ArgumentsWanted::Redacted)?;
        call.redacted.clone().or_else(|| call.text.as_deref().map(toolgate_audit::redacted))
    }

    /// About as much as it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let of = |call: &NotedCall| {
            let texts = call.text.as_deref().map_or(0, str::len) + call.digest.as_deref().map_or(0, str::len);
            size_of::<NotedCall>() + texts + call.redacted.as_ref().map_or(0, |redacted| redacted.to_string().len())
        };
        self.0.iter().map(of).sum()
    }
}

/// What is noted of one call.
#[derive(Debug)]
struct NotedCall {
    start: f64,
    wanted: ArgumentsWanted,
    /// Arguments that are short, of which the rest is made when a listener asks for it.
    text: Option<Box<str>>,
    digest: Option<String>,
    redacted: Option<serde_json::Value>,
}

impl NotedCall {
    fn new(start: f64, arguments: &str, wanted: ArgumentsWanted) -> Self {
        let noted = NotedCall { start, wanted, text: None, digest: None, redacted: None };
        match wanted {
            ArgumentsWanted::None => noted,
            _ if arguments.len() <= MAX_KEPT_ARGUMENTS => NotedCall { text: Some(arguments.into()), ..noted },
            ArgumentsWanted::Digests => NotedCall { digest: Some(toolgate_audit::digest(arguments)), ..noted },
            ArgumentsWanted::Redacted => NotedCall {
                digest: Some(toolgate_audit::digest(arguments)),
                redacted: Some(toolgate_audit::redacted(arguments)),
                ..noted
            },
        }
    }

    /// The same of a call beyond those whose arguments are kept.
    fn digested(start: f64, arguments: &str, wanted: ArgumentsWanted) -> Self {
        let wanted = wanted.min(ArgumentsWanted::Digests);
        let digest = (wanted == ArgumentsWanted::Digests).then(|| toolgate_audit::digest(arguments));
        NotedCall { start, wanted, text: None, digest, redacted: None }
    }
}

/// The calls of a run in the order of its report. A call that is repeated, from a record or in another interpreter, is noted
/// once.
#[derive(Default)]
struct Noted {
    calls: Vec<NotedCall>,
    /// How long the run had been running where its record ends.
    ran: Duration,
    /// Address and length of the arguments of the last call, if it was just noted. The engine reports a call twice with the same
    /// buffer; the second report finds the digest of the first by them.
    last: Option<(usize, usize)>,
}

fn place(arguments: &str) -> (usize, usize) {
    (arguments.as_ptr() as usize, arguments.len())
}

/// The listeners of one runner.
#[derive(Default)]
pub(super) struct Listeners {
    at_once: RwLock<Arc<[Arc<dyn RunListener>]>>,
    later: RwLock<Arc<[Arc<dyn RunListener>]>>,
}

impl Listeners {
    /// Adds one that hears of the end of a run before its caller does.
    pub(super) fn add(&self, listener: Arc<dyn RunListener>) {
        add_to(&self.at_once, listener);
    }

    /// Adds one that hears of the end of a run later.
    pub(super) fn add_later(&self, listener: Arc<dyn RunListener>) {
        add_to(&self.later, listener);
    }

    /// Tells all of them something else than the end of a run.
    pub(super) fn tell(&self, tell: impl Fn(&dyn RunListener)) {
        self.all().for_each(|listener| tell(&*listener));
    }

    pub(super) fn tell_end(&self, run: &EndedRun<'_>) {
        Arc::clone(&self.at_once.read()).iter().for_each(|listener| listener.ended(run));
    }

    pub(super) fn tell_end_later(&self, run: &EndedRun<'_>) {
        Arc::clone(&self.later.read()).iter().for_each(|listener| listener.ended(run));
    }

    /// Whether one hears of ends later.
    pub(super) fn some_are_later(&self) -> bool {
        !self.later.read().is_empty()
    }

    pub(super) fn are_there(&self) -> bool {
        !self.at_once.read().is_empty() || self.some_are_later()
    }

    pub(super) fn want_traces(&self) -> bool {
        self.all().any(|listener| listener.wants_traces())
    }

    fn wanted(&self) -> ArgumentsWanted {
        self.all().map(|listener| listener.wants_arguments()).max().unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = Arc<dyn RunListener>> {
        let (at_once, later) = (Arc::clone(&self.at_once.read()), Arc::clone(&self.later.read()));
        let (first, second) = (at_once.len(), later.len());
        let listeners = (0..first).map(move |at| Arc::clone(&at_once[at]));
        listeners.chain((0..second).map(move |at| Arc::clone(&later[at])))
    }

    /// What is noted of a call without a program.
    pub(super) fn of_one_call(&self, arguments: &str) -> Arc<CallDetails> {
        Arc::new(CallDetails(vec![NotedCall::new(0.0, arguments, self.wanted())]))
    }
}

fn add_to(list: &RwLock<Arc<[Arc<dyn RunListener>]>>, listener: Arc<dyn RunListener>) {
    let mut all = list.write();
    *all = all.iter().cloned().chain([listener]).collect();
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

    /// The digest of arguments, which the last noted call may have.
    fn digest_of(&self, arguments: &str) -> String {
        let mut noted = self.noted.lock();
        let is_last = noted.last.take() == Some(place(arguments));
        match noted.calls.last_mut().filter(|_| is_last) {
            Some(call) => call.digest.get_or_insert_with(|| toolgate_audit::digest(arguments)).clone(),
            None => toolgate_audit::digest(arguments),
        }
    }

    /// Takes what is noted, at the end of the run.
    pub(super) fn take(&self) -> Arc<CallDetails> {
        Arc::new(CallDetails(std::mem::take(&mut self.noted.lock().calls)))
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
            noted.last = None;
            if index == noted.calls.len() && index < MAX_NOTED {
                noted.ran = noted.ran.max(then.unwrap_or_default());
                let start = then.unwrap_or_else(|| noted.ran + self.since.elapsed());
                let note = if index < MAX_TOLD { NotedCall::new } else { NotedCall::digested };
                noted.calls.push(note(start.as_secs_f64() * 1e3, arguments, self.wanted));
                noted.last = then.is_none().then(|| place(arguments));
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
            let digest = (self.wanted >= ArgumentsWanted::Digests).then(|| self.digest_of(arguments));
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
