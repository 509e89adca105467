//! A corrected program that keeps what an earlier run has done: `fix_run`.
//!
//! A call that the earlier run made, with the same arguments, gets the answer that it got then, and nothing is sent. As
//! long as effects of the earlier run have not been called again, nothing new that may have an effect is sent: a program that
//! no longer matches is told so first. A call whose effect is unknown is not repeated.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer};
use toolgate_journal::entry::{Event, ReplyBody};
use toolgate_journal::recording::Record;
use toolgate_wire::CallState;

/// How long a new effect waits for the program to call what was done before.
const PATIENCE: Duration = Duration::from_secs(1);
/// Effects that a message names.
const MAX_NAMED: usize = 5;

/// What a call invoked, and with which arguments (JSON text).
type Called = (Target, String);

/// The effects of an earlier run.
pub struct KeptEffects {
    /// The earlier run.
    run: String,
    state: Mutex<KeptState>,
    changed: Notify,
}

#[derive(Default)]
struct KeptState {
    /// Answers of calls that took effect, in their order.
    effects: HashMap<Called, VecDeque<String>>,
    /// Answers of calls that only read.
    reads: HashMap<Called, VecDeque<String>>,
    /// Calls of which nobody knows whether they took effect.
    unknown: Vec<Called>,
    left: usize,
}

impl KeptEffects {
    /// What is known of the calls of a record.
    pub(super) fn of(run: &str, record: &Record) -> Arc<Self> {
        let mut made: HashMap<u32, (Called, bool)> = HashMap::new();
        let mut sent: Vec<u32> = Vec::new();
        let mut state = KeptState::default();
        for entry in &record.entries {
            match &entry.event {
                Event::Call(call) => {
                    let args = record.blobs.text(&call.args).unwrap_or_default().to_owned();
                    made.insert(call.id, (((&call.target).into(), args), call.read_only));
                }
                Event::Intent { id, .. } => sent.push(*id),
                Event::Asked { id } => sent.retain(|known| known != id),
                // An effect's answer is kept before it is delivered; a read's is only delivered.
                Event::Answered(reply) | Event::Reply(reply) => {
                    sent.retain(|known| *known != reply.id);
                    let Some((called, is_read)) = made.remove(&reply.id) else { continue };
                    let text = record.blobs.text(reply.body.text()).unwrap_or_default().to_owned();
                    match (&reply.body, reply.state, is_read) {
                        (ReplyBody::Value(_), _, true) => state.reads.entry(called).or_default().push_back(text),
                        (ReplyBody::Value(_), _, false) => {
                            state.effects.entry(called).or_default().push_back(text);
                            state.left += 1;
                        }
                        (ReplyBody::Error(_), CallState::Unknown, false) => state.unknown.push(called),
                        // What failed or was not sent may be tried again.
                        (ReplyBody::Error(_), ..) => {}
                    }
                }
                _ => {}
            }
        }
        state.unknown.extend(sent.iter().filter_map(|id| made.remove(id)).map(|(called, _)| called));
        Arc::new(KeptEffects { run: run.to_owned(), state: Mutex::new(state), changed: Notify::new() })
    }

    /// The run whose effects these are.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes out what a run that goes on from its own record has called already.
    pub(super) fn without(&self, record: &Record) {
        for entry in &record.entries {
            if let Event::Call(call) = &entry.event {
                let args = record.blobs.text(&call.args).unwrap_or_default().to_owned();
                let _ = self.take(&((&call.target).into(), args), call.read_only);
            }
        }
    }

    /// The answer of the earlier run to this call.
    fn take(&self, called: &Called, is_read: bool) -> Option<String> {
        let mut state = self.state.lock();
        if is_read {
            // Once everything is done again, what is read is read anew.
            return if state.left > 0 { state.reads.get_mut(called)?.pop_front() } else { None };
        }
        let answer = state.effects.get_mut(called)?.pop_front()?;
        state.left -= 1;
        drop(state);
        self.changed.notify_waiters();
        Some(answer)
    }

    /// Completes when nothing of the earlier run is left to be called.
    async fn all_called(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().left == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Why a call is not made, if it is not.
    async fn refusal(&self, called: &Called) -> Option<HostError> {
        if self.state.lock().unknown.contains(called) {
            let message = format!(
                "{} was sent by the run {} and never answered; it is not repeated, because it may have taken effect",
                called.0, self.run
            );
            return Some(HostError::not_sent("UNKNOWN_EFFECT", message));
        }
        tokio::time::timeout(PATIENCE, self.all_called()).await.err()?;
        let message = format!(
            "{} is new, and nothing new is sent as long as the corrected program has not called what the run {} has done \
             already: {}",
            called.0,
            self.run,
            self.left_over().join(", ")
        );
        Some(HostError::not_sent("NOT_KEPT", message))
    }

    /// What the earlier run has done and this one has not called.
    pub(super) fn left_over(&self) -> Vec<String> {
        let state = self.state.lock();
        let left = state.effects.iter().filter(|(_, answers)| !answers.is_empty());
        let mut left: Vec<String> = left.map(|((target, args), _)| shown(target, args)).collect();
        left.sort();
        left.truncate(MAX_NAMED);
        left
    }
}

fn shown(target: &Target, args: &str) -> String {
    let short: String = args.chars().take(200).collect();
    format!("{target}({short})")
}

/// A host that answers from an earlier run where it can.
pub(crate) struct KeptHost {
    kept: Arc<KeptEffects>,
    real: Arc<dyn Host>,
}

impl KeptHost {
    /// The real host, with the effects of an earlier run.
    pub(crate) fn new(kept: Arc<KeptEffects>, real: Arc<dyn Host>) -> Self {
        KeptHost { kept, real }
    }
}

impl HostLayer for KeptHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        let is_read = self.real.call_is_read_only(&call.target, &call.args);
        let called = (call.target.clone(), call.args.clone());
        if let Some(answer) = self.kept.take(&called, is_read) {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if is_read {
            return self.real.call(call);
        }
        let (kept, real) = (self.kept.clone(), self.real.clone());
        Box::pin(async move {
            match kept.refusal(&called).await {
                Some(refusal) => Err(refusal),
                None => real.call(call).await,
            }
        })
    }
}
