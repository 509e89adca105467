//! Everything that a caller learns about one run, in the JSON form that every door sends.
//!
//! A door may add fields beside those of [`Report`], by serialising it into a struct with `#[serde(flatten)]`; it
//! never renames or drops one. [`Report::without_value`] is the same object where the value is sent elsewhere.

mod call_error_code;
mod call_record;
mod warning;

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::frame::Layers;
use crate::{Code, Failure, Outcome};

pub use self::call_error_code::{CallErrorCode, ForeignCode};
pub use self::call_record::{CallRecord, CallState, DecisionRecord};
pub use self::warning::Warning;

/// One run, seen from outside.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Time from acceptance to answer.
    pub elapsed: Duration,
    /// What the program printed.
    pub logs: Logs,
    /// The host calls of the program, in the order in which it made them.
    pub calls: Vec<CallRecord>,
    /// Whether the run may have made calls that `calls` does not have: its record is not the whole run, or cannot be read.
    pub has_unrecorded_calls: bool,
    /// What the run used.
    pub usage: Usage,
    /// What isolated the program from the machine.
    pub isolation: Isolation,
    /// The interpreter that ran it.
    pub engine: Interpreter,
    /// Remarks that did not stop the run.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// The report of a run for which no program was started.
    pub fn not_started(outcome: Outcome, elapsed: Duration) -> Self {
        Report {
            outcome,
            elapsed,
            logs: Logs::default(),
            calls: Vec::new(),
            has_unrecorded_calls: false,
            usage: Usage::default(),
            isolation: Isolation::default(),
            engine: Interpreter::None,
            warnings: Vec::new(),
        }
    }

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

    /// Whether the same program can be run again without repeating an effect: every call only reads, or was not sent.
    /// A failure that a tool reports does not prove that it did nothing.
    pub fn safe_to_retry(&self) -> bool {
        let is_harmless = |call: &CallRecord| call.read_only || !call.state.may_have_had_effect();
        !self.has_unrecorded_calls && self.calls.iter().all(is_harmless)
    }

    /// Milliseconds as a fraction, never zero.
    pub fn execution_ms(&self) -> f64 {
        (self.elapsed.as_nanos().max(1_000) as f64) / 1e6
    }

    /// The same object without the field `value`.
    pub fn without_value(&self) -> ReportFields<'_> {
        ReportFields { value: None, ..ReportFields::of(self) }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ReportFields::of(self).serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Report {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Report".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ReportFields::json_schema(generator)
    }
}

/// The fields of a report as JSON shows them. A program that fails is an answer like any other, with `ok: false`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Report"))]
#[serde(rename_all = "camelCase")]
pub struct ReportFields<'a> {
    /// Whether the program returned a value.
    ok: bool,
    /// What it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    value: Option<&'a RawValue>,
    /// What kind of failure it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// Line of the failure in the program, counted from one; null when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<Option<u32>>,
    /// Column of the failure, counted from one; null when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<Option<u32>>,
    /// What to do about the failure; null when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<Option<&'a str>>,
    /// Whether running it again cannot repeat an effect.
    #[serde(rename = "safe_to_retry")]
    safe_to_retry: bool,
    /// Milliseconds from acceptance to answer.
    execution_ms: f64,
    /// What it printed.
    logs: &'a Logs,
    /// What it called, in order.
    calls: &'a [CallRecord],
    /// What it used.
    usage: Usage,
    /// What isolated it from the machine.
    isolation: &'a Isolation,
    /// The interpreter that ran it.
    engine: Interpreter,
    /// Remarks that did not stop the run.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    warnings: &'a [Warning],
}

impl<'a> ReportFields<'a> {
    fn of(report: &'a Report) -> Self {
        let failure = report.failure();
        let position = failure.map(|failure| failure.position);
        ReportFields {
            ok: failure.is_none(),
            value: report.value().ok(),
            code: failure.map(|failure| failure.code),
            error: failure.map(|failure| failure.message.as_str()),
            line: position.map(|at| at.map(|at| at.line)),
            column: position.map(|at| at.map(|at| at.column)),
            hint: failure.map(|failure| failure.hint.as_deref()),
            safe_to_retry: report.safe_to_retry(),
            execution_ms: report.execution_ms(),
            logs: &report.logs,
            calls: &report.calls,
            usage: report.usage,
            isolation: &report.isolation,
            engine: report.engine,
            warnings: &report.warnings,
        }
    }
}

/// The interpreter that ran a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Interpreter {
    /// No program was started.
    #[default]
    None,
    /// QuickJS.
    QuickJs,
    /// V8.
    V8,
    /// QuickJS at first, V8 from the moment at which the run moved.
    #[serde(rename = "quickjs+v8")]
    QuickJsThenV8,
}

impl Interpreter {
    /// The name as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Interpreter::None => "none",
            Interpreter::QuickJs => "quickjs",
            Interpreter::V8 => "v8",
            Interpreter::QuickJsThenV8 => "quickjs+v8",
        }
    }
}

impl std::fmt::Display for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Console output, one line per entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Logs {
    /// `console.log`, `info`, `debug`.
    pub stdout: Vec<String>,
    /// `console.warn`, `error`.
    pub stderr: Vec<String>,
    /// Lines beyond the limit, which were not kept; absent when zero.
    pub dropped: u64,
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Processor time of the worker in milliseconds.
    pub cpu_ms: f64,
    /// Peak number of bytes that the program held.
    pub memory_bytes: u64,
    /// Milliseconds spent in the queue.
    pub queued_ms: f64,
    /// The attempt to move the run to another interpreter, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// An attempt to move a run from one interpreter to another while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// Where the run went on.
    pub to: Destination,
    /// Milliseconds from the run's start to the moment at which the first interpreter was stopped.
    pub at_ms: f64,
    /// Milliseconds from then until the second interpreter had repeated everything that the first had done.
    pub cost_ms: f64,
}

/// Where a run went on after an attempt to move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// On V8.
    V8,
    /// On QuickJS: the program behaved differently on V8.
    StayedDiverged,
    /// On QuickJS: V8 did not catch up in time, or ended, or the run ended before V8 was ahead.
    StayedLost,
}

/// What separates a program from the rest of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// No program was started.
    #[default]
    None,
    /// A thread of the host's own process.
    Thread,
    /// A process of its own.
    Process,
}

impl IsolationLevel {
    /// The name as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::None => "none",
            IsolationLevel::Thread => "thread",
            IsolationLevel::Process => "process",
        }
    }
}

impl std::fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What isolated a run, layer by layer.
///
/// A run that moved, or that V8 replayed and left where it was, executed the program in two processes. Its report
/// claims a layer only if both had it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// Where the program ran.
    pub mode: IsolationLevel,
    /// A seccomp filter allowed only listed system calls.
    pub seccomp: bool,
    /// Version of the landlock ABI in force; zero for none.
    pub landlock: u32,
    /// `PR_SET_NO_NEW_PRIVS` was set.
    pub no_new_privs: bool,
    /// Memory could not be made executable.
    pub no_exec_memory: bool,
    /// Kinds of namespaces that were not shared with the host.
    pub namespaces: Vec<&'static str>,
    /// The process had a user id that no other process has.
    pub private_user: bool,
    /// The process had run a program of the same caller before, and its host had put it back to the state before that
    /// (`reuse: same_caller`). Absent for a fresh process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rewound: bool,
}

impl Isolation {
    /// A process with these layers.
    pub fn of_process(layers: Layers) -> Self {
        Isolation {
            mode: IsolationLevel::Process,
            seccomp: layers.seccomp,
            landlock: layers.landlock,
            no_new_privs: layers.no_new_privs,
            no_exec_memory: layers.no_exec_memory,
            namespaces: if layers.namespaces { vec!["net", "ipc", "uts"] } else { Vec::new() },
            private_user: layers.private_user,
            rewound: false,
        }
    }

    /// A thread, which has no layer beyond the interpreter itself.
    pub fn of_thread() -> Self {
        Isolation { mode: IsolationLevel::Thread, ..Isolation::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Target;
    use serde_json::json;

    fn record(state: CallState, read_only: bool) -> CallRecord {
        let target = Target::Tool { backend: "b.c".into(), tool: "t".into() };
        CallRecord {
            target,
            state,
            ms: 1.0,
            request_bytes: 2,
            reply_bytes: 2,
            read_only,
            error: None,
            error_code: None,
            decision: None,
        }
    }

    fn report(calls: Vec<CallRecord>) -> Report {
        let value = RawValue::from_string("1".into()).expect("JSON");
        let report = Report::not_started(Outcome::Returned(value), Duration::ZERO);
        Report { calls, engine: Interpreter::QuickJs, ..report }
    }

    fn json_of(value: &impl Serialize) -> serde_json::Value {
        serde_json::to_value(value).expect("JSON")
    }

    #[test]
    fn only_effects_and_doubts_forbid_a_retry() {
        assert!(report(vec![]).safe_to_retry());
        assert!(!Report { has_unrecorded_calls: true, ..report(vec![]) }.safe_to_retry());
        assert!(report(vec![record(CallState::NotSent, false)]).safe_to_retry());
        assert!(report(vec![record(CallState::Failed, true)]).safe_to_retry());
        assert!(!report(vec![record(CallState::Failed, false)]).safe_to_retry());
        assert!(!report(vec![record(CallState::Applied, false)]).safe_to_retry());
        assert!(!report(vec![record(CallState::Unknown, false)]).safe_to_retry());
        assert!(report(vec![record(CallState::Applied, true)]).safe_to_retry());
    }

    #[test]
    fn a_record_holds_no_more_than_its_bounds() {
        let long = "x".repeat(2_000_000);
        let mut record = CallRecord::begin(&Target::Tool { backend: long.clone(), tool: long.clone() }, 1, false);
        record.failed(CallState::Failed, &CallErrorCode::named(&long), &long);
        assert!(json_of(&record).to_string().len() < 2_000, "{record:?}");
    }

    #[test]
    fn execution_time_is_never_zero() {
        assert!(report(vec![]).execution_ms() > 0.0);
    }

    #[test]
    fn a_report_shows_every_field() {
        assert_eq!(
            json_of(&report(vec![record(CallState::Failed, false)])),
            json!({
                "ok": true, "value": 1, "safe_to_retry": false, "executionMs": 0.001,
                "logs": { "stdout": [], "stderr": [], "dropped": 0 },
                "calls": [{
                    "name": "b.c.t", "backend": "b.c", "tool": "t", "state": "failed", "ms": 1.0,
                    "requestBytes": 2, "replyBytes": 2, "readOnly": false,
                }],
                "usage": { "cpuMs": 0.0, "memoryBytes": 0, "queuedMs": 0.0 },
                "isolation": {
                    "mode": "none", "seccomp": false, "landlock": 0, "noNewPrivs": false, "noExecMemory": false,
                    "namespaces": [], "privateUser": false,
                },
                "engine": "quickjs", "warnings": [],
            })
        );
    }

    #[test]
    fn a_failure_says_what_is_not_known_of_it() {
        let failure = Outcome::Failed(Failure::new(Code::Timeout, "late"));
        let shown = json_of(&Report { outcome: failure, ..report(vec![]) });
        for (field, expected) in [
            ("ok", json!(false)),
            ("code", json!("TIMEOUT")),
            ("error", json!("late")),
            ("line", json!(null)),
            ("column", json!(null)),
            ("hint", json!(null)),
        ] {
            assert_eq!(shown.get(field), Some(&expected), "{field}");
        }
        assert_eq!(shown.get("value"), None);
    }

    #[test]
    fn a_door_may_add_fields_and_leave_out_the_value() {
        #[derive(Serialize)]
        struct Door<'a> {
            #[serde(flatten)]
            report: &'a Report,
            id: &'static str,
        }
        let report = report(vec![]);
        let mut expected = json_of(&report);
        expected["id"] = "run_1".into();
        assert_eq!(json_of(&Door { report: &report, id: "run_1" }), expected);
        let (mut with, without) = (json_of(&report), json_of(&report.without_value()));
        with.as_object_mut().expect("object").remove("value");
        assert_eq!(without, with);
    }

    #[test]
    fn the_text_of_a_value_reaches_a_door_unchanged() {
        #[derive(Serialize)]
        struct Door<'a> {
            #[serde(flatten)]
            report: &'a Report,
        }
        let text = r#"[1.0,123456789012345678901234567890,"\ud800"]"#;
        let value = RawValue::from_string(text.into()).expect("JSON");
        let report = Report { outcome: Outcome::Returned(value), ..report(vec![]) };
        let sent = serde_json::to_string(&Door { report: &report }).expect("JSON");
        assert!(sent.contains(&format!(r#""value":{text}"#)), "{sent}");
    }

    #[test]
    fn a_name_is_the_serialised_text() {
        use Interpreter::{None, QuickJs, QuickJsThenV8, V8};
        for interpreter in [None, QuickJs, V8, QuickJsThenV8] {
            assert_eq!(json_of(&interpreter), interpreter.name());
        }
        for level in [IsolationLevel::None, IsolationLevel::Thread, IsolationLevel::Process] {
            assert_eq!(json_of(&level), level.name());
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn the_schema_names_every_field() {
        fn check<T: schemars::JsonSchema>(shown: &serde_json::Value) {
            let schema = schemars::schema_for!(T).to_value();
            for field in shown.as_object().expect("object").keys() {
                assert!(schema["properties"].get(field).is_some(), "{field} is not in {schema}");
            }
        }
        let failure = Outcome::Failed(Failure::new(Code::Timeout, "late"));
        check::<Report>(&json_of(&report(vec![])));
        check::<Report>(&json_of(&Report { outcome: failure, ..report(vec![]) }));
        check::<CallRecord>(&json_of(&record(CallState::Applied, false)));
    }
}
