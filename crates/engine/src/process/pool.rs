//! Workers that are forked ahead of the runs that will use them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_guest::Pace;
use toolgate_guest::lockdown::Reuse;

use super::command::{NoWorker, StartError};
use super::request::ReuseKey;
use super::reuse::UsedWorkers;
use super::worker::{Idle, Ready, RehearsalWorker, UsedWorker};
use super::zygote::Zygote;
use crate::migrate::PendingWorker;
use crate::pump::Lost;
use crate::refill::{ANSWER_HEAD_START, RefillThread};

/// Forks that may fail before a run gives up.
const MAX_ATTEMPTS: u32 = 4;
/// How long disposing of an engine waits for a worker that is still being forked.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the refill thread waits for a worker of which it takes a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// Snapshots that may fail in a row before no more are taken: this system does not permit them.
const MAX_SNAPSHOT_FAILURES: u32 = 3;
/// Delay before used workers are rewound in the background. A caller whose next run comes sooner rewinds its worker itself,
/// without another thread in between.
const REWIND_DELAY: Duration = Duration::from_millis(1);

/// Idle workers, and the thread that forks new ones.
pub(crate) struct Pool {
    idle: Arc<IdleWorkers>,
    used: Arc<UsedWorkers>,
    refill_thread: RefillThread<()>,
    /// Whether a refill is requested that has not begun.
    is_requested: Arc<AtomicBool>,
}

/// Idle workers, oldest first.
struct IdleWorkers {
    zygote: Arc<Zygote>,
    queue: Mutex<IdleQueue>,
    size: usize,
    cores: usize,
    reuse: Reuse,
    snapshot_failures: AtomicU32,
    /// Why the last snapshot was not taken.
    snapshot_refusal: Mutex<Option<String>>,
}

#[derive(Default)]
struct IdleQueue {
    workers: VecDeque<Waiting>,
    closed: bool,
}

/// A worker that waits for a run.
enum Waiting {
    /// Forked, perhaps not locked down yet.
    Forked(Idle),
    /// With a snapshot to which it can be put back.
    Prepared(Box<Ready>),
}

impl Pool {
    pub(crate) fn new(zygote: Arc<Zygote>, size: usize, reuse: Reuse) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let idle = Arc::new(IdleWorkers {
            zygote,
            queue: Mutex::default(),
            size,
            cores,
            reuse,
            snapshot_failures: AtomicU32::new(0),
            snapshot_refusal: Mutex::default(),
        });
        let used = Arc::new(UsedWorkers::default());
        let is_requested = Arc::new(AtomicBool::new(false));
        let delay = if reuse == Reuse::SameCaller { REWIND_DELAY } else { ANSWER_HEAD_START };
        let refill_thread = RefillThread::new("toolgate-refill", delay, {
            let (idle, used, is_requested) = (idle.clone(), used.clone(), is_requested.clone());
            move |()| {
                is_requested.store(false, Ordering::Release);
                used.rewind_all();
                idle.refill();
            }
        })?;
        let pool = Pool { idle, used, refill_thread, is_requested };
        pool.refill();
        Ok(pool)
    }

    /// A worker that is ready for a program: one that this caller used before, or a fresh one. One that ended before it was
    /// ready is replaced.
    pub(crate) fn take(&self, deadline: Instant, key: Option<&ReuseKey>) -> Result<Ready, NoWorker> {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Some(worker) = key.and_then(|key| self.used.take(key, left)) {
            return Ok(worker);
        }
        let ready = |idle: Idle| {
            let ready = idle.ready(&self.idle.zygote, deadline)?;
            if key.is_some() { self.idle.prepare(ready) } else { Ok(ready) }
        };
        // Idle workers are not counted as attempts: when their zygote dies, all of them are lost at once.
        while let Some(waiting) = self.next_idle() {
            let ready = match waiting {
                Waiting::Forked(idle) => ready(idle),
                Waiting::Prepared(worker) => in_use(*worker, left),
            };
            match ready {
                Ok(ready) => return Ok(ready),
                Err(Lost::Deadline) => return Err(NoWorker::Late),
                Err(_) => {}
            }
        }
        let mut failure = None;
        for _ in 0..MAX_ATTEMPTS {
            match ready(self.idle.fork(Pace::Now).map_err(NoWorker::Start)?) {
                Ok(ready) => return Ok(ready),
                Err(Lost::Deadline) => return Err(NoWorker::Late),
                Err(lost) => failure = Some(lost),
            }
        }
        Err(NoWorker::Start(io::Error::other(format!("workers end before they are ready: {failure:?}")).into()))
    }

    /// A QuickJS worker as the target of a migration.
    pub(crate) fn rehearsal_worker(&self) -> io::Result<Box<dyn PendingWorker>> {
        let idle = match self.next_idle() {
            Some(Waiting::Forked(idle)) => idle,
            Some(Waiting::Prepared(_)) | None => self.idle.fork(Pace::Now).map_err(io::Error::other)?,
        };
        Ok(Box::new(RehearsalWorker { idle, zygote: self.idle.zygote.clone() }))
    }

    /// The key under which a run's worker is kept; `None` when it is not.
    pub(crate) fn reuse_key(&self, key: impl FnOnce() -> Option<ReuseKey>) -> Option<ReuseKey> {
        if self.idle.takes_snapshots() { key() } else { None }
    }

    /// Why workers could not be put back, as far as that was tried and failed.
    pub(crate) fn reuse_refusal(&self) -> Option<String> {
        self.idle.snapshot_refusal.lock().clone()
    }

    /// Keeps a worker that returned a value. [`Pool::refill`] rewinds it.
    pub(crate) fn put_back(&self, key: ReuseKey, worker: UsedWorker) {
        self.used.put(key, worker);
    }

    /// Fills the pool in the background. Called after a run, because a fork during a run slows it down.
    pub(crate) fn refill(&self) {
        let has_work = self.idle.size > 0 || self.idle.reuse == Reuse::SameCaller;
        if has_work && !self.is_requested.swap(true, Ordering::AcqRel) {
            self.refill_thread.request(());
        }
    }

    /// Ends all idle workers and the zygote.
    pub(crate) fn stop(&self) {
        let workers = {
            let mut queue = self.idle.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.workers)
        };
        self.refill_thread.stop();
        self.used.close();
        workers.into_iter().for_each(|idle| self.idle.discard(idle));
        self.idle.zygote.stop();
    }

    fn next_idle(&self) -> Option<Waiting> {
        let (idle, left) = {
            let mut queue = self.idle.queue.lock();
            (queue.workers.pop_front(), queue.workers.len())
        };
        // A low pool is filled at once: the runs that took its workers may take long.
        if left < self.idle.size.div_ceil(2) {
            self.refill();
        }
        idle
    }
}

impl IdleWorkers {
    /// Ignores a failed fork: a run that needs a worker tries again and reports the reason.
    fn refill(&self) {
        while self.has_room() {
            match self.fork(self.pace()) {
                Ok(idle) if self.takes_snapshots() => {
                    // One that ended is not replaced at once: the next run reports why.
                    let ready = idle.ready(&self.zygote, Instant::now() + SNAPSHOT_TIMEOUT);
                    let Ok(ready) = ready else { return };
                    let Ok(mut prepared) = self.prepare(ready) else { continue };
                    prepared.count_in_use(false);
                    self.put(Waiting::Prepared(Box::new(prepared)));
                }
                Ok(idle) => self.put(Waiting::Forked(idle)),
                Err(_) => return,
            }
        }
    }

    /// Whether workers can be put back, as far as is known.
    fn takes_snapshots(&self) -> bool {
        self.reuse == Reuse::SameCaller && self.snapshot_failures.load(Ordering::Relaxed) < MAX_SNAPSHOT_FAILURES
    }

    /// Takes the snapshot to which a worker can be put back. A worker of which none can be taken is ended.
    fn prepare(&self, ready: Ready) -> Result<Ready, Lost> {
        if !self.takes_snapshots() {
            return Ok(ready);
        }
        let prepared = ready.with_snapshot();
        match &prepared {
            Ok(_) => self.snapshot_failures.store(0, Ordering::Relaxed),
            Err(refusal) => {
                self.snapshot_failures.fetch_add(1, Ordering::Relaxed);
                *self.snapshot_refusal.lock() = Some(refusal.to_string());
            }
        }
        prepared.map_err(|_| Lost::Closed { started: false })
    }

    /// Whether a new worker rehearses. With more runs than cores, the rehearsal takes more time from them than it saves. One
    /// that is put back does not: every page that a rehearsal writes is put back after every run.
    fn pace(&self) -> Pace {
        if self.takes_snapshots() || self.zygote.in_use.others() > self.cores { Pace::Now } else { Pace::Ahead }
    }

    fn fork(&self, pace: Pace) -> Result<Idle, StartError> {
        let (socket, group) = self.zygote.fork(pace)?;
        Idle::new(socket, group)
    }

    fn has_room(&self) -> bool {
        let queue = self.queue.lock();
        !queue.closed && queue.workers.len() < self.size
    }

    fn put(&self, idle: Waiting) {
        let mut queue = self.queue.lock();
        if queue.closed {
            drop(queue);
            self.discard(idle);
        } else {
            queue.workers.push_back(idle);
        }
    }

    /// Ends a worker and waits for its process. Its process id is known only from its first frame.
    fn discard(&self, idle: Waiting) {
        match idle {
            Waiting::Forked(idle) => drop(idle.ready(&self.zygote, Instant::now() + DISCARD_TIMEOUT)),
            Waiting::Prepared(worker) => drop(worker),
        }
    }
}

/// A prepared worker that now executes a run, unless its process has ended.
fn in_use(mut worker: Ready, wall: Duration) -> Result<Ready, Lost> {
    if !worker.can_run_for(wall) {
        return Err(Lost::Closed { started: false });
    }
    worker.count_in_use(true);
    Ok(worker)
}
