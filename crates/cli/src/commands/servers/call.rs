//! `toolgate call`: one tool, by hand.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolgate_backends::ReplyMode;
use toolgate_bridge::approvals::Approver;
use toolgate_bridge::{Answer, RequestContext};

use super::super::{Exit, Usage};
use super::{Opened, catalog_with, spinner, tool};
use crate::args::servers::CallArgs;
use crate::consent;
use crate::print::{error, escape, out};
use crate::terminal::CallApprover;

pub(crate) fn call(args: &CallArgs) -> anyhow::Result<Exit> {
    let arguments: Map<String, Value> = serde_json::from_str(&args.arguments)
        .map_err(|error| Usage(format!("the arguments are no JSON object: {}", escape::line(&error.to_string()))))?;
    Opened::new(&args.servers)?.within(async |gateway| {
        let catalog = catalog_with(gateway, &args.tool).await;
        let found = tool(&catalog, &args.tool)?;
        let waiting = spinner(format!("calling {}", escape::line(&args.tool)));
        let reply = if args.json { ReplyMode::Raw } else { ReplyMode::Value };
        let approver = || Arc::new(CallApprover::new(gateway.bridge().clone(), waiting.clone())) as Arc<dyn Approver>;
        let approver = consent::is_interactive().then(approver);
        let context = RequestContext { reply, approver, ..RequestContext::default() };
        let answer = gateway.bridge().call(found.backend.name(), &found.tool().name, arguments, context).await;
        waiting.finish_and_clear();
        match answer {
            Ok(Answer::Raw(raw)) => {
                out(escape::json(&raw.to_string()))?;
                if raw.get("isError") == Some(&Value::Bool(true)) {
                    return Ok(Exit::Failed);
                }
            }
            Ok(answer) => match serde_json::from_str(&answer.into_text())? {
                Value::String(text) => out(escape::text(&text))?,
                value => out(escape::json(&serde_json::to_string_pretty(&value)?))?,
            },
            Err(failure) => {
                error(&format!("{}: {}", escape::line(&failure.code), escape::text(&failure.message)));
                return Ok(Exit::Failed);
            }
        }
        Ok(Exit::Done)
    })
}
