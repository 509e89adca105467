//! Checks the types of a program before its first call, by the user's own TypeScript 7.
//!
//! One `tsc` runs as a language server in a jail, with no network, no execution and no files but its own. It is given the
//! declarations of what the program names and the program itself, both as open documents. What it finds is judged: what is
//! certainly wrong stops the run, the rest is a warning or nothing. A run never waits for longer than a budget.
//!
//! # Layout
//! - [`find`](mod@find): the compiler that is used, or what is missing
//! - `frame`, `process`: messages of the language server, and the jailed process that speaks them
//! - `library`: the declarations of the language, as one document
//! - `server`: the thread that owns the process, its open documents and its restarts
//! - `checker`: what a run asks, with its budget and the answers of before
//! - `judge`: from a checker's findings to what is certain
//!
//! It knows no runs, no configuration and no policy.

#![forbid(unsafe_code)]

mod checker;
pub mod find;
mod frame;
mod judge;
mod library;
mod process;
mod server;

pub use checker::{CheckResult, TypeChecker, Unchecked};
pub use find::{Compiler, NoCompiler, TSC_VARIABLE};
pub use judge::{Judged, TypeFinding};
pub use process::JailCommand;
