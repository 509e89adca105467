//! `GET /v1/history`: the caller's runs of the recent past, by whichever door. `GET /v1/history/{executionId}`: one of them whole.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::query::Query;
use super::run_log::{Filter, RunLine};
use crate::path::Path;
use crate::refusal::{Refusal, Shown};
use crate::run::answer;
use crate::{Caller, HttpService};

/// Runs of one reply.
pub(super) const MAX_RUNS: u64 = 1_000;
const DEFAULT_RUNS: u64 = 100;
/// The largest number of a run that a query may name.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Runs of the recent past.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryReply<'a> {
    /// Newest first.
    #[schemars(with = "Vec<RunLine>")]
    runs: Vec<&'a RunLine>,
    /// How many fit the filter; at most 10,000 are remembered.
    total: usize,
    /// `before` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// One run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryRunReply<'a> {
    #[serde(flatten)]
    line: &'a RunLine,
    /// The program, at most 64 KB of it; `null` for a call without one.
    code: Option<&'a str>,
    /// The report as it was answered; without a value that is too large, and `null` if it is too large itself.
    #[schemars(with = "Option<Map<String, Value>>")]
    report: Option<&'a RawValue>,
    /// When each call of the report began, in milliseconds from the start; empty where that is not known.
    call_starts: &'a [f64],
}

pub(crate) async fn list(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let text = query.unwrap_or_default();
    let query = Query::parse(&text, &["limit", "before", "door", "outcome", "search"])?;
    let limit = query.number("limit", 1..=MAX_RUNS)?.unwrap_or(DEFAULT_RUNS);
    let filter = Filter {
        before: query.number("before", 0..=MAX_NUMBER)?,
        door: query.text("door"),
        outcome: query.text("outcome"),
        text: query.text("search").map(str::to_lowercase),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (runs, total) = service.run_log().list(&caller.scope(), &filter, limit);
    let next = runs.last().filter(|_| runs.len() == limit).map(|last| last.number);
    let runs = runs.iter().map(|line| &**line).collect();
    answer(&service.budget(&caller), &HistoryReply { runs, total, next })
}

pub(crate) async fn read(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let no_such = || Refusal::NoSuch(format!("no such run, or it is too long ago: {}", Shown::new(&id)));
    let run = service.run_log().get(&caller.scope(), &id).ok_or_else(no_such)?;
    let reply = HistoryRunReply {
        line: &run.line,
        code: run.text.as_deref(),
        report: run.report.as_deref(),
        call_starts: &run.starts,
    };
    answer(&service.budget(&caller), &reply)
}
