//! Serves MCP clients: both eras, over stdio and Streamable HTTP.
//!
//! This module knows the protocol only; what is served is a [`Service`]. Messages are raw JSON throughout: the result of a
//! service reaches the client key by key as it was.
//!
//! # Layout
//! - `service`: what an MCP server offers, independent of transport and era
//! - `message`: JSON-RPC messages from clients; `server_message`: those to clients; `era`: the revision of a request
//! - `dispatcher`: from one request to one reply; `handshake`, `list`, `call`, `change_notices`: parts of it
//! - `observed`: what a service is told of each request
//! - `client`: state that the requests of one client share; `watched_resources`: the resources it subscribed to
//! - `questions`: results that request input, for clients of revisions in which the server asks
//! - `stdio`, `http`: the transports; `standard_streams`: the streams of this process for the first of them
//!
//! Of requests to clients the server sends `elicitation/create` to legacy clients that declare it, and no other (sampling, roots);
//! it sends no log messages.

mod call;
mod change_notices;
mod client;
mod dispatcher;
mod era;
mod handshake;
mod http;
mod list;
pub(crate) mod message;
mod observed;
mod questions;
mod server_message;
mod service;
mod standard_streams;
mod stdio;
mod watched_resources;

pub use http::{HostGuard, HostGuardError, HttpOptions, router};
pub use observed::{BegunRequest, RequestEnd, RequestRecord, RequestTarget};
pub use service::{
    Change, ChangeNotice, Completion, Fault, Identity, PromptCall, RequestScope, ResourceCall, Service, ServiceAnswer,
    ServiceFuture, TASKS_EXTENSION, TaskCall, TaskRequest, ToolCall, ToolMode, UnknownToolMode, Watch, ready,
};
pub use standard_streams::{standard_input, standard_output};
pub use stdio::serve_stdio;

/// The largest message a client may send, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// The bytes of messages, as text and as trees, that one client may have in flight.
const MAX_CLIENT_BYTES: usize = 128 << 20;
