//! One isolated process per run: a fresh one, or one of the same caller that was put back from outside.
//!
//! # Layout
//! - `zygote`: the process that workers are forked from, and the thread that is the parent of all of them
//! - `pool`: workers forked ahead of the runs that will use them
//! - `worker`: the stages of one worker: idle, ready, used, ended
//! - `reuse`: workers that are put back after a run and kept for the same caller

mod pool;
mod reuse;
mod worker;
mod zygote;

pub(crate) use pool::{NoWorker, Pool};
pub(crate) use reuse::ReuseKey;
pub(crate) use worker::{MigrationRequest, ProcessEnd};
pub(crate) use zygote::{FORKS_PER_ZYGOTE, Zygote};
pub use zygote::{StartError, WorkerCommand};
