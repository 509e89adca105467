//! Records whole runs: for statistics and the list of recent runs, for monitoring, and for those who listen.
//!
//! What is kept of a run is in `statistics`, and never what it said; calls without a program come by `single_call`.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use toolgate_wire::{CallerScope, Profile};

use super::door::Door;
use super::kept_notes::{KeptNotes, KeptRuns};
use super::later::Later;
use super::listen::{CallDetails, CallNotes, EndedRun, Listeners, RunListener};
use super::metrics::{self, RunMetrics};
use super::request::{RunReport, RunRequest};
use super::statistics::{Sums, Transfer, processed_and_saved};

/// Statistics since the start, and the last runs.
pub struct History {
    since: Instant,
    metrics: RunMetrics,
    pub(super) listeners: Arc<Listeners>,
    /// Tells listeners of ends on a thread of its own.
    later: Later,
    /// What was noted of durable runs that have not been recorded.
    kept: Mutex<KeptRuns>,
    sums: Mutex<Sums>,
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
    pub(super) fn record_durable(&self, door: Door, caller: &CallerScope, run: &RunReport) {
        let kept = self.kept.lock().take(&run.id).unwrap_or_default();
        let request = RunRequest {
            caller: caller.clone(),
            door,
            origin: kept.origin,
            trace: kept.trace,
            ..RunRequest::new(Profile::Chain, kept.text)
        };
        self.record(&request, &kept.calls, run);
    }

    /// Adds a run that has ended.
    pub(super) fn add(&self, ended: EndedRun<'_>) {
        let EndedRun { door, caller, report: run, transfer, .. } = ended;
        self.metrics.record(door, caller, run);
        let report = &run.report;
        let replies: u64 = report.calls.iter().map(|call| call.reply_bytes).sum();
        self.sums.lock().add(&ended, replies);
        let ended = EndedRun { saved: processed_and_saved(transfer, replies).1, ..ended };
        self.listeners.tell_end(&ended);
        if self.listeners.some_are_later() || (!report.calls.is_empty() && metrics::logs_calls()) {
            self.later.add(&ended, &self.listeners);
        }
    }

    /// Corrects how much of a run was returned.
    pub fn shaped(&self, id: &str, transfer: Transfer) {
        let corrected = self.sums.lock().correct(id, transfer);
        if let Some((caller, more)) = corrected {
            self.listeners.tell(|listener| listener.saved_more(&caller, more));
        }
    }

    /// What this caller did, with the tools that it may know of, and what one session did. The user of the machine, who has no
    /// name, gets the sums of all callers.
    pub fn stats(&self, caller: &CallerScope, session: Option<u64>) -> Value {
        self.sums.lock().stats(caller, session, self.since.elapsed())
    }

    /// The last runs of this caller, newest first, without those that touched what it may not know of.
    pub fn recent(&self, caller: &CallerScope) -> Value {
        self.sums.lock().recent(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::BegunCall;
    use crate::request::Route;
    use crate::single_call::SingleCall;
    use crate::statistics::RECENT;
    use serde_json::json;
    use serde_json::value::RawValue;
    use toolgate_mcp::RequestOrigin;
    use toolgate_wire::{Access, CallRecord, CallState, Outcome, Report, Target};

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
        let run = RunReport::ended(crate::execution_id(), Route::Script, report);
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
