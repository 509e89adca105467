//! `run_status`: where a durable run is, and its result. Decides nothing: no tool of a model can.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::answer::{bounded, text, text_block};
use super::super::arguments::{Count, Refusal, read, schema_of};
use super::super::tasks::{result_of, timestamp};
use super::super::{Shared, caller_of};
use super::{Hints, Tool, ToolFuture};
use toolgate_mcp::server::ToolCall;
use toolgate_run::PausedRun;
use toolgate_run::durable::{DurableError, DurableRuns, ListRuns, PendingView, RunStatus, RunView};
use toolgate_wire::CallerScope;

pub(super) static TOOL: Tool = Tool {
    name: "run_status",
    title: "Status of a durable run",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<StatusArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(status(shared, call)) },
};

const DESCRIPTION: &str = "\
Shows a run that call_tool_chain began with durable: true: whether it runs, waits for a person's decision or has ended, \
and its report. Without run_id it lists your recent runs, for when a connection was lost.";

/// Runs that are listed.
const MAX_LISTED: usize = 20;
/// Seconds that a request may wait for a change.
const MAX_WAIT: u64 = 60;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArguments {
    /// The id of the run.
    run_id: Option<String>,
    /// Seconds to wait for a change.
    wait: Option<Count<0, MAX_WAIT>>,
}

async fn status(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let StatusArguments { run_id, wait } = read(&call.arguments)?;
    let id = run_id.filter(|id| !id.is_empty());
    let wait = Duration::from_secs(wait.map_or(0, |it| it.0));
    let runner = shared.gateway.runner();
    let caller = caller_of(&call);
    let runs = runner.durable().await.map_err(|error| Refusal(error.to_string()))?;
    let room = shared.output().max_output_size;
    let Some(id) = id else {
        let listed = listed(&runs, caller.name).await.map_err(|error| Refusal(error.to_string()))?;
        return Ok(text(bounded(listed, room)));
    };
    let view = runs.wait(&id, Some(&caller.name), wait).await.map_err(|error| Refusal(format!("run_id: {error}")))?;
    Ok(returned(&shared, &caller, &view).unwrap_or_else(|| text(bounded(described(&view), room))))
}

/// The caller's recent runs: when each began and how its program begins, by which a lost one is found.
async fn listed(runs: &DurableRuns, caller: String) -> Result<String, DurableError> {
    let list = ListRuns { caller: Some(caller), most: MAX_LISTED, ..ListRuns::default() };
    let mut lines = Vec::new();
    for run in runs.list(list).await?.runs {
        let began = timestamp(run.began);
        let code = runs.first_line(&run.run).await.unwrap_or_default();
        lines.push(format!("{} {} began {began}: {code}", run.run, run.status.name()));
    }
    Ok(if lines.is_empty() { "no durable runs".to_owned() } else { lines.join("\n") })
}

/// The result of a run that has returned a value: as the call would have been answered, with what is left out kept.
fn returned(shared: &Shared, caller: &CallerScope, view: &RunView) -> Option<Value> {
    let text = view.report.as_ref()?.get();
    let report: Value = serde_json::from_str(text).ok()?;
    if report["ok"] != true {
        return None;
    }
    let ended = format!("the run {} has ended, and returned:", view.summary.run);
    let mut settings = shared.output();
    settings.max_output_size = settings.max_output_size.saturating_sub(ended.len());
    let mut result = result_of(shared, caller, text, report, settings);
    result["content"].as_array_mut()?.insert(0, text_block(ended));
    Some(result)
}

fn described(view: &RunView) -> String {
    let run = &view.summary.run;
    match (view.summary.status, &view.report) {
        (RunStatus::Done, Some(report)) => format!("the run {run} has ended: {}", report.get()),
        (RunStatus::Done, None) => format!("the run {run} has ended, and its report cannot be read"),
        (RunStatus::Paused, _) => paused_text(&PausedRun { run_id: run.clone(), pending: view.pending.clone() }),
        (RunStatus::Running, _) => format!("the run {run} is running"),
    }
}

/// What a model is told of a run that waits.
pub(in crate::agent) fn paused_text(paused: &PausedRun) -> String {
    let run = &paused.run_id;
    if paused.pending.is_empty() {
        return format!(
            "The run {run} goes on in another process. run_status({{ run_id: \"{run}\" }}) gives its result."
        );
    }
    let calls: Vec<String> = paused.pending.iter().map(line_of).collect();
    format!(
        "The run {run} is paused: a person has to decide about {} of its calls. You cannot approve them. Tell the user, who \
         decides with `toolgate pending` and `toolgate approve {run} CALL` (or deny), or at POST /v1/runs/{run}/decisions. Then \
         run_status({{ run_id: \"{run}\" }}) gives the result.{}\n{}",
        paused.pending.len(),
        if paused.pending.iter().any(|call| call.login.is_some()) { LOGIN_TEXT } else { "" },
        calls.join("\n")
    )
}

/// What else a model is told where a call waits for a login.
const LOGIN_TEXT: &str = " A call that needs a login goes on by itself once the user has logged in: with the command that it names, or \
                          with the button Log in on the page of `toolgate ui`.";

fn line_of(call: &PendingView) -> String {
    let name = call.backend.as_ref().map_or_else(|| call.tool.clone(), |backend| format!("{backend}.{}", call.tool));
    format!("- call {}: {name}({}): {}", call.call_id, call.arguments.0.get(), call.reason)
}
