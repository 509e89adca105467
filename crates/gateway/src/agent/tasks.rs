//! Durable runs as tasks of MCP clients that have the extension `io.modelcontextprotocol/tasks`.
//!
//! A durable `call_tool_chain` of such a client that has not ended after a moment is answered with a task, whose id is that of
//! the run. The client polls it, answers questions about calls, or cancels it. Any process with the store can be asked. Other
//! clients have the tool `run_status` for the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_mcp::server::{Fault, TASKS_EXTENSION, TaskCall, TaskRequest, ToolCall};
use toolgate_output::OutputSettings;
use toolgate_wire::{CallerScope, Code};

use super::Shared;
use super::answer::{bounded, console_text, text_block, with_short_lists};
use super::approval_form as form;
use super::paused::decidable;
use super::returned::{self, Shaping, TextsBeside};
use super::tools::paused_text;
use toolgate_journal::unix_ms;
use toolgate_run::durable::{DurableError, DurableRuns, RunStatus, RunView};
use toolgate_run::{PausedRun, RunReport, RunRequest, execution_id};

/// How long a run may take to be answered as if it were no task.
const DIRECT_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a client should ask.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A decline that comes sooner after its question is no person's.
const MIN_DECLINE: Duration = Duration::from_millis(250);

/// Tasks of which it is known when their forms were shown.
const MAX_SHOWN_TASKS: usize = 1_024;

/// When the forms of tasks were shown by this process, and which tasks have a client that declines them unseen.
#[derive(Default)]
pub(super) struct TaskForms(Mutex<HashMap<String, ShownForms>>);

#[derive(Default)]
struct ShownForms {
    /// When each question was shown first, in milliseconds since 1970, by the number of its call. Those that are gone are dropped.
    since: HashMap<u32, u64>,
    /// When the task was last asked for.
    last: u64,
    are_unseen: bool,
}

impl TaskForms {
    /// Notes that the forms of these calls are shown; whether they are to be, of which a client that declined some unseen has no
    /// use.
    fn show(&self, task: &str, calls: &[u32], now: u64) -> bool {
        let mut tasks = self.0.lock();
        if tasks.len() >= MAX_SHOWN_TASKS && !tasks.contains_key(task) {
            let oldest = tasks.iter().min_by_key(|(_, shown)| shown.last).map(|(task, _)| task.clone());
            oldest.into_iter().for_each(|task| drop(tasks.remove(&task)));
        }
        let shown = tasks.entry(task.to_owned()).or_default();
        shown.since.retain(|call, _| calls.contains(call));
        for call in calls {
            shown.since.entry(*call).or_insert(now);
        }
        shown.last = now;
        !shown.are_unseen
    }

    /// Whether a person can have declined the form of a call that another process may have shown, but not before `asked`. Forms of
    /// a client that declines what no person can have read are not shown again.
    fn may_be_a_person(&self, task: &str, call: u32, asked: u64, now: u64) -> bool {
        let mut tasks = self.0.lock();
        let shown = tasks.get_mut(task);
        let since = shown.as_ref().and_then(|shown| shown.since.get(&call).copied()).unwrap_or(asked);
        let may_be = u128::from(now.saturating_sub(since)) >= MIN_DECLINE.as_millis();
        shown.into_iter().for_each(|shown| shown.are_unseen |= !may_be);
        may_be
    }
}

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
    if let Some(report) = runs.run_for(RunRequest { id: Some(id.clone()), ..request }, DIRECT_ANSWER_TIMEOUT).await {
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
            answered(&shared, &runs, &call, responses).await?;
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
    shared: &Shared,
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
        let open = shown.iter().filter(|it| filled.declined.contains(&it.call_id));
        let seen = open.filter(|it| shared.task_forms.may_be_a_person(&call.task, it.call_id, it.asked_at, now));
        decisions.extend(seen.map(|it| form::declined(it)));
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
            task["result"] = result_of(shared, &call.scope.caller, text, report, shared.output());
            task
        }
        (RunStatus::Paused, _) if !view.pending.is_empty() => {
            let pending = decidable(&view.pending, &call.scope.caller);
            let shown = form::showable(&pending);
            let calls: Vec<u32> = shown.iter().map(|question| question.call_id).collect();
            if call.shows_forms && !shown.is_empty() && shared.task_forms.show(id, &calls, unix_ms()) {
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

pub(super) fn timestamp(unix_ms: u64) -> String {
    toolgate_audit::timestamp(UNIX_EPOCH + Duration::from_millis(unix_ms))
}

/// What the call would have been answered with, in at most as many bytes as the settings give.
pub(super) fn result_of(
    shared: &Shared,
    caller: &CallerScope,
    text: &str,
    mut report: Value,
    settings: OutputSettings,
) -> Value {
    /// The value as it was written, digits and all; also null.
    #[derive(Deserialize)]
    struct Ended<'a> {
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let (room, is_ok) = (settings.max_output_size, report["ok"] == true);
    let value = serde_json::from_str::<Ended<'_>>(text).ok().map(|ended| ended.value).filter(|_| is_ok);
    let beside = texts_beside(&report, room);
    report.as_object_mut().into_iter().for_each(|report| drop(report.remove("value")));
    let mut report = with_short_lists(report, room / 8);
    let blocks = match value {
        Some(value) => {
            let shaping = Shaping { results: shared.gateway.runner().results(caller), settings, intent: None };
            let content = returned::content_of(value.get(), beside, shaping);
            content.output.into_iter().for_each(|output| report["output"] = output);
            content.blocks
        }
        None => {
            let failure = text_block(bounded(failure(&report), beside.rest_of(room)));
            std::iter::once(failure).chain(beside.into_blocks()).collect()
        }
    };
    let mut result = json!({ "content": blocks, "_meta": { "toolgate/report": report } });
    if !is_ok {
        result["isError"] = Value::Bool(true);
    }
    result
}

/// What the program printed, and what the model should know, such as arguments that a person changed.
fn texts_beside(report: &Value, room: usize) -> TextsBeside {
    fn lines(list: &Value) -> Vec<&str> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
    let logs = &report["logs"];
    let dropped = logs["dropped"].as_u64().unwrap_or_default();
    let console = console_text(&lines(&logs["stdout"]), &lines(&logs["stderr"]), dropped);
    TextsBeside::new(console, &lines(&report["warnings"]), room)
}

fn failure(report: &Value) -> String {
    let text = |name: &str| report[name].as_str().unwrap_or_default();
    let hint = report["hint"].as_str().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    format!("{}: {}{hint}", text("code"), text("error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decline_sooner_than_a_person_reads_is_no_answer_and_ends_the_forms_of_its_task() {
        let forms = TaskForms::default();
        // Asked long ago, shown just now.
        assert!(forms.show("t", &[1], 100_000));
        assert!(!forms.may_be_a_person("t", 1, 0, 100_100));
        assert!(!forms.show("t", &[1], 100_200), "the next decline would deny the call");
        assert!(!forms.show("t", &[2], 200_000), "nor are later questions shown");
        assert!(forms.show("other", &[1], 100_200));
        assert!(forms.may_be_a_person("other", 1, 0, 100_450));
        // Polling does not begin the time again.
        assert!(forms.show("other", &[1], 101_000) && forms.may_be_a_person("other", 1, 0, 101_001));
        // Shown by another process: the question is known to be this old.
        assert!(forms.may_be_a_person("elsewhere", 1, 1_000, 1_250));
        assert!(!forms.may_be_a_person("elsewhere", 1, 1_000, 1_249));
    }

    /// One call is decided or added while a person reads the form of another one.
    #[test]
    fn a_form_that_stays_keeps_the_time_at_which_it_was_shown() {
        let forms = TaskForms::default();
        assert!(forms.show("t", &[1, 2], 100_000));
        assert!(forms.show("t", &[2, 3], 110_000));
        assert!(forms.may_be_a_person("t", 2, 0, 110_001), "it was shown ten seconds ago");
        assert!(forms.show("t", &[1, 2, 3], 120_000));
        assert!(!forms.may_be_a_person("t", 1, 0, 120_001), "a form that is shown again is new");
        assert!(!forms.show("t", &[2, 3], 120_002));
    }

    #[test]
    fn what_is_known_of_tasks_is_bounded() {
        let forms = TaskForms::default();
        for n in 0..MAX_SHOWN_TASKS as u64 + 10 {
            forms.show(&n.to_string(), &[], n);
        }
        assert_eq!(forms.0.lock().len(), MAX_SHOWN_TASKS);
        assert!(!forms.0.lock().contains_key("0"));
    }
}
