//! `fix_run`: a corrected program that keeps the effects of a run that failed: of a durable one, or of one of this process.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_wire::{LimitRequest, Profile};

use super::super::arguments::{OutputBytes, Refusal, Text, TimeoutMs, read, schema_of};
use super::super::paused::{self, Continued};
use super::super::{Shared, caller_of, request_of};
use super::chain::{OutputOptions, answer_of};
use super::{Hints, Tool, ToolFuture};
use toolgate_mcp::server::ToolCall;
use toolgate_output::Intent;
use toolgate_run::{Durability, RunReport, RunRequest};

pub(super) static TOOL: Tool = Tool {
    name: "fix_run",
    title: "Correct a run that failed",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<FixArguments>,
    hints: Hints::Acts,
    call: |shared, call| -> ToolFuture { Box::pin(fix(shared, call)) },
};

const DESCRIPTION: &str = "\
Runs a corrected program in place of a run that failed, and keeps everything that the run has done: a call with the \
same tool and the same arguments is not made again but gets the answer that it got. Keep those calls in the program. Nothing \
new is sent before all of them were called; what no longer matches fails with NOT_KEPT and is named.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FixArguments {
    /// The id of the run that failed.
    run_id: Text,
    /// The whole corrected program.
    code: Text,
    /// Milliseconds for the whole run.
    timeout: Option<TimeoutMs>,
    /// Most bytes to return.
    max_output_size: Option<OutputBytes>,
    /// What you look for, in a few words.
    #[schemars(with = "Option<String>")]
    intent: Option<Intent>,
}

async fn fix(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let FixArguments { run_id: Text(id), code: Text(code), timeout, max_output_size, intent } = read(&call.arguments)?;
    let output = OutputOptions { settings: shared.output_within(max_output_size), intent };
    let wall = timeout.map(|it| Duration::from_millis(it.0));
    let caller = caller_of(&call);
    let continued = match paused::state_of(&call) {
        Some(state) => Box::pin(paused::go_on(&shared, &call, &caller, state)).await?,
        None => Continued::begun(Box::pin(corrected(&shared, &call, &id, &code, wall)).await?),
    };
    let asked = continued.asked(&shared, &call, &caller);
    Ok(asked.unwrap_or_else(|| answer_of(&shared, &continued.run, &caller, &code, &output)))
}

/// Runs the corrected program.
async fn corrected(
    shared: &Shared,
    call: &ToolCall,
    id: &str,
    code: &str,
    wall: Option<Duration>,
) -> Result<RunReport, Refusal> {
    let runner = shared.gateway.runner();
    let caller = caller_of(call);
    // A correction lasts like the run that it corrects, and like the corrections before it.
    let noted = runner.correct(id, &caller).map_err(|error| Refusal(format!("run_id: {error}")))?;
    let (kept, durable) = match noted {
        Some(noted) => noted,
        None => {
            let runs = runner.durable().await.map_err(|error| Refusal(error.to_string()))?;
            let kept = runs.kept_effects(id, Some(&caller.name)).await;
            (kept.map_err(|error| Refusal(format!("run_id: {error}")))?, Durability::Durable)
        }
    };
    // A durable correction goes on when the client is lost: only `withdrawn` ends it.
    let request = RunRequest {
        limits: LimitRequest { wall, ..LimitRequest::default() },
        withdrawn: Some(call.withdrawn.clone()),
        durable,
        kept: Some(kept),
        ..request_of(call, TOOL.name, Profile::Chain, code)
    };
    Ok(runner.run(request).await)
}
