//! `GET /v1/stats`: what was done since the start, and the caller's last hour minute by minute.

use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::query::Query;
use super::run_log::Minute;
use crate::refusal::Refusal;
use crate::{Caller, HttpService};

/// Counts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatsReply {
    /// Seconds since the start of the service.
    uptime_seconds: u64,
    /// Runs of this caller; of all callers where it has no key.
    runs: u64,
    /// Those that failed.
    runs_failed: u64,
    /// Runs of this caller that have begun and not ended; of all callers where it has no key.
    runs_in_flight: u64,
    /// Calls of tools and functions.
    tool_calls: u64,
    /// Bytes that tools replied and programs returned.
    bytes_processed: u64,
    /// Bytes of them that were sent to callers.
    bytes_returned: u64,
    /// Tokens that stayed out of context windows, at four bytes a token.
    estimated_tokens_saved: u64,
    /// This caller's minutes with a run within the last hour, oldest first.
    minutes: Vec<Minute>,
}

pub(crate) async fn read(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<StatsReply>, Refusal> {
    Query::parse(&query.unwrap_or_default(), &[])?;
    let history = service.runner().history();
    let stats = history.stats(&caller.scope(), None);
    let runs_in_flight = match &caller {
        Caller::Local => history.metrics().counts().in_flight,
        caller => history.metrics().in_flight_of(caller.name()),
    };
    let count = |name: &str| stats.get(name).and_then(Value::as_u64).unwrap_or_default();
    Ok(Json(StatsReply {
        uptime_seconds: count("uptime_seconds"),
        runs: count("runs"),
        runs_failed: count("runs_failed"),
        runs_in_flight,
        tool_calls: count("tool_calls"),
        bytes_processed: count("bytes_processed"),
        bytes_returned: count("bytes_returned"),
        estimated_tokens_saved: count("estimated_tokens_saved"),
        minutes: service.run_log().minutes(caller.name()),
    }))
}
