//! The runs of the recent past, in memory: a line for each, the whole of the last ones, and counts of each minute.
//!
//! Bounded by number and by bytes, whatever programs print and return; runs of the caller that has the most make room first.
//! A run belongs to its caller; the routes above show it to no other caller. Nothing is written to disk.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use toolgate_journal::unix_ms;
use toolgate_run::{EndedRun, RunListener};
use toolgate_wire::foreign_text::head_bytes;
use toolgate_wire::{CallState, CallerScope, CallerShares, Target};

/// Runs that have a line.
pub(super) const MAX_LINES: usize = 10_000;
/// Bytes of all lines.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Runs that are kept whole.
const MAX_WHOLE: usize = 1_000;
/// Bytes of all runs that are kept whole.
const MAX_WHOLE_BYTES: usize = 32 << 20;
/// Bytes of one report; a larger one is kept without its value, or not at all.
const MAX_REPORT_BYTES: usize = 512 << 10;
/// Bytes of a program's text.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Starts of calls that are kept.
const MAX_STARTS: usize = 1_000;
/// Names of tools in a line.
const MAX_NAMES: usize = 8;
/// Minutes that are counted.
pub(super) const MAX_MINUTES: usize = 60;
/// Callers and backends that are counted.
const MAX_COUNTED: usize = 1_024;
/// News that a slow reader may fall behind by.
const MAX_NEWS_BEHIND: usize = 256;

/// A run in the list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunLine {
    /// Grows with every run; `before` of the next page.
    pub(crate) number: u64,
    /// Names the run.
    pub(crate) execution_id: String,
    /// When it ended: milliseconds since 1970.
    pub(crate) at: u64,
    /// The door that it came by.
    pub(crate) door: &'static str,
    /// Whether it is kept in the store of durable runs.
    pub(crate) durable: bool,
    /// The route that it took.
    pub(crate) path: &'static str,
    /// `ok`, or the code of its failure.
    pub(crate) outcome: &'static str,
    /// Milliseconds from acceptance to answer.
    pub(crate) ms: f64,
    /// How many calls it made.
    pub(crate) calls: usize,
    /// The first tools and functions that it called.
    pub(crate) names: Vec<String>,
    #[serde(skip)]
    caller: String,
    #[serde(skip)]
    targets: Vec<Target>,
}

impl RunLine {
    /// Its memory. Names come from programs.
    fn bytes(&self) -> usize {
        let names = self.names.iter().map(|name| size_of::<String>() + name.len());
        let targets = self.targets.iter().map(|target| size_of::<Target>() + target.name_bytes());
        let texts = self.execution_id.len() + self.caller.len();
        size_of::<Self>() + texts + names.sum::<usize>() + targets.sum::<usize>()
    }

    /// Whether it is a run of this caller, and touched nothing that the caller may not know of now.
    pub(super) fn is_visible_to(&self, caller: &CallerScope) -> bool {
        let may_know = |target: &Target| match target {
            Target::Tool { backend, tool } => caller.permits_tool(backend, tool),
            Target::Function(_) => true,
        };
        self.caller == caller.name && self.targets.iter().all(may_know)
    }
}

/// A run that is kept whole.
#[derive(Debug)]
pub(super) struct WholeRun {
    pub(super) line: Arc<RunLine>,
    /// The program; cut at a bound.
    pub(super) text: Option<String>,
    pub(super) report: Option<Box<RawValue>>,
    /// When each call began, in milliseconds from the start.
    pub(super) starts: Vec<f64>,
}

impl WholeRun {
    fn bytes(&self) -> usize {
        let report = self.report.as_ref().map_or(0, |report| report.get().len());
        let text = self.text.as_ref().map_or(0, String::len);
        self.line.bytes() + text + report + size_of_val(self.starts.as_slice())
    }
}

/// Counts of one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Minute {
    /// Its start: seconds since 1970.
    pub(crate) at: u64,
    /// Runs that ended in it.
    pub(crate) runs: u64,
    /// Those that failed.
    pub(crate) failed: u64,
    /// Calls of them.
    pub(crate) calls: u64,
    /// Bytes that stayed out of context windows.
    pub(crate) bytes_saved: u64,
}

/// Calls of one caller to one backend.
#[derive(Debug, Clone, Default)]
pub(super) struct BackendCalls {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) ms: f64,
    pub(super) last_error: Option<String>,
}

/// The runs of one service.
pub(crate) struct RunLog {
    state: Mutex<State>,
    news: broadcast::Sender<Arc<RunLine>>,
    /// A durable run was paused, decided about or ended.
    durable: broadcast::Sender<()>,
}

/// The last entries of each caller. Those of the caller that has the most make room for others.
struct LastOfCallers<T> {
    /// Oldest first, each with its bytes. No queue is empty.
    entries: HashMap<String, VecDeque<(Arc<T>, usize)>>,
    count: CallerShares<String>,
    bytes: CallerShares<String>,
}

impl<T> LastOfCallers<T> {
    fn new(max_entries: usize, max_bytes: usize) -> Self {
        let (count, bytes) = (CallerShares::new(max_entries), CallerShares::new(max_bytes));
        LastOfCallers { entries: HashMap::new(), count, bytes }
    }

    fn push(&mut self, caller: &str, entry: Arc<T>, bytes: usize) {
        self.count.add(caller.to_owned(), 1);
        self.bytes.add(caller.to_owned(), bytes);
        self.entries.entry(caller.to_owned()).or_default().push_back((entry, bytes));
        loop {
            let largest = match (self.count.is_exceeded(), self.bytes.is_exceeded()) {
                (true, _) => self.count.largest(),
                (false, true) => self.bytes.largest(),
                (false, false) => return,
            };
            let Some(largest) = largest.cloned() else { return };
            self.remove_oldest(&largest);
        }
    }

    fn remove_oldest(&mut self, caller: &str) {
        let Some(queue) = self.entries.get_mut(caller) else { return };
        if let Some((_, bytes)) = queue.pop_front() {
            self.count.remove(caller, 1);
            self.bytes.remove(caller, bytes);
        }
        if queue.is_empty() {
            self.entries.remove(caller);
        }
    }

    /// Those of a caller, newest first.
    fn of(&self, caller: &str) -> impl Iterator<Item = &Arc<T>> {
        self.entries.get(caller).into_iter().flat_map(|queue| queue.iter().rev()).map(|(entry, _)| entry)
    }
}

struct State {
    next: u64,
    lines: LastOfCallers<RunLine>,
    whole: LastOfCallers<WholeRun>,
    minutes: HashMap<String, VecDeque<Minute>>,
    backends: HashMap<(String, String), BackendCalls>,
}

impl Default for State {
    fn default() -> Self {
        State {
            next: 0,
            lines: LastOfCallers::new(MAX_LINES, MAX_LINE_BYTES),
            whole: LastOfCallers::new(MAX_WHOLE, MAX_WHOLE_BYTES),
            minutes: HashMap::new(),
            backends: HashMap::new(),
        }
    }
}

impl Default for RunLog {
    fn default() -> Self {
        RunLog {
            state: Mutex::default(),
            news: broadcast::channel(MAX_NEWS_BEHIND).0,
            durable: broadcast::channel(1).0,
        }
    }
}

/// Which runs are asked for.
#[derive(Debug, Default)]
pub(super) struct Filter<'a> {
    pub(super) before: Option<u64>,
    pub(super) door: Option<&'a str>,
    /// `ok`, `failed`, or the code of a failure.
    pub(super) outcome: Option<&'a str>,
    /// Part of the id or of a name, in any case.
    pub(super) text: Option<String>,
}

impl Filter<'_> {
    fn accepts(&self, line: &RunLine) -> bool {
        let outcome = self.outcome.is_none_or(|asked| match asked {
            "failed" => line.outcome != "ok",
            asked => line.outcome == asked,
        });
        let has = |text: &String| {
            line.execution_id.contains(text.as_str())
                || line.names.iter().any(|name| name.to_lowercase().contains(text.as_str()))
        };
        outcome
            && self.before.is_none_or(|before| line.number < before)
            && self.door.is_none_or(|door| line.door == door)
            && self.text.as_ref().is_none_or(has)
    }
}

impl RunLog {
    /// Runs of a caller, newest first, and how many there are without the limit and `before`.
    pub(super) fn list(&self, caller: &CallerScope, filter: &Filter<'_>, limit: usize) -> (Vec<Arc<RunLine>>, usize) {
        let state = self.state.lock();
        let all = Filter { before: None, text: filter.text.clone(), ..*filter };
        let visible = || state.lines.of(&caller.name).filter(|line| line.is_visible_to(caller));
        let total = visible().filter(|line| all.accepts(line)).count();
        (visible().filter(|line| filter.accepts(line)).take(limit).cloned().collect(), total)
    }

    /// A run of a caller.
    pub(super) fn get(&self, caller: &CallerScope, id: &str) -> Option<Arc<WholeRun>> {
        let state = self.state.lock();
        let mut all = state.whole.of(&caller.name);
        all.find(|run| run.line.execution_id == id && run.line.is_visible_to(caller)).cloned()
    }

    /// The counts of a caller's last hour, oldest first; minutes without a run are not there.
    pub(super) fn minutes(&self, caller: &str) -> Vec<Minute> {
        let oldest = minute_of(unix_ms()).saturating_sub(60 * MAX_MINUTES as u64);
        let state = self.state.lock();
        let all = state.minutes.get(caller).into_iter().flatten();
        all.filter(|minute| minute.at > oldest).copied().collect()
    }

    /// What this caller's calls to a backend came to.
    pub(super) fn backend(&self, caller: &str, backend: &str) -> BackendCalls {
        let key = (caller.to_owned(), backend.to_owned());
        self.state.lock().backends.get(&key).cloned().unwrap_or_default()
    }

    /// Hears that durable runs change from now on; several changes may be one.
    pub(super) fn durable_changes(&self) -> broadcast::Receiver<()> {
        self.durable.subscribe()
    }

    /// Hears of runs from now on.
    pub(super) fn news(&self) -> broadcast::Receiver<Arc<RunLine>> {
        self.news.subscribe()
    }
}

impl RunListener for RunLog {
    fn ended(&self, run: &EndedRun<'_>) {
        let report = &run.report.report;
        let targets: Vec<Target> = report.calls.iter().map(|call| call.target.clone()).take(MAX_NAMES).collect();
        let line = RunLine {
            number: 0,
            execution_id: run.report.id.clone(),
            at: unix_ms(),
            door: run.door.name(),
            durable: run.report.is_durable,
            path: run.report.route.name(),
            outcome: report.failure().map_or("ok", |failure| failure.code.name()),
            ms: (report.execution_ms() * 1e3).round() / 1e3,
            calls: report.calls.len(),
            names: targets.iter().map(ToString::to_string).collect(),
            caller: run.caller.name.clone(),
            targets,
        };
        // Before the lock: writing a report takes as long as it is.
        let (text, kept) = (run.text.map(|text| cut(text, MAX_TEXT_BYTES)), report_text(run));
        let line = self.state.lock().add(line, text, kept, run);
        // Without readers nothing happens.
        let _ = self.news.send(line);
    }

    fn durable_changed(&self) {
        // Without readers nothing happens.
        let _ = self.durable.send(());
    }

    fn saved_more(&self, caller: &str, bytes: i64) {
        let mut state = self.state.lock();
        let last = state.minutes.get_mut(caller).and_then(VecDeque::back_mut);
        if let Some(minute) = last {
            minute.bytes_saved = minute.bytes_saved.saturating_add_signed(bytes);
        }
    }
}

impl State {
    fn add(
        &mut self,
        line: RunLine,
        text: Option<String>,
        report: Option<Box<RawValue>>,
        run: &EndedRun<'_>,
    ) -> Arc<RunLine> {
        self.count(&line, run);
        self.next += 1;
        let line = Arc::new(RunLine { number: self.next, ..line });
        self.lines.push(&line.caller, line.clone(), line.bytes());
        let starts = match run.noted.starts().len() == line.calls {
            true => run.noted.starts().take(MAX_STARTS).collect(),
            false => Vec::new(),
        };
        let whole = WholeRun { line: line.clone(), text, report, starts };
        let bytes = whole.bytes();
        self.whole.push(&line.caller, Arc::new(whole), bytes);
        line
    }

    fn count(&mut self, line: &RunLine, run: &EndedRun<'_>) {
        let at = minute_of(line.at);
        if self.minutes.len() < MAX_COUNTED || self.minutes.contains_key(&line.caller) {
            let minutes = self.minutes.entry(line.caller.clone()).or_default();
            if minutes.back().is_none_or(|last| last.at != at) {
                minutes.push_back(Minute { at, ..Minute::default() });
            }
            if minutes.len() > MAX_MINUTES {
                minutes.pop_front();
            }
            if let Some(minute) = minutes.back_mut() {
                minute.runs += 1;
                minute.failed += u64::from(line.outcome != "ok");
                minute.calls += line.calls as u64;
                minute.bytes_saved = minute.bytes_saved.saturating_add(run.saved);
            }
        }
        for call in &run.report.report.calls {
            let Target::Tool { backend, .. } = &call.target else { continue };
            let key = (line.caller.clone(), backend.clone());
            if self.backends.len() >= MAX_COUNTED && !self.backends.contains_key(&key) {
                continue;
            }
            let counts = self.backends.entry(key).or_default();
            counts.calls += 1;
            counts.ms += call.ms;
            if call.state != CallState::Applied {
                counts.failed += 1;
                counts.last_error = call.error.clone();
            }
        }
    }
}

/// The report as it was answered; without its value if that makes it too large.
fn report_text(run: &EndedRun<'_>) -> Option<Box<RawValue>> {
    let report = &run.report.report;
    let value = report.value().map_or(0, |value| value.get().len());
    if value < MAX_REPORT_BYTES
        && let Ok(text) = serde_json::value::to_raw_value(run.report)
        && text.get().len() <= MAX_REPORT_BYTES
    {
        return Some(text);
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<R: Serialize> {
        #[serde(flatten)]
        report: R,
        value_bytes: usize,
    }
    let fields = Fields { report: run.report.without_value(), value_bytes: value };
    serde_json::value::to_raw_value(&fields).ok().filter(|text| text.get().len() <= MAX_REPORT_BYTES)
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> String {
    head_bytes(text, most).to_owned()
}

fn minute_of(ms: u64) -> u64 {
    ms / 60_000 * 60
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};
    use toolgate_run::{Door, Route, RunReport, Transfer};
    use toolgate_wire::{Access, CallRecord, Outcome, Report};

    fn end(log: &RunLog, caller: &CallerScope, id: &str, value: &str, backend: Option<&str>) {
        let value = RawValue::from_string(value.to_owned()).expect("JSON");
        let mut report = Report::not_started(Outcome::Returned(value), Duration::from_millis(2));
        report.calls.extend(
            backend.map(|backend| {
                CallRecord::begin(&Target::Tool { backend: backend.into(), tool: "find".into() }, 2, true)
            }),
        );
        let report = RunReport::ended(id.into(), Route::Script, report);
        log.ended(&EndedRun {
            door: Door::Http,
            caller,
            session: None,
            text: Some("return 1"),
            origin: &toolgate_mcp::RequestOrigin::default(),
            trace: None,
            noted: &Arc::default(),
            at: SystemTime::UNIX_EPOCH,
            report: &report,
            transfer: Transfer::default(),
            saved: 100,
        });
    }

    fn named(name: &str) -> CallerScope {
        CallerScope { name: name.into(), ..CallerScope::default() }
    }

    #[test]
    fn a_caller_sees_its_own_runs_newest_first() {
        let log = RunLog::default();
        let (alice, bob) = (named("alice"), named("bob"));
        for id in ["a1", "a2", "a3"] {
            end(&log, &alice, id, "1", Some("shop"));
        }
        end(&log, &bob, "b1", "1", None);
        let ids = |caller: &CallerScope, filter: &Filter<'_>, limit| {
            let (lines, total) = log.list(caller, filter, limit);
            (lines.iter().map(|line| line.execution_id.clone()).collect::<Vec<_>>(), total)
        };
        assert_eq!(ids(&alice, &Filter::default(), 2), (vec!["a3".into(), "a2".into()], 3));
        assert_eq!(ids(&alice, &Filter { before: Some(2), ..Filter::default() }, 9), (vec!["a1".into()], 3));
        assert_eq!(ids(&alice, &Filter { text: Some("shop.f".into()), ..Filter::default() }, 9).1, 3);
        assert_eq!(ids(&alice, &Filter { outcome: Some("failed"), ..Filter::default() }, 9).1, 0);
        assert_eq!(ids(&bob, &Filter::default(), 9).1, 1);
        assert!(log.get(&bob, "a1").is_none() && log.get(&alice, "a1").is_some());
        // Rights that were taken away since then count.
        let less = CallerScope { backends: Access::only(["docs"]), ..alice };
        assert_eq!(ids(&less, &Filter::default(), 9).1, 0);
        assert!(log.get(&less, "a1").is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (log, caller) = (RunLog::default(), CallerScope::default());
        let large = format!("\"{}\"", "x".repeat(MAX_REPORT_BYTES));
        end(&log, &caller, "large", &large, None);
        let report = log.get(&caller, "large").expect("kept").report.as_ref().map(|it| it.get().to_owned());
        let report = report.expect("a report");
        assert!(report.len() < 2_000, "{report}");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["valueBytes"], large.len());
        assert!(report.get("value").is_none() && report["ok"] == true && report["executionId"] == "large", "{report}");
        for number in 0..MAX_LINES + 10 {
            end(&log, &caller, &number.to_string(), "1", Some("shop"));
        }
        let middle = format!("\"{}\"", "x".repeat(MAX_REPORT_BYTES - 2_000));
        for number in 0..100 {
            end(&log, &caller, &format!("m{number}"), &middle, None);
        }
        assert_eq!(log.list(&caller, &Filter::default(), usize::MAX).1, MAX_LINES);
        let state = log.state.lock();
        let whole = &state.whole;
        assert!(whole.count.used() <= MAX_WHOLE && whole.bytes.used() <= MAX_WHOLE_BYTES);
        assert_eq!(whole.bytes.used(), whole.of("").map(|run| run.bytes()).sum::<usize>());
    }

    #[test]
    fn lines_with_long_names_are_bounded_by_their_bytes() {
        let (log, caller) = (RunLog::default(), CallerScope::default());
        let long = "𐍈".repeat(200);
        for number in 0..MAX_LINES {
            end(&log, &caller, &number.to_string(), "1", Some(&long));
        }
        let state = log.state.lock();
        let lines = &state.lines;
        let bytes = lines.bytes.used();
        assert!(lines.count.used() < MAX_LINES && bytes <= MAX_LINE_BYTES, "{bytes}");
        assert!(bytes > MAX_LINE_BYTES - 10_000, "{bytes}");
        assert_eq!(bytes, lines.of("").map(|line| line.bytes()).sum::<usize>());
    }

    #[test]
    fn runs_of_one_caller_remove_none_of_another_one_that_has_fewer() {
        let log = RunLog::default();
        let (modest, greedy) = (named("modest"), named("greedy"));
        end(&log, &modest, "first", "1", None);
        for number in 0..MAX_LINES + 10 {
            end(&log, &greedy, &number.to_string(), "1", None);
        }
        let total = |caller: &CallerScope| log.list(caller, &Filter::default(), 1).1;
        assert_eq!((total(&modest), total(&greedy)), (1, MAX_LINES - 1));
        assert!(log.get(&modest, "first").is_some());
        assert_eq!(log.state.lock().whole.count.used(), MAX_WHOLE);
    }

    #[test]
    fn runs_and_calls_are_counted_by_caller() {
        let (log, caller) = (RunLog::default(), CallerScope::default());
        end(&log, &caller, "1", "1", Some("shop"));
        log.saved_more("", 50);
        log.saved_more("other", 50);
        // The two may fall into different minutes.
        let minutes = log.minutes("");
        assert_eq!(minutes.iter().map(|minute| (minute.runs, minute.bytes_saved)).collect::<Vec<_>>(), [(1, 150)]);
        let calls = log.backend("", "shop");
        // A call that was begun and never ended is not known to have been applied.
        assert_eq!((calls.calls, calls.failed), (1, 1));
        assert_eq!(log.backend("other", "shop").calls, 0);
    }
}
