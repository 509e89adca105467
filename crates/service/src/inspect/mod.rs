//! What people look at: backends, tools, runs of the recent past, counts, rights, rules, layers; a program checked without a
//! run, and a run repeated or forked from its record.
//!
//! Everything is read as the caller may: of backends and tools those of its scope, of runs its own. The page in the
//! browser shows what these routes answer and nothing else.

pub(super) mod backends;
pub(super) mod check;
pub(super) mod doctor;
pub(super) mod events;
pub(super) mod history;
pub(super) mod logins;
pub(super) mod openapi;
pub(super) mod pending;
pub(super) mod policy;
pub(super) mod query;
pub(super) mod record;
pub(super) mod rules;
pub(super) mod run_log;
pub(super) mod stats;
pub(super) mod tools;

use axum::Router;
use axum::routing::{delete, get, post};

pub use check::CheckReply;

use super::HttpService;

/// The routes; all need credentials.
pub(super) fn routes() -> Router<HttpService> {
    Router::new()
        .route("/v1/backends", get(backends::list))
        .route("/v1/backends/{name}/restart", post(backends::restart))
        .route("/v1/backends/{name}/login", post(logins::begin).get(logins::status))
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{backend}/{tool}", get(tools::describe))
        .route("/v1/check", post(check::check))
        .route("/v1/history", get(history::list))
        .route("/v1/history/{executionId}", get(history::read))
        .route("/v1/stats", get(stats::read))
        .route("/v1/pending", get(pending::list))
        .route("/v1/policy", get(policy::read))
        .route("/v1/policy/explain", post(rules::explain))
        .route("/v1/policy/remembered/{id}", delete(rules::forget))
        .route("/v1/runs/{runId}/cassette", get(record::cassette))
        .route("/v1/runs/{runId}/replay", post(record::replay))
        .route("/v1/runs/{runId}/fork", post(record::fork))
        .route("/v1/doctor", get(doctor::read))
        .route("/v1/events", get(events::stream))
}
