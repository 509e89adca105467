//! Repeats a run on a second worker up to where the first one is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_wire::FromWorker;

use super::{MigrationFailure, TargetWorker};
use crate::outbox::Outbox;
use crate::pump::{Lost, Pump};
use crate::socket::WakeSource;
use crate::transcript::{Digest, Entry};

/// The shortest time that a replay is given.
const MIN_REPLAY_TIMEOUT: Duration = Duration::from_millis(500);

/// A target worker that has repeated everything and sent its first new message.
pub(crate) struct Replayed {
    /// That message.
    pub(crate) frame: FromWorker,
    /// When it had repeated everything.
    pub(crate) caught_up: Instant,
}

impl Pump {
    /// The repetition of this run on a target, before its first message.
    pub(crate) fn begin_replay(&self, target: &mut dyn TargetWorker) -> MigrationReplay {
        let outbox = target.socket().outbox();
        self.channel().follow(&outbox);
        MigrationReplay { outbox, index: 0, lines: 0, caught_up: None, early: None }
    }

    /// Sends the transcript to the target and waits for its first message that the source did not send.
    ///
    /// The source is stopped meanwhile. A replay may take as long as the run has computed so far.
    pub(crate) fn replay(
        &mut self,
        target: &mut dyn TargetWorker,
        mut replay: MigrationReplay,
        computed: Duration,
    ) -> Result<Replayed, MigrationFailure> {
        let timeout = Instant::now() + computed.max(MIN_REPLAY_TIMEOUT);
        loop {
            self.fire_due();
            let now = Instant::now();
            if now >= self.hard_deadline() {
                return Err(MigrationFailure::Over { lost: Lost::Deadline, caught_up: replay.caught_up.is_some() });
            }
            let expected = replay.feed(self);
            let mut until = self.next_wakeup();
            if expected.is_none() {
                replay.caught_up.get_or_insert(now);
            } else if now >= timeout {
                return Err(MigrationFailure::Lost);
            } else {
                until = until.min(timeout);
            }
            let frame = match replay.early.take() {
                Some(frame) => Some(frame),
                None => target
                    .socket()
                    .next(until, Some(&replay.outbox), WakeSource::WorkerAndOutbox)
                    .map_err(|_| MigrationFailure::Lost)?,
            };
            let Some(frame) = frame else { continue };
            if replay.is_repeated_line(&frame, self.lines_logged()) {
                continue;
            }
            match expected {
                None => {
                    self.channel().switch_to_follower(replay.index);
                    return Ok(Replayed { frame, caught_up: replay.caught_up.unwrap_or(now) });
                }
                Some(digest) if self.channel().has_digest(&frame, digest) => replay.index += 1,
                Some(_) => return Err(MigrationFailure::Diverged),
            }
        }
    }
}

/// The progress of a replay.
pub(crate) struct MigrationReplay {
    outbox: Arc<Outbox>,
    /// Index of the next entry of the transcript.
    pub(super) index: usize,
    /// Console lines that were repeated.
    lines: u64,
    pub(super) caught_up: Option<Instant>,
    /// A message of the target that was read before the source was stopped.
    early: Option<FromWorker>,
}

impl MigrationReplay {
    /// Gives back a message of the target that was read before the source was stopped.
    pub(crate) fn put_back(&mut self, frame: FromWorker) {
        self.early = Some(frame);
    }

    /// Sends entries up to the next message that the target has to send itself, and returns that message's digest;
    /// `None` at the end of the transcript.
    pub(super) fn feed(&mut self, pump: &Pump) -> Option<Digest> {
        loop {
            match pump.channel().entry(self.index)? {
                Entry::Sent(kind, bytes) => self.outbox.put(kind, bytes),
                Entry::Received(digest) => return Some(digest),
            }
            self.index += 1;
        }
    }

    /// Console lines that the run has printed already are counted and dropped. They are not compared: the text of an
    /// error differs between interpreters.
    pub(super) fn is_repeated_line(&mut self, frame: &FromWorker, logged: u64) -> bool {
        let repeated = matches!(frame, FromWorker::Log { .. }) && self.lines < logged;
        if repeated {
            self.lines += 1;
        }
        repeated
    }
}
