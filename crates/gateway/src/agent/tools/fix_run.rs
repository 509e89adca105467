//! `fix_run`: a corrected program that keeps the effects of a durable run that failed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_wire::{LimitRequest, Profile};

use super::super::arguments::{Arguments, Refusal};
use super::super::{Shared, caller_of};
use super::chain;
use super::{Hints, Tool, ToolFuture};
use crate::run::{Door, Durability, RunRequest};
use toolgate_mcp::server::ToolCall;

pub(super) static TOOL: Tool = Tool {
    name: "fix_run",
    title: "Correct a durable run",
    description: |_, _| DESCRIPTION.to_owned(),
    schema,
    hints: Hints::Acts,
    call: |shared, call| -> ToolFuture { Box::pin(fix(shared, call)) },
};

const DESCRIPTION: &str = "\
Runs a corrected program in place of a durable run that failed, and keeps everything that the run has done: a call with the \
same tool and the same arguments is not made again but gets the answer that it got. Keep those calls in the program. Nothing \
new is sent before all of them were called; what no longer matches fails with NOT_KEPT and is named.";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "run_id": { "type": "string", "description": "The id of the run that failed." },
            "code": { "type": "string", "description": "The whole corrected program." },
            "timeout": { "type": "integer", "minimum": 1, "maximum": 600_000, "description": "Milliseconds for the whole run." },
        },
        "required": ["run_id", "code"],
        "additionalProperties": false,
    })
}

async fn fix(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let arguments = Arguments::new(&call.arguments, &["run_id", "code", "timeout"])?;
    let (id, code) = (arguments.text("run_id")?, arguments.text("code")?);
    let wall = arguments.count("timeout", 1..=600_000)?.map(Duration::from_millis);
    let runner = shared.gateway.runner();
    let caller = caller_of(&call);
    let runs = runner.durable().await.map_err(|error| Refusal(error.to_string()))?;
    let kept = runs.kept_effects(id, Some(&caller.name)).await.map_err(|error| Refusal(format!("run_id: {error}")))?;
    let request = RunRequest {
        limits: LimitRequest { wall, ..LimitRequest::default() },
        caller: caller.clone(),
        withdrawn: Some(call.withdrawn.clone()),
        door: Door::Mcp(TOOL.name),
        durable: Durability::Durable,
        kept: Some(kept),
        ..RunRequest::new(Profile::Chain, code)
    };
    let run = runner.run(request).await;
    Ok(chain::answer_of(runner, &run, &caller, code))
}
