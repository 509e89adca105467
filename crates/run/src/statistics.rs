//! What was done since the start, summed up for all, by caller, by session and by tool, and the last runs.
//!
//! Everything is bounded, because callers, sessions and tools are named from outside. Listeners are not told from here: `history`
//! does that.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_wire::{CallRecord, CallState, CallerScope, Target};

use super::listen::EndedRun;

/// Runs that are remembered.
pub(super) const RECENT: usize = 50;
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

/// What was done since the start, in sums, and the last runs.
#[derive(Default)]
pub(super) struct Sums {
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
    /// Adds a run that has ended, with the bytes that its tools replied.
    pub(super) fn add(&mut self, ended: &EndedRun<'_>, replies: u64) {
        let EndedRun { door, caller, session, report: run, transfer, .. } = *ended;
        let report = &run.report;
        self.begin(&caller.name, session);
        self.each(&caller.name, session, |counts| {
            counts.runs += 1;
            counts.failed += u64::from(report.failure().is_some());
            counts.calls += report.calls.len() as u64;
            counts.add(transfer, replies);
        });
        for call in report.calls.iter().filter(|call| call.state != CallState::NotSent) {
            self.count(&caller.name, call);
        }
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        let calls = report.calls.iter().take(MAX_CALLS);
        self.recent.push_back(RunRecord {
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

    /// Corrects how much of a run was returned: the caller, and how many bytes more were saved, if the run is remembered.
    pub(super) fn correct(&mut self, id: &str, transfer: Transfer) -> Option<(String, i64)> {
        let record = self.recent.iter_mut().rev().find(|record| record.id == id)?;
        let before = std::mem::replace(&mut record.transfer, transfer);
        let (replies, session, caller) = (record.replies, record.session, record.caller.clone());
        self.each(&caller, session, |counts| {
            counts.subtract(before, replies);
            counts.add(transfer, replies);
        });
        let saved = |transfer| i64::try_from(processed_and_saved(transfer, replies).1).unwrap_or(i64::MAX);
        Some((caller, saved(transfer).saturating_sub(saved(before))))
    }

    /// What this caller did, with the tools that it may know of, and what one session did. The user of the machine, who has no
    /// name, gets the sums of all callers.
    pub(super) fn stats(&self, caller: &CallerScope, session: Option<u64>, uptime: Duration) -> Value {
        let (counts, none) = (self.of(&caller.name), BTreeMap::new());
        let tools = if caller.name.is_empty() {
            &self.tools
        } else {
            self.callers.get(&caller.name).map_or(&none, |own| &own.tools)
        };
        let tools = tools.iter().filter(|(target, _)| may_know(caller, target)).map(|(target, tool)| {
            let mean = if tool.calls == 0 { 0.0 } else { tool.ms / tool.calls as f64 };
            let row = json!({
                "calls": tool.calls, "failed": tool.failed, "bytes": tool.bytes, "mean_ms": rounded(mean),
            });
            (target.to_string(), row)
        });
        let own = session.map(|session| self.sessions.get(&session));
        let mut stats = json!({ "uptime_seconds": uptime.as_secs() });
        counts.write(&mut stats);
        if let Some(own) = own {
            stats["session"] = json!({ "seconds": own.map_or(0, |own| own.since.elapsed().as_secs()) });
            own.map(|own| own.counts).unwrap_or_default().write(&mut stats["session"]);
        }
        stats["per_tool"] = Value::Object(tools.collect());
        stats
    }

    /// The last runs of this caller, newest first, without those that touched what it may not know of.
    pub(super) fn recent(&self, caller: &CallerScope) -> Value {
        let may_see =
            |run: &&RunRecord| run.caller == caller.name && run.calls.iter().all(|it| may_know(caller, &it.target));
        let rows = self.recent.iter().rev().filter(may_see).map(|run| {
            let calls = run.calls.iter().map(|it| json!({ "name": it.target.to_string(), "state": it.state }));
            json!({
                "execution_id": run.id, "at": run.at, "tool": run.door, "path": run.path, "ok": run.ok,
                "ms": rounded(run.ms), "bytes_processed": run.transfer.processed,
                "bytes_returned": run.transfer.returned, "calls": calls.collect::<Vec<_>>(),
            })
        });
        json!({ "recent": rows.collect::<Vec<_>>() })
    }

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
pub(super) fn processed_and_saved(transfer: Transfer, replies: u64) -> (u64, u64) {
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

    fn call(tool: String) -> CallRecord {
        let mut call = CallRecord::begin(&Target::Tool { backend: "a".into(), tool }, 2, false);
        call.applied(0);
        call
    }

    #[test]
    fn sessions_that_were_quiet_for_longest_are_forgotten() {
        let mut sums = Sums::default();
        (0..=MAX_SESSIONS as u64).for_each(|session| sums.begin("", Some(session)));
        assert_eq!(sums.sessions.len(), MAX_SESSIONS);
        assert!(!sums.sessions.contains_key(&0) && sums.sessions.contains_key(&(MAX_SESSIONS as u64)));
    }

    #[test]
    fn what_is_counted_by_caller_is_bounded() {
        let mut sums = Sums::default();
        for n in 0..=MAX_CALLERS {
            sums.begin(&format!("caller {n}"), None);
        }
        assert_eq!(sums.callers.len(), MAX_CALLERS);
        for n in 0..5 * MAX_TOOLS {
            sums.count(&format!("caller {}", 1 + n % 10), &call(format!("t{n}")));
        }
        assert_eq!(sums.callers.values().map(|own| own.tools.len()).sum::<usize>(), MAX_CALLER_TOOLS);
        assert_eq!(sums.tools.len(), MAX_TOOLS);
    }
}
