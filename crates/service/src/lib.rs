//! The HTTP service: run code, compute over data, lend functions over a WebSocket, and the RPC bridge for code that
//! runs elsewhere.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/run` | runs a program; with profile `chain` (the default) or `snippet` |
//! | `POST /v1/compute` | applies a function to data |
//! | `GET /v1/run/ws` | the same as `/v1/run`, with functions that the caller lends |
//! | `GET /v1/functions` | the functions that the caller's programs may use |
//! | `POST /v1/sessions`, `DELETE /v1/sessions/{id}` | opens and ends a session of the RPC bridge |
//! | `POST /rpc/{executionId}/{fnName}` | calls a function in a session, with the session's token |
//! | `GET /v1/openapi.json`, `/healthz`, `/readyz` | about the service itself |
//!
//! A program gets the built-in and configured functions that its `functions` list names (all without a list) and its
//! key allows. Tools of MCP backends are there for programs of profile `chain` whose key grants backends; without keys
//! there are none. A limit in the configuration is also the most that a caller may ask for.
//!
//! # Layout
//! - [`Service`]: what stands behind the door; [`Ending`]: how it is closed
//! - [`listen`], [`serve`]: sockets: how many, how slow, how they end
//! - `gate`, `caller`: who is let in; `refusal`: how the others are told
//! - `body`, `messages`, `limits`: what comes in and goes out
//! - `run`, `sessions`, `socket`, `about`, `openapi`: the endpoints

#![forbid(unsafe_code)]

mod about;
mod body;
mod caller;
mod gate;
mod limits;
mod messages;
mod openapi;
mod refusal;
pub mod rpc_sessions;
mod run;
pub mod serve;
mod server;
mod service;
mod sessions;
mod socket;

pub use caller::Caller;
pub use server::{ServerLimits, listen, serve};
pub use service::{Ending, Parts, Rules, Service, ServiceLimits};
