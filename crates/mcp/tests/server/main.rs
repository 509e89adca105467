//! The MCP door from outside: raw JSON over real pipes and sockets, in both eras.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod demo;
mod http;
mod http_rules;
mod peer;
mod questions;
mod service;
mod stdio;
mod stdio_rules;
