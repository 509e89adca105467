//! Keeps the rows of one core on one core.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, and all it starts, on one core until dropped.
pub(crate) struct OneCore {
    before: Option<CpuSet>,
}

impl OneCore {
    /// Where the system refuses, the row is measured on all cores.
    pub(crate) fn keep() -> Self {
        let before = sched_getaffinity(None).ok();
        let core = before.as_ref().and_then(|set| (0..CpuSet::MAX_CPU).rev().find(|core| set.is_set(*core)));
        if let Some(core) = core {
            let mut one = CpuSet::new();
            one.set(core);
            let _ = sched_setaffinity(None, &one);
        }
        OneCore { before }
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
