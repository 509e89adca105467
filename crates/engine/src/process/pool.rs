//! Workers that are forked ahead of the runs that will use them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_guest::Pace;

use super::worker::{Idle, Ready, RehearsalWorker};
use super::zygote::{StartError, Zygote};
use crate::migrate::PendingWorker;
use crate::pump::Lost;
use crate::refill::RefillThread;

/// Forks that may fail before a run gives up.
const MAX_ATTEMPTS: u32 = 4;
/// How long disposing of an engine waits for a worker that is still being forked.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Idle workers, and the thread that forks new ones.
pub(crate) struct Pool {
    idle: Arc<IdleWorkers>,
    refill_thread: RefillThread<()>,
}

/// Idle workers, oldest first.
struct IdleWorkers {
    zygote: Arc<Zygote>,
    queue: Mutex<IdleQueue>,
    size: usize,
    cores: usize,
}

#[derive(Default)]
struct IdleQueue {
    workers: VecDeque<Idle>,
    closed: bool,
}

/// Why a run got no worker.
#[derive(Debug)]
pub(crate) enum NoWorker {
    /// None could be started.
    Start(StartError),
    /// None was ready before the deadline.
    Late,
}

impl Pool {
    pub(crate) fn new(zygote: Arc<Zygote>, size: usize) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let idle = Arc::new(IdleWorkers { zygote, queue: Mutex::default(), size, cores });
        let refill_thread = RefillThread::new("toolgate-refill", {
            let idle = idle.clone();
            move |()| idle.refill()
        })?;
        let pool = Pool { idle, refill_thread };
        pool.refill();
        Ok(pool)
    }

    /// A worker that is ready for a program. One that ended before it was ready is replaced.
    pub(crate) fn take(&self, deadline: Instant) -> Result<Ready, NoWorker> {
        let ready = |idle: Idle| idle.ready(&self.idle.zygote, deadline);
        // Idle workers are not counted as attempts: when their zygote dies, all of them are lost at once.
        while let Some(idle) = self.next_idle() {
            match ready(idle) {
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

    /// A QuickJS worker as the target of a migration, for tests of migration without V8.
    pub(crate) fn rehearsal_worker(&self) -> io::Result<Box<dyn PendingWorker>> {
        let idle = match self.next_idle() {
            Some(idle) => idle,
            None => self.idle.fork(Pace::Now).map_err(io::Error::other)?,
        };
        Ok(Box::new(RehearsalWorker { idle, zygote: self.idle.zygote.clone() }))
    }

    /// Fills the pool in the background. Called after a run, because a fork during a run slows it down.
    pub(crate) fn refill(&self) {
        if self.idle.size > 0 {
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
        workers.into_iter().for_each(|idle| self.idle.discard(idle));
        self.idle.zygote.stop();
    }

    fn next_idle(&self) -> Option<Idle> {
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
                Ok(idle) => self.put(idle),
                Err(_) => return,
            }
        }
    }

    /// Whether a new worker rehearses. With more runs than cores, the rehearsal takes more time from them than it saves.
    fn pace(&self) -> Pace {
        if self.zygote.in_use.others() > self.cores { Pace::Now } else { Pace::Ahead }
    }

    fn fork(&self, pace: Pace) -> Result<Idle, StartError> {
        Idle::new(self.zygote.fork(pace)?)
    }

    fn has_room(&self) -> bool {
        let queue = self.queue.lock();
        !queue.closed && queue.workers.len() < self.size
    }

    fn put(&self, idle: Idle) {
        let mut queue = self.queue.lock();
        if queue.closed {
            drop(queue);
            self.discard(idle);
        } else {
            queue.workers.push_back(idle);
        }
    }

    /// Ends a worker and waits for its process. Its process id is known only from its first frame.
    fn discard(&self, idle: Idle) {
        drop(idle.ready(&self.zygote, Instant::now() + DISCARD_TIMEOUT));
    }
}
