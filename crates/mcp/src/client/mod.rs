//! Connections to MCP servers: opened in the era the server speaks, over stdio or Streamable HTTP.
//!
//! # Layout
//! - `handshake`: finding out which era a server speaks; [`McpSession`]: one open conversation
//! - `link` is a connection: `stdio` to a child process, `http` to a server; `inbox`: what arrives unasked
//! - `offers`: resources and prompts; `shelf`: their lists, cached
//! - `listening`, `watchlist`: changes of lists and of single resources

mod handshake;
pub mod http;
pub mod inbox;
mod link;
mod listening;
mod offers;
mod session;
mod shelf;
pub mod stdio;
mod watchlist;

pub use handshake::{Ready, ServerInfo};
pub use link::{Link, Wire};
pub use offers::{Offer, Question};
pub use session::{McpSession, ToolName};
pub use shelf::{LONGEST_ID, Offered};
pub use watchlist::{TooMany, Watching, Watchlist};
