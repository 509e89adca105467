//! The HTTP service: runs programs, computes over data, lends functions over a WebSocket, and serves the RPC bridge for
//! code that runs elsewhere.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/run` | runs a program; with profile `chain` (the default) or `snippet` |
//! | `POST /v1/compute` | applies a function to data |
//! | `GET /v1/run/ws` | the same as `/v1/run`, with functions that the caller implements |
//! | `POST /v1/runs`, `GET /v1/runs` | begins a durable run; lists the caller's |
//! | `GET /v1/runs/{runId}`, `DELETE /v1/runs/{runId}` | shows a durable run, waits for it; ends it |
//! | `GET /v1/runs/{runId}/events` | what happens in a durable run, as server-sent events |
//! | `POST /v1/runs/{runId}/decisions` | decides calls that wait for a person |
//! | `GET /v1/results/{id}` | reads a result of which an answer showed only a part |
//! | `GET /v1/functions` | lists the functions that the caller's programs may use |
//! | `POST /v1/sessions`, `DELETE /v1/sessions/{id}` | opens and ends a session of the RPC bridge |
//! | `POST /rpc/{executionId}/{fnName}` | calls a function in a session, with the session's token |
//! | `GET /`, `/v1/openapi.json`, `/healthz`, `/readyz` | describes the service, and its health |
//! | `GET /metrics` | counters for monitoring |
//! | `GET /v1/backends`, `/v1/tools`, `/v1/history`, `/v1/stats`, `/v1/policy`, `/v1/doctor`, `/v1/events`; `POST /v1/check` | what people look at |
//! | `GET /` for a browser, `/page/…` | the page that shows it |
//! | `GET /.well-known/oauth-protected-resource` | where clients log in, if an OAuth issuer is configured |
//!
//! A program gets the built-in and configured functions that its `functions` list names (all without a list) and its
//! key allows. A limit in the configuration is also the most that a caller may request.
//!
//! # Layout
//! - `service`: [`HttpService`], its routes and limits; [`Shutdown`]: how it is stopped
//! - [`doors`]: MCP over stdio, and MCP beside the HTTP service on one listener
//! - `server`: [`listen`] and [`serve`]: connections, slow clients, graceful shutdown
//! - `admission`, `caller`, `local_token`, `resource_server` with `issuer_keys`, `failed_keys`: who may send requests; `stream_right`: until when a stream of theirs lasts; `refusal`: every error response
//! - `path`, `body`, `messages`, `limits`, `trace`: requests and replies; `measured_json`: replies counted before they are written; `caller_permits`: bounds that callers share
//! - `run`, `durable`, `results`, `rpc`, `websocket`, `status`, `openapi`, `metrics`: the endpoints; [`rpc_sessions`]: sessions of the RPC bridge and their stores
//! - `inspect`: the routes that people look at; `page`: the page in the browser and who is signed in to it
//!
//! The service runs nothing itself: every program goes to `run`.

#![forbid(unsafe_code)]

mod admission;
mod body;
mod caller;
mod caller_permits;
pub mod doors;
mod durable;
mod failed_keys;
mod inspect;
mod issuer_keys;
mod limits;
mod local_token;
mod measured_json;
mod messages;
mod metrics;
mod openapi;
mod page;
mod path;
mod refusal;
mod resource_server;
mod results;
mod rpc;
pub mod rpc_sessions;
mod run;
mod server;
mod service;
mod status;
mod stream_right;
mod trace;
mod websocket;

pub use caller::Caller;
pub use inspect::CheckReply;
pub use local_token::{LocalToken, LocalTokenError};
pub use resource_server::TokenCaller;
pub use server::{Listener, ServerLimits, UnixSocket, listen, listen_unix, serve};
pub use service::{AdmissionRules, HttpService, ServiceLimits, ServiceParts, Shutdown};
