//! The recorder of a durable run, which can be closed: then nothing that may have an effect is sent any more.
//!
//! A run is paused or given away between effects: whatever has been sent is answered, and what was not sent is made by
//! whoever goes on with the run. So no call becomes unknown because of a pause or a shutdown.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_engine::transcript::{Delivery, Durable, Recorder};
use toolgate_journal::durable::DurableRun;
use toolgate_wire::{CallId, CallState, FromWorker, Target, ToWorker};

/// A hash of the schemas of a tool; `None` where there is none.
pub(super) type SchemaOf = Box<dyn Fn(&Target) -> Option<String> + Send + Sync>;

/// Records a run, and may stop it between two effects.
pub(super) struct Gate {
    run: Arc<DurableRun>,
    schema_of: SchemaOf,
    state: Mutex<GateState>,
    changed: Notify,
}

struct GateState {
    is_closed: bool,
    is_stopped: bool,
    /// Whether a message was recorded.
    has_begun: bool,
    /// Whether the program has said how it ended.
    has_ended: bool,
    /// Calls without a reply.
    open: HashSet<CallId>,
    /// Calls that were sent, may have an effect and were not answered.
    in_flight: HashSet<CallId>,
    /// Calls that a person is asked about, and since when the first is.
    asked: HashSet<CallId>,
    asked_since: Option<Instant>,
    /// What was called since this process has the run.
    called: HashSet<Target>,
    /// When the last message went to or came from the guest.
    last: Instant,
}

impl Gate {
    pub(super) fn new(run: Arc<DurableRun>, schema_of: SchemaOf) -> Arc<Self> {
        let state = GateState {
            is_closed: false,
            is_stopped: false,
            has_begun: false,
            has_ended: false,
            open: HashSet::new(),
            in_flight: HashSet::new(),
            asked: HashSet::new(),
            asked_since: None,
            called: HashSet::new(),
            last: Instant::now(),
        };
        Arc::new(Gate { run, schema_of, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Whether a message went to a guest.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// Whether the program has said how it ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
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

    /// A call waits for a person: it was not sent, and is open until there is a verdict.
    pub(super) fn asks(&self, call: CallId) {
        let mut state = self.state.lock();
        state.in_flight.remove(&call);
        state.asked.insert(call);
        state.asked_since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_waiters();
    }

    /// A call that waited is about to be sent; `false` when nothing is sent any more.
    pub(super) fn sends(&self, call: CallId) -> bool {
        let mut state = self.state.lock();
        state.asked.remove(&call);
        if state.asked.is_empty() {
            state.asked_since = None;
        }
        if !state.is_closed {
            state.in_flight.insert(call);
        }
        !state.is_closed
    }

    /// A call that waited is not sent.
    pub(super) fn settles(&self, call: CallId) {
        let mut state = self.state.lock();
        state.in_flight.remove(&call);
        state.asked.remove(&call);
        if state.asked.is_empty() {
            state.asked_since = None;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether a call waits for a person.
    #[cfg(test)]
    pub(super) fn asks_about(&self, call: CallId) -> bool {
        self.state.lock().asked.contains(&call)
    }

    /// A person stopped the run.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_waiters();
    }

    /// Completes when a person has stopped the run.
    pub(super) async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().is_stopped {
                return;
            }
            changed.await;
        }
    }

    /// Completes when the run is to be paused, with the gate closed: nothing but calls that wait for a person is open,
    /// and the program has been silent for `settle`; or they have waited for `patience`.
    pub(super) async fn wants_pause(&self, settle: Duration, patience: Duration) {
        loop {
            let changed = self.changed.notified();
            let wait = {
                let state = self.state.lock();
                state.asked_since.map(|since| {
                    let late = (since + patience).saturating_duration_since(Instant::now());
                    let only_asked = state.open.iter().all(|call| state.asked.contains(call));
                    let silent = (state.last + settle).saturating_duration_since(Instant::now());
                    if only_asked && state.in_flight.is_empty() { late.min(silent) } else { late }
                })
            };
            match wait {
                Some(wait) if wait.is_zero() => return self.close().await,
                Some(wait) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(wait) => {}
                },
                None => changed.await,
            }
        }
    }
}

impl Recorder for Gate {
    fn delivered(&self, delivery: Delivery<'_>) {
        {
            let mut state = self.state.lock();
            state.last = Instant::now();
            state.has_begun = true;
            if let ToWorker::Reply { id, .. } = delivery.message {
                state.open.remove(id);
                state.asked.remove(id);
                // One that only reads is not waited for by `before_reply`, and may have been asked about.
                state.in_flight.remove(id);
            }
        }
        self.run.delivered(delivery);
        self.changed.notify_waiters();
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        let mut is_first = false;
        {
            let mut state = self.state.lock();
            state.last = Instant::now();
            state.has_ended |= matches!(frame, FromWorker::Done { .. });
            if let FromWorker::Call { id, target, .. } = frame {
                state.open.insert(*id);
                is_first = !state.called.contains(target) && state.called.insert(target.clone());
            }
        }
        let schema = match frame {
            FromWorker::Call { target, .. } if is_first => (self.schema_of)(target),
            _ => None,
        };
        match schema {
            Some(hash) => self.run.said_with_schema(frame, read_only, hash),
            None => self.run.said(frame, read_only),
        }
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
