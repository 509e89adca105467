//! The settings of an engine.

use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::runtime::Handle;
use toolgate_guest::lockdown::{Reuse, Without};

use super::runs::{EngineState, Executor};
use super::{Engine, EngineChoice, IsolationMode, MigrationTarget};
use crate::migrate::{KnownPrograms, RacePolicy};
use crate::oom::OomCounters;
use crate::process::{Pool, StartError, WorkerCommand, Zygote};
use crate::shared_core::cores_of_thread;
use crate::turns::TurnQueue;
use crate::v8::{V8, V8Settings};

/// Forks of one zygote before the next one is started, if not set.
const FORKS_PER_ZYGOTE: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);

/// Settings for a new [`Engine`].
#[derive(Debug, Clone)]
pub struct EngineBuilder {
    isolation: IsolationMode,
    engine: EngineChoice,
    v8: V8Settings,
    target: MigrationTarget,
    race: RacePolicy,
    worker: WorkerCommand,
    without: Without,
    reuse: Reuse,
    concurrent: usize,
    waiting: usize,
    ahead: usize,
    forks: NonZeroU32,
}

impl Default for EngineBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        EngineBuilder {
            isolation: IsolationMode::default(),
            engine: EngineChoice::default(),
            v8: V8Settings::default(),
            target: MigrationTarget::default(),
            race: RacePolicy::default(),
            worker: WorkerCommand::default(),
            without: Without::default(),
            reuse: Reuse::default(),
            concurrent: (2 * cores).max(8),
            waiting: 1024,
            ahead: 4,
            forks: FORKS_PER_ZYGOTE,
        }
    }
}

impl EngineBuilder {
    /// Process or thread.
    pub fn isolation(self, isolation: IsolationMode) -> Self {
        EngineBuilder { isolation, ..self }
    }

    /// The interpreter of runs that do not choose one.
    pub fn engine(self, engine: EngineChoice) -> Self {
        EngineBuilder { engine, ..self }
    }

    /// How V8 is used.
    pub fn v8(self, v8: V8Settings) -> Self {
        EngineBuilder { v8, ..self }
    }

    /// The interpreter that a run of [`EngineChoice::Auto`] migrates to.
    pub fn migrates_to(self, target: MigrationTarget) -> Self {
        EngineBuilder { target, ..self }
    }

    /// When both workers of a run that migrates go on.
    pub fn race(self, race: RacePolicy) -> Self {
        EngineBuilder { race, ..self }
    }

    /// The program that is started as the zygote.
    pub fn worker_command(self, worker: WorkerCommand) -> Self {
        EngineBuilder { worker, ..self }
    }

    /// Turns isolation layers off, for diagnosis. An engine without seccomp refuses every run.
    pub fn without(self, without: Without) -> Self {
        EngineBuilder { without, ..self }
    }

    /// Whether a worker may be used for another run of the same [caller](crate::Request::caller), after the host has put it
    /// back from outside. See `docs/SECURITY.md` for what differs from a fresh process.
    pub fn reuse(self, reuse: Reuse) -> Self {
        EngineBuilder { reuse, ..self }
    }

    /// Runs that execute at one time.
    pub fn max_concurrent_runs(self, concurrent: usize) -> Self {
        EngineBuilder { concurrent: concurrent.max(1), ..self }
    }

    /// Runs that may wait in the queue.
    pub fn max_waiting_runs(self, waiting: usize) -> Self {
        EngineBuilder { waiting, ..self }
    }

    /// Workers forked ahead; with zero, a worker is forked when a run needs one.
    pub fn workers_ahead(self, ahead: usize) -> Self {
        EngineBuilder { ahead, ..self }
    }

    /// Workers that are forked from one zygote, and so share its address space layout, before the next one takes its place.
    pub fn forks_per_zygote(self, forks: NonZeroU32) -> Self {
        EngineBuilder { forks, ..self }
    }

    /// Makes the engine. Must be called inside a tokio runtime, which executes host calls that wait.
    pub fn build(self) -> Result<Engine, StartError> {
        let v8 = V8::new(self.v8, &self.worker, self.without);
        let executor = match self.isolation {
            IsolationMode::Process => {
                let zygote = Zygote::new(self.worker, self.without, self.reuse, self.forks)?;
                Executor::Process(Pool::new(zygote, self.ahead, self.reuse)?)
            }
            IsolationMode::Thread => Executor::Thread,
        };
        let runtime = Handle::try_current().map_err(|error| StartError::Io(std::io::Error::other(error)))?;
        let queue = TurnQueue::new(self.concurrent, self.waiting);
        let disposed = false.into();
        Ok(Engine(Arc::new(EngineState {
            executor,
            v8,
            engine: self.engine,
            target: self.target,
            race: self.race,
            programs: KnownPrograms::default(),
            queue,
            runtime,
            disposed,
            oom: OomCounters::new(),
            cores: cores_of_thread(),
        })))
    }
}
