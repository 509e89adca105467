//! `call_tool_chain`: a program that calls tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_engine::Observer;
use toolgate_wire::{LimitRequest, Limits, Profile};

use super::super::answer::{bounded, text_block};
use super::super::arguments::{Arguments, Complaint};
use super::super::progress::Steps;
use super::super::session::Run;
use super::super::{Shared, content, waiting};
use super::{Answering, Hints, Tool};
use crate::backends::ReplyMode;
use crate::bridge::RequestContext;
use crate::chain::{ChainReport, ChainRequest, explain};
use crate::gateway::{chain_limits, output_settings};
use toolgate_functions::CallContext;
use toolgate_mcp::server::ToolCall;
use toolgate_output::{self, OutputSettings, Stage};

pub(in super::super) static TOOL: Tool = Tool {
    name: "call_tool_chain",
    title: "Run a chain of tool calls",
    description: |_, _| DESCRIPTION.to_owned(),
    schema,
    hints: Hints::Acts,
    call: |shared, call| -> Answering { Box::pin(run(shared, call)) },
};

const DESCRIPTION: &str = "\
Runs a TypeScript (or JavaScript) program that calls tools, in a sealed sandbox, and returns what it returns. Find the \
tools with search_tools first.

- Call a tool as `await backend.tool({ ... })`, with one object of arguments. The value is plain data, already parsed.
- `return` what you need, and only that: filter, join, sort and count in the program. console.log is returned too.
- Use `Promise.all([...])` for calls that do not depend on each other.
- A failing tool throws a ToolError with backend, tool, code, message and data; catch it to go on.
- `__getToolInterface(\"backend.tool\")` gives a tool's schema. There are no imports, no files and no fetch; \
`await httpCall({ url })` reaches public addresses.
- A returned image, audio or resource block (or a list of them) is shown as such.

Example:
const issues = await tracker.list_issues({ state: \"open\" });
const late = issues.filter(i => i.age_days > 30);
const owners = await Promise.all(late.map(i => tracker.get_user({ id: i.owner })));
return late.map((i, n) => ({ id: i.id, title: i.title, owner: owners[n].name }));

One call alone may also be sent as JSON: {\"tool\": \"tracker.get_user\", \"arguments\": {\"id\": 7}}.";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "The program: the body of an async function." },
            "timeout": {
                "type": "integer", "minimum": 1, "maximum": 600_000,
                "description": "Milliseconds for the whole run; 30000 unless configured otherwise.",
            },
            "max_output_size": {
                "type": "integer", "minimum": 256, "maximum": MAX_OUTPUT,
                "description": "Most bytes to return. What is left out is kept for read_result and query_result.",
            },
            "intent": {
                "type": "string",
                "description": "What you look for, in a few words: long results are reduced to the parts that match.",
            },
        },
        "required": ["code"],
        "additionalProperties": false,
    })
}

/// Most bytes that a caller may ask for.
const MAX_OUTPUT: u64 = 64 << 20;
/// Calls listed in a report.
const SHOWN_CALLS: usize = 100;

async fn run(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Complaint> {
    let arguments = Arguments::new(&call.arguments, &["code", "timeout", "max_output_size", "intent"])?;
    let code = arguments.text("code")?;
    let timeout = arguments.count("timeout", 1..=600_000)?.map(Duration::from_millis);
    let room = arguments.count("max_output_size", 256..=MAX_OUTPUT)?;
    let intent = arguments.optional_text("intent")?;

    let config = shared.gateway.config();
    let mut limits = chain_limits(&config.settings);
    limits.wall = timeout.or(limits.wall);
    let mut settings = output_settings(&config.settings);
    settings.max_output_size = room.and_then(|room| usize::try_from(room).ok()).unwrap_or(settings.max_output_size);

    let report = perform(&shared, &call, code, limits).await;
    let id = execution_id();
    let answer = answer(&shared, &report, &id, code, &settings, intent);
    shared.session.record(Run {
        id,
        tool: TOOL.name,
        road: report.road.name(),
        ok: report.report.failure().is_none(),
        ms: report.report.execution_ms(),
        bytes_processed: answer.processed,
        bytes_returned: answer.returned,
        calls: report.report.calls,
    });
    Ok(answer.result)
}

async fn perform(shared: &Shared, call: &ToolCall, code: &str, mut limits: LimitRequest) -> ChainReport {
    let since = Instant::now();
    let wall = limits.wall.unwrap_or(Limits::of(Profile::Chain).wall);
    let access = &call.page.access;
    waiting::for_mentioned(shared, code, access, wall.mul_f64(0.9), &call.cancel).await;
    let left = wall.saturating_sub(since.elapsed()).max(Duration::from_millis(1));
    // A time that was not asked for and not used up stays the engine's to decide.
    limits.wall = if limits.wall.is_some() || since.elapsed() > Duration::from_millis(1) { Some(left) } else { None };
    let steps = call.progress.clone().map(Steps::new);
    let deadline = since + wall;
    let request = ChainRequest {
        code: code.to_owned(),
        limits,
        asked: RequestContext {
            access: access.clone(),
            cancel: call.cancel.clone(),
            progress: steps.as_ref().map(|steps| steps.nested()),
            caller: call.caller,
            timeout: None,
            deadline: Some(deadline),
            taker: ReplyMode::Value,
        },
        functions: shared.functions(&call.page),
        context: CallContext { cancel: call.cancel.clone(), deadline: Some(deadline.into()), ..CallContext::default() },
        observer: steps.map(|steps| steps as Arc<dyn Observer>),
        engine: None,
        no_short_cuts: false,
    };
    let warnings = request.context.warnings.clone();
    let mut report = shared.gateway.chain().run(request).await;
    report.report.warnings.extend(warnings.to_vec());
    report
}

/// What goes back, and how much of how much.
struct Answer {
    result: Value,
    processed: u64,
    returned: u64,
}

fn answer(
    shared: &Shared,
    done: &ChainReport,
    id: &str,
    code: &str,
    settings: &OutputSettings,
    intent: Option<&str>,
) -> Answer {
    let report = &done.report;
    let mut meta = report_meta(done, id);
    let (blocks, processed) = match report.value() {
        Err(_) => {
            let text = explain(report, code);
            let processed = text.len();
            (vec![text_block(bounded(text, settings.max_output_size))], processed)
        }
        Ok(value) => {
            let console = console(done, settings.max_output_size / 4);
            let warnings = warnings(done, settings.max_output_size / 8);
            let beside: usize = console.iter().chain(&warnings).map(String::len).sum();
            let room = settings.max_output_size.saturating_sub(beside);
            let settings = OutputSettings { max_output_size: room, ..settings.clone() };
            let (mut blocks, processed) = match content::blocks(value.get()) {
                Some(blocks) => (within(blocks, room), value.get().len()),
                None => {
                    let keep = &mut |kept: toolgate_output::results::Kept<'_>| shared.gateway.results().keep(kept);
                    let response = toolgate_output::shape(value.get(), &settings, intent, keep);
                    meta["output"] = output_meta(&response);
                    (vec![text_block(response.text)], response.bytes_processed)
                }
            };
            blocks.extend(console.into_iter().chain(warnings).map(text_block));
            (blocks, processed)
        }
    };
    let returned: usize = blocks.iter().filter_map(|block| block["text"].as_str()).map(str::len).sum();
    let mut result = json!({ "content": blocks, "_meta": { "toolgate/report": meta } });
    if report.failure().is_some() {
        result["isError"] = Value::Bool(true);
    }
    Answer { result, processed: processed as u64, returned: returned as u64 }
}

/// Texts among pictures are bounded like any text; the pictures themselves are what they are.
fn within(blocks: Vec<Value>, room: usize) -> Vec<Value> {
    let mut room = room;
    let shorten = |mut block: Value| {
        if let Some(text) = block["text"].as_str() {
            let text = bounded(text.to_owned(), room);
            room = room.saturating_sub(text.len());
            block["text"] = Value::String(text);
        }
        block
    };
    blocks.into_iter().map(shorten).collect()
}

fn console(done: &ChainReport, room: usize) -> Option<String> {
    let logs = &done.report.logs;
    if logs.stdout.is_empty() && logs.stderr.is_empty() {
        return None;
    }
    let mut text = "console:".to_owned();
    logs.stdout.iter().for_each(|line| text.extend(["\n", line.as_str()]));
    logs.stderr.iter().for_each(|line| text.extend(["\n[stderr] ", line.as_str()]));
    if logs.dropped > 0 {
        text.push_str(&format!("\n… {} more lines were dropped", logs.dropped));
    }
    Some(bounded(text, room))
}

fn warnings(done: &ChainReport, room: usize) -> Option<String> {
    let warnings = &done.report.warnings;
    (!warnings.is_empty()).then(|| bounded(format!("warnings:\n{}", warnings.join("\n")), room.min(4_096)))
}

fn report_meta(done: &ChainReport, id: &str) -> Value {
    let report = &done.report;
    let mut meta = json!({
        "execution_id": id,
        "engine": report.engine,
        "path": done.road.name(),
        "isolation": report.isolation,
        "ms": report.execution_ms(),
        "usage": report.usage,
        "calls": report.calls.iter().take(SHOWN_CALLS).collect::<Vec<_>>(),
        "call_count": report.calls.len(),
        "safe_to_retry": report.safe_to_retry(),
        "warnings": report.warnings,
    });
    if let Some(failure) = report.failure() {
        meta["code"] = json!(failure.code);
        meta["position"] = json!(failure.position);
    }
    meta
}

fn output_meta(response: &toolgate_output::Response) -> Value {
    let stages: Vec<&str> = response
        .stages
        .iter()
        .map(|stage| match stage {
            Stage::Intent => "intent",
            Stage::Chunk => "chunk",
            Stage::Truncate => "truncate",
            Stage::Footer => "footer",
        })
        .collect();
    json!({
        "bytes_processed": response.bytes_processed,
        "bytes_returned": response.bytes_returned,
        "stages": stages,
        "result_id": response.result_id.as_ref().map(ToString::to_string),
    })
}

/// A name for one run, in reports and in the list of recent ones.
pub(in super::super) fn execution_id() -> String {
    let number = getrandom::u64().unwrap_or_default();
    format!("run_{number:016x}")
}
