//! One isolated process per run: a fresh one, or one of the same caller that was put back from outside.
//!
//! # Layout
//! - `command`: the program that is started as the zygote, and why a run gets no worker
//! - `request`: what a run asks of its worker; `end`: how its process ended
//! - `zygote`: the process that workers are forked from, and the thread that is the parent of all of them
//! - `pool`: workers forked ahead of the runs that will use them
//! - `worker`: the stages of one worker: idle, ready, used, ended
//! - `reuse`: workers that are put back after a run and kept for the same caller
//! - `other`: systems without worker processes

mod command;
mod end;
mod request;

#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod reuse;
#[cfg(target_os = "linux")]
mod worker;
#[cfg(target_os = "linux")]
mod zygote;
#[cfg(target_os = "linux")]
pub(crate) use {pool::Pool, zygote::Zygote};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Pool, Zygote};

pub(crate) use command::NoWorker;
pub use command::{StartError, WorkerCommand};
pub(crate) use end::ProcessEnd;
pub(crate) use request::{MigrationRequest, ReuseKey};
