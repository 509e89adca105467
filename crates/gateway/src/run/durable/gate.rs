//! The recorder of a durable run, which can be closed: then nothing that may have an effect is sent any more.
//!
//! A run is given away between effects: whatever has been sent is answered, and what was not sent is made by whoever goes
//! on with the run. So no call becomes unknown because of a shutdown.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_engine::transcript::{Delivery, Durable, Recorder};
use toolgate_journal::durable::DurableRun;
use toolgate_wire::{CallId, CallState, FromWorker};

/// Records a run, and may stop it between two effects.
pub(super) struct Gate {
    run: Arc<DurableRun>,
    state: Mutex<GateState>,
    changed: Notify,
}

struct GateState {
    is_closed: bool,
    /// Whether a message was recorded.
    has_begun: bool,
    /// Calls that were sent, may have an effect and were not answered.
    in_flight: HashSet<CallId>,
}

impl Gate {
    pub(super) fn new(run: Arc<DurableRun>) -> Arc<Self> {
        let state = GateState { is_closed: false, has_begun: false, in_flight: HashSet::new() };
        Arc::new(Gate { run, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Whether a message went to a guest.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// Sends nothing more that may have an effect, and waits until what was sent is answered.
    pub(super) async fn close(&self) {
        self.state.lock().is_closed = true;
        loop {
            let changed = self.changed.notified();
            if self.state.lock().in_flight.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

impl Recorder for Gate {
    fn delivered(&self, delivery: Delivery<'_>) {
        self.state.lock().has_begun = true;
        self.run.delivered(delivery);
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        self.run.said(frame, read_only);
    }

    fn before_effect(&self, id: CallId) -> Durable {
        {
            let mut state = self.state.lock();
            if state.is_closed {
                // The run ends here, and whoever goes on with it makes the call.
                return Box::pin(std::future::pending());
            }
            state.in_flight.insert(id);
        }
        self.run.before_effect(id)
    }

    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable {
        let durable = self.run.before_reply(id, state, body);
        self.state.lock().in_flight.remove(&id);
        self.changed.notify_waiters();
        durable
    }
}
