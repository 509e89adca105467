//! Describes the service: index, functions, OpenAPI document, health and readiness.
//!
//! Health says that the process answers; readiness, that programs run. Neither needs a key.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::Value;
use tokio::sync::Mutex;

use super::admission::Peer;
use super::messages::{HealthReply, IndexReply, ReadyReply};
use super::refusal::Refusal;
use super::{Caller, HttpService, openapi};
use crate::rpc_sessions::AuthoriseError;
use toolgate_functions::docs;

/// The least time between two probes of the engine; requests in between get the last result.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How long the probe program may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn functions(State(service): State<HttpService>, Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(docs::as_json(&service.runner().functions(&caller.scope())))
}

pub(super) async fn openapi(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    peer: Peer,
) -> Json<Value> {
    let keyed = service.rules().requires_credentials(peer);
    Json(openapi::document(service.runner(), &caller, keyed))
}

/// Where to read on, for a person or a program that found only the address.
pub(super) async fn index() -> Json<IndexReply> {
    Json(IndexReply {
        service: "toolgate",
        documentation: "docs/HTTP.md",
        openapi: "/v1/openapi.json",
        health: "/healthz",
        readiness: "/readyz",
        mcp: "/mcp",
    })
}

pub(super) async fn healthz() -> Json<HealthReply> {
    Json(HealthReply { status: "ok" })
}

pub(super) async fn readyz(State(service): State<HttpService>) -> Result<Json<ReadyReply>, Refusal> {
    if service.shutdown().begin.is_cancelled() {
        return Err(Refusal::unavailable("shutting down"));
    }
    if !service.health().engine_runs(&service).await {
        return Err(Refusal::unavailable("the engine cannot run programs"));
    }
    // A lookup of an id that does not exist shows whether the store replies.
    let sessions = match service.sessions().authorise("", "", "").await {
        Ok(_) | Err(AuthoriseError::Refused) => "ok",
        Err(AuthoriseError::Store(_)) => "unavailable",
    };
    Ok(Json(ReadyReply { status: "ready", sessions }))
}

/// The result of the last probe, and its time.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<(Instant, bool)>>);

impl Health {
    /// Whether a run succeeds, or succeeded within the interval. Concurrent requests share one probe.
    async fn engine_runs(&self, service: &HttpService) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, runs)) = *known
            && at.elapsed() < PROBE_INTERVAL
        {
            return runs;
        }
        let runs = service.runner().probe(PROBE_TIMEOUT).await.value().is_ok();
        *known = Some((Instant::now(), runs));
        runs
    }
}
