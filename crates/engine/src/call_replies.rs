//! The replies to a program's host calls, which the pump shares with the tasks of the calls in progress.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_wire::frame::Target;
use toolgate_wire::{CallErrorCode, CallId, CallRecord, CallState, ToWorker};

use crate::clock::CpuClock;
use crate::host::{Host, HostError};
use crate::ledger::Ledger;
use crate::observer::Observer;
use crate::pump::wall_clock;
use crate::transcript::Channel;

/// Records the end of each host call and sends its reply to the worker.
pub(crate) struct CallReplies {
    pub(crate) channel: Channel,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// After this time the worker gets no reply: the program would otherwise see how a call failed because the run is over, and
    /// end with that error and not with its timeout. A worker that began late has a later end of its own.
    pub(crate) deadline: Option<Instant>,
}

impl CallReplies {
    /// Records the answer and sends it to the worker.
    pub(crate) fn reply(&self, id: CallId, target: &Target, answer: Result<String, HostError>) {
        let decision = self.host.decision(id);
        if let Some(record) = self.ledger.lock().end(id, &answer, decision)
            && let Some(observer) = &self.observer
        {
            observer.call_ended(record);
        }
        let held = self.host.take_held(id);
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return;
        }
        let state = answer.as_ref().map_or_else(|error| error.state, |_| CallState::Applied);
        let body = answer.map(String::into_bytes).map_err(|error| error.to_json(target).into_bytes());
        self.channel.send_held(ToWorker::Reply { id, now: wall_clock(), body }, state, held);
    }
}

/// The error of a call whose host code panicked.
pub(crate) fn panicked() -> HostError {
    HostError::unknown(CallErrorCode::Internal, "the host failed during the call")
}

/// The clock of the worker that executes a run now; `None` where the system has none.
pub(crate) type WorkerClock = Arc<Mutex<Option<CpuClock>>>;

/// What is known of a run that goes on. It does not keep the run alive.
#[derive(Clone)]
pub struct RunSoFar {
    replies: Weak<CallReplies>,
    clock: WorkerClock,
}

impl RunSoFar {
    pub(crate) fn new(replies: &Arc<CallReplies>, clock: &WorkerClock) -> Self {
        RunSoFar { replies: Arc::downgrade(replies), clock: clock.clone() }
    }

    /// The calls in the order in which they were made; those that are open have their time so far.
    pub fn calls(&self) -> Vec<CallRecord> {
        let Some(replies) = self.replies.upgrade() else { return Vec::new() };
        let recorder = replies.channel.recorder();
        replies.ledger.lock().so_far(|id| recorder.as_ref().is_some_and(|recorder| recorder.is_unsent(id)))
    }

    /// Processor time of the worker so far; zero where the system does not tell.
    pub fn cpu(&self) -> Duration {
        self.clock.lock().as_ref().map_or(Duration::ZERO, CpuClock::read)
    }

    /// Whether the worker sleeps, as it does while its program awaits something. `false` where the system does not tell.
    pub fn is_asleep(&self) -> bool {
        self.clock.lock().as_ref().is_some_and(CpuClock::is_asleep)
    }
}

/// A reply that is not sent yet. Replies with an error when the host's code panics.
pub(crate) struct PendingReply {
    replies: Arc<CallReplies>,
    id: CallId,
    target: Target,
    sent: bool,
}

impl PendingReply {
    pub(crate) fn new(replies: Arc<CallReplies>, id: CallId, target: Target) -> Self {
        PendingReply { replies, id, target, sent: false }
    }

    pub(crate) fn send(&mut self, answer: Result<String, HostError>) {
        self.sent = true;
        self.replies.reply(self.id, &self.target, answer);
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if !self.sent && std::thread::panicking() {
            self.send(Err(panicked()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::host::{HeldBytes, HostCall, HostFuture};
    use crate::socket::WorkerSocket;
    use crate::transcript::ChannelOptions;

    struct NoCalls;

    impl Host for NoCalls {
        fn call(&self, _: HostCall) -> HostFuture {
            unreachable!("the test replies itself")
        }

        fn take_held(&self, _: CallId) -> Option<HeldBytes> {
            None
        }
    }

    /// What the worker is sent for a call whose answer comes with this much time left, and the call's record.
    fn replied(deadline: Instant) -> (usize, CallRecord) {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let socket = WorkerSocket::new(ours).expect("socket");
        let options = ChannelOptions { may_migrate: false, recorder: None, is_repeating: false };
        let replies = CallReplies {
            channel: Channel::new(socket.outbox(), options),
            ledger: Mutex::default(),
            host: Arc::new(NoCalls),
            observer: None,
            deadline: Some(deadline),
        };
        let target = Target::Function("pay".into());
        replies.ledger.lock().begin(CallId(1), &target, 2, false);
        replies.reply(CallId(1), &target, Err(HostError::not_sent("TIMEOUT", "the run's time was over")));
        let records = replies.ledger.lock().close(|_| false);
        drop((replies, socket));
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).expect("read");
        (sent.len(), records.into_iter().next().expect("a record"))
    }

    #[test]
    fn a_reply_after_the_runs_time_is_recorded_and_not_sent() {
        let (sent, record) = replied(Instant::now());
        assert_eq!((sent, record.state), (0, CallState::NotSent));
        let (sent, record) = replied(Instant::now() + Duration::from_secs(600));
        assert!(sent > 0);
        assert_eq!(record.state, CallState::NotSent);
    }
}
