//! Workers that are put back after a run and kept for the same caller.
//!
//! A used worker is rewound in the background, after the answer is delivered. A run of the same caller that comes sooner rewinds
//! it itself: that takes less than a fork. What is kept is in the state in which it was before its first program.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::request::ReuseKey;
use super::worker::{Ready, UsedWorker};

/// Workers that are kept for callers at most; the one that waits longest is ended first.
const MAX_KEPT: usize = 16;

/// Used workers by caller.
#[derive(Default)]
pub(super) struct UsedWorkers {
    state: Mutex<State>,
    rewound: Condvar,
}

#[derive(Default)]
struct State {
    used: VecDeque<(ReuseKey, UsedWorker)>,
    rewound: VecDeque<(ReuseKey, Ready)>,
    /// Those that are being rewound in the background.
    in_progress: Vec<ReuseKey>,
    is_closed: bool,
}

impl UsedWorkers {
    /// A rewound worker of the same caller, if there is one. `wall` is the time that the run may take.
    pub(super) fn take(&self, key: &ReuseKey, wall: Duration) -> Option<Ready> {
        let mut state = self.state.lock();
        loop {
            if let Some(mut worker) = newest(&mut state.rewound, key) {
                if worker.can_run_for(wall) {
                    worker.count_in_use(true);
                    return Some(worker);
                }
            } else if let Some(used) = newest(&mut state.used, key) {
                drop(state);
                if let Some(mut worker) = used.rewind().filter(|worker| worker.has_time_for(wall)) {
                    worker.count_in_use(true);
                    return Some(worker);
                }
                state = self.state.lock();
            } else if state.in_progress.contains(key) {
                self.rewound.wait(&mut state);
            } else {
                return None;
            }
        }
    }

    /// Keeps a worker until [`UsedWorkers::rewind_all`] or a run of its caller rewinds it.
    pub(super) fn put(&self, key: ReuseKey, worker: UsedWorker) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let surplus = if state.used.len() < MAX_KEPT { None } else { state.used.pop_front() };
        state.used.push_back((key, worker));
        drop(state);
        // Ends a process and waits for it: not under the lock.
        drop(surplus);
    }

    /// Rewinds every used worker, and ends those that are too many.
    pub(super) fn rewind_all(&self) {
        let mut state = self.state.lock();
        while let Some((key, used)) = state.used.pop_front() {
            state.in_progress.push(key.clone());
            drop(state);
            let rewound = used.rewind();
            state = self.state.lock();
            let at = state.in_progress.iter().position(|other| *other == key);
            at.map(|at| state.in_progress.swap_remove(at));
            if !state.is_closed {
                state.rewound.extend(rewound.map(|worker| (key, worker)));
            }
            let surplus = state.rewound.len().saturating_sub(MAX_KEPT);
            state.rewound.drain(..surplus);
            self.rewound.notify_all();
        }
    }

    /// Ends every worker; later ones are ended at once.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let workers = (std::mem::take(&mut state.used), std::mem::take(&mut state.rewound));
        drop(state);
        drop(workers);
    }
}

fn newest<T>(workers: &mut VecDeque<(ReuseKey, T)>, key: &ReuseKey) -> Option<T> {
    let at = workers.iter().rposition(|(of, _)| of == key)?;
    workers.remove(at).map(|(_, worker)| worker)
}
