//! How the outside comes in: one module per protocol, none of which knows how anything is done.

pub mod http;
pub mod mcp;
