//! Places for connections, and which of them idle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How many connections are looked at to find one that idles.
const LOOKED_AT: usize = 256;

/// All places.
#[derive(Clone)]
pub(super) struct Places(Arc<Inner>);

struct Inner {
    most: usize,
    taken: Mutex<Taken>,
    tracker: TaskTracker,
}

#[derive(Default)]
struct Taken {
    next: u64,
    places: HashMap<u64, Weak<Place>>,
}

/// One connection's place, free again when its last holder is gone: the task, or the socket it was upgraded to.
pub(super) struct Place {
    id: u64,
    /// Requests in the hands of a handler.
    handled: AtomicUsize,
    /// Bytes are waiting to be taken.
    engaged: AtomicBool,
    /// The protocol was changed: the connection is no longer ours to close.
    given_away: AtomicBool,
    evicted: CancellationToken,
    places: Places,
    _tracked: TaskTrackerToken,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        let tracker = TaskTracker::new();
        tracker.close();
        Places(Arc::new(Inner { most: most.max(1), taken: Mutex::default(), tracker }))
    }

    /// A place; if there is none, that of a connection that idles.
    pub(super) fn take(&self) -> Option<Arc<Place>> {
        if self.taken().places.len() >= self.0.most && !self.make_room() {
            return None;
        }
        let mut taken = self.taken();
        let id = taken.next;
        taken.next += 1;
        let place = Arc::new(Place {
            id,
            handled: AtomicUsize::new(0),
            engaged: AtomicBool::new(false),
            given_away: AtomicBool::new(false),
            evicted: CancellationToken::new(),
            places: self.clone(),
            _tracked: self.0.tracker.token(),
        });
        taken.places.insert(id, Arc::downgrade(&place));
        Some(place)
    }

    /// Closes a connection that idles, if one is soon found.
    pub(super) fn make_room(&self) -> bool {
        let mut taken = self.taken();
        let idle = taken.places.iter().take(LOOKED_AT).find_map(|(id, place)| {
            let place = place.upgrade()?;
            place.idles().then_some((*id, place))
        });
        let Some((id, place)) = idle else { return false };
        taken.places.remove(&id);
        // The place may be the last of its kind by now, and its drop needs the list.
        drop(taken);
        place.evicted.cancel();
        true
    }

    /// Waits until nobody has a place.
    pub(super) async fn all_free(&self) {
        self.0.tracker.wait().await;
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Marks a request as being handled.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.handled.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Says whether bytes wait to be taken by the reader.
    pub(super) fn engage(&self, engaged: bool) {
        self.engaged.store(engaged, Ordering::Release);
    }

    /// Says that the connection goes on under another protocol.
    pub(super) fn give_away(&self) {
        self.given_away.store(true, Ordering::Release);
    }

    /// Waits until the place is wanted by another.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn idles(&self) -> bool {
        let ours = !self.given_away.load(Ordering::Acquire);
        ours && self.handled.load(Ordering::Acquire) == 0 && !self.engaged.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().places.remove(&self.id);
    }
}

/// A request that is being handled.
pub(super) struct Busy(Arc<Place>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.handled.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_gives_way_and_a_busy_one_does_not() {
        let places = Places::new(1);
        let first = places.take().expect("a place");
        let busy = first.busy();
        assert!(places.take().is_none());
        drop(busy);
        let second = places.take().expect("the first one's");
        assert!(first.evicted.is_cancelled() && !second.evicted.is_cancelled());
        second.engage(true);
        assert!(places.take().is_none());
        drop(second);
        assert!(places.take().is_some());
    }
}
