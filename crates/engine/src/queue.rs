//! Bounds how many runs go on at one time. First come, first served; waiting eats the run's own time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Places for runs, and a bounded line of those waiting for one.
pub(crate) struct Queue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// A place, given back when dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// Why a run got no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The line is full.
    Full,
    /// The deadline came first.
    Late,
    /// The engine was disposed of.
    Closed,
    /// The caller took the request back.
    Cancelled,
}

impl Queue {
    pub(crate) fn new(places: usize, max_waiting: usize) -> Self {
        Queue { places: Arc::new(Semaphore::new(places)), waiting: AtomicUsize::new(0), max_waiting }
    }

    /// A place that is free right now.
    pub(crate) fn try_enter(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// A place, as soon as it is this run's turn.
    pub(crate) async fn enter(&self, deadline: Instant, cancel: &CancellationToken) -> Result<Place, NoPlace> {
        if let Some(place) = self.try_enter() {
            return Ok(place);
        }
        let _counted = self.stand_in_line()?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoPlace::Cancelled),
            turn = self.places.clone().acquire_owned() => turn.map_err(|_| NoPlace::Closed),
            () = tokio::time::sleep_until(deadline.into()) => Err(NoPlace::Late),
        }
    }

    /// Nobody enters any more, and whoever waits is sent away.
    pub(crate) fn close(&self) {
        self.places.close();
    }

    fn stand_in_line(&self) -> Result<InLine<'_>, NoPlace> {
        if self.places.is_closed() {
            return Err(NoPlace::Closed);
        }
        let line = InLine(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            return Err(NoPlace::Full);
        }
        Ok(line)
    }
}

/// One that waits; leaves the line when dropped, also when its caller gives up.
struct InLine<'a>(&'a AtomicUsize);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
