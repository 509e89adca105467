//! Everything a caller learns of one run, in the form that every door prints.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Failure, Outcome};

/// One run, seen from outside.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// From acceptance to answer; never zero.
    pub elapsed: Duration,
    /// What the program printed.
    pub logs: Logs,
    /// What it asked of the host, in the order of asking.
    pub calls: Vec<CallRecord>,
    /// What it used.
    pub usage: Usage,
    /// What confined it.
    pub isolation: Isolation,
    /// The interpreter that ran it, or `none` when no program was started.
    pub engine: &'static str,
    /// What the caller should know although the run went on.
    pub warnings: Vec<String>,
}

impl Report {
    /// The returned JSON text, or the failure.
    pub fn value(&self) -> Result<&RawValue, &Failure> {
        match &self.outcome {
            Outcome::Returned(value) => Ok(value),
            Outcome::Failed(failure) => Err(failure),
        }
    }

    /// The failure, when the run failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.value().err()
    }

    /// Whether running the same program again cannot repeat an effect: nothing was applied, and
    /// nothing is in doubt, but for calls that only read.
    pub fn safe_to_retry(&self) -> bool {
        self.calls.iter().all(|call| call.read_only || !call.state.may_have_had_effect())
    }

    /// Milliseconds as a fraction, never zero.
    pub fn execution_ms(&self) -> f64 {
        (self.elapsed.as_nanos().max(1_000) as f64) / 1e6
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.outcome {
            Outcome::Returned(value) => {
                map.serialize_entry("ok", &true)?;
                map.serialize_entry("value", value)?;
            }
            Outcome::Failed(failure) => {
                map.serialize_entry("ok", &false)?;
                map.serialize_entry("code", &failure.code)?;
                map.serialize_entry("error", &failure.message)?;
                map.serialize_entry("line", &failure.position.map(|p| p.line))?;
                map.serialize_entry("column", &failure.position.map(|p| p.column))?;
                map.serialize_entry("hint", &failure.hint)?;
            }
        }
        map.serialize_entry("safe_to_retry", &self.safe_to_retry())?;
        map.serialize_entry("executionMs", &self.execution_ms())?;
        map.serialize_entry("logs", &self.logs)?;
        map.serialize_entry("calls", &self.calls)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("isolation", &self.isolation)?;
        map.serialize_entry("engine", self.engine)?;
        map.serialize_entry("warnings", &self.warnings)?;
        map.end()
    }
}

/// Console output, a line an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Logs {
    /// `console.log`, `info`, `debug`.
    pub stdout: Vec<String>,
    /// `console.warn`, `error`.
    pub stderr: Vec<String>,
    /// Lines past the limit, which were not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What became of one host call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It was carried out and answered.
    Applied,
    /// It was answered with a failure.
    Failed,
    /// It was refused before anything was sent.
    NotSent,
    /// It was sent, and no answer came.
    Unknown,
}

impl CallState {
    /// No wildcard arm: a new state must choose.
    fn may_have_had_effect(self) -> bool {
        match self {
            CallState::Applied | CallState::Unknown => true,
            CallState::Failed | CallState::NotSent => false,
        }
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// What was called: `backend.tool`, or a host function's name.
    pub name: String,
    /// What became of it.
    pub state: CallState,
    /// Milliseconds from asking to answer.
    pub ms: f64,
    /// Bytes of the arguments' JSON text.
    pub request_bytes: u64,
    /// Bytes of the answer's JSON text.
    pub reply_bytes: u64,
    /// Whether the tool declares that it changes nothing.
    pub read_only: bool,
    /// The error, for calls that did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Processor time of the worker in milliseconds.
    pub cpu_ms: f64,
    /// The most bytes that the program held at one time.
    pub memory_bytes: u64,
    /// Milliseconds spent waiting for a free place.
    pub queued_ms: f64,
    /// That the run was moved to another interpreter, or that this was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// A run's move from one interpreter to another while it went on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// What came of it.
    pub to: Destination,
    /// Milliseconds from the run's start to the moment when the first interpreter was stopped.
    pub at_ms: f64,
    /// Milliseconds from then until the second had repeated everything that the first had done.
    pub cost_ms: f64,
}

/// Where a run that was moved went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// On V8.
    V8,
    /// Where it had been: on V8 it did something else than before.
    StayedDiverged,
    /// Where it had been: V8 did not catch up in time, or ended.
    StayedLost,
}

/// What confined a run, layer by layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// `process`, `thread`, or `none` when nothing ran.
    pub mode: &'static str,
    /// A system call allow-list was in force.
    pub seccomp: bool,
    /// The version of landlock in force, zero for none.
    pub landlock: u32,
    /// Privileges could not be gained by executing anything.
    pub no_new_privs: bool,
    /// Memory could not be made executable.
    pub no_exec_memory: bool,
    /// Namespaces of its own.
    pub namespaces: Vec<&'static str>,
    /// A user id that nothing else has.
    pub private_user: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: CallState, read_only: bool) -> CallRecord {
        CallRecord { name: "b.t".into(), state, ms: 1.0, request_bytes: 2, reply_bytes: 2, read_only, error: None }
    }

    fn report(calls: Vec<CallRecord>) -> Report {
        Report {
            outcome: Outcome::Returned(RawValue::from_string("1".into()).expect("JSON")),
            elapsed: Duration::ZERO,
            logs: Logs::default(),
            calls,
            usage: Usage::default(),
            isolation: Isolation::default(),
            engine: "quickjs",
            warnings: vec![],
        }
    }

    #[test]
    fn only_effects_and_doubts_forbid_a_retry() {
        assert!(report(vec![]).safe_to_retry());
        assert!(report(vec![record(CallState::Failed, false), record(CallState::NotSent, false)]).safe_to_retry());
        assert!(!report(vec![record(CallState::Applied, false)]).safe_to_retry());
        assert!(!report(vec![record(CallState::Unknown, false)]).safe_to_retry());
        assert!(report(vec![record(CallState::Applied, true)]).safe_to_retry());
    }

    #[test]
    fn execution_time_is_never_zero() {
        assert!(report(vec![]).execution_ms() > 0.0);
    }
}
