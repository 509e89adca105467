//! Connects to MCP servers: over stdio or Streamable HTTP, in the era that the server supports.
//!
//! # Layout
//! - `link`: one connection; `stdio` to a child process, `http` to a server, `local` to one in this process
//! - `handshake`: finds out which era a server supports; [`McpSession`]: a connection after the handshake
//! - `inbox`: notifications and requests that the server sends
//! - `requests`: lists and requests besides tool calls; `list_cache`: the lists, cached
//! - `listening`, `watchlist`: notifications about changed lists and changed resources
//!
//! A connection that ends stays closed: whether and when to reconnect is decided by the code that opened it.

mod handshake;
mod http;
mod inbox;
mod link;
mod list_cache;
mod listening;
mod local;
mod requests;
mod session;
mod stdio;
mod watchlist;

pub use crate::rpc::{Closing, LinkError, Protocol, RpcError};
pub use handshake::{Ready, ServerInfo};
pub use http::HttpLink;
pub use inbox::Inbox;
pub use link::{Link, Transport};
pub use list_cache::{ItemList, MAX_ID_BYTES};
pub use local::{LocalLink, LocalResult, LocalServer};
pub use requests::{ClientRequest, ListKind};
pub use session::{McpSession, ToolName};
pub use stdio::{Launch, StderrTail, StdioLink};
pub use watchlist::{TooMany, Watching, Watchlist};
