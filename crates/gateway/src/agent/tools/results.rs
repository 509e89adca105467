//! `read_result` and `query_result`: what an answer left out.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_wire::Profile;

use super::super::answer::{bounded, failure, text, text_block};
use super::super::arguments::{Arguments, Refusal};
use super::super::{Shared, caller_of};
use super::{Hints, Tool, ToolFuture};
use crate::run::{Door, RunRequest, explain};
use toolgate_mcp::server::ToolCall;
use toolgate_output::results::{KeyPath, LineRange, Reading};

pub(super) static READ: Tool = Tool {
    name: "read_result",
    title: "Read a kept result",
    description: |_, _| READ_DESCRIPTION.to_owned(),
    schema: read_schema,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(read(shared, call)) },
};

pub(super) static QUERY: Tool = Tool {
    name: "query_result",
    title: "Compute on a kept result",
    description: |_, _| QUERY_DESCRIPTION.to_owned(),
    schema: query_schema,
    hints: Hints::Computes,
    call: |shared, call| -> ToolFuture { Box::pin(query(shared, call)) },
};

const READ_DESCRIPTION: &str = "\
Reads a part of a result that was too long to be returned whole; the footer of the answer names its id. Narrow it by \
path (results.items[3], items[0-9]), by lines (10-40) or by search (a text, in any case).";

const QUERY_DESCRIPTION: &str = "\
Computes on a result that was too long to be returned whole: code is one plain function of the whole data, such as \
(data) => data.items.filter(i => i.open).length. Only its result is returned.";

/// Longest search text.
const MAX_SEARCH: usize = 1_000;

fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "result_id": { "type": "string", "description": "res_ and 32 hexadecimal digits." },
            "path": { "type": "string", "description": "A key path, such as results.items[3]." },
            "lines": { "type": "string", "description": "A range of lines, such as 10-40." },
            "search": { "type": "string", "description": "Only what contains this." },
        },
        "required": ["result_id"],
        "additionalProperties": false,
    })
}

fn query_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "result_id": { "type": "string", "description": "res_ and 32 hexadecimal digits." },
            "code": { "type": "string", "description": "(data) => …" },
        },
        "required": ["result_id", "code"],
        "additionalProperties": false,
    })
}

async fn read(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let arguments = Arguments::new(&call.arguments, &["result_id", "path", "lines", "search"])?;
    let id = arguments.text("result_id")?;
    let path = arguments.optional_text("path")?.filter(|path| !path.is_empty()).map(str::parse::<KeyPath>);
    let lines = arguments.optional_text("lines")?.filter(|lines| !lines.is_empty()).map(str::parse::<LineRange>);
    let search = arguments.optional_text("search")?.filter(|search| !search.is_empty());
    if search.is_some_and(|search| search.len() > MAX_SEARCH) {
        return Err(Refusal(format!("search: has at most {MAX_SEARCH} bytes")));
    }
    let runner = shared.gateway.runner();
    let reading = Reading {
        path: path.transpose().map_err(|error| Refusal(format!("path: {error}")))?,
        lines: lines.transpose().map_err(|error| Refusal(format!("lines: {error}")))?,
        search: search.map(str::to_owned),
        max_bytes: shared.output().max_output_size,
    };
    let found = runner.results(&call.scope.caller).ok_or_else(not_kept)?.read(id, &reading);
    found.map(text).map_err(|error| Refusal(format!("result_id: {error}")))
}

async fn query(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let arguments = Arguments::new(&call.arguments, &["result_id", "code"])?;
    let id = arguments.text("result_id")?;
    let code = arguments.text("code")?;
    let runner = shared.gateway.runner();
    let results = runner.results(&call.scope.caller).ok_or_else(not_kept)?;
    let data = results.data(id).map_err(|error| Refusal(format!("result_id: {error}")))?;
    let caller = caller_of(&call);
    let request = RunRequest {
        data: Some(data),
        caller: caller.clone(),
        cancel: call.cancel.clone(),
        door: Door::Mcp(QUERY.name),
        session: Some(call.caller),
        ..RunRequest::new(Profile::Compute, code)
    };
    let run = runner.run(request).await;
    let settings = shared.output();
    match runner.shape(&run, &caller, &settings, None) {
        Some(response) => Ok(json!({ "content": [text_block(response.text)] })),
        None => Ok(failure(bounded(explain(&run.report, code), settings.max_output_size))),
    }
}

fn not_kept() -> Refusal {
    Refusal::new("result_id: no results are kept here")
}
