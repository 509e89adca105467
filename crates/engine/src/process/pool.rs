//! Workers forked ahead of their work.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use toolgate_guest::Pace;

use super::worker::{Idle, Ready, Understudy};
use super::zygote::{StartError, Zygote};
use crate::moving::Coming;
use crate::porter::Porter;
use crate::pump::Lost;

/// Forks that may fail before a run gives up.
const ATTEMPTS: u32 = 4;
/// How long the end of an engine waits for a worker whose fork is still under way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Idle workers, and the thread that brings new ones.
pub(crate) struct Pool {
    stock: Arc<Stock>,
    porter: Porter<()>,
}

/// Idle workers, oldest first.
struct Stock {
    zygote: Arc<Zygote>,
    shelf: Mutex<Shelf>,
    size: usize,
    cores: usize,
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
    Start(StartError),
    /// None was ready in time.
    Late,
}

impl Pool {
    pub(crate) fn new(zygote: Arc<Zygote>, size: usize) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stock = Arc::new(Stock { zygote, shelf: Mutex::default(), size, cores });
        let porter = Porter::new("toolgate-porter", {
            let stock = stock.clone();
            move |()| stock.refill()
        })?;
        let pool = Pool { stock, porter };
        pool.refill();
        Ok(pool)
    }

    /// A worker that is ready for a program. One whose fork failed or whose zygote died is replaced.
    pub(crate) fn take(&self, deadline: Instant) -> Result<Ready, NoWorker> {
        let ready = |idle: Idle| idle.ready(&self.stock.zygote, deadline);
        // Those forked ahead may have lost their zygote all at once, so they count as no attempt.
        while let Some(idle) = self.next_idle() {
            match ready(idle) {
                Ok(ready) => return Ok(ready),
                Err(Lost::Deadline) => return Err(NoWorker::Late),
                Err(_) => {}
            }
        }
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            match ready(self.stock.fork(Pace::Now).map_err(NoWorker::Start)?) {
                Ok(ready) => return Ok(ready),
                Err(Lost::Deadline) => return Err(NoWorker::Late),
                Err(lost) => failure = Some(lost),
            }
        }
        Err(NoWorker::Start(io::Error::other(format!("workers end before they are ready: {failure:?}")).into()))
    }

    /// A second worker for a run that has one, to rehearse a move.
    pub(crate) fn understudy(&self) -> io::Result<Box<dyn Coming>> {
        let idle = match self.next_idle() {
            Some(idle) => idle,
            None => self.stock.fork(Pace::Now).map_err(io::Error::other)?,
        };
        Ok(Box::new(Understudy { idle, zygote: self.stock.zygote.clone() }))
    }

    /// Has the pool brought back to its size: after a run, since a fork during one would slow it down.
    pub(crate) fn refill(&self) {
        if self.stock.size > 0 {
            self.porter.call(());
        }
    }

    /// Lets go of all idle workers and of the zygote.
    pub(crate) fn stop(&self) {
        let idle = {
            let mut shelf = self.stock.lock();
            shelf.closed = true;
            std::mem::take(&mut shelf.idle)
        };
        self.porter.stop();
        idle.into_iter().for_each(|idle| self.stock.discard(idle));
        self.stock.zygote.stop();
    }

    fn next_idle(&self) -> Option<Idle> {
        let (idle, left) = {
            let mut shelf = self.stock.lock();
            (shelf.idle.pop_front(), shelf.idle.len())
        };
        // Long runs do not come back soon, so the pool does not wait for their end when it runs low.
        if left < self.stock.size.div_ceil(2) {
            self.refill();
        }
        idle
    }
}

impl Stock {
    /// What fails here fails again, with a reason, when a run needs it.
    fn refill(&self) {
        while self.has_room() {
            match self.fork(self.pace()) {
                Ok(idle) => self.put(idle),
                Err(_) => return,
            }
        }
    }

    /// A rehearsal is for quiet moments: with more runs than cores it would cost them more than it saves the next.
    fn pace(&self) -> Pace {
        if self.zygote.at_work.others() > self.cores { Pace::Now } else { Pace::Ahead }
    }

    fn fork(&self, pace: Pace) -> Result<Idle, StartError> {
        Idle::new(self.zygote.fork(pace)?)
    }

    fn has_room(&self) -> bool {
        let shelf = self.lock();
        !shelf.closed && shelf.idle.len() < self.size
    }

    fn put(&self, idle: Idle) {
        let mut shelf = self.lock();
        if shelf.closed {
            drop(shelf);
            self.discard(idle);
        } else {
            shelf.idle.push_back(idle);
        }
    }

    /// A worker is known by its process once it has said hello; only then can it be waited for.
    fn discard(&self, idle: Idle) {
        drop(idle.ready(&self.zygote, Instant::now() + PATIENCE));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
