//! The Model Context Protocol in both eras, over stdio and Streamable HTTP: a server and a client.
//!
//! Messages are raw JSON throughout. A decoder that guesses a result's type from its keys drops what it does not know;
//! here the request says what its answer is, and the answer is passed on key by key as it came.
//!
//! # Layout
//! - [`protocol`]: names and numbers of the protocol; [`rpc`]: JSON-RPC messages as they are on the wire
//! - [`result`]: from the envelope of a tool result to its value
//! - `framing`: lines of a stdio connection; `headers`: HTTP headers that repeat parts of a message
//! - [`server`]: what clients connect to
//! - [`client`]: connections to servers
//!
//! Deliberately absent: policy, names for scripts, retries of calls that a server may have served.

#![forbid(unsafe_code)]

pub mod client;
mod framing;
mod headers;
mod interaction;
pub mod protocol;
pub mod result;
pub mod rpc;
pub mod server;

pub use interaction::{InteractiveClient, Progress};
