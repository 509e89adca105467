//! `GET /v1/tools`: the tools of a caller, searched as a model searches them, or all of them page by page.
//! `GET /v1/tools/{backend}/{tool}`: everything about one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_catalog::ToolRef;
use toolgate_catalog::search::{one_line, ready_call};
use toolgate_catalog::types::learned::{LearnedTypes, known_signature};
use toolgate_catalog::types::{self, BREAKS_ITS_SCHEMA};
use toolgate_functions::{HostFunction, docs, find};

use super::query::Query;
use crate::path::Path;
use crate::refusal::{Refusal, Shown};
use crate::run::answer;
use crate::{Caller, HttpService};

/// Tools of one reply.
pub(super) const MAX_TOOLS: u64 = 500;
const DEFAULT_TOOLS: u64 = 50;
/// Host functions of one reply.
const MAX_FUNCTIONS: usize = 10;

/// Tools.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolsReply {
    /// For a query the best first, otherwise sorted by name.
    tools: Vec<ToolLine>,
    /// For a query: host functions that the task seems to need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<FunctionLine>,
    /// How many tools the caller may use.
    total: usize,
    /// `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A tool in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolLine {
    /// The backend's name.
    backend: String,
    /// The tool's name.
    tool: String,
    /// How a program calls it.
    spelling: String,
    /// Its description on one line.
    description: String,
    /// Its TypeScript signature, with what was learned of its results where its server declares nothing.
    signature: String,
    /// A call with placeholder arguments.
    call: String,
}

/// A host function in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FunctionLine {
    /// The function's name, by which a program calls it.
    name: String,
    /// Its description on one line.
    description: String,
    /// Its TypeScript signature.
    signature: String,
}

impl FunctionLine {
    fn of(function: &HostFunction) -> Self {
        FunctionLine {
            name: function.name().to_string(),
            description: one_line(function.description()),
            signature: docs::signature(function),
        }
    }
}

/// Everything about a tool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolReply {
    #[serde(flatten)]
    line: ToolLine,
    /// The whole description, as its server wrote it.
    full_description: String,
    /// What its server declares about its effect.
    annotations: Value,
    /// JSON Schema of its arguments.
    input_schema: Value,
    /// JSON Schema of its result, if its server declares one.
    output_schema: Option<Value>,
    /// Its TypeScript declaration, with what was learned of its results where its server declares nothing.
    types: String,
    /// What was noticed about its results.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

fn learned_types(service: &HttpService) -> Arc<LearnedTypes> {
    service.runner().learned().map(|learned| learned.types()).unwrap_or_default()
}

impl ToolLine {
    fn of(tool: ToolRef<'_>, learned: &LearnedTypes) -> Self {
        ToolLine {
            backend: tool.backend.name().to_owned(),
            tool: tool.tool().name.clone(),
            spelling: tool.spelling(),
            description: one_line(tool.tool().description().unwrap_or_default()),
            signature: known_signature(tool, learned),
            call: ready_call(tool),
        }
    }
}

pub(crate) async fn list(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let text = query.unwrap_or_default();
    let query = Query::parse(&text, &["query", "limit", "after"])?;
    let limit = query.number("limit", 1..=MAX_TOOLS)?.unwrap_or(DEFAULT_TOOLS);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let scope = caller.scope();
    let catalog = service.runner().bridge().catalog();
    let learned = learned_types(&service);
    let line = |tool: ToolRef<'_>| ToolLine::of(tool, &learned);
    let permits = |tool: ToolRef<'_>| scope.permits_tool(tool.backend.name(), &tool.tool().name);
    let total = catalog.tools().filter(|tool| permits(*tool)).count();
    let reply = match query.text("query") {
        Some(task) => {
            let hits = catalog.search_where(task, limit, permits);
            let tools = hits.iter().filter_map(|hit| catalog.tool(&hit.backend, &hit.tool)).map(line).collect();
            let granted = service.runner().functions(&scope);
            let functions = find(&granted, task).into_iter().take(MAX_FUNCTIONS).map(FunctionLine::of).collect();
            ToolsReply { tools, functions, total, next: None }
        }
        None => {
            let after = query.text("after").map(place).transpose()?;
            let is_after =
                |tool: &ToolRef<'_>| after.is_none_or(|after| (tool.backend.name(), tool.tool().name.as_str()) > after);
            let mut rest = catalog.tools().filter(|tool| permits(*tool)).filter(is_after);
            let tools: Vec<ToolLine> = rest.by_ref().take(limit).map(line).collect();
            let next =
                tools.last().filter(|_| rest.next().is_some()).map(|last| format!("{}/{}", last.backend, last.tool));
            ToolsReply { tools, functions: Vec::new(), total, next }
        }
    };
    answer(&service.budget(&caller), &reply)
}

/// A place in the list: `backend/tool`. No backend's name has a slash.
fn place(after: &str) -> Result<(&str, &str), Refusal> {
    after.split_once('/').ok_or_else(|| Refusal::field("/after", "must be `next` of the page before"))
}

pub(crate) async fn describe(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path((backend, tool)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let catalog = service.runner().bridge().catalog();
    let scope = caller.scope();
    let permits = |found: &ToolRef<'_>| scope.permits_tool(found.backend.name(), &found.tool().name);
    let no_such = || Refusal::NoSuch(format!("no such tool: {}.{}", Shown::new(&backend), Shown::new(&tool)));
    let found = catalog.tool(&backend, &tool).filter(permits).ok_or_else(no_such)?;
    let raw = found.tool();
    let learned = learned_types(&service);
    let is_broken = service.runner().learned().is_some_and(|it| it.breaks_its_schema(found.backend.name(), &raw.name));
    let reply = ToolReply {
        line: ToolLine::of(found, &learned),
        note: is_broken.then_some(BREAKS_ITS_SCHEMA),
        full_description: raw.description().unwrap_or_default().to_owned(),
        annotations: raw.raw().get("annotations").cloned().unwrap_or_default(),
        input_schema: raw.input_schema().clone(),
        output_schema: raw.output_schema().cloned(),
        types: types::tool_declaration_with(found, &learned),
    };
    answer(&service.budget(&caller), &reply)
}
