//! V8 workers started ahead of their work: none before the first one is needed, none when nobody needs one.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keeper::{Keeper, Recipe, Size};
use super::worker::{Idle, Ready, Unready};
use crate::moving::{Coming, Second};
use crate::porter::Porter;

/// Sizes of run for which workers are kept at one time.
const SIZES: usize = 3;
/// Starts that may fail before a run gives up.
const ATTEMPTS: u32 = 2;
/// Characters of a failed worker's last words that are passed on.
const MAX_SAID: usize = 400;
/// Idle workers are let go when nobody needed one for so long.
const IDLE: Duration = Duration::from_secs(120);

/// Idle workers, and the thread that brings new ones.
pub(crate) struct Pool {
    stock: Stock,
    porter: Porter<Size>,
}

/// Idle workers, oldest first.
#[derive(Clone)]
struct Stock {
    keeper: Arc<Keeper>,
    shelf: Arc<Mutex<Shelf>>,
    size: usize,
}

#[derive(Default)]
struct Shelf {
    idle: VecDeque<(Size, Idle)>,
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
        let stock = Stock { keeper: Arc::new(keeper), shelf, size };
        let porter = Porter::new("toolgate-porter-v8", {
            let stock = stock.clone();
            move |size| stock.refill(size)
        })?;
        Ok(Pool { stock, porter })
    }

    /// A worker for runs of a size, up or on its way up.
    pub(crate) fn next(&self, size: Size) -> io::Result<Idle> {
        let waiting = lock(&self.stock.shelf).take(size);
        waiting.map_or_else(|| self.stock.start(size), Ok)
    }

    /// A second worker for a run that may move. It goes back on the shelf when the run ends without it.
    pub(crate) fn second(&self, size: Size) -> io::Result<Box<dyn Coming>> {
        let Stock { shelf, size: ahead, .. } = &self.stock;
        Ok(Box::new(Lent { idle: Some(self.next(size)?), size, shelf: shelf.clone(), most: ahead * SIZES }))
    }

    /// A worker that is ready for a program.
    pub(crate) fn take(&self, size: Size, deadline: Instant) -> Result<Ready, NoWorker> {
        let mut last_words = String::new();
        for _ in 0..ATTEMPTS {
            match self.next(size).map_err(NoWorker::Start)?.ready(deadline) {
                Ok(ready) => return Ok(ready),
                Err(Unready::Late) => return Err(NoWorker::Late),
                Err(Unready::Ended(words)) => last_words = words,
            }
        }
        let said: String = last_words.trim().chars().take(MAX_SAID).collect();
        Err(NoWorker::Start(io::Error::other(format!("deno ended before it was ready: {said}"))))
    }

    /// Has workers started for the next runs of this size.
    pub(crate) fn refill(&self, size: Size) {
        self.porter.call(size);
    }

    /// Lets go of all workers.
    pub(crate) fn stop(&self) {
        let idle = {
            let mut shelf = lock(&self.stock.shelf);
            shelf.closed = true;
            std::mem::take(&mut shelf.idle)
        };
        self.porter.stop();
        drop(idle);
        self.stock.keeper.stop();
    }
}

impl Stock {
    /// What fails here fails again, with a reason, when a run needs it.
    fn refill(&self, size: Size) {
        while lock(&self.shelf).wants(size, self.size) {
            let Ok(idle) = self.start(size) else { return };
            let unneeded = lock(&self.shelf).put(size, idle, self.size * SIZES);
            drop(unneeded);
        }
    }

    fn start(&self, size: Size) -> io::Result<Idle> {
        Idle::new(self.keeper.start(size)?, self.keeper.clone(), size)
    }
}

/// A worker that a run may need.
struct Lent {
    idle: Option<Idle>,
    size: Size,
    shelf: Arc<Mutex<Shelf>>,
    most: usize,
}

impl Coming for Lent {
    fn has_spoken(&mut self) -> bool {
        self.idle.as_mut().is_some_and(Idle::has_spoken)
    }

    fn ready(mut self: Box<Self>, deadline: Instant) -> Option<Box<dyn Second>> {
        let ready = self.idle.take()?.ready(deadline).ok().filter(|ready| ready.layers().seccomp)?;
        Some(Box::new(ready))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(idle) = self.idle.take() {
            let unneeded = lock(&self.shelf).put(self.size, idle, self.most);
            drop(unneeded);
        }
    }
}

impl Shelf {
    fn take(&mut self, size: Size) -> Option<Idle> {
        let at = self.idle.iter().position(|(of, _)| *of == size)?;
        self.idle.remove(at).map(|(_, idle)| idle)
    }

    fn wants(&self, size: Size, ahead: usize) -> bool {
        !self.closed && self.idle.iter().filter(|(of, _)| *of == size).count() < ahead
    }

    /// Keeps the worker; gives back one that has to go for it.
    fn put(&mut self, size: Size, idle: Idle, most: usize) -> Option<Idle> {
        if self.closed {
            return Some(idle);
        }
        self.idle.push_back((size, idle));
        if self.idle.len() > most { self.idle.pop_front().map(|(_, idle)| idle) } else { None }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
