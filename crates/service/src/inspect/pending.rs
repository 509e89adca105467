//! `GET /v1/pending`: what waits for a decision of the caller, also in runs of others.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_run::durable::{PendingView, WaitingRun, WaitingRuns};

use super::query::Query;
use crate::durable::cursor;
use crate::messages::durable::PendingReply;
use crate::refusal::Refusal;
use crate::run::answer;
use crate::{Caller, HttpService};

/// Runs of one reply.
pub(super) const MAX_RUNS: u64 = 200;
const DEFAULT_RUNS: u64 = 50;

/// The runs that wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PendingRunsReply {
    /// The newest first.
    runs: Vec<PendingRun>,
    /// Where the next page begins, for `before`; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A run that waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingRun {
    /// Its id.
    run_id: String,
    /// Whose run it is: the name of a key; empty for the user of this machine.
    caller: String,
    /// When it began, in milliseconds since 1970.
    began_at: u64,
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The calls that the caller may decide about, by `POST /v1/runs/{runId}/decisions`.
    #[schemars(with = "Vec<PendingReply>")]
    pending: Vec<PendingView>,
}

impl From<WaitingRun> for PendingRun {
    fn from(it: WaitingRun) -> Self {
        let WaitingRun { summary, code, pending } = it;
        PendingRun { run_id: summary.run, caller: summary.caller, began_at: summary.began, code, pending }
    }
}

pub(crate) async fn list(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let text = query.unwrap_or_default();
    let query = Query::parse(&text, &["limit", "before"])?;
    let limit = query.number("limit", 1..=MAX_RUNS)?.unwrap_or(DEFAULT_RUNS);
    let before = query.text("before").map(cursor).transpose()?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let _permit = service.waiter_permit(&caller)?;
    let waiting = service.runs().await?.waiting_for(Some(caller.name()), before, most).await?;
    let WaitingRuns { runs, next } = waiting;
    let next = next.map(|(began, run)| format!("{began}-{run}"));
    answer(&service.budget(&caller), &PendingRunsReply { runs: runs.into_iter().map(PendingRun::from).collect(), next })
}
