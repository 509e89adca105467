//! A durable run as a recording: `GET /v1/runs/{runId}/cassette`, `POST /v1/runs/{runId}/replay` and `POST
//! /v1/runs/{runId}/fork`.

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_run::durable::RunStatus;

use crate::body::Received;
use crate::durable::checked;
use crate::messages::durable::RunStatusName;
use crate::messages::{RunReply, Whole};
use crate::path::Path;
use crate::refusal::Refusal;
use crate::run::{answer, counted};
use crate::{Caller, HttpService};

/// The media type of cassettes: one JSON object a line.
const CASSETTE: &str = "application/x-ndjson";

/// How a repetition ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayReply {
    /// The id of the run.
    run_id: String,
    /// Whether the report is the recorded one.
    same: bool,
    /// The first field in which it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    /// The report; what is measured is the record's.
    #[schemars(with = "RunReply")]
    report: Box<RawValue>,
}

/// Where a new run goes on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ForkRequest {
    /// How many answered calls of the run are kept, from its beginning; the program makes the others.
    #[schemars(required, with = "u64")]
    from: Option<Whole>,
}

/// A run that was forked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkReply {
    /// The id of the new run.
    run_id: String,
    /// It goes on by itself.
    status: RunStatusName,
    /// The run that it was forked from.
    forked_from: String,
    /// Calls of that run that may have taken effect and are not kept: the new run makes them if its program comes to them.
    left_out: usize,
}

pub(crate) async fn cassette(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let (permit, runs) = (service.waiter_permit(&caller)?, service.runs().await?);
    let (run, name) = (id.clone(), caller.name().to_owned());
    // Kept until the work is done, also for a client that has left.
    let written = tokio::spawn(async move {
        let _permit = permit;
        runs.cassette(&run, Some(&name)).await
    });
    let bytes = written.await.map_err(|error| Refusal::unavailable(error.to_string()))??;
    let name: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let headers = [
        (header::CONTENT_TYPE, CASSETTE.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"run-{name}.jsonl\"")),
        // What a program got and said is for its caller.
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, counted(&service.budget(&caller), bytes)?).into_response())
}

pub(crate) async fn replay(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let _permit = service.waiter_permit(&caller)?;
    let replayed = service.runs().await?.replay(&id, &caller.scope()).await?;
    let same = replayed.difference.is_none();
    let reply = ReplayReply { run_id: id, same, difference: replayed.difference, report: replayed.report };
    answer(&service.budget(&caller), &reply)
}

pub(crate) async fn fork(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    received: Received<ForkRequest>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let Whole(from) = received.value.from.ok_or_else(|| Refusal::missing("/from"))?;
    // More calls than a record can have are refused as too many.
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let _permit = service.waiter_permit(&caller)?;
    let forked = service.runs().await?.fork(&id, Some(&caller.scope()), from).await?;
    let status = RunStatusName(RunStatus::Running);
    let reply = ForkReply { run_id: forked.run, status, forked_from: id, left_out: forked.left_out };
    Ok((StatusCode::ACCEPTED, answer(&service.budget(&caller), &reply)?).into_response())
}
