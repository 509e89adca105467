//! V8 workers that are started ahead of the runs that will use them.
//!
//! The first worker is started when a run needs one; idle workers are ended when no run needed one for a while.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_guest::lockdown::Without;
use toolgate_wire::foreign_text::clipped;

use super::V8Settings;
use super::parent::{MemorySize, ParentThread, WorkerSpec};
use super::worker::{Idle, Ready, Unready};
use crate::migrate::{PendingWorker, TargetWorker};
use crate::refill::{ANSWER_HEAD_START, RefillThread};

/// Smallest upper bound of V8's heap, in megabytes.
const MIN_HEAP_MB: u64 = 16;
/// Memory sizes for which idle workers are kept at one time.
const MAX_SIZES: usize = 3;
/// Starts that may fail before a run gives up.
const MAX_ATTEMPTS: u32 = 2;
/// Characters of a failed worker's standard error that a message shows.
const MAX_STDERR_SHOWN: usize = 400;
/// Idle workers are ended when no run needed one for so long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Idle workers, and the thread that starts new ones.
pub(crate) struct Pool {
    idle: IdleWorkers,
    refill_thread: RefillThread<MemorySize>,
}

/// Idle workers, oldest first.
#[derive(Clone)]
struct IdleWorkers {
    parent: Arc<ParentThread>,
    queue: Arc<Mutex<IdleQueue>>,
    /// Workers of one size that are started ahead.
    ahead: usize,
}

#[derive(Default)]
struct IdleQueue {
    workers: VecDeque<(MemorySize, Idle)>,
    closed: bool,
}

/// Why a run got no worker.
#[derive(Debug)]
pub(crate) enum NoWorker {
    /// None could be started.
    Start(io::Error),
    /// None was ready before the deadline.
    Late,
}

impl Pool {
    /// `jail` is the program that becomes a jail, and the layers that are left off.
    pub(super) fn new(jail: (&Path, Without), deno: &Path, settings: &V8Settings) -> io::Result<Self> {
        let (jail, without) = (jail.0.to_owned(), jail.1);
        let (deno, max_heap) = (deno.to_owned(), settings.heap_mb.max(MIN_HEAP_MB));
        let (spec, ahead) = (WorkerSpec { jail, deno, without, max_heap }, settings.ahead);
        let queue = Arc::new(Mutex::new(IdleQueue::default()));
        let unused = queue.clone();
        let parent = ParentThread::new(spec, IDLE_TIMEOUT, move || {
            let workers = std::mem::take(&mut unused.lock().workers);
            // A dropped worker is reaped by the thread that runs this closure, as its next task.
            drop(workers);
        })?;
        let idle = IdleWorkers { parent: Arc::new(parent), queue, ahead };
        let refill_thread = RefillThread::new("toolgate-refill-v8", ANSWER_HEAD_START, {
            let idle = idle.clone();
            move |size| idle.refill(size)
        })?;
        Ok(Pool { idle, refill_thread })
    }

    /// A worker for runs of a size; it may still be starting.
    pub(crate) fn next(&self, size: MemorySize) -> io::Result<Idle> {
        let idle = self.idle.queue.lock().take(size);
        idle.map_or_else(|| self.idle.start(size), Ok)
    }

    /// The target of a migration. It returns to the pool when the run ends before it migrates.
    pub(crate) fn target(&self, size: MemorySize) -> io::Result<Box<dyn PendingWorker>> {
        let IdleWorkers { queue, ahead, .. } = &self.idle;
        Ok(Box::new(BorrowedWorker { idle: Some(self.next(size)?), size, queue: queue.clone(), ahead: *ahead }))
    }

    /// A worker that is ready for a program.
    pub(crate) fn take(&self, size: MemorySize, deadline: Instant) -> Result<Ready, NoWorker> {
        let mut stderr = String::new();
        for _ in 0..MAX_ATTEMPTS {
            match self.next(size).map_err(NoWorker::Start)?.ready(deadline) {
                Ok(ready) => return Ok(ready),
                Err(Unready::Late) => return Err(NoWorker::Late),
                Err(Unready::Ended(printed)) => stderr = printed,
            }
        }
        let shown = clipped(stderr.trim(), MAX_STDERR_SHOWN);
        Err(NoWorker::Start(io::Error::other(format!("deno ended before it was ready: {shown}"))))
    }

    /// Starts workers for the next runs of this size in the background.
    pub(crate) fn refill(&self, size: MemorySize) {
        self.refill_thread.request(size);
    }

    /// Ends all workers.
    pub(crate) fn stop(&self) {
        let workers = {
            let mut queue = self.idle.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.workers)
        };
        self.refill_thread.stop();
        drop(workers);
        self.idle.parent.stop();
    }
}

impl IdleWorkers {
    /// Ignores a failed start: a run that needs a worker tries again and reports the reason.
    fn refill(&self, size: MemorySize) {
        while self.queue.lock().needs(size, self.ahead) {
            let Ok(idle) = self.start(size) else { return };
            let surplus = self.queue.lock().put(size, idle, self.ahead);
            drop(surplus);
        }
    }

    fn start(&self, size: MemorySize) -> io::Result<Idle> {
        Idle::new(self.parent.start(size)?, self.parent.clone(), size)
    }
}

/// A worker that a run may migrate to; returns to the pool when it was not used.
struct BorrowedWorker {
    idle: Option<Idle>,
    size: MemorySize,
    queue: Arc<Mutex<IdleQueue>>,
    ahead: usize,
}

impl PendingWorker for BorrowedWorker {
    fn has_input(&mut self) -> bool {
        self.idle.as_mut().is_some_and(Idle::has_input)
    }

    fn ready(mut self: Box<Self>, deadline: Instant) -> Option<Box<dyn TargetWorker>> {
        let ready = self.idle.take()?.ready(deadline).ok().filter(|ready| ready.layers().seccomp)?;
        Some(Box::new(ready))
    }
}

impl Drop for BorrowedWorker {
    fn drop(&mut self) {
        if let Some(idle) = self.idle.take() {
            let surplus = self.queue.lock().put(self.size, idle, self.ahead);
            drop(surplus);
        }
    }
}

impl IdleQueue {
    fn take(&mut self, size: MemorySize) -> Option<Idle> {
        let at = self.workers.iter().position(|(of, _)| *of == size)?;
        self.workers.remove(at).map(|(_, idle)| idle)
    }

    /// Whether there are fewer than `ahead` workers of a size.
    fn needs(&self, size: MemorySize, ahead: usize) -> bool {
        !self.closed && self.workers.iter().filter(|(of, _)| *of == size).count() < ahead
    }

    /// Adds a worker; returns one that must be ended because there are too many, or because the pool has stopped.
    fn put(&mut self, size: MemorySize, idle: Idle, ahead: usize) -> Option<Idle> {
        if self.closed {
            return Some(idle);
        }
        self.workers.push_back((size, idle));
        if self.workers.len() > ahead * MAX_SIZES { self.workers.pop_front().map(|(_, idle)| idle) } else { None }
    }
}
