//! MCP and HTTP doors, the tool catalog, the bridge to backends and the output pipeline.

#![forbid(unsafe_code)]

pub mod backends;
pub mod catalog;
pub mod config;
pub mod functions;
pub mod output;
pub mod store;
