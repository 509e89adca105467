//! The Model Context Protocol, server side: both eras, over stdio and Streamable HTTP.
//!
//! The door knows the protocol and nothing else; what it offers is a [`Service`]. Messages are
//! raw JSON throughout: what a service answers reaches the client key by key as it was.
//!
//! # Layout
//! - `service`: what an MCP server offers, free of transport and era
//! - `message`: JSON-RPC as a server reads and writes it; `era`: which revision a request is in
//! - `desk`: one request in, one answer out; `offer`, `list`, `call`, `news`: what it answers
//! - `party`: what the requests of one client share; `watched`: the resources it wants to hear of
//! - `stdio`, `http`: how messages come and go
//!
//! It asks nothing of clients: no sampling, no elicitation, no roots, no log messages.

mod call;
mod desk;
mod era;
mod http;
mod list;
mod message;
mod news;
mod offer;
mod outgoing;
mod party;
mod service;
mod stdio;
mod watched;

pub use http::{Authenticate, HttpOptions, Unauthorized, router};
pub use service::{
    Change, Completion, Fault, Identity, News, PromptCall, RequestScope, ResourceCall, Service, ServiceFuture,
    ToolCall, ToolMode, UnknownToolMode, Watch, ready,
};
pub use stdio::serve_stdio;

/// The largest message a client may send, in bytes.
pub const LARGEST_MESSAGE: usize = 16 << 20;
