//! What the service says of itself: its functions, its document, its health.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::Value;
use tokio::sync::Mutex;
use toolgate_engine::ComputeOptions;
use toolgate_wire::LimitRequest;

use super::messages::{HealthReply, ReadyReply};
use super::refusal::Refusal;
use super::{Caller, Service, openapi};
use crate::rpc_sessions::AuthoriseError;
use toolgate_functions::docs;

/// How long an answer about the engine holds: whoever asks more often costs no more runs.
const FRESH: Duration = Duration::from_secs(2);
/// How long the engine may take for next to nothing.
const PROBE: Duration = Duration::from_secs(2);

pub(super) async fn functions(State(service): State<Service>, Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(docs::as_json(&service.runner().functions(&caller.scope())))
}

pub(super) async fn openapi(State(service): State<Service>, Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(openapi::document(service.runner(), &caller))
}

pub(super) async fn healthz() -> Json<HealthReply> {
    Json(HealthReply { status: "ok" })
}

pub(super) async fn readyz(State(service): State<Service>) -> Result<Json<ReadyReply>, Refusal> {
    if service.ending().begin.is_cancelled() {
        return Err(Refusal::unavailable("shutting down"));
    }
    if !service.health().engine_runs(&service).await {
        return Err(Refusal::unavailable("the engine runs nothing"));
    }
    // A look-up of nobody says whether the store answers.
    let sessions = match service.sessions().authorise("", "", "").await {
        Ok(_) | Err(AuthoriseError::Refused) => "ok",
        Err(AuthoriseError::Store(_)) => "unavailable",
    };
    Ok(Json(ReadyReply { status: "ready", sessions }))
}

/// What is known of the engine, and since when.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<(Instant, bool)>>);

impl Health {
    /// Whether a run succeeds, or did a moment ago. One probe at a time, however many ask.
    async fn engine_runs(&self, service: &Service) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, runs)) = *known
            && at.elapsed() < FRESH
        {
            return runs;
        }
        let limits = LimitRequest { wall: Some(PROBE), ..LimitRequest::default() };
        let options = ComputeOptions { limits, ..ComputeOptions::default() };
        let runs = service.runner().engine().compute("() => 1", "null", options).await.value().is_ok();
        *known = Some((Instant::now(), runs));
        runs
    }
}
