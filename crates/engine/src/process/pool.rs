//! Workers forked ahead of their work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::worker::{Idle, Ready};
use super::zygote::{StartError, Zygote};
use crate::pump::Lost;

/// Forks that may fail before a run gives up.
const ATTEMPTS: u32 = 4;

/// Idle workers, oldest first.
pub(crate) struct Pool {
    zygote: Arc<Zygote>,
    idle: Mutex<VecDeque<Idle>>,
    size: usize,
}

/// Why a run got no worker.
#[derive(Debug)]
pub(crate) enum NoWorker {
    /// None could be started.
    Start(StartError),
    /// None was ready in time.
    Late,
}

impl Pool {
    pub(crate) fn new(zygote: Arc<Zygote>, size: usize) -> Self {
        Pool { zygote, idle: Mutex::default(), size }
    }

    /// A worker that is ready for a program. One whose fork failed or whose zygote died is replaced.
    pub(crate) fn take(&self, deadline: Instant) -> Result<Ready, NoWorker> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let waiting = self.lock().pop_front();
            let idle = match waiting {
                Some(idle) => idle,
                None => self.fork().map_err(NoWorker::Start)?,
            };
            match idle.ready(&self.zygote, deadline) {
                Ok(ready) => return Ok(ready),
                Err(Lost::Deadline) => return Err(NoWorker::Late),
                Err(lost) => failure = Some(lost),
            }
        }
        Err(NoWorker::Start(std::io::Error::other(format!("workers end before they are ready: {failure:?}")).into()))
    }

    /// Brings the pool back to its size. What fails here fails again, with a reason, when a run needs it.
    pub(crate) fn refill(&self) {
        while self.lock().len() < self.size {
            match self.fork() {
                Ok(idle) => self.lock().push_back(idle),
                Err(_) => return,
            }
        }
    }

    /// Lets go of all idle workers and of the zygote.
    pub(crate) fn stop(&self) {
        self.lock().clear();
        self.zygote.stop();
    }

    fn fork(&self) -> Result<Idle, StartError> {
        Idle::new(self.zygote.fork()?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
