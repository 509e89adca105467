//! `run_code`: a short program with host functions, and no tools.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_engine::Observer;
use toolgate_wire::{Code, Limit, LimitRequest, Limits, Profile};

use super::super::arguments::{OutputBytes, Refusal, Text, read, schema_of};
use super::super::progress::Steps;
use super::super::returned::{self, ShapedValue, Shaping, output_meta};
use super::super::{Shared, answer, request_of};
use super::{Hints, Tool, ToolFuture};
use toolgate_functions::docs;
use toolgate_mcp::server::{RequestScope, ToolCall};
use toolgate_output::{Intent, OutputSettings};
use toolgate_run::{RunReport, RunRequest, Transfer};

pub(super) static TOOL: Tool = Tool {
    name: "run_code",
    title: "Run a snippet",
    description,
    schema: schema_of::<SnippetArguments>,
    hints: Hints::Acts,
    call: |shared, call| -> ToolFuture { Box::pin(run(shared, call)) },
};

/// From the registry and the limits in force, so that it says what there is.
fn description(shared: &Shared, scope: &RequestScope) -> String {
    let most = Duration::from_millis(*Limit::Wall.range(Profile::Snippet).end());
    let longest = LimitRequest { wall: Some(most), ..LimitRequest::default() };
    let granted = shared.gateway.runner().limits(Profile::Snippet, &longest);
    let granted = granted.and_then(|granted| granted.resolve(Profile::Snippet)).map(|granted| granted.limits);
    let limits = granted.unwrap_or_else(|_| Limits::of(Profile::Snippet));
    let (seconds, characters) = (limits.wall.as_secs_f64(), grouped(limits.code));
    let functions = docs::for_model(&shared.gateway.functions(&scope.caller));
    let functions = if functions.is_empty() { "none".to_owned() } else { functions };
    format!(
        "Runs a short JavaScript or TypeScript snippet in a sealed sandbox and returns its result, output and errors. \
         `return` the result; console.log goes to stdout, console.error to stderr. No imports, no files, no tools (use \
         call_tool_chain for those). At most {seconds} seconds; the code has at most {characters} characters.\n\n\
         Host functions:\n{functions}"
    )
}

/// A number with commas, such as 12,000.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let places = digits.len();
    let comma = |at: usize| if at > 0 && (places - at).is_multiple_of(3) { "," } else { "" };
    digits.char_indices().map(|(at, digit)| format!("{}{digit}", comma(at))).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnippetArguments {
    /// The snippet: the body of an async function.
    code: Text,
    // Decides nothing: types are erased in both. No doc comment, since clients would read it.
    #[serde(default, rename = "language")]
    _language: Language,
    /// Milliseconds; clamped to what is permitted.
    #[schemars(with = "Option<i64>", extend("default" = Limit::Wall.default(Profile::Snippet)))]
    timeout_ms: Option<f64>,
    /// Request context, such as { "location": { "latitude": 52.5, "longitude": 13.4 } }.
    hints: Option<Map<String, Value>>,
    /// Most bytes to return.
    max_output_size: Option<OutputBytes>,
    /// What you look for, in a few words.
    #[schemars(with = "Option<String>")]
    intent: Option<Intent>,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Language {
    #[default]
    JavaScript,
    TypeScript,
}

async fn run(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let runner = shared.gateway.runner();
    let asked: SnippetArguments = match read(&call.arguments) {
        Ok(asked) => asked,
        Err(Refusal(message)) => {
            let refused = RunReport::refused(Code::InvalidCode, message);
            return Ok(result(&refused, &Limits::of(Profile::Snippet), None, shared.output().max_output_size));
        }
    };
    // Also a negative number or a huge one has a nearest value that is allowed; the engine clamps and says so.
    let wall = asked.timeout_ms.map(|ms| Duration::from_millis(ms.clamp(0.0, 1e12) as u64));
    let limits = LimitRequest { wall, ..LimitRequest::default() };
    let granted = runner.limits(Profile::Snippet, &limits).and_then(|granted| granted.resolve(Profile::Snippet));
    let request = RunRequest {
        limits,
        data: asked.hints.filter(|hints| !hints.is_empty()).map(|hints| Value::Object(hints).to_string()),
        observer: call.progress.clone().map(|client| Steps::new(client) as Arc<dyn Observer>),
        ..request_of(&call, TOOL.name, Profile::Snippet, &asked.code.0)
    };
    let caller = request.caller.clone();
    let run = runner.run(request).await;
    let limits = granted.map_or_else(|_| Limits::of(Profile::Snippet), |granted| granted.limits);
    // Half of the room: the text has the report around it.
    let settings = shared.output_within(asked.max_output_size);
    let most = settings.max_output_size;
    let settings = OutputSettings { max_output_size: most / 2, ..settings };
    let shaping = Shaping { results: runner.results(&caller), settings, intent: asked.intent.as_deref() };
    let shown = run.report.value().ok().map(|value| returned::shaped(value.get(), &shaping));
    if let Some(ShapedValue { response, .. }) = &shown {
        let (processed, returned) = (response.bytes_processed as u64, response.bytes_returned as u64);
        runner.history().shaped(&run.id, Transfer { processed, returned });
    }
    Ok(result(&run, &limits, shown, most))
}

/// The whole report as structured content, with what clients of this tool have always got: `result`, `stdout`, `stderr`,
/// `errorName`, `environment`. Where the value was too long, its reduced text is in its place, and the whole of it is kept; where it
/// has pictures, they are content, and named in the value.
/// The text is for clients that show a model no structured content: the value, or the failure, and the console, without the rest
/// of the report.
fn result(run: &RunReport, limits: &Limits, shown: Option<ShapedValue>, most: usize) -> Value {
    let report = &run.report;
    let (mut value, media) = report_with(run, shown);
    let mut result = answer::text(answer::bounded(brief(&value).to_string(), most));
    result["content"].as_array_mut().into_iter().for_each(|content| content.extend_from_slice(&media));
    match report.failure() {
        None => value["result"] = value["value"].clone(),
        Some(failure) => {
            value["errorName"] = json!(error_name(failure.code));
            result["isError"] = Value::Bool(true);
        }
    }
    let mut stdout = report.logs.stdout.clone();
    if report.logs.dropped > 0 {
        stdout.push(format!("… {} more lines were dropped", report.logs.dropped));
    }
    value["stdout"] = json!(stdout);
    value["stderr"] = json!(report.logs.stderr);
    value["environment"] = json!({
        "engine": report.engine,
        "isolation": report.isolation,
        "limits": {
            "timeoutMs": u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX),
            "memoryBytes": limits.memory,
            "codeCharacters": limits.code,
            "resultBytes": limits.result,
            "resultDepth": limits.result_depth,
            "logLines": limits.log_lines,
            "calls": limits.calls,
        },
    });
    result["structuredContent"] = value;
    result
}

/// The report with the value as it is shown, and the pictures of it.
fn report_with(run: &RunReport, shown: Option<ShapedValue>) -> (Value, Vec<Value>) {
    let without_value = || serde_json::to_value(run.without_value()).unwrap_or_default();
    match shown {
        Some(ShapedValue { response, media, .. }) if !response.stages.is_empty() => {
            let mut report = without_value();
            report["output"] = output_meta(&response);
            report["value"] = Value::String(response.text);
            (report, media)
        }
        Some(ShapedValue { named: Some(named), media, .. }) => {
            let mut report = without_value();
            report["value"] = named;
            (report, media)
        }
        Some(_) | None => (serde_json::to_value(run).unwrap_or_default(), Vec::new()),
    }
}

/// What a model needs of a report.
fn brief(report: &Value) -> Value {
    let keys = ["ok", "value", "error", "code", "hint", "warnings"];
    let mut brief: Map<String, Value> =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), report.get(*key)?.clone()))).collect();
    let has_lines = |list: &str| report["logs"][list].as_array().is_some_and(|lines| !lines.is_empty());
    if has_lines("stdout") || has_lines("stderr") {
        brief.insert("logs".to_owned(), report["logs"].clone());
    }
    brief.retain(|key, value| key != "warnings" || value.as_array().is_some_and(|list| !list.is_empty()));
    Value::Object(brief)
}

/// No wildcard arm: a new code must choose.
fn error_name(code: Code) -> &'static str {
    match code {
        Code::Timeout => "TimeoutError",
        Code::Syntax | Code::InvalidCode | Code::InvalidData => "ValidationError",
        Code::Memory | Code::Runtime | Code::OutputTooLarge | Code::Unavailable | Code::Aborted | Code::Diverged => {
            "VMError"
        }
    }
}
