//! The Model Context Protocol (MCP) in both eras, over stdio and Streamable HTTP: a server and a client.
//!
//! Messages stay raw JSON. A decoder that guesses a result's type from its keys drops the keys it does not know; here the
//! request determines what its result is, and the result is passed on key by key as it was sent.
//!
//! # Layout
//! - [`protocol`]: revisions, `_meta` keys, header names, error codes
//! - `json_text`: JSON that stays text, and the bounded way to a tree; `buffer`: bounded and counted bytes of a peer
//! - `rpc`: JSON-RPC messages of the client side, and the requests that wait for a reply
//! - [`result`]: from the envelope of a tool result to its value
//! - `interaction`: progress, and input that a server requests from a client
//! - `origin`: which client a request comes from, and which trace it belongs to
//! - `framing`: JSON lines of a stdio connection; `headers`: HTTP headers that repeat parts of a message
//! - [`server`]: serves MCP clients; what is served is a [`server::Service`]
//! - [`client`]: connects to MCP servers
//! - `fuzzing`: entry points of fuzz targets, with the feature of that name
//!
//! This crate has no policy and no catalog, invents no tool names, and never repeats a call that a server may have executed.

#![forbid(unsafe_code)]

mod buffer;
pub mod client;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod headers;
mod interaction;
mod json_text;
mod origin;
pub mod protocol;
pub mod result;
mod rpc;
pub mod server;

pub use buffer::process_budget;
pub use interaction::{InteractiveClient, Progress};
pub use json_text::{JsonText, NotJson, TreeError, bounded_tree, off_runtime, tree_bytes};
pub use origin::{RequestOrigin, TraceContext};
