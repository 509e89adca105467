//! The MCP door from outside: raw JSON over real pipes and sockets, in both eras.

mod client;
mod demo;
mod http;
mod http_rules;
mod peer;
mod service;
mod stdio;
mod stdio_rules;
