//! `call_tool_chain`: a program that calls tools.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_engine::Observer;
use toolgate_wire::{CallerScope, LimitRequest, Profile};

use super::super::answer::{bounded, console_text, text_block, with_short_lists};
use super::super::arguments::{OutputBytes, Refusal, Text, TimeoutMs, read, schema_of};
use super::super::paused::{self, Continued};
use super::super::progress::Steps;
use super::super::returned::{self, Shaping, TextsBeside};
use super::super::{Shared, content, request_of, tasks};
use super::{Hints, Tool, ToolFuture, host_functions};
use toolgate_bridge::AllowedEffects;
use toolgate_config::values::ResultFormat;
use toolgate_mcp::server::{RequestScope, ToolCall};
use toolgate_output::{Intent, OutputSettings};
use toolgate_run::stage::Staging;
use toolgate_run::{Durability, RunReport, RunRequest, Runner, Transfer, explain};

pub(in super::super) static TOOL: Tool = Tool {
    name: "call_tool_chain",
    title: "Run a chain of tool calls",
    description,
    schema: schema_of::<ChainArguments>,
    hints: Hints::Acts,
    call: |shared, call| -> ToolFuture { Box::pin(run(shared, call, AllowedEffects::Any)) },
};

/// The same for programs that only read: the bridge refuses every other call.
pub(super) static QUERY: Tool = Tool {
    name: "query_tools",
    title: "Query tools without changing anything",
    description: |_, _| QUERY_DESCRIPTION.to_owned(),
    schema: schema_of::<ChainArguments>,
    hints: Hints::Queries,
    call: |shared, call| -> ToolFuture { Box::pin(run(shared, call, AllowedEffects::ReadOnly)) },
};

const QUERY_DESCRIPTION: &str = "\
Runs a TypeScript program as call_tool_chain does, for questions: it may call only tools that are known to change nothing \
(their server marks them with readOnlyHint). Any other call is refused before it is sent, with the code READ_ONLY; use \
call_tool_chain for those.";

/// With a line about HTTP requests where egress permits them.
fn description(shared: &Shared, scope: &RequestScope) -> String {
    let functions = shared.gateway.functions(&scope.caller);
    let can_send = functions.get("httpCall").is_some();
    let network = match can_send {
        true => "fetch; `await httpCall({ url })` sends an HTTP request to a host that the user allows",
        false => "network",
    };
    let format = match shared.gateway.config().settings.output.format {
        ResultFormat::Auto | ResultFormat::Table => {
            "a list of records may come as {\"#columns\": keys, \"#rows\": [values, ...]}."
        }
        ResultFormat::Compact => "without white space.",
        ResultFormat::Pretty => "indented.",
    };
    DESCRIPTION
        .replace("{network}", network)
        .replace("{functions}", &host_functions::described(&functions))
        .replace("{format}", format)
}

const DESCRIPTION: &str = "\
Runs a TypeScript (or JavaScript) program that calls tools, in a sealed sandbox, and returns what it returns. Find the \
tools with search_tools first.

- Call a tool as `await backend.tool({ ... })`, with one object of arguments. The value is plain data, already parsed.
- `return` what you need, and only that: filter, join, sort and count in the program. console.log is returned too.
- Use `Promise.all([...])` for calls that do not depend on each other.
- A failing tool throws a ToolError with backend, tool, code, message and data; catch it to go on.
- `__getToolInterface(\"backend.tool\")` gives a tool's schema. There are no imports, no files and no {network}.
- Results come as JSON; {format}
{functions}- A returned image, audio or resource block is shown as such, also inside an object or a list.

Example:
const issues = await tracker.list_issues({ state: \"open\" });
const late = issues.filter(i => i.age_days > 30);
const owners = await Promise.all(late.map(i => tracker.get_user({ id: i.owner })));
return late.map((i, n) => ({ id: i.id, title: i.title, owner: owners[n].name }));

One call alone may also be sent as JSON: {\"tool\": \"tracker.get_user\", \"arguments\": {\"id\": 7}}.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChainArguments {
    /// The program: the body of an async function.
    code: Text,
    /// Milliseconds for the whole run.
    timeout: Option<TimeoutMs>,
    /// Most bytes to return. What is left out is kept for read_result and query_result.
    max_output_size: Option<OutputBytes>,
    /// What you look for, in a few words: long results are reduced to the parts that match.
    #[schemars(with = "Option<String>")]
    intent: Option<Intent>,
    /// Keep the run so that it survives a lost connection or a crash; run_status gives its result.
    durable: Option<bool>,
    /// Send no write before a person has reviewed all of them: reads run, a write gets a placeholder.
    stage: Option<bool>,
}

async fn run(shared: Arc<Shared>, call: ToolCall, effects: AllowedEffects) -> Result<Value, Refusal> {
    let ChainArguments { code: Text(code), timeout, max_output_size, intent, durable, stage } = read(&call.arguments)?;
    let staging = if stage == Some(true) { Staging::Wanted } else { Staging::No };
    let is_durable = durable == Some(true) || staging.is_on();
    let durable = if is_durable { Durability::Durable } else { Durability::WhenAsked };

    let runner = shared.gateway.runner();
    let output = OutputOptions { settings: shared.output_within(max_output_size), intent };

    let steps = call.progress.clone().map(Steps::new);
    let name = if effects == AllowedEffects::ReadOnly { QUERY.name } else { TOOL.name };
    let request = RunRequest {
        limits: LimitRequest { wall: timeout.map(|it| Duration::from_millis(it.0)), ..LimitRequest::default() },
        withdrawn: Some(call.withdrawn.clone()),
        progress: steps.as_ref().map(|steps| steps.nested()),
        observer: steps.map(|steps| steps as Arc<dyn Observer>),
        effects,
        durable,
        staging,
        ..request_of(&call, name, Profile::Chain, &code)
    };
    let caller = request.caller.clone();
    let continued = match paused::state_of(&call) {
        Some(state) => Box::pin(paused::go_on(&shared, &call, &caller, state)).await?,
        None if durable == Durability::Durable && tasks::takes_tasks(&call) => {
            match Box::pin(tasks::run(&shared, request)).await {
                Ok(run) => Continued::begun(run),
                Err(task) => return Ok(task),
            }
        }
        None => Continued::begun(runner.run(request).await),
    };
    if let Some(asked) = continued.asked(&shared, &call, &caller) {
        return Ok(asked);
    }
    Ok(answer_of(&shared, &continued.run, &caller, &code, &output))
}

/// How the answer to a call is shaped.
pub(super) struct OutputOptions {
    /// The stages and their limits.
    pub(super) settings: OutputSettings,
    /// What the caller looks for.
    pub(super) intent: Option<Intent>,
}

/// What goes back for a run.
pub(super) fn answer_of(
    shared: &Shared,
    run: &RunReport,
    caller: &CallerScope,
    code: &str,
    output: &OutputOptions,
) -> Value {
    let runner = shared.gateway.runner();
    let answer = answer(runner, run, caller, code, output);
    runner.history().shaped(&run.id, answer.transfer);
    answer.result
}

/// Runs a function over data, and gives what goes back: its value, its console and warnings, and its report.
pub(super) async fn computed(shared: &Shared, request: RunRequest, output: &OutputOptions) -> Value {
    let (caller, code) = (request.caller.clone(), request.text.clone());
    let run = shared.gateway.runner().run(request).await;
    answer_of(shared, &run, &caller, &code, output)
}

/// What goes back, and how much of how much.
struct Answer {
    result: Value,
    transfer: Transfer,
}

fn answer(runner: &Runner, run: &RunReport, caller: &CallerScope, code: &str, output: &OutputOptions) -> Answer {
    let OutputOptions { settings, intent } = output;
    let mut meta = report_meta(run, settings.max_output_size / 8);
    let (blocks, processed) = match run.report.value() {
        Err(_) if run.paused.is_some() => {
            let text = run.paused.as_ref().map(super::run_status::paused_text).unwrap_or_default();
            let processed = text.len();
            (vec![text_block(bounded(text, settings.max_output_size))], processed)
        }
        Err(_) => {
            let advice = runner.advice(run, caller).map(|advice| format!("hint: {advice}\n")).unwrap_or_default();
            let text = explain(&run.report, code) + &advice;
            let processed = text.len();
            (vec![text_block(bounded(text, settings.max_output_size))], processed)
        }
        Ok(value) => {
            let beside = texts_beside(run, settings.max_output_size);
            let shaping =
                Shaping { results: runner.results(caller), settings: settings.clone(), intent: intent.as_deref() };
            let content = returned::content_of(value.get(), beside, shaping);
            content.output.into_iter().for_each(|output| meta["output"] = output);
            (content.blocks, content.bytes_processed)
        }
    };
    let returned = content::text_bytes(&blocks);
    let mut result = json!({ "content": blocks, "_meta": { "toolgate/report": meta } });
    if run.report.failure().is_some() && run.paused.is_none() {
        result["isError"] = Value::Bool(true);
    }
    Answer { result, transfer: Transfer { processed: processed as u64, returned: returned as u64 } }
}

fn texts_beside(run: &RunReport, room: usize) -> TextsBeside {
    fn lines(lines: &[String]) -> Vec<&str> {
        lines.iter().map(String::as_str).collect()
    }
    let logs = &run.report.logs;
    let console = console_text(&lines(&logs.stdout), &lines(&logs.stderr), logs.dropped);
    let warnings: Vec<String> = run.report.warnings.iter().map(ToString::to_string).collect();
    TextsBeside::new(console, &lines(&warnings), room)
}

/// The report without its value, which is the content.
fn report_meta(run: &RunReport, room: usize) -> Value {
    with_short_lists(serde_json::to_value(run.without_value()).unwrap_or_default(), room)
}
