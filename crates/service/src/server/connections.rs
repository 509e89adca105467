//! Counts open connections, and closes an idle one when the limit is reached.
//!
//! Tracks states only; reading and writing is done by the connection tasks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How many connections are examined to find an idle one.
const MAX_IDLE_SCAN: usize = 256;

/// All connection slots.
#[derive(Clone)]
pub(super) struct Connections(Arc<Inner>);

struct Inner {
    max: usize,
    taken: Mutex<Taken>,
    tracker: TaskTracker,
}

#[derive(Default)]
struct Taken {
    next: u64,
    connections: HashMap<u64, Weak<ConnectionSlot>>,
}

/// The slot of one connection, free once its last holder is dropped: the connection task, or the WebSocket it became.
pub(super) struct ConnectionSlot {
    id: u64,
    /// Requests being handled.
    requests: AtomicUsize,
    /// Whether bytes wait to be sent.
    sending: AtomicBool,
    /// Whether the connection was upgraded; then it is not evicted.
    upgraded: AtomicBool,
    evicted: CancellationToken,
    connections: Connections,
    _tracked: TaskTrackerToken,
}

impl Connections {
    pub(super) fn new(max: usize) -> Self {
        let tracker = TaskTracker::new();
        tracker.close();
        Connections(Arc::new(Inner { max: max.max(1), taken: Mutex::default(), tracker }))
    }

    /// A slot; if none is free, an idle connection is evicted. None if all are busy.
    pub(super) fn take(&self) -> Option<Arc<ConnectionSlot>> {
        if self.0.taken.lock().connections.len() >= self.0.max && !self.make_room() {
            return None;
        }
        let mut taken = self.0.taken.lock();
        let id = taken.next;
        taken.next += 1;
        let slot = Arc::new(ConnectionSlot {
            id,
            requests: AtomicUsize::new(0),
            sending: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            evicted: CancellationToken::new(),
            connections: self.clone(),
            _tracked: self.0.tracker.token(),
        });
        taken.connections.insert(id, Arc::downgrade(&slot));
        Some(slot)
    }

    /// Evicts an idle connection, if one is found; false otherwise.
    pub(super) fn make_room(&self) -> bool {
        let mut taken = self.0.taken.lock();
        let idle = taken.connections.iter().take(MAX_IDLE_SCAN).find_map(|(id, slot)| {
            let slot = slot.upgrade()?;
            slot.is_idle().then_some((*id, slot))
        });
        let Some((id, slot)) = idle else { return false };
        taken.connections.remove(&id);
        // `slot` may be the last reference, and dropping it locks the table.
        drop(taken);
        slot.evicted.cancel();
        true
    }

    /// Waits until all slots are free.
    pub(super) async fn all_free(&self) {
        self.0.tracker.wait().await;
    }
}

impl ConnectionSlot {
    /// Marks a request as being handled, until the mark is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> BusyMark {
        self.requests.fetch_add(1, Ordering::AcqRel);
        BusyMark(self.clone())
    }

    /// Sets whether bytes wait to be sent.
    pub(super) fn set_sending(&self, sending: bool) {
        self.sending.store(sending, Ordering::Release);
    }

    /// Marks the connection as upgraded to another protocol.
    pub(super) fn mark_upgraded(&self) {
        self.upgraded.store(true, Ordering::Release);
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn is_idle(&self) -> bool {
        let evictable = !self.upgraded.load(Ordering::Acquire);
        evictable && self.requests.load(Ordering::Acquire) == 0 && !self.sending.load(Ordering::Acquire)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.0.taken.lock().connections.remove(&self.id);
    }
}

/// Marks a request as being handled while it exists.
pub(super) struct BusyMark(Arc<ConnectionSlot>);

impl Drop for BusyMark {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_evicted_and_a_busy_one_is_not() {
        let connections = Connections::new(1);
        let first = connections.take().expect("a slot");
        let busy = first.busy();
        assert!(connections.take().is_none());
        drop(busy);
        let second = connections.take().expect("the first one's");
        assert!(first.evicted.is_cancelled() && !second.evicted.is_cancelled());
        second.set_sending(true);
        assert!(connections.take().is_none());
        drop(second);
        assert!(connections.take().is_some());
    }
}
