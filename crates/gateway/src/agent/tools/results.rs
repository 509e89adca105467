//! `read_result` and `query_result`: what an answer left out.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_wire::Profile;

use super::super::answer::text;
use super::super::arguments::{self, OutputBytes, Refusal, Text, schema_of};
use super::super::{Shared, request_of};
use super::chain::{OutputOptions, computed};
use super::{Hints, Tool, ToolFuture};
use toolgate_mcp::server::ToolCall;
use toolgate_output::Intent;
use toolgate_output::results::{KeyPath, LineRange, ReadError, ReadSubject, Reading};
use toolgate_run::RunRequest;

pub(super) static READ: Tool = Tool {
    name: "read_result",
    title: "Read a kept result",
    description: |_, _| READ_DESCRIPTION.to_owned(),
    schema: schema_of::<ReadArguments>,
    hints: Hints::Reads,
    call: |shared, call| -> ToolFuture { Box::pin(read(shared, call)) },
};

pub(super) static QUERY: Tool = Tool {
    name: "query_result",
    title: "Compute on a kept result",
    description: |_, _| QUERY_DESCRIPTION.to_owned(),
    schema: schema_of::<QueryArguments>,
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// res_ and 32 hexadecimal digits.
    result_id: Text,
    /// A key path, such as results.items[3].
    path: Option<String>,
    /// A range of lines, such as 10-40.
    lines: Option<String>,
    /// Only what contains this.
    search: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueryArguments {
    /// res_ and 32 hexadecimal digits.
    result_id: Text,
    /// (data) => …
    code: Text,
    /// Most bytes to return.
    max_output_size: Option<OutputBytes>,
    /// What you look for, in a few words.
    #[schemars(with = "Option<String>")]
    intent: Option<Intent>,
}

async fn read(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let given: ReadArguments = arguments::read(&call.arguments)?;
    let path = given.path.filter(|path| !path.is_empty()).map(|path| path.parse::<KeyPath>());
    let lines = given.lines.filter(|lines| !lines.is_empty()).map(|lines| lines.parse::<LineRange>());
    let search = given.search.filter(|search| !search.is_empty());
    if search.as_ref().is_some_and(|search| search.len() > MAX_SEARCH) {
        return Err(Refusal(format!("search: has at most {MAX_SEARCH} bytes")));
    }
    let runner = shared.gateway.runner();
    let reading = Reading {
        path: path.transpose().map_err(|error| Refusal(format!("path: {error}")))?,
        lines: lines.transpose().map_err(|error| Refusal(format!("lines: {error}")))?,
        search,
        max_bytes: shared.output().max_output_size,
    };
    let (results, Text(id)) = (runner.results(&call.scope.caller).ok_or_else(not_kept)?, given.result_id);
    let found = results.in_background(move |results| results.read(&id, &reading)).await;
    found.map(text).map_err(|error| refused(&error))
}

/// Names the argument that is wrong.
fn refused(error: &ReadError) -> Refusal {
    Refusal(match error.subject() {
        ReadSubject::Id => format!("result_id: {error}"),
        ReadSubject::Path => format!("path: {error}"),
        ReadSubject::Lines => format!("lines: {error}"),
        ReadSubject::Nothing => error.to_string(),
    })
}

async fn query(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let QueryArguments { result_id: Text(id), code: Text(code), max_output_size, intent } =
        arguments::read(&call.arguments)?;
    let output = OutputOptions { settings: shared.output_within(max_output_size), intent };
    let runner = shared.gateway.runner();
    let results = runner.results(&call.scope.caller).ok_or_else(not_kept)?;
    let data = results.in_background(move |results| results.data(&id)).await.map_err(|error| refused(&error))?;
    let request = RunRequest { data: Some(data), ..request_of(&call, QUERY.name, Profile::Compute, &code) };
    Ok(computed(&shared, request, &output).await)
}

fn not_kept() -> Refusal {
    Refusal::new("result_id: no results are kept here")
}
