//! Counts runs and calls for monitoring, and writes one log line for each run, and at the level debug one for each call.
//!
//! Labels are names that the code defines (doors, routes, outcomes, states), so the number of counters is bounded whatever
//! callers send. Log lines have the fields of a report that are safe to keep: no program, argument, result or message.
//! Names of tools come from outside and are cut here; the log escapes them as it does all texts.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use toolgate_wire::foreign_text::head;
use toolgate_wire::{CallRecord, CallState, CallerScope, CallerShares};

use super::door::Door;
use super::request::RunReport;

/// Upper bounds of the buckets of run times, in seconds.
pub const RUN_SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];
/// The outcome of a run that returned a value.
const OK: &str = "ok";
/// The outcome of a run that its caller abandoned, for example by closing its connection.
const DROPPED: &str = "dropped";
/// The most characters of a name in a log line.
const MAX_NAME_CHARS: usize = 100;

/// Counts since the start.
#[derive(Debug)]
pub struct RunMetrics {
    counts: Mutex<RunCounts>,
    /// Runs that have begun and not ended, of each caller. The engine bounds them.
    in_flight: Mutex<CallerShares<String>>,
}

impl Default for RunMetrics {
    fn default() -> Self {
        RunMetrics { counts: Mutex::default(), in_flight: Mutex::new(CallerShares::new(usize::MAX)) }
    }
}

/// A snapshot of the counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunCounts {
    /// Runs by door, route and outcome: `ok`, `dropped`, or the code of a failure.
    pub runs: BTreeMap<(&'static str, &'static str, &'static str), u64>,
    /// Run times by door.
    pub seconds: BTreeMap<&'static str, TimeHistogram>,
    /// Calls by state.
    pub calls: BTreeMap<&'static str, u64>,
    /// Runs that have begun and not ended.
    pub in_flight: u64,
}

/// How often runs took how long.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimeHistogram {
    /// Runs within each bound of [`RUN_SECONDS`] and above the bound before it.
    pub buckets: [u64; RUN_SECONDS.len()],
    /// All runs.
    pub count: u64,
    /// Their seconds.
    pub sum: f64,
}

impl TimeHistogram {
    fn add(&mut self, seconds: f64) {
        if let Some((_, bucket)) = RUN_SECONDS.iter().zip(&mut self.buckets).find(|(bound, _)| seconds <= **bound) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

impl RunMetrics {
    /// The counts so far.
    pub fn counts(&self) -> RunCounts {
        RunCounts { in_flight: self.in_flight.lock().used() as u64, ..self.counts.lock().clone() }
    }

    /// The runs of a caller that have begun and not ended.
    pub fn in_flight_of(&self, caller: &str) -> u64 {
        self.in_flight.lock().of(caller) as u64
    }

    /// Counts a run of a caller as in flight until the mark is dropped.
    pub(super) fn begin(&self, door: Door, caller: &str) -> InFlightMark<'_> {
        self.in_flight.lock().add(caller.to_owned(), 1);
        InFlightMark { metrics: self, door, caller: caller.to_owned(), ended: false }
    }

    /// Counts a run that has ended, and logs it.
    pub(super) fn record(&self, door: Door, caller: &CallerScope, run: &RunReport) {
        let report = &run.report;
        let outcome = report.failure().map_or(OK, |failure| failure.code.name());
        let seconds = report.elapsed.as_secs_f64();
        {
            let mut counts = self.counts.lock();
            *counts.runs.entry((door.name(), run.route.name(), outcome)).or_default() += 1;
            counts.seconds.entry(door.name()).or_default().add(seconds);
            for call in &report.calls {
                *counts.calls.entry(state_name(call.state)).or_default() += 1;
            }
        }
        tracing::info!(
            target: "toolgate::run",
            id = run.id,
            door = door.name(),
            durable = run.is_durable.then_some(true),
            caller = if caller.name.is_empty() { "local" } else { caller.name.as_str() },
            route = run.route.name(),
            engine = report.engine.name(),
            ms = rounded(seconds * 1e3),
            calls = report.calls.len(),
            outcome,
            "run"
        );
    }
}

/// Whether calls are logged.
pub(super) fn logs_calls() -> bool {
    tracing::enabled!(target: "toolgate::call", tracing::Level::DEBUG)
}

/// Writes a log line for each call of a run.
pub(super) fn log_calls(run: &RunReport) {
    if logs_calls() {
        run.report.calls.iter().for_each(|call| log_call(&run.id, call));
    }
}

fn log_call(run: &str, call: &CallRecord) {
    let name = call.target.to_string();
    let name = head(&name, MAX_NAME_CHARS);
    let (state, ms) = (state_name(call.state), rounded(call.ms));
    tracing::debug!(target: "toolgate::call", run, name, state, ms, bytes = call.reply_bytes, "call");
}

/// The name as reports print it.
fn state_name(state: CallState) -> &'static str {
    match state {
        CallState::Applied => "applied",
        CallState::Failed => "failed",
        CallState::NotSent => "not_sent",
        CallState::Unknown => "unknown",
    }
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// A run in flight. Dropped before its end, it counts as abandoned.
pub(super) struct InFlightMark<'a> {
    metrics: &'a RunMetrics,
    door: Door,
    caller: String,
    ended: bool,
}

impl InFlightMark<'_> {
    /// The run has ended and is recorded.
    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for InFlightMark<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.lock().remove(self.caller.as_str(), 1);
        if !self.ended {
            let door = self.door.name();
            *self.metrics.counts.lock().runs.entry((door, "none", DROPPED)).or_default() += 1;
            tracing::info!(target: "toolgate::run", door, outcome = DROPPED, "run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use std::time::Duration;
    use toolgate_wire::{Code, Failure, Outcome, Report};

    fn run(metrics: &RunMetrics, outcome: Outcome, elapsed: Duration) {
        let report = Report::not_started(outcome, elapsed);
        let run = RunReport::ended("1".into(), Route::Script, report);
        metrics.record(Door::Http, &CallerScope::default(), &run);
    }

    #[test]
    fn runs_are_counted_by_door_route_and_outcome() {
        let metrics = RunMetrics::default();
        let returned = || Outcome::Returned(Box::default());
        run(&metrics, returned(), Duration::from_millis(2));
        run(&metrics, returned(), Duration::from_millis(700));
        run(&metrics, Outcome::Failed(Failure::new(Code::Timeout, "late")), Duration::from_secs(90));
        let counts = metrics.counts();
        let expected = [(("http", "script", "TIMEOUT"), 1), (("http", "script", "ok"), 2)];
        assert_eq!(counts.runs.into_iter().collect::<Vec<_>>(), expected);
        let seconds = &counts.seconds["http"];
        assert_eq!((seconds.count, seconds.buckets[1], seconds.buckets[9]), (3, 1, 1));
        assert_eq!(seconds.buckets.iter().sum::<u64>(), 2, "90 s is above the last bound");
    }

    #[test]
    fn an_abandoned_run_is_counted_as_dropped() {
        let metrics = RunMetrics::default();
        let (first, second) = (metrics.begin(Door::WebSocket, "a"), metrics.begin(Door::Http, "b"));
        assert_eq!((metrics.counts().in_flight, metrics.in_flight_of("a"), metrics.in_flight_of("c")), (2, 1, 0));
        first.end();
        drop(second);
        let counts = metrics.counts();
        assert_eq!((counts.in_flight, counts.runs.len()), (0, 1));
        assert_eq!(counts.runs[&("http", "none", "dropped")], 1);
    }
}
