//! `run_code`: a short program with host functions, and no tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolgate_engine::{Observer, Request};
use toolgate_wire::{Code, Failure, LimitRequest, Limits, Profile, Report};

use super::super::arguments::{Arguments, Complaint};
use super::super::progress::Steps;
use super::super::session::Run;
use super::super::{Shared, answer};
use super::chain::execution_id;
use super::{Answering, Hints, Tool};
use crate::bridge::{RequestContext, RunHost};
use crate::chain::Following;
use crate::gateway::snippet_limits;
use toolgate_functions::{CallContext, Hints as RequestHints, docs};
use toolgate_mcp::server::{Page, ToolCall};

pub(super) static TOOL: Tool = Tool {
    name: "run_code",
    title: "Run a snippet",
    description,
    schema,
    hints: Hints::Acts,
    call: |shared, call| -> Answering { Box::pin(run(shared, call)) },
};

const LANGUAGES: [&str; 2] = ["javascript", "typescript"];

/// From the registry, so that it says what there is.
fn description(shared: &Shared, page: &Page) -> String {
    let functions = docs::for_model(&shared.functions(page));
    format!(
        "Runs a short JavaScript or TypeScript snippet in a sealed sandbox and returns its result, output and errors. \
         `return` the result; console.log goes to stdout, console.error to stderr. No imports, no files, no tools (use \
         call_tool_chain for those). At most 5 seconds; the code has at most 12,000 characters.\n\n\
         Host functions:\n{functions}"
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "The snippet: the body of an async function." },
            "language": { "type": "string", "enum": LANGUAGES, "default": "javascript" },
            "timeout_ms": { "type": "integer", "default": 3000, "description": "Clamped to 250-5000." },
            "hints": {
                "type": "object",
                "description": "Request context, such as { \"location\": { \"latitude\": 52.5, \"longitude\": 13.4 } }.",
            },
        },
        "required": ["code"],
        "additionalProperties": false,
    })
}

async fn run(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Complaint> {
    let asked = match read(&call.arguments) {
        Ok(asked) => asked,
        Err(Complaint(message)) => {
            let failure = Failure::new(Code::InvalidCode, message);
            return Ok(result(
                json!({ "ok": false, "error": error(&failure), "stdout": [], "stderr": [], "warnings": [] }),
            ));
        }
    };
    let limits = LimitRequest {
        wall: asked.timeout.or(snippet_limits(&shared.gateway.config().settings).wall),
        ..snippet_limits(&shared.gateway.config().settings)
    };
    let context = CallContext {
        hints: RequestHints::new(asked.hints),
        cancel: call.cancel.clone(),
        deadline: Some((Instant::now() + limits.wall.unwrap_or(Limits::of(Profile::Snippet).wall)).into()),
        ..CallContext::default()
    };
    let warnings = context.warnings.clone();
    let mut report = perform(&shared, &call, asked.code, limits.clone(), context).await;
    report.warnings.extend(warnings.to_vec());
    let value = described(&report, &limits);
    let bytes = value.to_string().len() as u64;
    shared.session.record(Run {
        id: execution_id(),
        tool: TOOL.name,
        road: "snippet",
        ok: report.failure().is_none(),
        ms: report.execution_ms(),
        bytes_processed: bytes,
        bytes_returned: bytes,
        calls: report.calls,
    });
    Ok(result(value))
}

struct Snippet {
    code: String,
    timeout: Option<Duration>,
    hints: Map<String, Value>,
}

fn read(given: &Map<String, Value>) -> Result<Snippet, Complaint> {
    let arguments = Arguments::new(given, &["code", "language", "timeout_ms", "hints"])?;
    let code = arguments.text("code")?.to_owned();
    arguments.choice("language", &LANGUAGES)?;
    let timeout = match given.get("timeout_ms").filter(|value| !value.is_null()) {
        None => None,
        // Also a negative number or a huge one has a nearest value that is allowed; the engine clamps and says so.
        Some(value) => match value.as_f64() {
            Some(ms) => Some(Duration::from_millis(ms.clamp(0.0, 1e12) as u64)),
            None => return Err(Complaint::new("timeout_ms: must be a number of milliseconds")),
        },
    };
    let hints = arguments.object("hints")?.cloned().unwrap_or_default();
    Ok(Snippet { code, timeout, hints })
}

async fn perform(shared: &Shared, call: &ToolCall, code: String, limits: LimitRequest, context: CallContext) -> Report {
    let asked = RequestContext {
        access: call.page.access.clone(),
        cancel: call.cancel.clone(),
        caller: call.caller,
        ..RequestContext::default()
    };
    let following = Following::new(&asked);
    let functions = shared.functions(&call.page);
    let hints = context.hints.clone();
    let host = RunHost::new(shared.gateway.bridge().clone(), asked).with_functions(functions, context).without_tools();
    let request = Request {
        limits,
        host: Arc::new(host),
        data: hints.to_json(),
        cancel: following.cancel.clone(),
        observer: call.progress.clone().map(|client| Steps::new(client) as Arc<dyn Observer>),
        ..Request::new(Profile::Snippet, code)
    };
    shared.gateway.chain().engine().run(request).await
}

/// `{ok, result, stdout, stderr, warnings, executionMs, environment}`.
fn described(report: &Report, limits: &LimitRequest) -> Value {
    let mut stdout = report.logs.stdout.clone();
    if report.logs.dropped > 0 {
        stdout.push(format!("… {} more lines were dropped", report.logs.dropped));
    }
    let mut value = json!({ "ok": report.failure().is_none() });
    match report.value() {
        Ok(returned) => {
            value["result"] = serde_json::from_str(returned.get()).unwrap_or_else(|_| json!(returned.get()))
        }
        Err(failure) => value["error"] = error(failure),
    }
    value["stdout"] = json!(stdout);
    value["stderr"] = json!(report.logs.stderr);
    value["warnings"] = json!(report.warnings);
    value["executionMs"] = json!(report.execution_ms());
    value["environment"] = environment(report, limits);
    value
}

fn environment(report: &Report, limits: &LimitRequest) -> Value {
    let limits =
        limits.resolve(Profile::Snippet).map_or_else(|_| Limits::of(Profile::Snippet), |resolved| resolved.limits);
    json!({
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
    })
}

fn error(failure: &Failure) -> Value {
    // No wildcard arm: a new code must choose.
    let name = match failure.code {
        Code::Timeout => "TimeoutError",
        Code::Syntax | Code::InvalidCode | Code::InvalidData => "ValidationError",
        Code::Memory | Code::Runtime | Code::OutputTooLarge | Code::Unavailable | Code::Aborted => "VMError",
    };
    json!({
        "name": name,
        "code": failure.code,
        "message": failure.message,
        "line": failure.position.map(|at| at.line),
        "column": failure.position.map(|at| at.column),
        "hint": failure.hint,
    })
}

fn result(value: Value) -> Value {
    let failed = value["ok"] != Value::Bool(true);
    let mut result = answer::structured(value);
    if failed {
        result["isError"] = Value::Bool(true);
    }
    result
}
