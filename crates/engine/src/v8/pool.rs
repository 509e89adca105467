//! V8 workers started ahead of their work: none before the first one is needed, none when nobody needs one.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keeper::{Keeper, Recipe};
use super::worker::{Idle, Ready, Unready};

/// Starts that may fail before a run gives up.
const ATTEMPTS: u32 = 2;
/// Characters of a failed worker's last words that are passed on.
const MAX_SAID: usize = 400;
/// Idle workers are let go when nobody needed one for so long.
const IDLE: Duration = Duration::from_secs(120);

/// Idle workers, oldest first.
pub(crate) struct Pool {
    keeper: Arc<Keeper>,
    shelf: Arc<Mutex<Shelf>>,
    size: usize,
}

#[derive(Default)]
struct Shelf {
    idle: VecDeque<Idle>,
    closed: bool,
}

/// Why a run got no worker.
#[derive(Debug)]
pub(crate) enum NoWorker {
    /// None could be started.
    Start(io::Error),
    /// None was ready in time.
    Late,
}

impl Pool {
    pub(super) fn new(recipe: Recipe, size: usize) -> io::Result<Self> {
        let shelf = Arc::new(Mutex::new(Shelf::default()));
        let idle = shelf.clone();
        let keeper = Keeper::new(recipe, IDLE, move || {
            let unneeded = std::mem::take(&mut lock(&idle).idle);
            // What falls here is reaped by the thread that is running this, as its next task.
            drop(unneeded);
        })?;
        Ok(Pool { keeper: Arc::new(keeper), shelf, size })
    }

    /// A worker, up or on its way up.
    pub(crate) fn next(&self) -> io::Result<Idle> {
        let waiting = lock(&self.shelf).idle.pop_front();
        waiting.map_or_else(|| self.start(), Ok)
    }

    /// A worker that is ready for a program.
    pub(crate) fn take(&self, deadline: Instant) -> Result<Ready, NoWorker> {
        let mut last_words = String::new();
        for _ in 0..ATTEMPTS {
            match self.next().map_err(NoWorker::Start)?.ready(deadline) {
                Ok(ready) => return Ok(ready),
                Err(Unready::Late) => return Err(NoWorker::Late),
                Err(Unready::Ended(words)) => last_words = words,
            }
        }
        let said: String = last_words.trim().chars().take(MAX_SAID).collect();
        Err(NoWorker::Start(io::Error::other(format!("deno ended before it was ready: {said}"))))
    }

    /// Brings the pool back to its size. What fails here fails again, with a reason, when a run needs it.
    pub(crate) fn refill(&self) {
        while self.has_room() {
            match self.start() {
                Ok(idle) => self.put(idle),
                Err(_) => return,
            }
        }
    }

    /// Lets go of all workers.
    pub(crate) fn stop(&self) {
        let idle = {
            let mut shelf = lock(&self.shelf);
            shelf.closed = true;
            std::mem::take(&mut shelf.idle)
        };
        drop(idle);
        self.keeper.stop();
    }

    fn start(&self) -> io::Result<Idle> {
        Idle::new(self.keeper.start()?, self.keeper.clone())
    }

    fn has_room(&self) -> bool {
        let shelf = lock(&self.shelf);
        !shelf.closed && shelf.idle.len() < self.size
    }

    fn put(&self, idle: Idle) {
        let mut shelf = lock(&self.shelf);
        if !shelf.closed {
            shelf.idle.push_back(idle);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
