//! What volatile runs did before they failed, so that a corrected program can keep it: `fix_run`.
//!
//! A durable run has its record. Of any other run of an agent the calls are noted in memory while it goes on, and kept for a while
//! if it fails after something was done: so the model can correct the program without doing it again, also where it did not ask for
//! a durable run. Everything is bounded, by calls and by bytes; a run whose effects do not fit is not kept, and one whose reads do
//! not fit is kept without them. Nothing of this survives the process.
//!
//! A run whose future is dropped is kept like one that failed. What a correction did is kept with the runs that it corrects too,
//! however it ended: if its caller does not get the answer and corrects the first run again, nothing is sent twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer};
use toolgate_journal::recording::NOT_DURABLE_BEYOND;
use toolgate_wire::{CallState, Code, Profile};

use crate::durable::KeptEffects;
use crate::execution_id;
use crate::request::{Door, Durability, RunReport, RunRequest};
use toolgate_bridge::AllowedEffects;

/// Bytes of arguments and answers that are noted of one run.
const MAX_RUN_BYTES: usize = 1 << 20;
/// Calls that are noted of one run.
const MAX_RUN_CALLS: usize = 2_000;
/// Failed runs of one caller that are kept, and of all callers.
const MAX_RUNS_OF_CALLER: usize = 16;
const MAX_RUNS: usize = 256;
/// Bytes of these runs.
const MAX_BYTES_OF_CALLER: usize = 8 << 20;
const MAX_BYTES: usize = 64 << 20;
/// How long a failed run is kept.
const KEEP_TIME: Duration = Duration::from_secs(3600);

/// One call of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NotedCall {
    /// What was called.
    pub(crate) target: Target,
    /// JSON text of the arguments.
    pub(crate) args: String,
    /// Whether it changes nothing.
    pub(crate) is_read: bool,
    /// JSON text of the answer; `None` before the call is answered, and for a call whose effect is unknown.
    pub(crate) answer: Option<String>,
}

impl NotedCall {
    fn bytes(&self) -> usize {
        size_of::<NotedCall>() + self.args.len() + self.answer.as_ref().map_or(0, String::len)
    }
}

/// The calls of one run.
#[derive(Default)]
pub struct NotedCalls {
    /// The id of the run.
    run: String,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// In their order; those that failed or were not sent are taken out.
    calls: Vec<Option<NotedCall>>,
    bytes: usize,
    /// Whether reads are not noted any more, because they did not fit.
    is_without_reads: bool,
    /// Whether an effect did not fit: then the run is not kept.
    is_cut: bool,
}

impl Notes {
    /// Makes room: reads go first.
    fn fit(&mut self) {
        if self.bytes <= MAX_RUN_BYTES && self.calls.len() <= MAX_RUN_CALLS {
            return;
        }
        if !self.is_without_reads {
            self.is_without_reads = true;
            for call in &mut self.calls {
                *call = call.take().filter(|call| !call.is_read);
            }
            self.bytes = self.calls.iter().flatten().map(NotedCall::bytes).sum();
        }
        let effects = self.calls.iter().flatten().count();
        if self.bytes > MAX_RUN_BYTES || effects > MAX_RUN_CALLS {
            *self = Notes { is_cut: true, ..Notes::default() };
        }
    }
}

impl NotedCalls {
    /// The id that the run has.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Notes that a call is made; the number by which its end is noted.
    fn begin(&self, target: &Target, args: &str, is_read: bool) -> Option<usize> {
        let mut notes = self.notes.lock();
        if notes.is_cut || (is_read && notes.is_without_reads) {
            return None;
        }
        let call = NotedCall { target: target.clone(), args: args.to_owned(), is_read, answer: None };
        notes.bytes += call.bytes();
        notes.calls.push(Some(call));
        let number = notes.calls.len() - 1;
        notes.fit();
        Some(number)
    }

    /// Notes how a call ended.
    fn end(&self, number: usize, answer: &Result<String, HostError>) {
        let mut notes = self.notes.lock();
        let Some(noted) = notes.calls.get_mut(number) else { return };
        let Some(call) = noted else { return };
        let before = call.bytes();
        match answer {
            Ok(text) => call.answer = Some(text.clone()),
            Err(error) if error.state == CallState::Unknown && !call.is_read => {}
            // What failed or was not sent may be tried again.
            Err(_) => *noted = None,
        }
        let after = noted.as_ref().map_or(0, NotedCall::bytes);
        notes.bytes = (notes.bytes + after).saturating_sub(before);
        notes.fit();
    }

    /// The calls, if all effects are among them. A read without an answer says nothing.
    fn take(&self) -> Option<Vec<NotedCall>> {
        let notes = std::mem::take(&mut *self.notes.lock());
        let says_something = |call: &NotedCall| !call.is_read || call.answer.is_some();
        (!notes.is_cut).then(|| notes.calls.into_iter().flatten().filter(says_something).collect())
    }
}

/// A host that notes the calls of a run and their answers.
pub(crate) struct NotingHost {
    noted: Arc<NotedCalls>,
    real: Arc<dyn Host>,
}

impl NotingHost {
    pub(crate) fn new(noted: Arc<NotedCalls>, real: Arc<dyn Host>) -> Self {
        NotingHost { noted, real }
    }
}

impl HostLayer for NotingHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        let is_read = self.real.call_is_read_only(&call.target, &call.args);
        let number = self.noted.begin(&call.target, &call.args, is_read);
        let (noted, answer) = (self.noted.clone(), self.real.call(call));
        let Some(number) = number else { return answer };
        Box::pin(async move {
            let answer = answer.await;
            noted.end(number, &answer);
            answer
        })
    }
}

/// A run whose calls are noted. If it is dropped before its end is known, the run was cut off, and is kept as one that failed.
pub(crate) struct NotedRun {
    caller: String,
    calls: Arc<NotedCalls>,
    kept: Option<Arc<KeptEffects>>,
    /// Where it is kept; `None` once that is decided.
    runs: Option<Arc<FailedRuns>>,
}

impl NotedRun {
    /// Keeps what a run did that has ended.
    pub(crate) fn ended(mut self, report: &RunReport) {
        let is_failed = report.report.failure().is_some() && report.paused.is_none();
        if let Some(runs) = self.runs.take() {
            runs.keep(&self, is_failed);
        }
    }

    /// Keeps nothing: the run begins again, and has changed nothing.
    pub(crate) fn discard(mut self) {
        self.runs = None;
    }
}

impl Drop for NotedRun {
    fn drop(&mut self) {
        if let Some(runs) = self.runs.take() {
            runs.keep(self, true);
        }
    }
}

/// A run that failed after it had done something.
struct FailedRun {
    caller: String,
    run: String,
    since: Instant,
    calls: Arc<[NotedCall]>,
    bytes: usize,
    /// The runs that it corrects, directly or not.
    corrects: Vec<String>,
}

impl FailedRun {
    fn new(caller: &str, run: String, calls: Arc<[NotedCall]>, corrects: Vec<String>) -> Self {
        let ids = corrects.iter().map(|id| size_of::<String>() + id.len()).sum::<usize>();
        let bytes = ids + calls.iter().map(NotedCall::bytes).sum::<usize>();
        FailedRun { caller: caller.to_owned(), run, since: Instant::now(), calls, bytes, corrects }
    }
}

/// The volatile runs that failed, the newest last.
#[derive(Default)]
pub(crate) struct FailedRuns(Mutex<VecDeque<FailedRun>>);

impl FailedRuns {
    /// Notes the calls of a run from now on, if it is one that `fix_run` may be called for: a volatile program of an agent.
    pub(crate) fn note(self: &Arc<Self>, request: &mut RunRequest) -> Option<NotedRun> {
        let is_noted = matches!(request.door, Door::Mcp(_))
            && request.profile == Profile::Chain
            && request.durable == Durability::Volatile
            && request.effects == AllowedEffects::Any
            && !request.staging.is_on()
            && request.recorder.is_none()
            && request.recorded.is_none();
        is_noted.then(|| {
            let run = request.id.clone().unwrap_or_else(execution_id);
            let calls = Arc::new(NotedCalls { run, notes: Mutex::default() });
            request.noted = Some(calls.clone());
            let (caller, kept) = (request.caller.name.clone(), request.kept.clone());
            NotedRun { caller, calls, kept, runs: Some(self.clone()) }
        })
    }

    /// Keeps a run that failed after it had done something. What it was to keep of an earlier run and has not called again is
    /// kept with it. The runs that it corrects get the same calls, also if it did not fail.
    fn keep(&self, noted: &NotedRun, is_failed: bool) {
        let (caller, run) = (noted.caller.as_str(), noted.calls.run());
        let mut runs = self.0.lock();
        let mut corrects: Vec<String> = Vec::new();
        if let Some(kept) = &noted.kept {
            let earlier = runs.iter().find(|failed| failed.run == kept.run() && failed.caller == caller);
            corrects.push(kept.run().to_owned());
            corrects.extend(earlier.into_iter().flat_map(|failed| failed.corrects.iter().cloned()));
        }
        let is_corrected = |failed: &FailedRun| failed.caller == caller && corrects.contains(&failed.run);
        let Some(mut calls) = noted.calls.take() else {
            // What this run did is not known, so another correction of the same run could do it a second time.
            runs.retain(|failed| !is_corrected(failed));
            return;
        };
        calls.extend(noted.kept.iter().flat_map(|kept| kept.left()));
        if !calls.iter().any(|call| !call.is_read) {
            return;
        }
        let calls: Arc<[NotedCall]> = calls.into();
        let (corrected, others): (VecDeque<FailedRun>, VecDeque<FailedRun>) = runs.drain(..).partition(is_corrected);
        *runs = others;
        for FailedRun { run, calls: before, corrects, .. } in corrected {
            runs.push_back(FailedRun::new(caller, run, with_missing(&calls, &before), corrects));
        }
        if is_failed {
            runs.push_back(FailedRun::new(caller, run.to_owned(), calls, corrects));
        }
        forget(&mut runs, caller);
    }

    /// What an agent can do about a volatile run that failed after it had an effect.
    pub(crate) fn advice(&self, run: &RunReport, caller: &str) -> Option<String> {
        let is_kept = self.0.lock().iter().any(|failed| failed.run == run.id && failed.caller == caller);
        if is_kept {
            return fix_hint(run);
        }
        let fix = fix_hint(run)?;
        let is_said = run.report.failure().and_then(|it| it.hint.as_ref()).is_some_and(|hint| hint.contains(&fix));
        let is_cut = run.report.warnings.iter().any(|warning| warning.starts_with(NOT_DURABLE_BEYOND));
        (!is_said && !is_cut).then(|| {
            "what this run did is not kept: begin such a program with durable: true, then fix_run can correct it"
                .to_owned()
        })
    }

    /// What a failed run of this caller did.
    pub(crate) fn effects_of(&self, run: &str, caller: Option<&str>) -> Option<KeptEffects> {
        let runs = self.0.lock();
        let is_it = |failed: &&FailedRun| failed.run == run && caller.is_none_or(|caller| failed.caller == caller);
        let found = runs.iter().find(is_it).filter(|failed| failed.since.elapsed() < KEEP_TIME)?;
        let calls = found.calls.clone();
        drop(runs);
        Some(KeptEffects::in_memory(run, calls))
    }
}

/// These calls, and the effects among earlier ones that are missing in them: those of another correction at the same time.
fn with_missing(calls: &Arc<[NotedCall]>, before: &[NotedCall]) -> Arc<[NotedCall]> {
    fn key(call: &NotedCall) -> (&Target, &str, bool) {
        (&call.target, call.args.as_str(), call.answer.is_some())
    }
    let mut known: HashMap<(&Target, &str, bool), usize> = HashMap::new();
    for call in calls.iter().filter(|call| !call.is_read) {
        *known.entry(key(call)).or_default() += 1;
    }
    let mut missing: Vec<NotedCall> = Vec::new();
    for call in before.iter().filter(|call| !call.is_read) {
        match known.get_mut(&key(call)) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(call.clone()),
        }
    }
    if missing.is_empty() {
        return calls.clone();
    }
    calls.iter().cloned().chain(missing).collect()
}

/// Names `fix_run`, with which the effects of a run that failed after it had some are kept.
pub(crate) fn fix_hint(run: &RunReport) -> Option<String> {
    let effects = effects_in(run);
    let failure = run.report.failure()?;
    (effects > 0 && failure.code != Code::Aborted).then(|| {
        let effects = if effects == 1 { "the effect".to_owned() } else { format!("the {effects} effects") };
        format!("fix_run({{ run_id: \"{}\", code }}) runs a corrected program and keeps {effects} of this run", run.id)
    })
}

/// How many calls took effect.
fn effects_in(run: &RunReport) -> usize {
    run.report.calls.iter().filter(|call| !call.read_only && call.state == CallState::Applied).count()
}

/// Forgets what is old, and the oldest of what is too much: first of this caller, then of all.
fn forget(runs: &mut VecDeque<FailedRun>, caller: &str) {
    runs.retain(|failed| failed.since.elapsed() < KEEP_TIME);
    let taken = |runs: &VecDeque<FailedRun>, caller: Option<&str>| {
        let counted = runs.iter().filter(|failed| caller.is_none_or(|caller| failed.caller == caller));
        counted.fold((0, 0), |(count, bytes), failed| (count + 1, bytes + failed.bytes))
    };
    loop {
        let ((own, own_bytes), (all, all_bytes)) = (taken(runs, Some(caller)), taken(runs, None));
        let oldest = if own > MAX_RUNS_OF_CALLER || own_bytes > MAX_BYTES_OF_CALLER {
            runs.iter().position(|failed| failed.caller == caller)
        } else if all > MAX_RUNS || all_bytes > MAX_BYTES {
            Some(0)
        } else {
            None
        };
        match oldest {
            Some(oldest) => drop(runs.remove(oldest)),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tool: &str) -> Target {
        Target::Tool { backend: "b".into(), tool: tool.into() }
    }

    fn noted(runs: &Arc<FailedRuns>, caller: &str, id: &str) -> NotedRun {
        let calls = Arc::new(NotedCalls { run: id.into(), notes: Mutex::default() });
        NotedRun { caller: caller.into(), calls, kept: None, runs: Some(runs.clone()) }
    }

    /// The same for a correction of this run.
    fn correction(runs: &Arc<FailedRuns>, of: &str, id: &str) -> NotedRun {
        let mut run = noted(runs, "ann", id);
        run.kept = runs.effects_of(of, Some("ann")).map(Arc::new);
        assert!(run.kept.is_some(), "{of} is kept");
        run
    }

    /// Notes a call with its answer.
    fn call(run: &NotedRun, tool: &str, is_read: bool, answer: Result<&str, CallState>) {
        let number = run.calls.begin(&target(tool), "{}", is_read);
        let answer = answer.map(str::to_owned);
        let answer = answer.map_err(|state| HostError { state, ..HostError::new("X", "x") });
        if let Some(number) = number {
            run.calls.end(number, &answer);
        }
    }

    fn failed(id: &str) -> RunReport {
        RunReport { id: id.into(), ..RunReport::refused(Code::Runtime, "no") }
    }

    #[test]
    fn the_runs_that_a_run_corrects_count_in_its_bytes() {
        let mut runs = VecDeque::new();
        for number in 0..MAX_RUNS_OF_CALLER {
            let corrects = vec!["x".repeat(1_000); 1_000];
            runs.push_back(FailedRun::new("ann", number.to_string(), Arc::new([]), corrects));
            forget(&mut runs, "ann");
        }
        let bytes: usize = runs.iter().map(|failed| failed.bytes).sum();
        assert!(runs.len() == 8 && bytes <= MAX_BYTES_OF_CALLER, "{} runs of {bytes} bytes", runs.len());
    }

    #[test]
    fn a_run_is_kept_if_it_failed_after_it_did_something() {
        let runs = Arc::<FailedRuns>::default();
        for (id, is_read, answer, is_kept) in [
            ("applied", false, Ok("1"), true),
            ("read", true, Ok("1"), false),
            ("failed", false, Err(CallState::Failed), false),
            ("not sent", false, Err(CallState::NotSent), false),
            ("unknown", false, Err(CallState::Unknown), true),
        ] {
            let run = noted(&runs, "ann", id);
            call(&run, "t", is_read, answer);
            run.ended(&failed(id));
            assert_eq!(runs.effects_of(id, Some("ann")).is_some(), is_kept, "{id}");
            assert!(runs.effects_of(id, Some("bob")).is_none(), "{id} is another caller's");
        }
        // A call without an answer when its run ended may have taken effect.
        let run = noted(&runs, "ann", "open");
        run.calls.begin(&target("t"), "{}", false);
        run.ended(&failed("open"));
        assert!(runs.effects_of("open", Some("ann")).is_some());
    }

    /// The tools of the effects that are kept of a run, in order.
    fn kept_tools(runs: &FailedRuns, id: &str) -> Vec<String> {
        let left = runs.effects_of(id, None).map(|kept| kept.left()).unwrap_or_default();
        let mut tools: Vec<String> = left.iter().map(|call| call.target.to_string()).collect();
        tools.sort();
        tools
    }

    #[test]
    fn a_run_that_is_cut_off_is_kept_and_one_that_begins_again_is_not() {
        let runs = Arc::<FailedRuns>::default();
        let run = noted(&runs, "ann", "cut off");
        call(&run, "write", false, Ok("1"));
        drop(run);
        assert_eq!(kept_tools(&runs, "cut off"), ["b.write"]);
        let run = noted(&runs, "ann", "again");
        call(&run, "write", false, Ok("1"));
        run.discard();
        assert!(runs.effects_of("again", None).is_none());
    }

    #[test]
    fn what_a_correction_did_is_kept_with_the_runs_that_it_corrects() {
        let runs = Arc::<FailedRuns>::default();
        let run = noted(&runs, "ann", "first");
        call(&run, "one", false, Ok("1"));
        run.ended(&failed("first"));
        // Two corrections at the same time: one fails, one is cut off.
        let (second, third) = (correction(&runs, "first", "second"), correction(&runs, "first", "third"));
        call(&second, "two", false, Ok("2"));
        call(&third, "three", false, Ok("3"));
        second.ended(&failed("second"));
        drop(third);
        assert_eq!(kept_tools(&runs, "first"), ["b.one", "b.three", "b.two"], "each once");
        assert_eq!(kept_tools(&runs, "second"), ["b.one", "b.two"]);
        assert_eq!(kept_tools(&runs, "third"), ["b.one", "b.three"]);
        // A correction of a correction.
        let fourth = correction(&runs, "second", "fourth");
        call(&fourth, "four", false, Ok("4"));
        drop(fourth);
        assert_eq!(kept_tools(&runs, "first"), ["b.four", "b.one", "b.three", "b.two"]);
        assert_eq!(kept_tools(&runs, "second"), ["b.four", "b.one", "b.two"]);
        // One whose effects do not fit: what it did is not known, so nothing is corrected again from the first run.
        let large = "x".repeat(MAX_RUN_BYTES + 1);
        let fifth = correction(&runs, "first", "fifth");
        call(&fifth, "five", false, Ok(&large));
        drop(fifth);
        assert!(runs.effects_of("first", None).is_none() && runs.effects_of("fifth", None).is_none());
        assert!(runs.effects_of("third", None).is_some(), "it does not correct this one");
    }

    #[test]
    fn reads_that_do_not_fit_are_left_out_and_effects_that_do_not_fit_end_it() {
        let (runs, large) = (Arc::<FailedRuns>::default(), "x".repeat(MAX_RUN_BYTES));
        let run = noted(&runs, "ann", "without reads");
        call(&run, "read", true, Ok("1"));
        call(&run, "write", false, Ok("2"));
        call(&run, "read", true, Ok(&large));
        call(&run, "write", false, Ok("3"));
        let calls = run.calls.clone();
        let kept: Vec<_> = calls.notes.lock().calls.iter().flatten().map(|call| call.answer.clone()).collect();
        assert_eq!(kept, [Some("2".to_owned()), Some("3".to_owned())]);
        run.ended(&failed("without reads"));
        assert!(runs.effects_of("without reads", None).is_some());

        let run = noted(&runs, "ann", "cut");
        call(&run, "write", false, Ok("2"));
        call(&run, "write", false, Ok(&large));
        call(&run, "write", false, Ok("3"));
        run.ended(&failed("cut"));
        assert!(runs.effects_of("cut", None).is_none());
        let many = noted(&runs, "ann", "many");
        for _ in 0..=MAX_RUN_CALLS {
            call(&many, "write", false, Ok("2"));
        }
        many.ended(&failed("many"));
        assert!(runs.effects_of("many", None).is_none());
    }

    #[test]
    fn the_oldest_runs_of_a_caller_make_room() {
        let runs = Arc::<FailedRuns>::default();
        let keep = |caller: &str, id: String, answer: &str| {
            let run = noted(&runs, caller, &id);
            call(&run, "write", false, Ok(answer));
            run.ended(&failed(&id));
        };
        keep("bob", "bob".into(), "1");
        for number in 0..MAX_RUNS_OF_CALLER + 3 {
            keep("ann", format!("ann {number}"), "1");
        }
        let is_kept = |id: &str| runs.effects_of(id, None).is_some();
        assert!(is_kept("bob") && !is_kept("ann 2") && is_kept("ann 3"));
        let large = "x".repeat(MAX_RUN_BYTES / 2);
        for number in 0..MAX_RUNS_OF_CALLER {
            keep("ann", format!("large {number}"), &large);
        }
        let bytes: usize = runs.0.lock().iter().filter(|run| run.caller == "ann").map(|run| run.bytes).sum();
        assert!(bytes <= MAX_BYTES_OF_CALLER && is_kept("bob"), "{bytes}");
        for number in 0..MAX_RUNS + 3 {
            keep(&format!("caller {number}"), format!("run {number}"), "1");
        }
        assert_eq!(runs.0.lock().len(), MAX_RUNS);
    }
}
