//! Statistics and recent runs: what was done since the start, and what it kept out of context windows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_mcp::RequestOrigin;
use toolgate_wire::{
    CallErrorCode, CallRecord, CallState, CallerScope, Code, Failure, Outcome, Profile, Report, Target,
};

use super::kept_notes::{KeptNotes, KeptRuns};
use super::later::Later;
use super::listen::{BegunCall, CallDetails, CallNotes, EndedRun, Listeners, RunListener};
use super::metrics::{self, RunMetrics};
use super::request::{Door, Route, RunReport, RunRequest};

/// Runs that are remembered.
const RECENT: usize = 50;
/// Calls of each that are remembered.
const MAX_CALLS: usize = 20;
/// Tools that are counted one by one; the names come from outside.
const MAX_TOOLS: usize = 5_000;
/// Sessions of clients that are counted on their own; of more the one that was quiet for longest is forgotten.
const MAX_SESSIONS: usize = 1_000;
/// Callers that are counted on their own; of more the one that was quiet for longest is forgotten.
const MAX_CALLERS: usize = 1_000;
/// Tools that are counted one by one for callers, all of them together.
const MAX_CALLER_TOOLS: usize = 4 * MAX_TOOLS;
/// The usual estimate for English text and JSON.
const BYTES_PER_TOKEN: u64 = 4;

/// One run, as it is remembered: what it did, never what it said.
#[derive(Debug, Clone)]
struct RunRecord {
    id: String,
    caller: String,
    session: Option<u64>,
    door: &'static str,
    path: &'static str,
    ok: bool,
    ms: f64,
    at: u64,
    calls: Vec<CallSummary>,
    /// Bytes of what its tools replied.
    replies: u64,
    transfer: Transfer,
}

#[derive(Debug, Clone)]
struct CallSummary {
    target: Target,
    state: CallState,
}

/// How much a run gave, and how much of it was returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes before the output was shaped.
    pub processed: u64,
    /// Bytes that were sent to the caller.
    pub returned: u64,
}

/// A call without a program: of a client in direct mode, at `/rpc`, of a command.
#[derive(Debug, Clone, Copy)]
pub struct SingleCall<'a> {
    /// The door that it comes by.
    pub door: Door,
    /// Who calls.
    pub caller: &'a CallerScope,
    /// Where the call comes from.
    pub origin: &'a RequestOrigin,
    /// The client's session, if it has one.
    pub session: Option<u64>,
    /// What is called.
    pub target: &'a Target,
    /// JSON text.
    pub arguments: &'a str,
    /// Whether it is declared to change nothing.
    pub read_only: bool,
}

/// A call without a program that is being made. One that is dropped before its end, because its caller went away, is recorded as
/// unknown.
pub struct BegunSingleCall<'a> {
    history: &'a History,
    call: SingleCall<'a>,
    run: String,
    since: Instant,
    /// Taken at its end.
    noted: Option<Arc<CallDetails>>,
}

impl BegunSingleCall<'_> {
    /// The record of the call, to be filled in with how it ended.
    pub fn record(&self) -> CallRecord {
        CallRecord::begin(self.call.target, self.call.arguments.len(), self.call.read_only)
    }
}

impl Drop for BegunSingleCall<'_> {
    fn drop(&mut self) {
        if self.noted.is_some() {
            let mut record = self.record();
            record.failed(CallState::Unknown, &CallErrorCode::Aborted, "its caller went away before it was answered");
            let history = self.history;
            history.add_single(self, record, 0);
        }
    }
}

/// Statistics since the start, and the last runs.
pub struct History {
    since: Instant,
    metrics: RunMetrics,
    listeners: Arc<Listeners>,
    /// Tells listeners of ends on a thread of its own.
    later: Later,
    /// What was noted of durable runs that have not been recorded.
    kept: Mutex<KeptRuns>,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    all: Counts,
    sessions: BTreeMap<u64, SessionCounts>,
    callers: BTreeMap<String, CallerCounts>,
    tools: BTreeMap<Target, ToolSums>,
    recent: VecDeque<RunRecord>,
}

/// What was done, and what it kept out of context windows.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    runs: u64,
    failed: u64,
    calls: u64,
    bytes_processed: u64,
    bytes_returned: u64,
    bytes_saved: u64,
}

/// The same of one caller, and of the tools that it called.
struct CallerCounts {
    last: Instant,
    counts: Counts,
    tools: BTreeMap<Target, ToolSums>,
}

/// The same of one client's session.
struct SessionCounts {
    since: Instant,
    last: Instant,
    counts: Counts,
}

#[derive(Default)]
struct ToolSums {
    calls: u64,
    failed: u64,
    bytes: u64,
    ms: f64,
}

impl Default for History {
    fn default() -> Self {
        History {
            since: Instant::now(),
            metrics: RunMetrics::default(),
            listeners: Arc::default(),
            later: Later::default(),
            kept: Mutex::default(),
            sums: Mutex::default(),
        }
    }
}

impl History {
    /// Counters for monitoring.
    pub fn metrics(&self) -> &RunMetrics {
        &self.metrics
    }

    /// Tells a listener of every run from now on.
    pub fn listen(&self, listener: Arc<dyn RunListener>) {
        self.listeners.add(listener);
    }

    /// The same, on a thread of its own: a listener whose work grows with the calls of a run delays no answer.
    pub fn listen_later(&self, listener: Arc<dyn RunListener>) {
        self.listeners.add_later(listener);
    }

    /// Waits until the listeners have heard of the runs that have ended, for a bounded time.
    pub fn settle(&self) {
        self.later.settle();
    }

    /// Tells the listeners that a durable run was paused, decided about or ended.
    pub(super) fn durable_changed(&self) {
        self.listeners.tell(|listener| listener.durable_changed());
    }

    /// Whether a listener sends traces.
    pub(super) fn wants_traces(&self) -> bool {
        self.listeners.want_traces()
    }

    /// Puts an observer that notes when calls begin in front of the request's own, if anybody is to be told.
    pub(super) fn note_calls(&self, request: &mut RunRequest, id: &str, since: Instant) -> Option<Arc<CallNotes>> {
        if !self.listeners.are_there() {
            return None;
        }
        let notes = Arc::new(CallNotes::new(request, id, since, self.listeners.clone()));
        request.observer = Some(notes.clone());
        Some(notes)
    }

    /// Adds a run whose value is returned as it is; [`History::shaped`] says where that is not so.
    pub(super) fn record(&self, request: &RunRequest, calls: &Arc<CallDetails>, run: &RunReport) {
        let bytes = run.report.value().map_or(0, |value| value.get().len() as u64);
        self.add(EndedRun {
            door: request.door,
            caller: &request.caller,
            session: request.session,
            text: Some(&request.text),
            origin: &request.origin,
            trace: request.trace.as_deref(),
            noted: calls,
            at: SystemTime::now(),
            report: run,
            transfer: Transfer { processed: bytes, returned: bytes },
            saved: 0,
        });
    }

    /// Keeps what was noted of an execution of a durable run until the run itself is recorded.
    pub(super) fn keep_notes(&self, id: &str, request: &RunRequest, calls: Arc<CallDetails>) {
        if self.listeners.are_there() {
            let (text, origin, trace) = (request.text.clone(), request.origin.clone(), request.trace.clone());
            self.kept.lock().insert(id, KeptNotes { text, origin, trace, calls });
        }
    }

    /// Adds a durable run that has ended here, with what was noted of its last execution.
    pub(super) fn record_durable(&self, caller: &CallerScope, run: &RunReport) {
        let kept = self.kept.lock().take(&run.id).unwrap_or_default();
        let request = RunRequest {
            caller: caller.clone(),
            door: Door::Durable,
            origin: kept.origin,
            trace: kept.trace,
            ..RunRequest::new(Profile::Chain, kept.text)
        };
        self.record(&request, &kept.calls, run);
    }

    /// Corrects how much of a run was returned.
    pub fn shaped(&self, id: &str, transfer: Transfer) {
        let mut sums = self.sums();
        let Some(record) = sums.recent.iter_mut().rev().find(|record| record.id == id) else { return };
        let before = std::mem::replace(&mut record.transfer, transfer);
        let (replies, session, caller) = (record.replies, record.session, record.caller.clone());
        sums.each(&caller, session, |counts| {
            counts.subtract(before, replies);
            counts.add(transfer, replies);
        });
        drop(sums);
        let saved = |transfer| i64::try_from(processed_and_saved(transfer, replies).1).unwrap_or(i64::MAX);
        let more = saved(transfer).saturating_sub(saved(before));
        self.listeners.tell(|listener| listener.saved_more(&caller, more));
    }

    /// Notes a call without a program before it is made.
    pub fn begin_call<'a>(&'a self, call: SingleCall<'a>) -> BegunSingleCall<'a> {
        let (run, noted) = (super::execution_id(), self.listeners.of_one_call(call.arguments));
        if !call.read_only {
            let SingleCall { door, caller, origin, target, .. } = call;
            let digest = noted.digest(0);
            let begun = BegunCall { run: &run, door, caller, origin, target, digest: digest.as_deref() };
            self.listeners.tell(|listener| listener.call_begins(&begun));
        }
        BegunSingleCall { history: self, call, run, since: Instant::now(), noted: Some(noted) }
    }

    /// Adds a call without a program with how it ended, and the bytes that were returned.
    pub fn end_call(&self, mut begun: BegunSingleCall<'_>, record: CallRecord, bytes: u64) {
        self.add_single(&mut begun, record, bytes);
    }

    fn add_single(&self, begun: &mut BegunSingleCall<'_>, mut record: CallRecord, bytes: u64) {
        let SingleCall { door, caller, origin, session, .. } = begun.call;
        let (run, since, noted) = (std::mem::take(&mut begun.run), begun.since, begun.noted.take().unwrap_or_default());
        record.ms = since.elapsed().as_secs_f64() * 1e3;
        let outcome = match record.error_code {
            None => Outcome::Returned(Box::<RawValue>::default()),
            Some(_) => Outcome::Failed(Failure::new(Code::Runtime, String::new())),
        };
        let report = Report { calls: vec![record], ..Report::not_started(outcome, since.elapsed()) };
        let run = RunReport::ended(run, Route::Direct, report);
        self.add(EndedRun {
            door,
            caller,
            session,
            text: None,
            origin,
            trace: None,
            noted: &noted,
            at: SystemTime::now(),
            report: &run,
            transfer: Transfer { processed: bytes, returned: bytes },
            saved: 0,
        });
    }

    fn add(&self, ended: EndedRun<'_>) {
        let EndedRun { door, caller, report: run, transfer, .. } = ended;
        self.metrics.record(door, caller, run);
        let report = &run.report;
        let replies: u64 = report.calls.iter().map(|call| call.reply_bytes).sum();
        self.sum_up(&ended, replies);
        let ended = EndedRun { saved: processed_and_saved(transfer, replies).1, ..ended };
        self.listeners.tell_end(&ended);
        if self.listeners.some_are_later() || (!report.calls.is_empty() && metrics::logs_calls()) {
            self.later.add(&ended, &self.listeners);
        }
    }

    fn sum_up(&self, ended: &EndedRun<'_>, replies: u64) {
        let EndedRun { door, caller, session, report: run, transfer, .. } = *ended;
        let report = &run.report;
        let mut sums = self.sums();
        sums.begin(&caller.name, session);
        sums.each(&caller.name, session, |counts| {
            counts.runs += 1;
            counts.failed += u64::from(report.failure().is_some());
            counts.calls += report.calls.len() as u64;
            counts.add(transfer, replies);
        });
        for call in report.calls.iter().filter(|call| call.state != CallState::NotSent) {
            sums.count(&caller.name, call);
        }
        if sums.recent.len() >= RECENT {
            sums.recent.pop_front();
        }
        let calls = report.calls.iter().take(MAX_CALLS);
        sums.recent.push_back(RunRecord {
            id: run.id.clone(),
            caller: caller.name.clone(),
            session,
            door: door.name(),
            path: run.route.name(),
            ok: report.failure().is_none(),
            ms: report.execution_ms(),
            at: now(),
            calls: calls.map(|call| CallSummary { target: call.target.clone(), state: call.state }).collect(),
            replies,
            transfer,
        });
    }

    /// What this caller did, with the tools that it may know of, and what one session did. The user of the machine, who has no
    /// name, gets the sums of all callers.
    pub fn stats(&self, caller: &CallerScope, session: Option<u64>) -> Value {
        let sums = self.sums();
        let (counts, none) = (sums.of(&caller.name), BTreeMap::new());
        let tools = if caller.name.is_empty() {
            &sums.tools
        } else {
            sums.callers.get(&caller.name).map_or(&none, |own| &own.tools)
        };
        let tools = tools.iter().filter(|(target, _)| may_know(caller, target)).map(|(target, tool)| {
            let mean = if tool.calls == 0 { 0.0 } else { tool.ms / tool.calls as f64 };
            let row = json!({
                "calls": tool.calls, "failed": tool.failed, "bytes": tool.bytes, "mean_ms": rounded(mean),
            });
            (target.to_string(), row)
        });
        let own = session.map(|session| sums.sessions.get(&session));
        let mut stats = json!({ "uptime_seconds": self.since.elapsed().as_secs() });
        counts.write(&mut stats);
        if let Some(own) = own {
            stats["session"] = json!({ "seconds": own.map_or(0, |own| own.since.elapsed().as_secs()) });
            own.map(|own| own.counts).unwrap_or_default().write(&mut stats["session"]);
        }
        stats["per_tool"] = Value::Object(tools.collect());
        stats
    }

    /// The last runs of this caller, newest first, without those that touched what it may not know of.
    pub fn recent(&self, caller: &CallerScope) -> Value {
        let sums = self.sums();
        let may_see =
            |run: &&RunRecord| run.caller == caller.name && run.calls.iter().all(|it| may_know(caller, &it.target));
        let rows = sums.recent.iter().rev().filter(may_see).map(|run| {
            let calls = run.calls.iter().map(|it| json!({ "name": it.target.to_string(), "state": it.state }));
            json!({
                "execution_id": run.id, "at": run.at, "tool": run.door, "path": run.path, "ok": run.ok,
                "ms": rounded(run.ms), "bytes_processed": run.transfer.processed,
                "bytes_returned": run.transfer.returned, "calls": calls.collect::<Vec<_>>(),
            })
        });
        json!({ "recent": rows.collect::<Vec<_>>() })
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock()
    }
}

impl Counts {
    fn add(&mut self, transfer: Transfer, replies: u64) {
        let (processed, saved) = processed_and_saved(transfer, replies);
        self.bytes_processed = self.bytes_processed.saturating_add(processed);
        self.bytes_returned = self.bytes_returned.saturating_add(transfer.returned);
        self.bytes_saved = self.bytes_saved.saturating_add(saved);
    }

    fn subtract(&mut self, transfer: Transfer, replies: u64) {
        let (processed, saved) = processed_and_saved(transfer, replies);
        self.bytes_processed = self.bytes_processed.saturating_sub(processed);
        self.bytes_returned = self.bytes_returned.saturating_sub(transfer.returned);
        self.bytes_saved = self.bytes_saved.saturating_sub(saved);
    }

    fn write(&self, into: &mut Value) {
        into["runs"] = json!(self.runs);
        into["runs_failed"] = json!(self.failed);
        into["tool_calls"] = json!(self.calls);
        into["bytes_processed"] = json!(self.bytes_processed);
        into["bytes_returned"] = json!(self.bytes_returned);
        into["estimated_tokens_saved"] = json!(self.bytes_saved / BYTES_PER_TOKEN);
    }
}

impl Sums {
    /// Makes room for the counts of a caller and a session, and notes that they are in use.
    fn begin(&mut self, caller: &str, session: Option<u64>) {
        let now = Instant::now();
        if !caller.is_empty() {
            make_room(&mut self.callers, &caller.to_owned(), MAX_CALLERS, |counts| counts.last);
            let new = || CallerCounts { last: now, counts: Counts::default(), tools: BTreeMap::new() };
            self.callers.entry(caller.to_owned()).or_insert_with(new).last = now;
        }
        let Some(session) = session else { return };
        make_room(&mut self.sessions, &session, MAX_SESSIONS, |counts| counts.last);
        let counts = Counts::default();
        self.sessions.entry(session).or_insert(SessionCounts { since: now, last: now, counts }).last = now;
    }

    /// What a caller did; of the user of the machine, what all did.
    fn of(&self, caller: &str) -> Counts {
        if caller.is_empty() {
            return self.all;
        }
        self.callers.get(caller).map(|own| own.counts).unwrap_or_default()
    }

    /// Changes the counts of all, those of a caller and those of a session.
    fn each(&mut self, caller: &str, session: Option<u64>, change: impl Fn(&mut Counts)) {
        change(&mut self.all);
        if let Some(own) = self.callers.get_mut(caller) {
            change(&mut own.counts);
        }
        if let Some(own) = session.and_then(|session| self.sessions.get_mut(&session)) {
            change(&mut own.counts);
        }
    }

    fn count(&mut self, caller: &str, call: &CallRecord) {
        count_in(&mut self.tools, MAX_TOOLS, call);
        let is_new = self.callers.get(caller).is_some_and(|own| !own.tools.contains_key(&call.target));
        if is_new && self.callers.values().map(|own| own.tools.len()).sum::<usize>() >= MAX_CALLER_TOOLS {
            return;
        }
        if let Some(own) = self.callers.get_mut(caller) {
            count_in(&mut own.tools, MAX_TOOLS, call);
        }
    }
}

/// Forgets what was quiet for longest where there is no room for a new key.
fn make_room<K: Ord + Clone, V>(kept: &mut BTreeMap<K, V>, key: &K, most: usize, last: impl Fn(&V) -> Instant) {
    if !kept.contains_key(key) && kept.len() >= most {
        let quietest = kept.iter().min_by_key(|(_, counts)| last(counts)).map(|(key, _)| key.clone());
        quietest.and_then(|quietest| kept.remove(&quietest));
    }
}

/// Counts a call in at most `most` tools.
fn count_in(tools: &mut BTreeMap<Target, ToolSums>, most: usize, call: &CallRecord) {
    if !tools.contains_key(&call.target) && tools.len() >= most {
        return;
    }
    let tool = tools.entry(call.target.clone()).or_default();
    tool.calls += 1;
    tool.failed += u64::from(call.state != CallState::Applied);
    tool.bytes = tool.bytes.saturating_add(call.reply_bytes);
    tool.ms += call.ms;
}

/// Without code mode every reply of a tool would have gone through the context window.
fn processed_and_saved(transfer: Transfer, replies: u64) -> (u64, u64) {
    let processed = transfer.processed.max(replies);
    (processed, processed.saturating_sub(transfer.returned))
}

/// Host functions have no backend and may be known to every caller.
fn may_know(caller: &CallerScope, target: &Target) -> bool {
    match target {
        Target::Tool { backend, tool } => caller.permits_tool(backend, tool),
        Target::Function(_) => true,
    }
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::Access;

    fn call(name: &str, state: CallState, reply_bytes: u64) -> CallRecord {
        let target = match name.split_once('.') {
            Some((backend, tool)) => Target::Tool { backend: backend.into(), tool: tool.into() },
            None => Target::Function(name.into()),
        };
        CallRecord {
            target,
            state,
            ms: 2.0,
            request_bytes: 2,
            reply_bytes,
            read_only: false,
            error: None,
            error_code: None,
            decision: None,
        }
    }

    fn record(history: &History, caller: &str, calls: Vec<CallRecord>, processed: u64, returned: u64) {
        let outcome = Outcome::Returned(Box::<RawValue>::default());
        let report = Report { calls, ..Report::not_started(outcome, std::time::Duration::from_millis(1)) };
        let run = RunReport::ended(super::super::execution_id(), Route::Script, report);
        let caller = CallerScope { name: caller.into(), ..CallerScope::default() };
        let request = RunRequest {
            session: Some(caller.name.len() as u64),
            caller,
            door: Door::Mcp("call_tool_chain"),
            ..RunRequest::new(Profile::Chain, "return 1")
        };
        history.record(&request, &Arc::default(), &run);
        history.shaped(&run.id, Transfer { processed, returned });
    }

    fn seen(history: &History, name: &str, backends: Access) -> usize {
        let caller = CallerScope { name: name.into(), backends, ..CallerScope::default() };
        history.recent(&caller)["recent"].as_array().unwrap().len()
    }

    #[test]
    fn a_single_call_whose_caller_goes_away_is_recorded_as_unknown() {
        let history = History::default();
        let caller = CallerScope { name: "ann".into(), ..CallerScope::default() };
        let (origin, target) = (toolgate_mcp::RequestOrigin::default(), Target::Function("f".into()));
        let (door, session, arguments, read_only) = (Door::Rpc, None, "[]", true);
        let single =
            SingleCall { door, caller: &caller, origin: &origin, session, target: &target, arguments, read_only };
        drop(history.begin_call(single));
        assert_eq!(seen(&history, "ann", Access::All), 1);
        let begun = history.begin_call(single);
        let record = begun.record();
        history.end_call(begun, record, 0);
        assert_eq!(seen(&history, "ann", Access::All), 2, "one that ends is recorded once");
    }

    #[test]
    fn what_tools_replied_and_what_was_not_returned_counts_as_saved() {
        let history = History::default();
        record(&history, "", vec![call("a.x", CallState::Applied, 4_000)], 400, 400);
        record(&history, "", vec![], 10_000, 2_000);
        let stats = history.stats(&CallerScope::default(), None);
        assert_eq!(stats["estimated_tokens_saved"], 900 + 2_000);
        assert_eq!((&stats["bytes_processed"], &stats["bytes_returned"]), (&json!(14_000), &json!(2_400)));
        assert_eq!(stats["per_tool"]["a.x"], json!({ "calls": 1, "failed": 0, "bytes": 4_000, "mean_ms": 2.0 }));
    }

    #[test]
    fn a_session_has_counts_of_its_own() {
        let history = History::default();
        record(&history, "a", vec![call("a.x", CallState::Applied, 4_000)], 400, 400);
        record(&history, "bb", vec![], 10_000, 2_000);
        let stats = |session: u64| history.stats(&CallerScope::default(), Some(session))["session"].clone();
        let counts = |stats: &Value| {
            ["runs", "tool_calls", "bytes_returned", "estimated_tokens_saved"].map(|key| stats[key].as_u64().unwrap())
        };
        assert_eq!(counts(&stats(1)), [1, 1, 400, 900]);
        assert_eq!(counts(&stats(2)), [1, 0, 2_000, 2_000]);
        assert_eq!(counts(&stats(7)), [0, 0, 0, 0]);
        assert_eq!(history.stats(&CallerScope::default(), Some(1))["runs"], 2);
    }

    #[test]
    fn sessions_that_were_quiet_for_longest_are_forgotten() {
        let mut sums = Sums::default();
        (0..=MAX_SESSIONS as u64).for_each(|session| sums.begin("", Some(session)));
        assert_eq!(sums.sessions.len(), MAX_SESSIONS);
        assert!(!sums.sessions.contains_key(&0) && sums.sessions.contains_key(&(MAX_SESSIONS as u64)));
    }

    #[test]
    fn names_that_a_program_made_up_are_not_kept() {
        let history = History::default();
        record(&history, "", vec![call("a.nope", CallState::NotSent, 0)], 0, 0);
        assert_eq!(history.stats(&CallerScope::default(), None)["per_tool"], json!({}));
    }

    #[test]
    fn a_caller_sees_only_its_own_backends() {
        let history = History::default();
        record(&history, "", vec![call("a.x", CallState::Applied, 1)], 0, 0);
        record(&history, "", vec![call("b.x", CallState::Applied, 1), call("httpCall", CallState::Applied, 1)], 0, 0);
        let only = Access::only(["b"]);
        let names: Vec<String> = history.stats(&CallerScope { backends: only.clone(), ..CallerScope::default() }, None)
            ["per_tool"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(names, ["b.x", "httpCall"]);
        assert_eq!(seen(&history, "", only), 1);
        let tools = CallerScope { tools: Access::only(["a.*"]), ..CallerScope::default() };
        assert_eq!(
            history.stats(&tools, None)["per_tool"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["a.x", "httpCall"]
        );
    }

    #[test]
    fn a_caller_sees_only_its_own_counts() {
        let history = History::default();
        record(&history, "alice", vec![call("a.x", CallState::Applied, 4_000)], 400, 400);
        record(&history, "alice", vec![call("a.x", CallState::Failed, 0)], 0, 0);
        record(&history, "bob", vec![call("b.x", CallState::Applied, 7)], 7, 7);
        let stats = |name: &str| history.stats(&CallerScope { name: name.into(), ..CallerScope::default() }, None);
        let shown = |stats: Value| {
            let tools: Vec<String> = stats["per_tool"].as_object().unwrap().keys().cloned().collect();
            (stats["runs"].clone(), stats["tool_calls"].clone(), stats["bytes_returned"].clone(), tools.join(" "))
        };
        assert_eq!(shown(stats("alice")), (json!(2), json!(2), json!(400), "a.x".to_owned()));
        assert_eq!(shown(stats("bob")), (json!(1), json!(1), json!(7), "b.x".to_owned()));
        assert_eq!(shown(stats("eve")), (json!(0), json!(0), json!(0), String::new()));
        assert_eq!(shown(stats("")), (json!(3), json!(3), json!(407), "a.x b.x".to_owned()));
    }

    #[test]
    fn what_is_counted_by_caller_is_bounded() {
        let mut sums = Sums::default();
        for n in 0..=MAX_CALLERS {
            sums.begin(&format!("caller {n}"), None);
        }
        assert_eq!(sums.callers.len(), MAX_CALLERS);
        for n in 0..5 * MAX_TOOLS {
            sums.count(&format!("caller {}", 1 + n % 10), &call(&format!("a.t{n}"), CallState::Applied, 0));
        }
        assert_eq!(sums.callers.values().map(|own| own.tools.len()).sum::<usize>(), MAX_CALLER_TOOLS);
        assert_eq!(sums.tools.len(), MAX_TOOLS);
    }

    #[test]
    fn a_caller_sees_only_its_own_runs() {
        let history = History::default();
        record(&history, "alice", vec![], 0, 0);
        assert_eq!((seen(&history, "alice", Access::All), seen(&history, "bob", Access::All)), (1, 0));
    }

    #[test]
    fn a_listener_hears_of_every_run_and_of_what_it_saved() {
        #[derive(Default)]
        struct Heard(Mutex<Vec<String>>);
        impl RunListener for Heard {
            fn ended(&self, run: &EndedRun<'_>) {
                self.0.lock().push(format!("{} {:?} {}", run.caller.name, run.text, run.saved));
            }

            fn saved_more(&self, caller: &str, bytes: i64) {
                self.0.lock().push(format!("{caller} {bytes}"));
            }

            fn call_begins(&self, call: &BegunCall<'_>) {
                self.0.lock().push(format!("{} begins", call.target));
            }
        }
        let (history, heard) = (History::default(), Arc::new(Heard::default()));
        history.listen(heard.clone());
        record(&history, "alice", vec![call("a.x", CallState::Applied, 4_000)], 400, 100);
        let (caller, origin) = (CallerScope::default(), RequestOrigin::default());
        let target = Target::Tool { backend: "a".to_owned(), tool: "x".to_owned() };
        let single = |read_only| SingleCall {
            door: Door::Mcp("direct"),
            caller: &caller,
            origin: &origin,
            session: Some(1),
            target: &target,
            arguments: "{}",
            read_only,
        };
        for read_only in [true, false] {
            let begun = history.begin_call(single(read_only));
            let mut record = begun.record();
            assert_eq!(record.read_only, read_only);
            record.applied(10);
            history.end_call(begun, record, 10);
        }
        // The value of the record is `null`, of four bytes.
        let expected = ["alice Some(\"return 1\") 3996", "alice -96", " None 0", "a.x begins", " None 0"];
        assert_eq!(*heard.0.lock(), expected);
    }

    #[test]
    fn only_the_last_runs_are_remembered() {
        let history = History::default();
        (0..80).for_each(|_| record(&history, "", vec![], 1, 1));
        assert_eq!(seen(&history, "", Access::All), RECENT);
        assert_eq!(history.stats(&CallerScope::default(), None)["runs"], 80);
    }
}
