//! Connects to MCP servers: over stdio or Streamable HTTP, in the era that the server supports.
//!
//! # Layout
//! - `link`: one connection; `stdio` to a child process, `http` to a server, `local` to one in this process
//! - `handshake`: finds out which era a server supports; [`McpSession`]: a connection after the handshake
//! - [`auth`]: OAuth towards servers
//! - `inbox`: notifications and requests that the server sends; `questions`: what a legacy server asks inside a call
//! - `requests`: lists and requests besides tool calls; `list_cache`: the lists, cached
//! - `tool_listing`: the tools that are kept of a list; `tool_changes`: notices tools that changed what they say; `redact`: removes configured secrets from a server's words
//! - `listening`, `watchlist`: notifications about changed lists and changed resources
//!
//! A connection that ends stays closed: whether and when to reconnect is decided by the code that opened it.

pub mod auth;
mod handshake;
pub(crate) mod http;
mod inbox;
mod link;
mod list_cache;
mod listening;
mod local;
mod questions;
pub(crate) mod redact;
mod requests;
mod session;
mod stdio;
mod tool_changes;
mod tool_listing;
mod watchlist;

pub use crate::rpc::{Closing, LinkError, Protocol, RpcError};
pub use handshake::{Ready, ServerInfo};
pub use http::HttpLink;
pub use inbox::Inbox;
pub use link::{Link, Transport};
pub use list_cache::{ItemList, MAX_ID_BYTES};
pub use local::{LocalLink, LocalResult, LocalServer};
pub use redact::Redactor;
pub use requests::{ClientRequest, ListKind};
pub use session::{McpSession, ToolCallOptions, ToolName};
pub use stdio::{InheritedEnv, Launch, SandboxSupport, StderrTail, StdioLink, StdioSandbox};
pub use tool_changes::{ToolChange, ToolFingerprints, ToolPart};
pub use tool_listing::{LeftOutReason, LeftOutTool, LeftOutTools, ToolListing};
pub use watchlist::{TooMany, Watching, Watchlist};
