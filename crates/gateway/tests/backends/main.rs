//! Backends against servers that behave well, and against servers that do not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod faults;
mod fixture;
mod http;
mod lifecycle;
mod openapi;
#[cfg(target_os = "linux")]
mod sandbox;
mod server;
