//! Durable runs as tasks of MCP clients that have the extension `io.modelcontextprotocol/tasks`.
//!
//! A durable `call_tool_chain` of such a client that has not ended after a moment is answered with a task, whose id is that of
//! the run. The client polls it, answers questions about calls, or cancels it. Any process with the store can be asked. Other
//! clients have the tool `run_status` for the same.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_mcp::server::{Fault, TASKS_EXTENSION, TaskCall, TaskRequest, ToolCall};
use toolgate_output::OutputSettings;
use toolgate_wire::{CallerScope, Code};

use super::Shared;
use super::answer::{bounded, text_block};
use super::paused::decidable;
use super::tools::paused_text;
use crate::approvals::form;
use crate::run::durable::{DurableError, DurableRuns, RunStatus, RunView, unix_ms};
use crate::run::{PausedRun, RunReport, RunRequest, execution_id};

/// How long a run may take to be answered as if it were no task.
const QUICK: Duration = Duration::from_secs(1);
/// How often a client should ask.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A decline that comes sooner after its question is no person's.
const MIN_DECLINE: Duration = Duration::from_millis(250);

/// Whether the client of this call takes a task for an answer.
pub(super) fn takes_tasks(call: &ToolCall) -> bool {
    call.capabilities.get("extensions").and_then(|it| it.get(TASKS_EXTENSION)).is_some_and(Value::is_object)
}

/// A durable run: its report if it ends soon, else its task.
pub(super) async fn run(shared: &Shared, request: RunRequest) -> Result<RunReport, Value> {
    let id = request.id.clone().unwrap_or_else(execution_id);
    let runs = match shared.gateway.runner().durable().await {
        Ok(runs) => runs,
        Err(error) => return Ok(RunReport::refused(Code::Unavailable, error.to_string())),
    };
    // The run goes on when its caller stops waiting. A task is told of when its run is in the store, however long that takes:
    // the client asks for it next, perhaps at another process.
    if let Some(report) = runs.run_for(RunRequest { id: Some(id.clone()), ..request }, QUICK).await {
        return Ok(report);
    }
    let view = runs.view(&id, None).await.ok();
    let mut task = task_of(shared, &id, view.as_ref(), "working");
    task["resultType"] = json!("task");
    Err(task)
}

/// Serves `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) async fn serve(shared: Arc<Shared>, call: TaskCall) -> Result<Value, Fault> {
    let runs = shared.gateway.runner().durable().await.map_err(|error| Fault::Internal(error.to_string()))?;
    let caller = &call.scope.caller;
    match &call.request {
        TaskRequest::Get => {
            let view = runs.view(&call.task, Some(&caller.name)).await.map_err(fault)?;
            Ok(described(&shared, &call, &view))
        }
        TaskRequest::Update(responses) => {
            answered(&runs, &call, responses).await?;
            Ok(json!({}))
        }
        TaskRequest::Cancel => {
            runs.abort(&call.task, Some(&caller.name)).await.map_err(fault)?;
            Ok(json!({}))
        }
    }
}

fn fault(error: DurableError) -> Fault {
    match error {
        DurableError::NoSuchRun(_) => Fault::InvalidParams("taskId: there is no such task".to_owned()),
        DurableError::BadDecision { message, .. } => Fault::InvalidParams(message),
        other => Fault::Internal(other.to_string()),
    }
}

/// Takes a person's answers to the forms of a task.
async fn answered(
    runs: &DurableRuns,
    call: &TaskCall,
    responses: &serde_json::Map<String, Value>,
) -> Result<(), Fault> {
    let caller = &call.scope.caller;
    let view = runs.view(&call.task, Some(&caller.name)).await.map_err(fault)?;
    let pending = decidable(&view.pending, caller);
    let shown = form::showable(&pending);
    let filled = form::read(&shown, responses);
    let mut decisions = filled.decisions;
    if !filled.declined.is_empty() {
        let now = unix_ms();
        let is_person = |asked: u64| u128::from(now.saturating_sub(asked)) >= MIN_DECLINE.as_millis();
        let open = shown.iter().filter(|it| filled.declined.contains(&it.call_id));
        let declined: Vec<_> = open.filter(|it| is_person(it.asked_at)).map(|it| form::declined(it)).collect();
        decisions.extend(declined);
    }
    if decisions.is_empty() {
        return Ok(());
    }
    runs.decide(&call.task, Some(&caller.name), decisions).await.map_err(fault)?;
    Ok(())
}

/// The task with what its status brings along.
fn described(shared: &Shared, call: &TaskCall, view: &RunView) -> Value {
    let id = &view.summary.run;
    match (view.summary.status, &view.report) {
        (RunStatus::Done, report) => {
            let text = report.as_ref().map_or("", |report| report.get());
            let unreadable = || json!({ "ok": false, "error": "the report cannot be read" });
            let report: Value = serde_json::from_str(text).unwrap_or_else(|_| unreadable());
            if report["code"] == "ABORTED" {
                let mut task = task_of(shared, id, Some(view), "cancelled");
                task["statusMessage"] = report["error"].clone();
                return task;
            }
            let mut task = task_of(shared, id, Some(view), "completed");
            task["result"] = result_of(shared, &call.scope.caller, text, report);
            task
        }
        (RunStatus::Paused, _) if !view.pending.is_empty() => {
            let pending = decidable(&view.pending, &call.scope.caller);
            let shown = form::showable(&pending);
            if call.shows_forms && !shown.is_empty() {
                let mut task = task_of(shared, id, Some(view), "input_required");
                task["inputRequests"] = form::requests(&shown);
                return task;
            }
            let paused = PausedRun { run_id: id.clone(), pending: view.pending.clone() };
            let mut task = task_of(shared, id, Some(view), "working");
            task["statusMessage"] = json!(paused_text(&paused));
            task
        }
        (RunStatus::Paused | RunStatus::Running, _) => task_of(shared, id, Some(view), "working"),
    }
}

fn task_of(shared: &Shared, id: &str, view: Option<&RunView>, status: &str) -> Value {
    let (began, changed) =
        view.map_or_else(|| (unix_ms(), unix_ms()), |view| (view.summary.began, view.summary.changed));
    let keep = shared.gateway.config().settings.runs.keep;
    json!({
        "taskId": id,
        "status": status,
        "createdAt": timestamp(began),
        "lastUpdatedAt": timestamp(changed),
        "ttlMs": u64::try_from(keep.as_millis()).unwrap_or(u64::MAX),
        "pollIntervalMs": u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX),
    })
}

fn timestamp(unix_ms: u64) -> String {
    toolgate_audit::timestamp(UNIX_EPOCH + Duration::from_millis(unix_ms))
}

/// What the call would have been answered with.
fn result_of(shared: &Shared, caller: &CallerScope, text: &str, mut report: Value) -> Value {
    /// The value as it was written, digits and all.
    #[derive(Deserialize)]
    struct Ended<'a> {
        #[serde(borrow)]
        value: Option<&'a RawValue>,
    }
    let settings = shared.output();
    let value = serde_json::from_str::<Ended<'_>>(text).ok().and_then(|ended| ended.value);
    let text = match value {
        Some(value) => shaped(shared, caller, value.get(), &settings),
        None => failure(&report),
    };
    let console = console(&report).map(|text| text_block(bounded(text, settings.max_output_size / 4)));
    let answer = text_block(bounded(text, settings.max_output_size));
    let blocks: Vec<Value> = std::iter::once(answer).chain(console).collect();
    report.as_object_mut().into_iter().for_each(|report| drop(report.remove("value")));
    let is_ok = report["ok"] == true;
    let mut result = json!({ "content": blocks, "_meta": { "toolgate/report": report } });
    if !is_ok {
        result["isError"] = Value::Bool(true);
    }
    result
}

fn console(report: &Value) -> Option<String> {
    let lines = |name: &str| report["logs"][name].as_array().into_iter().flatten().filter_map(Value::as_str);
    let printed: Vec<&str> = lines("stdout").chain(lines("stderr")).collect();
    (!printed.is_empty()).then(|| format!("console:\n{}", printed.join("\n")))
}

fn shaped(shared: &Shared, caller: &CallerScope, value: &str, settings: &OutputSettings) -> String {
    let results = shared.gateway.runner().results(caller);
    let mut keep = |kept: toolgate_output::results::Kept<'_>| results.as_ref().and_then(|results| results.keep(kept));
    toolgate_output::shape(value, settings, None, &mut keep).text
}

fn failure(report: &Value) -> String {
    let text = |name: &str| report[name].as_str().unwrap_or_default();
    let hint = report["hint"].as_str().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    format!("{}: {}{hint}", text("code"), text("error"))
}
