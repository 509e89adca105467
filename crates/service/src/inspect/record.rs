//! A durable run as a recording: `GET /v1/runs/{runId}/cassette` and `POST /v1/runs/{runId}/replay`.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::durable::checked;
use crate::messages::RunReply;
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

pub(crate) async fn cassette(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let (permit, runs) = (service.waiter_permit()?, service.runs().await?);
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
    Ok((headers, counted(service.budget(), bytes)?).into_response())
}

pub(crate) async fn replay(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let _permit = service.waiter_permit()?;
    let replayed = service.runs().await?.replay(&id, &caller.scope()).await?;
    let same = replayed.difference.is_none();
    let reply = ReplayReply { run_id: id, same, difference: replayed.difference, report: replayed.report };
    answer(service.budget(), &reply)
}
