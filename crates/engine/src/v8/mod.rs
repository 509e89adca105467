//! Programs on V8: a stock `deno`, all permissions denied and jailed by the system, that speaks the
//! same frames as every worker.
//!
//! For heavy computation. A worker is one process for one run, started ahead; it costs tens of
//! milliseconds and megabytes, which is why nothing is started before the first run needs it.
//!
//! # Layout
//! - `find`: where deno is
//! - `script`: what a worker is started with; `js/` is its program
//! - `keeper`: the thread that is every worker's parent
//! - `pool`: workers started ahead of their work
//! - `worker`: one worker's life, from idle to reaped
//! - `watch`: the memory that it holds, seen from outside

mod find;
mod keeper;
mod pool;
mod script;
mod watch;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use toolgate_guest::lockdown::Without;

pub use find::{DENO_VARIABLE, V8Status};
pub(crate) use keeper::Size;
pub(crate) use pool::{NoWorker, Pool};

use crate::process::WorkerCommand;
use find::NoDeno;
use keeper::Recipe;

/// How V8 is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V8Settings {
    /// The deno program; found by the variable [`DENO_VARIABLE`] or on the search path when absent.
    pub deno: Option<PathBuf>,
    /// Workers started ahead once the first was needed.
    pub ahead: usize,
    /// Megabytes that V8's heap may grow to, whatever a run's own limit is.
    pub heap_mb: u64,
    /// Processor time after which a run that may move does.
    pub move_after: Duration,
}

impl Default for V8Settings {
    fn default() -> Self {
        V8Settings { deno: None, ahead: 1, heap_mb: 1024, move_after: Duration::from_millis(50) }
    }
}

/// Whether programs can be run on V8 here, with the deno of this setting or the one that is found without it.
///
/// Starts deno to ask for its version, so not for every run.
pub fn v8_status(deno: Option<&Path>) -> V8Status {
    match find::find(deno) {
        Ok(deno) => match find::version(&deno) {
            Some(version) => V8Status::Available { deno, version },
            None => V8Status::Missing { reason: NoDeno::NotAProgram(deno).to_string() },
        },
        Err(missing) => V8Status::Missing { reason: missing.to_string() },
    }
}

/// V8 workers, if there is a deno.
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

    pub(crate) fn settings(&self) -> &V8Settings {
        &self.settings
    }

    /// The workers, or the sentence that says what is missing. Looked for once, when first needed.
    pub(crate) fn pool(&self) -> Result<&Pool, &str> {
        self.found.get_or_init(|| self.look()).as_ref().map_err(String::as_str)
    }

    /// Whether there is a deno, and which.
    pub(crate) fn status(&self) -> V8Status {
        v8_status(self.settings.deno.as_deref())
    }

    /// Lets go of all workers.
    pub(crate) fn stop(&self) {
        if let Some(Ok(pool)) = self.found.get() {
            pool.stop();
        }
    }

    fn look(&self) -> Result<Pool, String> {
        let deno = find::find(self.settings.deno.as_deref()).map_err(|missing| missing.to_string())?;
        let jail = self.jail.clone().ok_or_else(|| NoDeno::NoJail.to_string())?;
        let pool = Pool::new(self.recipe(jail, &deno), self.settings.ahead);
        pool.map_err(|error| format!("no thread for V8 workers: {error}"))
    }

    fn recipe(&self, jail: PathBuf, deno: &Path) -> Recipe {
        Recipe { jail, deno: deno.to_owned(), without: self.without, max_heap: self.settings.heap_mb.max(16) }
    }
}
