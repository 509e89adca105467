//! Runs untrusted JavaScript and TypeScript in a fresh, isolated process.
//!
//! # Layout
//! - [`Engine`]: takes a [`Request`] and returns a report; `queue` waits for a run's turn;
//!   [`TurnQueue`] limits how many jobs run at one time, fair to callers
//! - [`host`]: the host functions and tools that a program may call
//! - `source`: compiles the user's text, and maps positions back to it
//! - `pump`: drives one worker and checks everything that it sends; `socket` reads its frames, `outbox` sends frames to
//!   it, `ledger` records its calls, `timers` are its timers, `cancel` ends it
//! - [`transcript`]: records the messages of a run, and repeats them on another worker
//! - `migrate`: moves a run from one worker to another while it goes on; `clock` reads a worker's processor time
//! - `process`, `thread`, `v8`: where workers run; `refill` starts workers ahead
//! - `outcome`: from the end of a worker to the one outcome of its run; `hints`: what to use instead of a missing global;
//!   `oom`: who killed a worker
//! - [`Observer`]: watches a run
//! - [`delegation`]: descriptions and errors of tools that run a model's code, for embedders that publish such tools

#![forbid(unsafe_code)]

mod cancel;
mod clock;
pub mod delegation;
mod engine;
mod hints;
pub mod host;
pub mod inspect;
mod ledger;
mod migrate;
mod observer;
mod oom;
mod outbox;
mod outcome;
mod process;
mod pump;
mod queue;
mod refill;
mod socket;
mod source;
mod thread;
mod timers;
pub mod transcript;
mod turns;
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
pub use turns::{NoPermit, Permit, TurnQueue};
pub use v8::{DENO_VARIABLE, V8Settings, V8Status, find_deno, v8_status};
pub use with_runtime::EngineWithRuntime;
