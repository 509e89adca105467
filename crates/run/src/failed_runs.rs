//! What volatile runs did before they failed, so that a corrected program can keep it: `fix_run`.
//!
//! A durable run has its record. Of any other run of an agent the calls are noted in memory while it goes on, and kept for a while
//! if it fails after something was done: so the model can correct the program without doing it again, also where it did not ask for
//! a durable run (`noted_calls`). Everything is bounded, by calls and by bytes; a run whose effects do not fit is not kept, and one
//! whose reads do not fit is kept without them. Nothing of this survives the process.
//!
//! A run whose future is dropped is kept like one that failed. A run and its corrections are one chain: what any of them did is kept
//! once, however it ended, whichever of them is corrected next. So a caller that does not get an answer and corrects an earlier run
//! again sends nothing twice. One correction of a chain goes on at one time. Once a correction is a durable run, so are all later ones:
//! the store decides then which of them goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_bridge::AllowedEffects;
use toolgate_wire::{CallState, Code, Profile, Warning};

use crate::door::Door;
use crate::durable::KeptEffects;
use crate::execution_id;
use crate::noted_calls::{NotedCall, NotedCalls};
use crate::request::{Durability, RunReport, RunRequest};

/// Failed runs of one caller that are kept, and of all callers.
const MAX_RUNS_OF_CALLER: usize = 16;
const MAX_RUNS: usize = 256;
/// Bytes of these runs.
const MAX_BYTES_OF_CALLER: usize = 8 << 20;
const MAX_BYTES: usize = 64 << 20;
/// How long a failed run is kept.
const KEEP_TIME: Duration = Duration::from_secs(3600);

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

/// Runs that failed after they had done something: one, and its corrections.
struct FailedChain {
    caller: String,
    /// The runs that can be corrected, the first one first.
    runs: Vec<String>,
    since: Instant,
    /// What all of them did.
    calls: Arc<[NotedCall]>,
    bytes: usize,
    corrected: Corrected,
}

/// How a chain is being corrected.
#[derive(Debug, Clone, PartialEq)]
enum Corrected {
    /// It is not.
    No,
    /// By a volatile run, which has this number.
    Now(u64),
    /// By durable runs; the first of them, once it has begun.
    Durably(Option<String>),
}

impl FailedChain {
    fn new(caller: &str, runs: Vec<String>, calls: Arc<[NotedCall]>) -> Self {
        let ids = runs.iter().map(|id| size_of::<String>() + id.len()).sum::<usize>();
        let bytes = ids + calls.iter().map(NotedCall::bytes).sum::<usize>();
        let corrected = Corrected::No;
        FailedChain { caller: caller.to_owned(), runs, since: Instant::now(), calls, bytes, corrected }
    }

    fn has(&self, run: &str, caller: &str) -> bool {
        self.caller == caller && self.runs.iter().any(|known| known == run)
    }
}

/// The right to correct a chain by a volatile run, until that has ended or this is dropped.
pub(crate) struct CorrectionTurn {
    runs: Arc<FailedRuns>,
    number: u64,
}

impl Drop for CorrectionTurn {
    fn drop(&mut self) {
        let mut state = self.runs.0.lock();
        let own = state.chains.iter_mut().find(|chain| chain.corrected == Corrected::Now(self.number));
        if let Some(chain) = own {
            chain.corrected = Corrected::No;
        }
    }
}

/// A correction of a run is not begun: another one has not ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run {0} is being corrected already, by a run that has not ended. What that one does is kept by the next correction, once \
     it has ended"
)]
pub struct BeingCorrected(String);

/// The volatile runs that failed.
#[derive(Default)]
pub(crate) struct FailedRuns(Mutex<FailedState>);

#[derive(Default)]
struct FailedState {
    /// The newest last.
    chains: VecDeque<FailedChain>,
    /// Counts volatile corrections.
    corrections: u64,
}

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
            let calls = Arc::new(NotedCalls::new(run));
            request.noted = Some(calls.clone());
            let (caller, kept) = (request.caller.name.clone(), request.kept.clone());
            NotedRun { caller, calls, kept, runs: Some(self.clone()) }
        })
    }

    /// Keeps what a run did, if it failed after it had done something or corrects one that did. What it was to keep of the runs
    /// before it and has not called again is kept with it.
    fn keep(&self, noted: &NotedRun, is_failed: bool) {
        let (caller, run) = (noted.caller.as_str(), noted.calls.run());
        let calls = noted.calls.close();
        let mut state = self.0.lock();
        let corrects = |chain: &FailedChain| noted.kept.as_ref().is_some_and(|kept| chain.has(kept.run(), caller));
        let before = state.chains.iter().position(corrects).and_then(|at| state.chains.remove(at));
        // What this run did is not known, so another correction of the same runs could do it a second time: they are forgotten.
        let Some(mut calls) = calls else { return };
        calls.extend(noted.kept.iter().flat_map(|kept| kept.left()));
        let mut runs = before.map(|chain| chain.runs).unwrap_or_default();
        runs.extend(is_failed.then(|| run.to_owned()));
        if runs.is_empty() || !calls.iter().any(|call| !call.is_read) {
            return;
        }
        state.chains.push_back(FailedChain::new(caller, runs, calls.into()));
        forget(&mut state.chains, caller);
    }

    /// From now on the runs that this one belongs to are corrected by durable runs alone. To be called before the first of these
    /// begins: it may begin also where its store does not say so.
    pub(crate) fn lasts(&self, run: &str, caller: &str) {
        let mut state = self.0.lock();
        let chain = state.chains.iter_mut().find(|chain| chain.has(run, caller));
        if let Some(chain) = chain.filter(|chain| !matches!(chain.corrected, Corrected::Durably(_))) {
            chain.corrected = Corrected::Durably(None);
        }
    }

    /// Notes the first durable correction of the runs that this one belongs to.
    pub(crate) fn corrected_by(&self, run: &str, caller: &str, correction: &str) {
        let mut state = self.0.lock();
        if let Some(chain) = state.chains.iter_mut().find(|chain| chain.has(run, caller)) {
            chain.corrected = Corrected::Durably(Some(correction.to_owned()));
        }
    }

    /// What an agent can do about a volatile run that failed after it had an effect.
    pub(crate) fn advice(&self, run: &RunReport, caller: &str) -> Option<String> {
        let is_kept = self.0.lock().chains.iter().any(|chain| chain.has(&run.id, caller));
        if is_kept {
            return fix_hint(run);
        }
        fix_hint(run)?;
        let is_cut = run.report.warnings.iter().any(|warning| matches!(warning, Warning::RecordFull { .. }));
        (!run.names_fix && !is_cut).then(|| {
            "what this run did is not kept: begin such a program with durable: true, then fix_run can correct it"
                .to_owned()
        })
    }

    /// What a failed run of this caller and its corrections did, for the next correction; `None` where no such run is kept. Other
    /// corrections wait until this one has ended, or is not wanted any more.
    ///
    /// # Errors
    /// If the run is being corrected already.
    pub(crate) fn correct(
        self: &Arc<Self>,
        run: &str,
        caller: &str,
    ) -> Result<Option<(KeptEffects, Durability)>, BeingCorrected> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let is_it = |chain: &&mut FailedChain| chain.has(run, caller) && chain.since.elapsed() < KEEP_TIME;
        let Some(chain) = state.chains.iter_mut().find(is_it) else { return Ok(None) };
        // All corrections of a chain name the same run, so that the store can tell a second durable one.
        let (first, calls) = (chain.runs.first().map_or(run, String::as_str), &chain.calls);
        match &chain.corrected {
            Corrected::Now(_) => Err(BeingCorrected(run.to_owned())),
            Corrected::Durably(correction) => {
                let kept = KeptEffects::in_memory(first, calls, None, correction.clone());
                Ok(Some((kept, Durability::Durable)))
            }
            Corrected::No => {
                state.corrections += 1;
                let turn = CorrectionTurn { runs: self.clone(), number: state.corrections };
                let kept = KeptEffects::in_memory(first, calls, Some(turn), None);
                chain.corrected = Corrected::Now(state.corrections);
                Ok(Some((kept, Durability::WhenAsked)))
            }
        }
    }
}

/// Names `fix_run`, with which the effects of a run that failed after it had some are kept, or after the runs had some that it
/// corrects.
pub(crate) fn fix_hint(run: &RunReport) -> Option<String> {
    let effects = effects_in(run) + run.kept_left;
    let failure = run.report.failure()?;
    (effects > 0 && failure.code != Code::Aborted).then(|| {
        let effects = if effects == 1 { "the effect".to_owned() } else { format!("the {effects} effects") };
        let whose = if run.kept_left == 0 { "this run" } else { "this run and of those before it" };
        format!("fix_run({{ run_id: \"{}\", code }}) runs a corrected program and keeps {effects} of {whose}", run.id)
    })
}

/// How many calls took effect.
fn effects_in(run: &RunReport) -> usize {
    run.report.calls.iter().filter(|call| !call.read_only && call.state == CallState::Applied).count()
}

/// Forgets what is old, and the oldest of what is too much: first of this caller, then of all.
fn forget(runs: &mut VecDeque<FailedChain>, caller: &str) {
    runs.retain(|failed| failed.since.elapsed() < KEEP_TIME);
    let taken = |runs: &VecDeque<FailedChain>, caller: Option<&str>| {
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
    use crate::noted_calls::{BegunNote, MAX_RUN_BYTES};
    use crate::request::Route;
    use toolgate_engine::HostError;
    use toolgate_wire::{CallRecord, Outcome, Report, Target};

    fn target(tool: &str) -> Target {
        Target::Tool { backend: "b".into(), tool: tool.into() }
    }

    fn noted(runs: &Arc<FailedRuns>, caller: &str, id: &str) -> NotedRun {
        let calls = Arc::new(NotedCalls::new(id.into()));
        NotedRun { caller: caller.into(), calls, kept: None, runs: Some(runs.clone()) }
    }

    /// The same for a correction of this run.
    fn correction(runs: &Arc<FailedRuns>, of: &str, id: &str) -> NotedRun {
        let mut run = noted(runs, "ann", id);
        run.kept = runs.correct(of, "ann").unwrap().map(|(kept, _)| Arc::new(kept));
        assert!(run.kept.is_some(), "{of} is kept");
        run
    }

    /// Whether a run of this caller is kept.
    fn is_kept(runs: &Arc<FailedRuns>, id: &str, caller: &str) -> bool {
        runs.correct(id, caller).is_ok_and(|kept| kept.is_some())
    }

    /// Notes a call with its answer.
    fn call(run: &NotedRun, tool: &str, is_read: bool, answer: Result<&str, CallState>) {
        let begun = run.calls.begin(&target(tool), "{}", is_read);
        let answer = answer.map(str::to_owned);
        let answer = answer.map_err(|state| HostError { state, ..HostError::new("X", "x") });
        if let BegunNote::Noted(number) = begun {
            run.calls.end(number, &answer);
        }
    }

    fn failed(id: &str) -> RunReport {
        RunReport { id: id.into(), ..RunReport::refused(Code::Runtime, "no") }
    }

    #[test]
    fn the_names_of_corrections_count_in_bytes() {
        let mut runs = VecDeque::new();
        for _ in 0..MAX_RUNS_OF_CALLER {
            let ids = vec!["x".repeat(1_000); 1_000];
            runs.push_back(FailedChain::new("ann", ids, Arc::new([])));
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
            assert_eq!(self::is_kept(&runs, id, "ann"), is_kept, "{id}");
            assert!(!self::is_kept(&runs, id, "bob"), "{id} is another caller's");
        }
        // A call without an answer when its run ended may have taken effect.
        let run = noted(&runs, "ann", "open");
        run.calls.begin(&target("t"), "{}", false);
        run.ended(&failed("open"));
        assert!(is_kept(&runs, "open", "ann"));
    }

    #[test]
    fn a_run_that_is_not_kept_is_advised_about_once() {
        let runs = FailedRuns::default();
        let mut run = failed("gone");
        assert_eq!(runs.advice(&run, "ann"), None, "it had no effect");
        let mut applied = CallRecord::begin(&target("t"), 2, false);
        applied.applied(1);
        run.report.calls.push(applied);
        assert!(runs.advice(&run, "ann").is_some_and(|advice| advice.contains("durable: true")));
        let hinted = RunReport { names_fix: true, ..run.clone() };
        assert_eq!(runs.advice(&hinted, "ann"), None, "its hint names fix_run");
        run.report.warnings.push(Warning::RecordFull { megabytes: 1 });
        assert_eq!(runs.advice(&run, "ann"), None, "a longer record would not help");
    }

    /// The tools of the effects that are kept of a run, in order.
    fn kept_tools(runs: &Arc<FailedRuns>, id: &str) -> Vec<String> {
        let left = runs.correct(id, "ann").unwrap().map(|(kept, _)| kept.left()).unwrap_or_default();
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
        assert!(!is_kept(&runs, "again", "ann"));
    }

    #[test]
    fn what_any_run_of_a_chain_did_is_kept_whichever_is_corrected_next() {
        let runs = Arc::<FailedRuns>::default();
        let run = noted(&runs, "ann", "first");
        call(&run, "one", false, Ok("1"));
        run.ended(&failed("first"));
        // Two corrections of the same run, one after the other: one fails, one is cut off.
        let second = correction(&runs, "first", "second");
        assert!(runs.correct("first", "ann").is_err(), "one at one time");
        call(&second, "two", false, Ok("2"));
        second.ended(&failed("second"));
        let third = correction(&runs, "first", "third");
        call(&third, "three", false, Ok("3"));
        drop(third);
        for id in ["first", "second", "third"] {
            assert_eq!(kept_tools(&runs, id), ["b.one", "b.three", "b.two"], "{id}: each once");
        }
        // A correction of a correction, which does not fail.
        let fourth = correction(&runs, "second", "fourth");
        call(&fourth, "four", false, Ok("4"));
        fourth
            .ended(&RunReport { id: "fourth".into(), ..RunReport::ended("fourth".into(), Route::Script, returned()) });
        assert!(!is_kept(&runs, "fourth", "ann"), "there is nothing to be corrected");
        assert_eq!(kept_tools(&runs, "third"), ["b.four", "b.one", "b.three", "b.two"]);
        // One whose effects do not fit: what it did is not known, so none of them is corrected again.
        let large = "x".repeat(MAX_RUN_BYTES + 1);
        let fifth = correction(&runs, "first", "fifth");
        call(&fifth, "five", false, Ok(&large));
        drop(fifth);
        assert!(["first", "third", "fifth"].iter().all(|id| !is_kept(&runs, id, "ann")));
    }

    fn returned() -> Report {
        Report::not_started(Outcome::Returned(serde_json::value::RawValue::NULL.to_owned()), Duration::ZERO)
    }

    #[test]
    fn a_chain_that_a_durable_run_corrects_is_corrected_by_durable_runs_alone() {
        let runs = Arc::<FailedRuns>::default();
        let run = noted(&runs, "ann", "first");
        call(&run, "one", false, Ok("1"));
        run.ended(&failed("first"));
        let how = |id: &str| runs.correct(id, "ann").unwrap().map(|(_, durable)| durable);
        assert_eq!(how("first"), Some(Durability::WhenAsked));
        assert_eq!(how("first"), Some(Durability::WhenAsked), "a correction that is not made leaves no trace");
        let kept = runs.correct("first", "ann").unwrap();
        runs.lasts("first", "ann");
        drop(kept);
        assert_eq!(how("first"), Some(Durability::Durable));
        runs.corrected_by("first", "ann", "durable");
        assert_eq!(how("first"), Some(Durability::Durable));
    }

    #[test]
    fn a_run_that_has_ended_calls_nothing() {
        let runs = Arc::<FailedRuns>::default();
        let run = noted(&runs, "ann", "first");
        call(&run, "one", false, Ok("1"));
        let calls = run.calls.clone();
        run.ended(&failed("first"));
        assert_eq!(calls.begin(&target("late"), "{}", false), BegunNote::Closed, "it would not be known");
    }

    #[test]
    fn a_run_is_kept_without_reads_that_do_not_fit_and_not_without_effects() {
        let (runs, large) = (Arc::<FailedRuns>::default(), "x".repeat(MAX_RUN_BYTES));
        for (id, is_read, is_kept) in [("without reads", true, true), ("without effects", false, false)] {
            let run = noted(&runs, "ann", id);
            call(&run, "write", false, Ok("1"));
            call(&run, "large", is_read, Ok(&large));
            run.ended(&failed(id));
            assert_eq!(self::is_kept(&runs, id, "ann"), is_kept, "{id}");
        }
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
        let is_kept = |id: &str| ["ann", "bob"].iter().any(|caller| is_kept(&runs, id, caller));
        assert!(is_kept("bob") && !is_kept("ann 2") && is_kept("ann 3"));
        let large = "x".repeat(MAX_RUN_BYTES / 2);
        for number in 0..MAX_RUNS_OF_CALLER {
            keep("ann", format!("large {number}"), &large);
        }
        let bytes: usize = runs.0.lock().chains.iter().filter(|run| run.caller == "ann").map(|run| run.bytes).sum();
        assert!(bytes <= MAX_BYTES_OF_CALLER && is_kept("bob"), "{bytes}");
        for number in 0..MAX_RUNS + 3 {
            keep(&format!("caller {number}"), format!("run {number}"), "1");
        }
        assert_eq!(runs.0.lock().chains.len(), MAX_RUNS);
    }
}
