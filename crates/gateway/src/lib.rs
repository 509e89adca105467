//! The running whole: the user's configuration, backends, catalog and runs, and what an agent sees of them.
//!
//! # Layout
//! - [`runtime`]: starts, reloads and ends everything, and records what happens
//! - [`agent`]: what an agent sees: tools, resources, prompts
//!
//! A run itself is [`toolgate_run`]'s, a call of a tool [`toolgate_bridge`]'s, a server [`toolgate_backends`]'s.

#![forbid(unsafe_code)]

pub mod agent;
pub mod runtime;
