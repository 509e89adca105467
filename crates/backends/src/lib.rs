//! The user's MCP servers: started, watched, spoken to in the era they speak.
//!
//! # Layout
//! - [`spec`](BackendSpec): what the user asked for; [`state`](BackendState): where a backend is in its life
//! - [`call`](CallOptions): one call and every way it can end
//! - [`set`](Backends): all backends; [`backend`](Backend): the handle to one; `supervisor`: starts and restarts it
//! - `lists`: resources and prompts, listed, read and watched
//! - `login`: how a backend logs in; `missing_login`: whether an API lacks its login
//! - `openapi`: an HTTP API with an OpenAPI document as a backend; `api_login`: the token of a login in its requests
//!
//! Connections and the protocol are [`toolgate_mcp::client`]'s. Nothing here knows policy, names for scripts, or retries of
//! calls that a backend may have served.

#![forbid(unsafe_code)]

mod api_login;
mod backend;
mod call;
mod lists;
mod login;
mod missing_login;
mod openapi;
mod set;
mod spec;
mod state;
mod supervisor;

pub use backend::Backend;
pub use call::{CallError, CallOptions, CallReply, Effect, LoginReason, ReplyMode, WhenUnready};
pub use lists::WatchError;
pub use login::LoginSpec;
pub use login::quoted;
pub use openapi::{ApiSpec, DocumentSource, fetch_document, fetch_metadata};
pub use set::Backends;
pub use spec::{BackendKind, BackendSpec, KnownTools, Probe, StartTime};
pub use state::log_not_started;
pub use state::{BackendChange, BackendEvent, BackendState, BackendStats};
