//! MCP and HTTP doors, the tool catalog, the bridge to backends and the output pipeline.
//!
//! # Layout
//! - [`doors`]: how the outside comes in
//! - [`front`]: the doors of one gateway, opened together
//! - [`agent`]: what an agent sees: tools, resources, prompts
//! - [`gateway`]: the life of it all: configuration, backends, catalog, cache
//! - [`chain`]: one text from an agent, run on the cheapest road
//! - [`bridge`]: the one way from a program to a tool
//! - [`catalog`]: what tools there are: names, search, types, cache
//! - [`backends`]: connections to MCP servers
//! - [`functions`]: host functions and guarded HTTP
//! - [`output`]: what comes back, shaped for a context window
//! - [`store`]: results and sessions that outlive a request
//! - [`config`]: the user's file, raw and checked
//! - [`demo`]: a small MCP server of our own, to try everything with

#![forbid(unsafe_code)]

pub mod agent;
pub mod backends;
pub mod bridge;
pub mod catalog;
pub mod chain;
pub mod config;
pub mod demo;
pub mod doors;
pub mod front;
pub mod functions;
pub mod gateway;
pub mod output;
pub mod store;
