//! The real binary on a machine with a fault: it says what is wrong, and goes on where it can; and among hostile servers and
//! clients: what they cost its own process is bounded (`bar`).
//!
//! Faults are made for one process: file systems in a mount namespace of its own, limits, closed streams, a seccomp filter
//! that is inherited, a library that changes the clock. Nothing of the machine itself is changed.

#![cfg(target_os = "linux")]

mod bar;
mod client;
mod clock;
mod config;
#[path = "../../../engine/tests/support/deno.rs"]
mod deno;
mod files;
mod home;
mod hostile_clients;
mod hostile_programs;
mod hostile_servers;
mod kernel;
mod memory;
mod streams;
