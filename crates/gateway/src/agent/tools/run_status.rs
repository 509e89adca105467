//! `run_status`: where a durable run is, and its result. Decides nothing: no tool of a model can.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::answer::{bounded, text};
use super::super::arguments::{Count, Refusal, read, schema_of};
use super::super::{Shared, caller_of};
use super::{Hints, Tool, ToolFuture};
use crate::run::PausedRun;
use crate::run::durable::{ListRuns, PendingView, RunStatus, RunView};
use toolgate_mcp::server::ToolCall;

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
    let caller = caller_of(&call).name;
    let runs = runner.durable().await.map_err(|error| Refusal(error.to_string()))?;
    let room = runner.output().max_output_size;
    let Some(id) = id else {
        let list = ListRuns { caller: Some(caller), most: MAX_LISTED, ..ListRuns::default() };
        let page = runs.list(list).await.map_err(|error| Refusal(error.to_string()))?;
        let listed = page.runs.iter().map(|run| format!("{} {}", run.run, run.status.name()));
        let listed: Vec<String> = listed.collect();
        let none = "no durable runs".to_owned();
        return Ok(text(if listed.is_empty() { none } else { bounded(listed.join("\n"), room) }));
    };
    let view = runs.wait(&id, Some(&caller), wait).await.map_err(|error| Refusal(format!("run_id: {error}")))?;
    Ok(text(bounded(described(&view), room)))
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
         run_status({{ run_id: \"{run}\" }}) gives the result.\n{}",
        paused.pending.len(),
        calls.join("\n")
    )
}

fn line_of(call: &PendingView) -> String {
    let name = call.backend.as_ref().map_or_else(|| call.tool.clone(), |backend| format!("{backend}.{}", call.tool));
    format!("- call {}: {name}({}): {}", call.call_id, call.arguments.0.get(), call.reason)
}
