//! Runs programs over the user's tools.
//!
//! # Layout
//! - [`runtime`]: the running whole: configuration, backends, catalog, cache
//! - [`agent`]: what an agent sees: tools, resources, prompts
//! - [`run`]: the one way from a request to a report, on the cheapest path that can answer
//! - [`bridge`]: the one way from a program to a tool
//! - [`approvals`]: how a person is asked about a call
//! - [`stage`]: writes that are reviewed together before any is sent
//! - [`backends`]: supervised MCP servers

#![forbid(unsafe_code)]

pub mod agent;
pub mod approvals;
pub mod backends;
pub mod bridge;
pub mod run;
pub mod runtime;
pub mod stage;
