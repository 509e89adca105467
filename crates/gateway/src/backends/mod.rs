//! The user's MCP servers: started, watched, spoken to in the era they speak.
//!
//! # Layout
//! - [`spec`](BackendSpec): what the user asked for; [`state`](BackendState): where a backend is in its life.
//! - [`call`](CallOptions): one call and every way it can end; [`unwrap`]: from its result to a value.
//! - [`offers`](Offer): resources and prompts, listed and asked for; [`shelf`](Offered): their lists, kept.
//! - [`set`](Backends) owns all backends; [`backend`](Backend) is the handle to one; `supervisor` leads its
//!   life; `queue` decides who is next.
//! - `listening`: what is told unasked; [`watchlist`](Watching): the resources that clients want to hear of.
//! - `session` is a conversation; `protocol` its opening words in either era; `rpc` and `inbox` what is said.
//! - `link` is a connection: `stdio` to a child process, `http` to a server.
//!
//! The protocol is spoken here in raw JSON and not through rmcp's client: its decoder guesses a
//! result's type from its keys and drops what it does not know. From rmcp come the protocol's
//! names and numbers; none of its types leaves this module. Nothing here knows policy, names for
//! scripts, or retries of calls that a backend may have served.

mod backend;
mod call;
pub(crate) mod http;
mod inbox;
mod link;
mod listening;
mod offers;
pub(crate) mod protocol;
pub(crate) mod queue;
pub(crate) mod rpc;
mod session;
mod set;
mod shelf;
mod spec;
mod state;
pub(crate) mod stdio;
mod supervisor;
pub mod unwrap;
mod watchlist;

pub use backend::Backend;
pub use call::{CallError, CallOptions, Effect, Partner, Progress, Reply, Taker, WhenUnready};
pub use offers::{Offer, Question, WatchError};
pub use set::{Backends, Changes};
pub(crate) use shelf::LONGEST_ID;
pub use shelf::Offered;
pub use spec::{BackendKind, BackendSpec, Probe, ToolFilter};
pub use state::{BackendEvent, BackendNews, BackendState, BackendStats, Era, Ready, ServerInfo};
pub use unwrap::ToolFault;
pub use watchlist::Watching;
