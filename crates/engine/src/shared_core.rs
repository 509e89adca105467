//! Keeps a short run's pump and its worker on one core.
//!
//! The two take turns: one sleeps while the other works. On one core a turn is a switch between two processes; across cores it
//! wakes the other core first, which takes several times as long. A run that lasts gives its core up, so that two of
//! them, or one and its V8, never wait for a core while another has nothing to do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
pub(crate) use rustix::thread::CpuSet;
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How long a run has its core: what most runs take, and short beside one that computes.
const MAX_TIME: Duration = Duration::from_millis(15);

/// The runs of this process on each core.
static RUNS: [AtomicU32; CpuSet::MAX_CPU] = [const { AtomicU32::new(0) }; CpuSet::MAX_CPU];

/// A core that this thread and a worker are kept on until this is dropped, on the same thread.
pub(crate) struct SharedCore {
    core: usize,
    worker: Pid,
    /// Where both may run afterwards.
    cores: CpuSet,
    /// When the run is no short one any more.
    pub(crate) until: Instant,
}

impl SharedCore {
    /// Keeps this thread and a worker on that of these cores which has the fewest runs; `None` where there is no choice or the
    /// system refuses. A thread that was begun by one that is kept on a core has that core alone, so that what this thread
    /// has now is not asked.
    pub(crate) fn of_worker(worker: Pid, cores: CpuSet) -> Option<Self> {
        if cores.count() < 2 {
            return None;
        }
        let core = emptiest(&cores, sched_getcpu())?;
        let mut one = CpuSet::new();
        one.set(core);
        // The worker first: it sleeps, so that nothing is moved, and it may belong to another user.
        sched_setaffinity(Some(worker), &one).ok()?;
        RUNS.get(core)?.fetch_add(1, Ordering::Relaxed);
        let shared = SharedCore { core, worker, cores, until: Instant::now() + MAX_TIME };
        sched_setaffinity(None, &one).ok()?;
        Some(shared)
    }

    /// Ends it for a run that goes on: its worker may use every core again.
    pub(crate) fn give_up(self) {
        let _ = sched_setaffinity(Some(self.worker), &self.cores);
    }
}

/// The cores that this thread may run on.
pub(crate) fn cores_of_thread() -> Option<CpuSet> {
    sched_getaffinity(None).ok()
}

/// The core with the fewest runs; of several the present one, which has what this thread needs in its caches.
fn emptiest(allowed: &CpuSet, present: usize) -> Option<usize> {
    let runs = |core: usize| RUNS.get(core).map_or(u32::MAX, |runs| runs.load(Ordering::Relaxed));
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(allowed.count() as usize);
    cores.min_by_key(|core| (runs(*core), *core != present))
}

impl Drop for SharedCore {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.cores);
        if let Some(runs) = RUNS.get(self.core) {
            runs.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
