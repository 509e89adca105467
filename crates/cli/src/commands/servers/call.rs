//! `toolgate call`: one tool, by hand.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_backends::ReplyMode;
use toolgate_bridge::approvals::Approver;
use toolgate_bridge::{Answer, RequestContext, RunCalls, is_annotated_read_only};
use toolgate_catalog::ToolRef;
use toolgate_engine::HostError;
use toolgate_gateway::runtime::Gateway;
use toolgate_json::Shape;
use toolgate_mcp::RequestOrigin;
use toolgate_run::{Door, SingleCall};
use toolgate_wire::{CallErrorCode, CallId, CallState, CallerScope, Target};

use super::super::{Exit, Usage};
use super::{Opened, catalog_with, spinner, tool};
use crate::args::servers::CallArgs;
use crate::consent;
use crate::print::pretty::pretty;
use crate::print::{error, escape, out};
use crate::terminal::CallApprover;

pub(crate) fn call(args: &CallArgs) -> anyhow::Result<Exit> {
    let arguments = arguments(&args.arguments)?;
    Opened::new(&args.servers)?.within(async |gateway| {
        let catalog = catalog_with(gateway, &args.tool).await;
        let found = tool(&catalog, &args.tool).or_else(|usage| {
            if args.json {
                print_failure(CallErrorCode::Unknown.as_str(), &usage.0)?;
            }
            Err(anyhow::Error::from(usage))
        })?;
        let waiting = spinner(format!("calling {}", escape::line(&args.tool)));
        let reply = if args.json { ReplyMode::Raw } else { ReplyMode::Value };
        let approver = || Arc::new(CallApprover::new(gateway.bridge().clone(), waiting.clone())) as Arc<dyn Approver>;
        let approver = consent::is_interactive().then(approver);
        let run = Some(Arc::new(RunCalls::default()));
        let context = RequestContext { reply, approver, run, ..RequestContext::default() };
        let answer = noted_call(gateway, found, arguments, context).await;
        waiting.finish_and_clear();
        match answer {
            Ok(Answer::Raw(raw)) => {
                let is_failure = raw.is_failure();
                let text = raw.into_text();
                out(escape::json(&toolgate_json::minified(text.value(), usize::MAX).unwrap_or_default()))?;
                if is_failure {
                    return Ok(Exit::Failed);
                }
            }
            Ok(answer) => print_value(&answer.into_text())?,
            Err(failure) => {
                if args.json {
                    print_failure(failure.code.as_str(), &failure.message)?;
                }
                error(&format!("{}: {}", escape::line(failure.code.as_str()), escape::message(&failure.message)));
                return Ok(Exit::Failed);
            }
        }
        Ok(Exit::Done)
    })
}

fn arguments(text: &str) -> Result<Map<String, Value>, Usage> {
    let limit = toolgate_json::scan::MAX_TREE_DEPTH;
    serde_json::from_str(text).map_err(|error| match toolgate_json::check(text) {
        Some(facts) if facts.depth > limit => Usage(format!("the arguments are nested deeper than {limit} levels")),
        _ => Usage(format!("the arguments are no JSON object: {}", escape::line(&error.to_string()))),
    })
}

/// Why there is no result, for a program that reads standard output.
fn print_failure(code: &str, message: &str) -> anyhow::Result<()> {
    out(escape::json(&json!({ "error": { "code": code, "message": message } }).to_string()))
}

/// A text as it is, any other value as indented JSON. No tree is made of it: it may be nested deeper than one can be.
fn print_value(json: &str) -> anyhow::Result<()> {
    let value = toolgate_json::Value::of(json.trim());
    match value.shape() {
        Shape::String => out(escape::text(&toolgate_json::unquote(value.text()))),
        Shape::Object | Shape::Array | Shape::Plain => out(escape::json(&pretty(value.text()))),
    }
}

/// Calls a tool on behalf of the person at the command line, so that it is in the history and in the audit log like a call of a
/// program.
pub(super) async fn noted_call(
    gateway: &Gateway,
    tool: ToolRef<'_>,
    arguments: Map<String, Value>,
    context: RequestContext,
) -> Result<Answer, HostError> {
    let target = Target::Tool { backend: tool.backend.name().to_owned(), tool: tool.tool().name.clone() };
    let text = serde_json::to_string(&arguments).unwrap_or_default();
    let (caller, origin, decided) = (CallerScope::default(), RequestOrigin::default(), context.run.clone());
    let history = gateway.runner().history();
    let begun = history.begin_call(SingleCall {
        door: Door::CommandLine,
        caller: &caller,
        origin: &origin,
        session: None,
        target: &target,
        arguments: &text,
        read_only: is_annotated_read_only(tool),
    });
    let answer = gateway.bridge().call(tool.backend.name(), &tool.tool().name, arguments, context).await;
    let mut record = begun.record();
    let mut bytes = 0;
    match &answer {
        Ok(answer) => {
            bytes = answer.text_len();
            match answer.fault() {
                Some(fault) => record.failed(CallState::Failed, &CallErrorCode::ToolFailed, &fault.message),
                None => record.applied(bytes),
            }
        }
        Err(error) => record.failed(error.state, &error.code, &error.message),
    }
    record.decision = decided.and_then(|decided| decided.take_decision(CallId(0))).map(Box::new);
    history.end_call(begun, record, bytes as u64);
    answer
}
