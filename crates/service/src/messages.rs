//! What comes in and goes out as JSON. The OpenAPI document is generated from these types.
//!
//! Required fields are `Option`s here, so that an absent one can be pointed to; the schema says that they are required.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_engine::EngineChoice;
use toolgate_wire::{CallState, Code, Destination, Outcome, Profile, Report, Usage};

/// A program to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunRequest {
    /// TypeScript or JavaScript: the body of an async function, or a module with a default export.
    #[schemars(required, with = "String")]
    pub(super) code: Option<String>,
    /// Values that the program sees as its frozen global `context`.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(super) context: Option<Box<RawValue>>,
    /// The functions that the program may call; without a list, all that the caller may use.
    pub(super) functions: Option<Vec<String>>,
    /// How long it may take, waiting for its turn included.
    #[schemars(with = "Option<u64>", range(min = 1, max = 600_000))]
    pub(super) timeout_ms: Option<Whole>,
    /// How much memory it may use.
    #[serde(rename = "maxHeapMB")]
    #[schemars(with = "Option<u64>", range(min = 2, max = 1024))]
    pub(super) max_heap_mb: Option<Whole>,
    /// The kind of run; `chain` if absent.
    pub(super) profile: Option<RunProfile>,
    /// The interpreter; the configured one if absent.
    pub(super) engine: Option<RunEngine>,
}

/// The kinds of run that a program can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunProfile {
    /// Up to 30 s and 50 MB unless asked for otherwise; with tools of backends, if the caller's key grants any.
    #[default]
    Chain,
    /// 3 s, at most 5 s, 16 MB; results are cut at a depth of ten.
    Snippet,
}

impl From<RunProfile> for Profile {
    fn from(profile: RunProfile) -> Self {
        match profile {
            RunProfile::Chain => Profile::Chain,
            RunProfile::Snippet => Profile::Snippet,
        }
    }
}

/// The interpreters that a run can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunEngine {
    /// QuickJS; a run that computes for long moves to V8, if there is one.
    Auto,
    /// QuickJS only.
    QuickJs,
    /// V8 only; `UNAVAILABLE` where there is none.
    V8,
}

impl From<RunEngine> for EngineChoice {
    fn from(engine: RunEngine) -> Self {
        match engine {
            RunEngine::Auto => EngineChoice::Auto,
            RunEngine::QuickJs => EngineChoice::QuickJs,
            RunEngine::V8 => EngineChoice::V8,
        }
    }
}

/// A function to apply to data.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ComputeRequest {
    /// One function expression that takes the data.
    #[schemars(required, with = "String")]
    pub(super) code: Option<String>,
    /// What it is applied to.
    #[serde(default, deserialize_with = "present")]
    #[schemars(!default, required, with = "Value")]
    pub(super) data: Option<Box<RawValue>>,
    /// How long it may take, waiting for its turn included.
    #[schemars(with = "Option<u64>", range(min = 1, max = 600_000))]
    pub(super) timeout_ms: Option<Whole>,
    /// How much memory it may use.
    #[serde(rename = "maxHeapMB")]
    #[schemars(with = "Option<u64>", range(min = 2, max = 1024))]
    pub(super) max_heap_mb: Option<Whole>,
    /// The interpreter; the configured one if absent.
    pub(super) engine: Option<RunEngine>,
}

/// `null` is data too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A whole number, however it is written: to JSON, 2 and 2.0 are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
                // Beyond 2^53 a fraction would no longer show.
                if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
                    return Ok(Whole(number as u64));
                }
                Err(E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }
        deserializer.deserialize_u64(Reader)
    }
}

/// How a run ended. Code that fails is an answer like any other, with `ok: false`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunReply {
    /// Whether the program returned a value.
    ok: bool,
    /// What it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    result: Option<Box<RawValue>>,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What kind of failure it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FailureCode>")]
    code: Option<Code>,
    /// Where in the program, from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// Where in the line, from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Whether running it again can't repeat an effect.
    #[serde(rename = "safe_to_retry")]
    safe_to_retry: bool,
    /// What it printed.
    logs: LogsReply,
    /// What it called, in order.
    calls: Vec<CallReply>,
    /// From acceptance to answer.
    execution_ms: f64,
    /// Names this run.
    execution_id: String,
    /// What it used.
    usage: UsageReply,
    /// What confined it: `process`, `thread`, or `none` if nothing was run.
    isolation: &'static str,
    /// What ran it: `quickjs`, `v8`, `quickjs+v8` for a run that moved, or `none`.
    engine: &'static str,
    /// What the caller should know although the run went on.
    warnings: Vec<String>,
}

impl RunReply {
    /// The report of the engine, with the remarks that functions left.
    pub(super) fn new(report: Report, execution_id: String, remarks: Vec<String>) -> Self {
        let (execution_ms, safe_to_retry) = (report.execution_ms(), report.safe_to_retry());
        let (result, failure) = match report.outcome {
            Outcome::Returned(value) => (Some(value), None),
            Outcome::Failed(failure) => (None, Some(failure)),
        };
        let position = failure.as_ref().and_then(|failure| failure.position);
        let usage = report.usage;
        RunReply {
            ok: result.is_some(),
            result,
            code: failure.as_ref().map(|failure| failure.code),
            line: position.map(|at| at.line),
            column: position.map(|at| at.column),
            hint: failure.as_ref().and_then(|failure| failure.hint.clone()),
            error: failure.map(|failure| failure.message),
            safe_to_retry,
            logs: LogsReply { stdout: report.logs.stdout, stderr: report.logs.stderr, dropped: report.logs.dropped },
            calls: report.calls.into_iter().map(CallReply::from).collect(),
            execution_ms,
            execution_id,
            usage: UsageReply::new(usage),
            isolation: report.isolation.mode.name(),
            engine: report.engine.name(),
            warnings: report.warnings.into_iter().chain(remarks).collect(),
        }
    }
}

/// The codes of [`Code`], for the schema alone.
#[derive(JsonSchema)]
#[schemars(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "a schema is generated from it; a test holds it to the codes there are")]
enum FailureCode {
    Timeout,
    Memory,
    Syntax,
    Runtime,
    OutputTooLarge,
    InvalidCode,
    InvalidData,
    Unavailable,
    Aborted,
}

/// Console output, a line an entry.
#[derive(Debug, Serialize, JsonSchema)]
struct LogsReply {
    /// `console.log`, `info`, `debug`.
    stdout: Vec<String>,
    /// `console.warn`, `error`.
    stderr: Vec<String>,
    /// Lines past the limit, which were not kept.
    dropped: u64,
}

/// One call of a function or a tool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CallReply {
    /// What was called.
    name: String,
    /// What became of it.
    #[schemars(with = "CallStateName")]
    state: CallState,
    /// From asking to answer.
    ms: f64,
    /// Bytes of the arguments.
    request_bytes: u64,
    /// Bytes of the answer.
    reply_bytes: u64,
    /// Whether it is known to change nothing.
    read_only: bool,
    /// The error, if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<toolgate_wire::CallRecord> for CallReply {
    fn from(record: toolgate_wire::CallRecord) -> Self {
        let toolgate_wire::CallRecord { target, state, ms, request_bytes, reply_bytes, read_only, error } = record;
        CallReply { name: target.to_string(), state, ms, request_bytes, reply_bytes, read_only, error }
    }
}

/// The names of [`CallState`], for the schema alone.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "a schema is generated from it; a test holds it to the states there are")]
enum CallStateName {
    Applied,
    Failed,
    NotSent,
    Unknown,
}

/// What a run used.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UsageReply {
    /// Processor time.
    cpu_ms: f64,
    /// The most that the program held at one time.
    memory_bytes: u64,
    /// Waiting for a free place.
    queued_ms: f64,
    /// That the run moved to another interpreter, or that this was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<MovedReply>,
}

impl UsageReply {
    fn new(usage: Usage) -> Self {
        let moved = usage.moved.map(|moved| MovedReply {
            to: match moved.to {
                Destination::V8 => DestinationReply::V8,
                Destination::StayedDiverged => DestinationReply::StayedDiverged,
                Destination::StayedLost => DestinationReply::StayedLost,
            },
            at_ms: moved.at_ms,
            cost_ms: moved.cost_ms,
        });
        UsageReply { cpu_ms: usage.cpu_ms, memory_bytes: usage.memory_bytes, queued_ms: usage.queued_ms, moved }
    }
}

/// A run's move from one interpreter to another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MovedReply {
    /// Where it went on.
    to: DestinationReply,
    /// From its start to the move.
    at_ms: f64,
    /// From then until the second had caught up.
    cost_ms: f64,
}

/// Where a run that was moved went on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DestinationReply {
    /// On V8.
    V8,
    /// Where it had been: on V8 it did something else than before.
    StayedDiverged,
    /// Where it had been: V8 did not catch up in time, or ended.
    StayedLost,
}

/// A session to open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionRequest {
    /// The functions that may be called in it.
    #[schemars(required, with = "Vec<String>")]
    pub(super) functions: Option<Vec<String>>,
    /// How long it lasts; five minutes if absent.
    #[schemars(with = "Option<u64>", range(min = 100, max = 86_400_000))]
    pub(super) ttl_ms: Option<Whole>,
}

/// A session that was opened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionReply {
    /// Names the session.
    pub(super) execution_id: String,
    /// Its secret, told only now. Sent as `Authorization: Bearer …` with each call.
    pub(super) token: String,
    /// Calls go to this address, a slash and the function's name.
    pub(super) url: String,
    /// When it ends, in milliseconds since 1970.
    pub(super) expires_at: u64,
}

/// A call of a function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RpcRequest {
    /// Its arguments, by position.
    #[schemars(required, with = "Vec<Value>")]
    pub(super) args: Option<Vec<Value>>,
}

/// What a function gave: one of the two.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RpcReply {
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(super) result: Option<Value>,
    /// Why it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FunctionFailure>")]
    pub(super) error: Option<Value>,
}

/// As `FunctionError::to_json` writes it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
struct FunctionFailure {
    /// A short name for the kind of failure.
    code: String,
    /// One sentence.
    message: String,
    /// What else the function says.
    #[schemars(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// When to try again.
    #[schemars(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The functions that the caller may use. The answer itself is written by `functions::docs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[cfg_attr(not(test), expect(dead_code, reason = "a schema is generated from it; a test reads the answer into it"))]
pub(super) struct FunctionsReply {
    functions: Vec<FunctionReply>,
}

/// One function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "see above")]
struct FunctionReply {
    /// Its name in the sandbox.
    name: String,
    /// What it does.
    description: String,
    /// Its signature in TypeScript.
    signature: String,
    /// Its parameters, by position.
    params: Vec<ParamReply>,
    /// JSON Schema of its result.
    result: Value,
}

/// One parameter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "see above")]
struct ParamReply {
    /// Its name.
    name: String,
    /// JSON Schema of the argument.
    schema: Value,
    /// Whether it may be left out.
    optional: bool,
    /// What it means.
    description: String,
    /// Whether it takes all further arguments.
    #[schemars(skip_serializing_if = "Option::is_none")]
    rest: Option<bool>,
}

/// Whether the service is alive.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HealthReply {
    /// Always `ok`.
    pub(super) status: &'static str,
}

/// Whether the service can do its work.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadyReply {
    /// Always `ready`; a service that is not answers 503.
    pub(super) status: &'static str,
    /// `ok`, or `unavailable` while the session store can't be reached: programs run without it.
    pub(super) sessions: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolgate_functions::docs;

    fn check_names<T: JsonSchema>(expected: Value) {
        let schema = schemars::schema_for!(T).to_value();
        assert_eq!(schema["enum"], expected);
    }

    #[test]
    fn the_schemas_name_what_the_wire_has() {
        use toolgate_wire::CallState::{Applied, Failed, NotSent, Unknown};
        check_names::<CallStateName>(json!([Applied, Failed, NotSent, Unknown]));
        let codes = [
            Code::Timeout,
            Code::Memory,
            Code::Syntax,
            Code::Runtime,
            Code::OutputTooLarge,
            Code::InvalidCode,
            Code::InvalidData,
            Code::Unavailable,
            Code::Aborted,
        ];
        check_names::<FailureCode>(json!(codes));
    }

    #[test]
    fn a_whole_number_may_have_a_point_and_no_fraction() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(serde_json::from_str::<Whole>(text).ok().map(|whole| whole.0), expected, "{text}");
        };
        check("2", Some(2));
        check("2.0", Some(2));
        check("2e3", Some(2000));
        check("18446744073709551615", Some(u64::MAX));
        for text in ["2.5", "-1", "-1.0", "1e300", "\"2\"", "null"] {
            check(text, None);
        }
    }

    #[test]
    fn the_list_of_functions_is_what_its_schema_says() {
        let function = toolgate_functions::HostFunction::builder("add")
            .required("a", json!({"type": "number"}), "one")
            .handle(|_, _| async { Ok(Value::Null) });
        let registry = [function.expect("a signature")].into_iter().collect();
        let list = serde_json::from_value::<FunctionsReply>(docs::as_json(&registry)).expect("fits");
        assert_eq!(list.functions.len(), 1);
    }
}
