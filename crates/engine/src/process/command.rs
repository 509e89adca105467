//! The program that is started as the zygote, and why a run gets no worker.

use std::io;
use std::path::PathBuf;

/// Why no worker process can be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be started again as a worker.
    #[error(
        "this program cannot be started again as a worker: call take_over_if_asked() first in main, \
         or name a worker command"
    )]
    NotPrepared,
    /// The program called `take_over_if_asked()` when it had threads already.
    #[error(
        "take_over_if_asked() was called when this program had other threads already, as in the body of a #[tokio::main] \
         function: call it first in a plain fn main and start the runtime after it, or use \
         #[tokio::main(flavor = \"current_thread\")], or name a worker command"
    )]
    PreparedLate,
    /// This system has no sandbox for worker processes.
    #[error("worker processes need Linux; `--isolation thread` runs programs on threads")]
    System,
    /// The system refused.
    #[error("the worker process could not be started: {0}")]
    Io(#[from] io::Error),
}

/// The program that is started as the zygote.
#[derive(Debug, Clone, Default)]
pub enum WorkerCommand {
    /// This one, which must have called `take_over_if_asked()` first in `main`.
    #[default]
    ThisProgram,
    /// Another program that does so.
    Program(PathBuf),
}

impl WorkerCommand {
    pub(crate) fn path(&self) -> Result<PathBuf, StartError> {
        if cfg!(not(target_os = "linux")) {
            return Err(StartError::System);
        }
        match self {
            WorkerCommand::Program(path) => Ok(path.clone()),
            WorkerCommand::ThisProgram if toolgate_guest::was_called_late() => Err(StartError::PreparedLate),
            WorkerCommand::ThisProgram if toolgate_guest::can_take_over() => Ok("/proc/self/exe".into()),
            WorkerCommand::ThisProgram => Err(StartError::NotPrepared),
        }
    }
}

/// Why a run got no worker.
#[derive(Debug)]
pub(crate) enum NoWorker {
    /// None could be started.
    Start(StartError),
    /// None was ready before the deadline.
    Late,
}
