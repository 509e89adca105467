//! Repeats a run on a second worker up to where the first one is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_wire::FromWorker;

use super::{MigrationFailure, TargetWorker};
use crate::outbox::Outbox;
use crate::pump::{Lost, Pump};
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
    /// Sends the transcript to the target and waits for its first message that the source did not send.
    ///
    /// The source is stopped meanwhile. A replay may take as long as the run has computed so far.
    pub(crate) fn replay(
        &mut self,
        target: &mut dyn TargetWorker,
        computed: Duration,
    ) -> Result<Replayed, MigrationFailure> {
        let outbox = target.socket().outbox();
        self.channel().follow(&outbox);
        let timeout = Instant::now() + computed.max(MIN_REPLAY_TIMEOUT);
        let mut replay = Replay { outbox, index: 0, lines: 0, caught_up: None };
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
            let frame = target.socket().next(until, Some(&replay.outbox)).map_err(|_| MigrationFailure::Lost)?;
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
struct Replay {
    outbox: Arc<Outbox>,
    /// Index of the next entry of the transcript.
    index: usize,
    /// Console lines that were repeated.
    lines: u64,
    caught_up: Option<Instant>,
}

impl Replay {
    /// Sends entries up to the next message that the target has to send itself, and returns that message's digest;
    /// `None` at the end of the transcript.
    fn feed(&mut self, pump: &Pump) -> Option<Digest> {
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
    fn is_repeated_line(&mut self, frame: &FromWorker, logged: u64) -> bool {
        let repeated = matches!(frame, FromWorker::Log { .. }) && self.lines < logged;
        if repeated {
            self.lines += 1;
        }
        repeated
    }
}
