//! Runs untrusted JavaScript and TypeScript in a fresh, isolated process.
//!
//! A program that lends one function to the code that it runs:
//!
//! ```no_run
//! use std::sync::Arc;
//! use toolgate_engine::wire::Profile;
//! use toolgate_engine::{Engine, Functions, HostError, Request, take_over_if_asked};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First in `main`, before any thread exists: the engine starts this same program again for its workers. In the
//!     // body of a `#[tokio::main]` function it would be too late.
//!     take_over_if_asked();
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let engine = Engine::new()?;
//!         let functions = Functions::new().with("double", |args| async move {
//!             let number = args[0].as_f64().ok_or_else(|| HostError::new("NO_NUMBER", "double takes a number"))?;
//!             Ok((number * 2.0).into())
//!         });
//!         let code = "const all: number[] = await Promise.all([1, 2, 3].map((n) => double(n))); return all";
//!         let request = Request { host: Arc::new(functions), ..Request::new(Profile::Chain, code) };
//!         let report = engine.run(request).await;
//!         println!("{}", report.value().map_or("it failed", |value| value.get())); // [2,4,6]
//!         Ok(())
//!     })
//! }
//! ```
//!
//! [`Engine::compute`] runs one pure function over data. A [`Request`] has limits, data, a [`CancellationToken`] and an
//! [`Observer`]; the [report](wire::Report) has the one outcome, the console, the calls with what is known of their
//! effects, and what it cost. An `Err` of the engine means that it could not start, never that a program failed.
//!
//! # Layout
//! - [`Engine`]: takes a [`Request`] and returns a report; `queue` waits for a run's turn;
//!   [`TurnQueue`] limits how many jobs run at one time, fair to callers
//! - [`host`]: the host functions and tools that a program may call
//! - `source`: compiles the user's text, and maps positions back to it
//! - `pump`: drives one worker and checks everything that it sends; `socket` reads its frames, `outbox` sends frames to
//!   it, `wake` wakes the pump for one, `ledger` records its calls, `timers` are its timers, `cancel` ends it
//! - [`transcript`]: records the messages of a run, and repeats them on another worker
//! - `migrate`: moves a run from one worker to another while it goes on; `clock` reads a worker's processor time
//! - `process`, `thread`, `v8`: where workers run; `refill` starts workers ahead
//! - `outcome`: from the end of a worker to the one outcome of its run; `oom`: who killed a worker
//! - [`Observer`]: watches a run
//! - [`delegation`]: descriptions and errors of tools that run a model's code, for embedders that publish such tools

#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "workers are processes on Linux only"))]

mod call_replies;
mod cancel;
mod clock;
pub mod delegation;
mod engine;
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
#[cfg_attr(not(target_os = "linux"), path = "shared_core_other.rs")]
mod shared_core;
mod socket;
mod source;
mod thread;
mod timers;
pub mod transcript;
mod turns;
mod v8;
#[cfg_attr(not(target_os = "linux"), path = "wake_other.rs")]
mod wake;
mod with_runtime;

pub use engine::{
    ComputeOptions, Engine, EngineBuilder, EngineChoice, IsolationMode, MigrationTarget, Request, UnknownEngine,
};
pub use host::{Functions, Host, HostCall, HostError, HostFuture, HostLayer, RepeatedCall};
pub use migrate::RacePolicy;
pub use observer::Observer;
pub use process::{StartError, WorkerCommand};
pub use tokio_util::sync::CancellationToken;
pub use toolgate_guest::{FOLDER_JAIL, lockdown::Reuse, lockdown::Without, take_over_if_asked};
pub use toolgate_plan::{Violation, validate_code};
pub use toolgate_wire as wire;
pub use turns::{NoPermit, Permit, TurnLoan, TurnQueue};
pub use v8::{DENO_VARIABLE, V8Settings, V8Status, find_deno, v8_status};
pub use with_runtime::EngineWithRuntime;
