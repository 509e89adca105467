//! Limits how many runs execute at one time. Waiting runs are served in order; the time in the queue counts against
//! the run's deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Slots for runs that execute, and a bounded number of runs that wait for one.
pub(crate) struct Queue {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// The right to execute; returned to the queue when dropped.
pub(crate) type Slot = OwnedSemaphorePermit;

/// Why a run got no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// Too many runs are waiting already.
    Full,
    /// The deadline passed.
    Late,
    /// The engine was disposed of.
    Closed,
    /// The caller cancelled.
    Cancelled,
}

impl Queue {
    pub(crate) fn new(slots: usize, max_waiting: usize) -> Self {
        Queue { slots: Arc::new(Semaphore::new(slots)), waiting: AtomicUsize::new(0), max_waiting }
    }

    /// A slot, if one is free.
    pub(crate) fn try_enter(&self) -> Option<Slot> {
        self.slots.clone().try_acquire_owned().ok()
    }

    /// A slot, as soon as it is this run's turn.
    pub(crate) async fn enter(&self, deadline: Instant, cancel: &CancellationToken) -> Result<Slot, NoSlot> {
        if let Some(slot) = self.try_enter() {
            return Ok(slot);
        }
        let _waiting = self.start_waiting()?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoSlot::Cancelled),
            slot = self.slots.clone().acquire_owned() => slot.map_err(|_| NoSlot::Closed),
            () = tokio::time::sleep_until(deadline.into()) => Err(NoSlot::Late),
        }
    }

    /// Refuses new runs and those that wait.
    pub(crate) fn close(&self) {
        self.slots.close();
    }

    fn start_waiting(&self) -> Result<Waiting<'_>, NoSlot> {
        if self.slots.is_closed() {
            return Err(NoSlot::Closed);
        }
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            return Err(NoSlot::Full);
        }
        Ok(waiting)
    }
}

/// Counts one waiting run until it is dropped, also when the caller drops the future of the run.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
