//! `POST /v1/check`: what a program would call and what is wrong with that, without running it.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_plan::{Arguments, Finding, PlannedCall, Position};
use toolgate_run::{Door, ProgramCheck, Route, RunRequest, TYPE_CHECK_TIMEOUT};
use toolgate_wire::{Failure, Profile};

use crate::body::Received;
use crate::refusal::Refusal;
use crate::run::answer;
use crate::{Caller, HttpService};

/// A program to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// TypeScript or JavaScript, as for a run.
    #[schemars(required, with = "String")]
    code: Option<String>,
}

/// What is known of a program without running it: the answer of `POST /v1/check` and of `toolgate check --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReply {
    /// Whether nothing must go wrong.
    ok: bool,
    /// The route that it would take.
    path: &'static str,
    /// The tool calls in the order of the text.
    calls: Vec<CheckedCall>,
    /// What certainly fails.
    errors: Vec<Problem>,
    /// What probably fails.
    warnings: Vec<Problem>,
    /// Whether its types were checked. They are where it names a tool or a function.
    types_checked: bool,
    /// Why they were not.
    types_not_checked: Option<String>,
}

/// A call in a program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedCall {
    /// `backend.tool`
    name: String,
    /// The backend, by its own name.
    backend: String,
    /// The tool, by its own name.
    tool: String,
    /// The arguments; null where they are known when the program runs.
    arguments: Option<Value>,
    /// The line, from one.
    line: Option<u32>,
    /// The column, from one.
    column: Option<u32>,
}

/// Something wrong in a program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// The kind.
    code: String,
    /// One sentence.
    message: String,
    /// The line, from one.
    line: Option<u32>,
    /// The column, from one.
    column: Option<u32>,
    /// What to do instead.
    suggestion: Option<String>,
}

impl Problem {
    fn at(code: &str, message: String, position: Option<Position>, suggestion: Option<String>) -> Self {
        let (line, column) = (position.map(|at| at.line), position.map(|at| at.column));
        Problem { code: code.to_owned(), message, line, column, suggestion }
    }
}

impl From<Finding> for Problem {
    fn from(it: Finding) -> Self {
        Problem::at(it.code.as_str(), it.message, Some(it.position), it.suggestion)
    }
}

impl From<Failure> for Problem {
    fn from(it: Failure) -> Self {
        Problem::at(it.code.name(), it.message, it.position, it.hint)
    }
}

impl From<PlannedCall> for CheckedCall {
    fn from(it: PlannedCall) -> Self {
        let (line, column) = (it.position.map(|at| at.line), it.position.map(|at| at.column));
        let arguments = match it.arguments {
            Arguments::Known(value) => Some(value),
            Arguments::Partial { .. } | Arguments::Unknown => None,
        };
        let name = format!("{}.{}", it.backend, it.tool);
        CheckedCall { name, backend: it.backend, tool: it.tool, arguments, line, column }
    }
}

pub(crate) async fn check(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    received: Received<CheckRequest>,
) -> Result<Response, Refusal> {
    let code = received.value.code.ok_or_else(|| Refusal::missing("/code"))?;
    let _permit = service.check_permit(&caller).await?;
    let request = RunRequest { caller: caller.scope(), door: Door::Http, ..RunRequest::new(Profile::Chain, code) };
    let runner = service.runner();
    let route = runner.route(&request);
    let reply = CheckReply::new(runner.check_types(&request, TYPE_CHECK_TIMEOUT).await, route);
    answer(&service.budget(&caller), &reply)
}

impl CheckReply {
    /// What a check found in a program that would take this route.
    pub fn new(checked: Result<ProgramCheck, Failure>, route: Route) -> Self {
        let problems = |findings: Vec<Finding>| findings.into_iter().map(Problem::from).collect::<Vec<_>>();
        let path = route.name();
        match checked {
            Ok(ProgramCheck { preflight: found, not_checked }) => CheckReply {
                ok: found.errors.is_empty(),
                path,
                calls: found.calls.into_iter().map(CheckedCall::from).collect(),
                errors: problems(found.errors),
                warnings: problems(found.warnings),
                types_checked: not_checked.is_none(),
                types_not_checked: not_checked.map(|why| why.to_string()),
            },
            Err(failure) => CheckReply {
                ok: false,
                path,
                calls: Vec::new(),
                errors: vec![Problem::from(failure)],
                warnings: Vec::new(),
                types_checked: false,
                types_not_checked: None,
            },
        }
    }
}
