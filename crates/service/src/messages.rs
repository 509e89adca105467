//! Request and reply bodies. The OpenAPI document is generated from these types and their comments.
//!
//! Required fields are `Option`s, so that the error for an absent one can point to it; the schema marks them as required. No
//! validation beyond types.

mod bounded;
pub(super) mod durable;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_engine::EngineChoice;
use toolgate_output::{Intent, MAX_INTENT_CHARS};
use toolgate_run::{OUTPUT_SIZE, RunReport};
use toolgate_wire::limits::MB;
use toolgate_wire::{Limit, Profile, Report};

use crate::rpc_sessions::SessionTtl;
pub(super) use bounded::{BoundedList, FunctionNames};

/// A program to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RunRequest")]
pub(super) struct RunBody {
    /// TypeScript or JavaScript: the body of an async function, or a module with a default export.
    #[schemars(required, with = "String")]
    pub(super) code: Option<String>,
    /// Values that the program sees as its frozen global `context`.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(super) context: Option<Box<RawValue>>,
    /// The functions that the program may call; without a list, all that the caller may use.
    pub(super) functions: Option<FunctionNames>,
    /// Time limit in milliseconds, including the time in the queue.
    #[schemars(with = "Option<u64>", range(min = Limit::Wall.spec().min, max = Limit::Wall.spec().max))]
    pub(super) timeout_ms: Option<Whole>,
    /// Memory limit in megabytes.
    #[serde(rename = "maxHeapMB")]
    #[schemars(with = "Option<u64>", range(min = Limit::Memory.spec().min / MB, max = Limit::Memory.spec().max / MB))]
    pub(super) max_heap_mb: Option<Whole>,
    /// The kind of run; `chain` if absent.
    pub(super) profile: Option<RunProfile>,
    /// The interpreter; the configured one if absent.
    pub(super) engine: Option<EngineName>,
    /// Shapes the value for a context window of this many bytes: the reply has `output` instead of the value.
    #[schemars(with = "Option<u64>", range(min = *OUTPUT_SIZE.start(), max = *OUTPUT_SIZE.end()))]
    pub(super) max_output_size: Option<Whole>,
    /// What the caller is looking for, in a few words: a long value is reduced to the matching parts, in `output`.
    #[schemars(with = "Option<String>", length(max = MAX_INTENT_CHARS))]
    pub(super) intent: Option<Intent>,
    /// Keeps the run, so that calls that need a person's approval wait for it: the reply is the report, or `paused` with the run's id.
    /// If absent, a run is kept when a rule may ask about one of its calls; `false`: such a call fails as `DENIED`.
    pub(super) durable: Option<bool>,
    /// Sends no write before all of them were reviewed: the reply is `paused` with the review. Implies `durable`.
    pub(super) stage: Option<bool>,
}

/// The profile of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunProfile {
    /// 30 s and 50 MB unless requested otherwise; with the tools of backends that the caller may use.
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

/// The interpreter of a run, by the name that the engine has for it at every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EngineName(pub(super) EngineChoice);

impl<'de> Deserialize<'de> for EngineName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        name.parse().map(EngineName).map_err(de::Error::custom)
    }
}

impl JsonSchema for EngineName {
    fn schema_name() -> Cow<'static, str> {
        "EngineName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all = [
            (EngineChoice::Auto, "QuickJS; a run that computes for long moves to V8 if it is installed."),
            (EngineChoice::QuickJs, "QuickJS only."),
            (EngineChoice::V8, "V8 only; `UNAVAILABLE` if it is not installed."),
        ];
        let all = all.map(|(choice, description)| {
            json_schema!({"type": "string", "const": choice.name(), "description": description})
        });
        json_schema!({"description": "The interpreter of a run.", "oneOf": all})
    }
}

/// A function to apply to data.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ComputeRequest {
    /// One function expression that takes the data.
    #[schemars(required, with = "String")]
    pub(super) code: Option<String>,
    /// The data.
    #[serde(default, deserialize_with = "present")]
    #[schemars(!default, required, with = "Value")]
    pub(super) data: Option<Box<RawValue>>,
    /// Time limit in milliseconds, including the time in the queue.
    #[schemars(with = "Option<u64>", range(min = Limit::Wall.spec().min, max = Limit::Wall.spec().max))]
    pub(super) timeout_ms: Option<Whole>,
    /// Memory limit in megabytes.
    #[serde(rename = "maxHeapMB")]
    #[schemars(with = "Option<u64>", range(min = Limit::Memory.spec().min / MB, max = Limit::Memory.spec().max / MB))]
    pub(super) max_heap_mb: Option<Whole>,
    /// The interpreter; the configured one if absent.
    pub(super) engine: Option<EngineName>,
    /// Shapes the value for a context window of this many bytes: the reply has `output` instead of the value.
    #[schemars(with = "Option<u64>", range(min = *OUTPUT_SIZE.start(), max = *OUTPUT_SIZE.end()))]
    pub(super) max_output_size: Option<Whole>,
    /// What the caller is looking for, in a few words: a long value is reduced to the matching parts, in `output`.
    #[schemars(with = "Option<String>", length(max = MAX_INTENT_CHARS))]
    pub(super) intent: Option<Intent>,
}

/// Distinguishes `null`, which is data, from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A whole number; 2 and 2.0 are the same number in JSON.
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
                // Above 2^53 an f64 cannot represent fractions, so the check would be meaningless.
                if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
                    return Ok(Whole(number as u64));
                }
                Err(E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }
        deserializer.deserialize_u64(Reader)
    }
}

/// The report of a run. A program that failed is a normal reply with `ok: false`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum RunReply {
    /// With the value.
    Whole(WholeReply),
    /// With the value shaped for a context window.
    Shaped(ShapedReply),
}

#[derive(Debug)]
pub(super) struct WholeReply {
    run: RunReport,
}

impl Serialize for WholeReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            run: &'a RunReport,
            /// The same as `value`, for clients of earlier versions.
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<&'a RawValue>,
        }
        Fields { run: &self.run, result: self.run.report.value().ok() }.serialize(serializer)
    }
}

#[derive(Debug)]
pub(super) struct ShapedReply {
    run: RunReport,
    output: Option<OutputReply>,
}

impl Serialize for ShapedReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a, R: Serialize> {
            #[serde(flatten)]
            run: R,
            #[serde(skip_serializing_if = "Option::is_none")]
            output: &'a Option<OutputReply>,
        }
        Fields { run: self.run.without_value(), output: &self.output }.serialize(serializer)
    }
}

impl RunReply {
    /// The report and its value.
    pub(super) fn whole(run: RunReport) -> Self {
        RunReply::Whole(WholeReply { run })
    }

    /// The report and its shaped value.
    pub(super) fn shaped(run: RunReport, output: Option<OutputReply>) -> Self {
        RunReply::Shaped(ShapedReply { run, output })
    }
}

/// The fields of [`RunReply`], for the schema alone.
#[derive(JsonSchema)]
#[schemars(rename = "RunReply", rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
struct RunReplyFields {
    #[schemars(flatten)]
    report: Report,
    /// The id of this run.
    execution_id: String,
    /// The path of the run: `direct`, `introspection`, `one_call`, `script` or `refused`.
    path: String,
    /// The same as `value`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// The value shaped for a context window, if requested.
    #[schemars(skip_serializing_if = "Option::is_none")]
    output: Option<OutputReply>,
}

impl JsonSchema for RunReply {
    fn schema_name() -> Cow<'static, str> {
        RunReplyFields::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RunReplyFields::json_schema(generator)
    }
}

/// A value shaped for a context window.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputReply {
    /// The text.
    text: String,
    /// Bytes of the whole value as text.
    bytes_processed: usize,
    /// Bytes of the text.
    bytes_returned: usize,
    /// The id of the kept whole value, if parts were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_id: Option<String>,
}

impl From<toolgate_output::Response> for OutputReply {
    fn from(response: toolgate_output::Response) -> Self {
        OutputReply {
            bytes_processed: response.bytes_processed,
            bytes_returned: response.bytes_returned,
            result_id: response.result_id.map(|id| id.to_string()),
            text: response.text,
        }
    }
}

/// A kept result: its value, or the text of a part of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultReply {
    /// The id of the result.
    pub(super) result_id: String,
    /// The whole value; absent if a part was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(super) value: Option<Box<RawValue>>,
    /// The requested part as text; absent if no part was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// Where to read on.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IndexReply {
    /// What answers here.
    pub(super) service: &'static str,
    /// The documentation in the repository.
    pub(super) documentation: &'static str,
    /// The description of the routes, for programs.
    pub(super) openapi: &'static str,
    /// Whether the process answers.
    pub(super) health: &'static str,
    /// Whether programs run.
    pub(super) readiness: &'static str,
    /// The Model Context Protocol, if it is served here.
    pub(super) mcp: &'static str,
}

/// A session to open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionRequest {
    /// The functions that may be called in it.
    #[schemars(required, with = "FunctionNames")]
    pub(super) functions: Option<FunctionNames>,
    /// How long it lasts; five minutes if absent.
    #[schemars(with = "Option<u64>", range(min = SessionTtl::MIN_MS, max = SessionTtl::MAX_MS))]
    pub(super) ttl_ms: Option<Whole>,
}

/// A session that was opened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionReply {
    /// The id of the session.
    pub(super) execution_id: String,
    /// Its secret, returned only here. Sent as `Authorization: Bearer …` with each call.
    pub(super) token: String,
    /// The URL for calls: append a slash and the function's name.
    pub(super) url: String,
    /// When it expires, in milliseconds since 1970.
    pub(super) expires_at: u64,
}

/// A call of a function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RpcRequest {
    /// Its arguments, by position.
    #[schemars(required, with = "Vec<Value>")]
    pub(super) args: Option<Box<RawValue>>,
}

/// The outcome of a function: one of the two members.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RpcReply {
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(super) result: Option<Box<RawValue>>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FunctionFailure>")]
    pub(super) error: Option<Value>,
}

/// As `FunctionError::to_json` writes it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
struct FunctionFailure {
    /// The kind of failure, for programs.
    code: String,
    /// The reason, for people.
    message: String,
    /// Structured details.
    #[schemars(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// When to try again, in milliseconds.
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
    /// Whether it may be omitted.
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

/// Whether the service can run programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadyReply {
    /// Always `ready`; a service that is not ready replies 503.
    pub(super) status: &'static str,
    /// `ok`, or `unavailable` while the session store can't be reached: programs run without it.
    pub(super) sessions: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;
    use toolgate_functions::docs;
    use toolgate_run::Route;
    use toolgate_wire::{Code, Outcome};

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
    fn a_reply_has_the_text_of_its_value_twice() {
        let value = RawValue::from_string("[1.0,123456789012345678901234567890]".to_owned()).expect("JSON");
        let report = Report::not_started(Outcome::Returned(value), Duration::from_millis(2));
        let reply = RunReply::whole(RunReport::ended("a".to_owned(), Route::Script, report));
        let text = serde_json::to_string(&reply).expect("JSON");
        for name in ["value", "result"] {
            let member = format!("\"{name}\":[1.0,123456789012345678901234567890]");
            assert_eq!(text.matches(&member).count(), 1, "{text}");
        }
        let failed = RunReply::whole(RunReport::refused(Code::Timeout, "late"));
        assert!(!serde_json::to_string(&failed).expect("JSON").contains("\"result\""));
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
