//! Runs untrusted JavaScript and TypeScript in a fresh, confined process.
//!
//! # Layout
//! - [`Engine`]: takes a [`Request`], gives a report; the queue in front of it is `queue`
//! - [`host`]: what a program may call
//! - `source`: from the user's text to a worker's, and positions back
//! - `pump`: drives one worker, believing nothing it says; `socket` and `outbox` are the way from and to it,
//!   `ledger` is what it called, `timers` what it waits for
//! - `moving`: from one worker to another while the run goes on
//! - `process`, `thread`, `v8`: where workers come from; `porter` brings the next ones
//! - `judge`: from a worker's end to the one outcome; `hints`: what to use instead of what is not there
//! - [`Cancel`], [`Observer`]: how a caller stops and watches a run
//! - [`delegation`]: descriptions and errors for models, for embedders who publish tools

#![forbid(unsafe_code)]

mod cancel;
mod clock;
pub mod delegation;
mod engine;
mod hints;
pub mod host;
pub mod inspect;
mod judge;
mod ledger;
mod moving;
mod observer;
mod oom;
mod outbox;
mod porter;
mod process;
mod pump;
mod queue;
mod socket;
mod source;
mod thread;
mod timers;
mod v8;
mod with_runtime;

pub use engine::{ComputeOptions, Engine, EngineBuilder, EngineChoice, IsolationMode, Request, UnknownEngine};
pub use host::{Functions, Host, HostCall, HostError, HostFuture};
pub use observer::Observer;
pub use process::{StartError, WorkerCommand};
pub use tokio_util::sync::CancellationToken;
pub use toolgate_guest::{lockdown::Without, take_over_if_asked};
pub use toolgate_plan::{Violation, validate_code};
pub use toolgate_wire as wire;
pub use v8::{DENO_VARIABLE, V8Settings, V8Status, v8_status};
pub use with_runtime::EngineWithRuntime;
