//! Runs programs on V8: in an unmodified `deno` with all permissions denied, jailed by the system, that exchanges the
//! same frames with the host as every worker.
//!
//! For programs that compute for long. A worker is one process for one run. Its start takes tens of milliseconds and its
//! process tens of megabytes, so no worker is started before a run needs one.
//!
//! # Layout
//! - `find`: finds deno
//! - `script`: deno's arguments and the worker's JavaScript, which is in `js/`
//! - `parent`: the thread that is the parent of all workers
//! - `pool`: workers started ahead of the runs that will use them
//! - `worker`: the stages of one worker: idle, ready, ended
//! - `watch`: kills a worker that holds more memory than its run may

mod find;
#[cfg(target_os = "linux")]
mod parent;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod script;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod worker;

#[cfg(not(target_os = "linux"))]
mod other;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use toolgate_guest::lockdown::Without;

pub use find::{DENO_VARIABLE, V8Status};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{MemorySize, NoWorker, Pool};
#[cfg(target_os = "linux")]
pub(crate) use {
    parent::MemorySize,
    pool::{NoWorker, Pool},
};

use crate::process::WorkerCommand;
use find::NoDeno;

/// How V8 is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V8Settings {
    /// The deno program; when absent, the one that [`DENO_VARIABLE`] names or the first in `PATH`.
    pub deno: Option<PathBuf>,
    /// Workers started ahead, once a first run needed one.
    pub ahead: usize,
    /// Upper bound of V8's heap in megabytes, also for runs with a higher memory limit.
    pub heap_mb: u64,
    /// Processor time after which a run with [`EngineChoice::Auto`](crate::EngineChoice::Auto) migrates to V8.
    pub move_after: Duration,
}

impl Default for V8Settings {
    fn default() -> Self {
        V8Settings { deno: None, ahead: 1, heap_mb: 1024, move_after: Duration::from_millis(50) }
    }
}

/// Whether programs can run on V8 here, with this deno or the one that is found without it.
///
/// Starts deno to get its version: too slow to call for every run.
pub fn v8_status(deno: Option<&Path>) -> V8Status {
    match find::find(deno) {
        Ok(deno) => match find::version(&deno) {
            Some(version) => V8Status::Available { deno, version },
            None => V8Status::Missing { reason: NoDeno::NotAProgram(deno).to_string() },
        },
        Err(missing) => V8Status::Missing { reason: missing.to_string() },
    }
}

/// The deno that runs on V8 would use, or a sentence that says what is missing. Nothing is started.
pub fn find_deno(deno: Option<&Path>) -> Result<PathBuf, String> {
    find::find(deno).map_err(|missing| missing.to_string())
}

/// The pool of V8 workers, created when it is first needed.
pub(crate) struct V8 {
    settings: V8Settings,
    jail: Option<PathBuf>,
    without: Without,
    found: OnceLock<Result<Pool, String>>,
}

impl V8 {
    pub(crate) fn new(settings: V8Settings, worker: &WorkerCommand, without: Without) -> Self {
        V8 { settings, jail: worker.path().ok(), without, found: OnceLock::new() }
    }

    /// The program that becomes a jail, and the layers that are left off.
    pub(crate) fn jail(&self) -> Option<(&Path, Without)> {
        Some((self.jail.as_deref()?, self.without))
    }

    pub(crate) fn settings(&self) -> &V8Settings {
        &self.settings
    }

    /// The pool, or a sentence that says what is missing. Deno is searched for once.
    pub(crate) fn pool(&self) -> Result<&Pool, &str> {
        self.found.get_or_init(|| self.create()).as_ref().map_err(String::as_str)
    }

    /// Whether there is a deno, and which one.
    pub(crate) fn status(&self) -> V8Status {
        v8_status(self.settings.deno.as_deref())
    }

    /// Ends all workers.
    pub(crate) fn stop(&self) {
        if let Some(Ok(pool)) = self.found.get() {
            pool.stop();
        }
    }

    fn create(&self) -> Result<Pool, String> {
        let deno = find::find(self.settings.deno.as_deref()).map_err(|missing| missing.to_string())?;
        let jail = self.jail().ok_or_else(|| NoDeno::NoJail.to_string())?;
        let pool = Pool::new(jail, &deno, &self.settings);
        pool.map_err(|error| format!("no thread for V8 workers: {error}"))
    }
}
