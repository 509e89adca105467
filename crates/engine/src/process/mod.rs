//! One fresh, confined process per run.
//!
//! # Layout
//! - `zygote`: the process that workers are forks of, kept alive by a thread of its own
//! - `pool`: workers forked ahead of their work
//! - `worker`: one worker's life, from idle to reaped

mod pool;
mod worker;
mod zygote;

pub(crate) use pool::{NoWorker, Pool};
pub(crate) use worker::{Ended, Moves};
pub(crate) use zygote::Zygote;
pub use zygote::{StartError, WorkerCommand};
