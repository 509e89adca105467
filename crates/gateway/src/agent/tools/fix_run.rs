//! `fix_run`: a corrected program that keeps the effects of a durable run that failed.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_wire::{LimitRequest, Profile};

use super::super::arguments::{Count, Refusal, Text, read, schema_of};
use super::super::{Shared, caller_of};
use super::chain::{self, MAX_TIMEOUT_MS};
use super::{Hints, Tool, ToolFuture};
use crate::run::{Door, Durability, RunRequest};
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "fix_run",
    title: "Correct a durable run",
    description: |_, _| DESCRIPTION.to_owned(),
    schema: schema_of::<FixArguments>,
    hints: Hints::Acts,
    call: |shared, call| -> ToolFuture { Box::pin(fix(shared, call)) },
};

const DESCRIPTION: &str = "\
Runs a corrected program in place of a durable run that failed, and keeps everything that the run has done: a call with the \
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
    timeout: Option<Count<1, MAX_TIMEOUT_MS>>,
}

async fn fix(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let FixArguments { run_id: Text(id), code: Text(code), timeout } = read(&call.arguments)?;
    let wall = timeout.map(|it| Duration::from_millis(it.0));
    let runner = shared.gateway.runner();
    let caller = caller_of(&call);
    let runs = runner.durable().await.map_err(|error| Refusal(error.to_string()))?;
    let kept = runs.kept_effects(&id, Some(&caller.name)).await.map_err(|error| Refusal(format!("run_id: {error}")))?;
    let request = RunRequest {
        limits: LimitRequest { wall, ..LimitRequest::default() },
        caller: caller.clone(),
        withdrawn: Some(call.withdrawn.clone()),
        door: Door::Mcp(TOOL.name),
        durable: Durability::Durable,
        kept: Some(kept),
        ..RunRequest::new(Profile::Chain, code.as_str())
    };
    let run = runner.run(request).await;
    Ok(chain::answer_of(runner, &run, &caller, &code))
}
