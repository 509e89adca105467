//! What was done since the start, and what it kept out of context windows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_wire::{CallRecord, CallState, Target};

use toolgate_wire::Access;

/// Runs that are remembered.
const RECENT: usize = 50;
/// Tools that are counted one by one; the names come from outside.
const MAX_TOOLS: usize = 5_000;
/// The usual estimate for English text and JSON.
const BYTES_PER_TOKEN: u64 = 4;

/// One run, as it is remembered: what it did, never what it said.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) tool: &'static str,
    pub(super) road: &'static str,
    pub(super) ok: bool,
    pub(super) ms: f64,
    pub(super) calls: Vec<CallRecord>,
    pub(super) bytes_processed: u64,
    pub(super) bytes_returned: u64,
}

/// The sums.
pub(super) struct Session {
    since: Instant,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    runs: u64,
    failed: u64,
    calls: u64,
    bytes_processed: u64,
    bytes_returned: u64,
    bytes_saved: u64,
    tools: BTreeMap<Target, ToolSums>,
    recent: VecDeque<(Run, u64)>,
}

#[derive(Default)]
struct ToolSums {
    calls: u64,
    failed: u64,
    bytes: u64,
    ms: f64,
}

impl Default for Session {
    fn default() -> Self {
        Session { since: Instant::now(), sums: Mutex::default() }
    }
}

impl Session {
    /// Adds a run.
    pub(super) fn record(&self, run: Run) {
        let mut sums = self.sums();
        sums.runs += 1;
        sums.failed += u64::from(!run.ok);
        sums.calls += run.calls.len() as u64;
        // Without code mode every reply of a tool would have gone through the context window.
        let replies: u64 = run.calls.iter().map(|call| call.reply_bytes).sum();
        let processed = run.bytes_processed.max(replies);
        sums.bytes_processed = sums.bytes_processed.saturating_add(processed);
        sums.bytes_returned = sums.bytes_returned.saturating_add(run.bytes_returned);
        sums.bytes_saved = sums.bytes_saved.saturating_add(processed.saturating_sub(run.bytes_returned));
        for call in run.calls.iter().filter(|call| call.state != CallState::NotSent) {
            sums.count(call);
        }
        if sums.recent.len() >= RECENT {
            sums.recent.pop_front();
        }
        sums.recent.push_back((run, now()));
    }

    /// The sums, with the tools that this caller may know of.
    pub(super) fn stats(&self, access: &Access) -> Value {
        let sums = self.sums();
        let tools = sums.tools.iter().filter(|(target, _)| may_know(access, target)).map(|(target, tool)| {
            let mean = if tool.calls == 0 { 0.0 } else { tool.ms / tool.calls as f64 };
            let row = json!({
                "calls": tool.calls, "failed": tool.failed, "bytes": tool.bytes, "mean_ms": rounded(mean),
            });
            (target.to_string(), row)
        });
        json!({
            "uptime_seconds": self.since.elapsed().as_secs(),
            "runs": sums.runs,
            "runs_failed": sums.failed,
            "tool_calls": sums.calls,
            "bytes_processed": sums.bytes_processed,
            "bytes_returned": sums.bytes_returned,
            "estimated_tokens_saved": sums.bytes_saved / BYTES_PER_TOKEN,
            "per_tool": tools.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// The last runs, newest first, without those that touched what this caller may not know of.
    pub(super) fn recent(&self, access: &Access) -> Value {
        let sums = self.sums();
        let known = sums.recent.iter().rev().filter(|(run, _)| run.calls.iter().all(|it| may_know(access, &it.target)));
        let rows = known.map(|(run, at)| {
            json!({
                "execution_id": run.id, "at": at, "tool": run.tool, "path": run.road, "ok": run.ok,
                "ms": rounded(run.ms), "bytes_processed": run.bytes_processed, "bytes_returned": run.bytes_returned,
                "calls": run.calls.iter().take(20).map(|it| json!({ "name": it.name(), "state": it.state })).collect::<Vec<_>>(),
            })
        });
        json!({ "recent": rows.collect::<Vec<_>>() })
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sums {
    fn count(&mut self, call: &CallRecord) {
        if !self.tools.contains_key(&call.target) && self.tools.len() >= MAX_TOOLS {
            return;
        }
        let tool = self.tools.entry(call.target.clone()).or_default();
        tool.calls += 1;
        tool.failed += u64::from(call.state != CallState::Applied);
        tool.bytes = tool.bytes.saturating_add(call.reply_bytes);
        tool.ms += call.ms;
    }
}

/// Host functions have no backend and may be known to every caller.
fn may_know(access: &Access, target: &Target) -> bool {
    target.backend().is_none_or(|backend| access.permits(backend))
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

    fn call(name: &str, state: CallState, reply_bytes: u64) -> CallRecord {
        let target = match name.split_once('.') {
            Some((backend, tool)) => Target::Tool { backend: backend.into(), tool: tool.into() },
            None => Target::Function(name.into()),
        };
        CallRecord { target, state, ms: 2.0, request_bytes: 2, reply_bytes, read_only: false, error: None }
    }

    fn run(calls: Vec<CallRecord>, processed: u64, returned: u64) -> Run {
        Run {
            id: "run_1".into(),
            tool: "call_tool_chain",
            road: "script",
            ok: true,
            ms: 1.0,
            calls,
            bytes_processed: processed,
            bytes_returned: returned,
        }
    }

    #[test]
    fn what_tools_replied_and_what_was_not_returned_counts_as_saved() {
        let session = Session::default();
        session.record(run(vec![call("a.x", CallState::Applied, 4_000)], 400, 400));
        session.record(run(vec![], 10_000, 2_000));
        let stats = session.stats(&Access::All);
        assert_eq!(stats["estimated_tokens_saved"], 900 + 2_000);
        assert_eq!((&stats["bytes_processed"], &stats["bytes_returned"]), (&json!(14_000), &json!(2_400)));
        assert_eq!(stats["per_tool"]["a.x"], json!({ "calls": 1, "failed": 0, "bytes": 4_000, "mean_ms": 2.0 }));
    }

    #[test]
    fn names_that_a_program_made_up_are_not_kept() {
        let session = Session::default();
        session.record(run(vec![call("a.nope", CallState::NotSent, 0)], 0, 0));
        assert_eq!(session.stats(&Access::All)["per_tool"], json!({}));
    }

    #[test]
    fn a_caller_sees_only_its_own_backends() {
        let session = Session::default();
        session.record(run(vec![call("a.x", CallState::Applied, 1)], 0, 0));
        session.record(run(vec![call("b.x", CallState::Applied, 1), call("httpCall", CallState::Applied, 1)], 0, 0));
        let only = Access::Only(vec!["b".into()]);
        let names: Vec<String> = session.stats(&only)["per_tool"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["b.x", "httpCall"]);
        assert_eq!(session.recent(&only)["recent"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn only_the_last_runs_are_remembered() {
        let session = Session::default();
        (0..80).for_each(|_| session.record(run(vec![], 1, 1)));
        assert_eq!(session.recent(&Access::All)["recent"].as_array().unwrap().len(), RECENT);
        assert_eq!(session.stats(&Access::All)["runs"], 80);
    }
}
