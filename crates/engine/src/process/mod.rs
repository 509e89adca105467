//! One fresh, isolated process per run.
//!
//! # Layout
//! - `zygote`: the process that workers are forked from, and the thread that is the parent of all of them
//! - `pool`: workers forked ahead of the runs that will use them
//! - `worker`: the stages of one worker: idle, ready, ended

mod pool;
mod worker;
mod zygote;

pub(crate) use pool::{NoWorker, Pool};
pub(crate) use worker::{MigrationRequest, ProcessEnd};
pub(crate) use zygote::Zygote;
pub use zygote::{StartError, WorkerCommand};
