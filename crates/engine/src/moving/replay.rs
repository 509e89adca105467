//! Repeats on a second worker what the first one did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_wire::FromWorker;

use super::tape::Entry;
use super::{GivenUp, Second};
use crate::outbox::Outbox;
use crate::pump::{Lost, Pump};

/// The shortest time that a repetition is given.
const SHORTEST: Duration = Duration::from_millis(500);

/// A second worker that has gone past the first.
pub(crate) struct Repeated {
    /// Its first new words.
    pub(crate) frame: FromWorker,
    /// When it had repeated everything.
    pub(crate) caught_up: Instant,
}

impl Pump {
    /// Gives the second worker everything that the first was told, and waits for its first new words.
    ///
    /// The first is stopped meanwhile. A repetition may take as long as the run computed so far.
    pub(crate) fn repeat(&mut self, second: &mut dyn Second, took: Duration) -> Result<Repeated, GivenUp> {
        let outbox = second.wire().outbox();
        self.line().follow(&outbox);
        let patience = Instant::now() + took.max(SHORTEST);
        let mut repetition = Repetition { outbox, at: 0, lines: 0, caught_up: None };
        loop {
            self.fire_due();
            let now = Instant::now();
            if now >= self.last_moment() {
                return Err(GivenUp::Over { lost: Lost::Deadline, caught_up: repetition.caught_up.is_some() });
            }
            let expected = repetition.feed(self);
            let mut until = self.next_moment();
            if expected.is_none() {
                repetition.caught_up.get_or_insert(now);
            } else if now >= patience {
                return Err(GivenUp::Lost);
            } else {
                until = until.min(patience);
            }
            let frame = second.wire().next(until, Some(&repetition.outbox)).map_err(|_| GivenUp::Lost)?;
            let Some(frame) = frame else { continue };
            if repetition.is_repeated_line(&frame, self.lines_logged()) {
                continue;
            }
            match expected {
                None => {
                    self.line().hand_over(repetition.at);
                    return Ok(Repeated { frame, caught_up: repetition.caught_up.unwrap_or(now) });
                }
                Some(said) if self.line().is(&frame, said) => repetition.at += 1,
                Some(_) => return Err(GivenUp::Diverged),
            }
        }
    }
}

/// How far a repetition is.
struct Repetition {
    outbox: Arc<Outbox>,
    /// The place on the tape.
    at: usize,
    /// Console lines that were repeated.
    lines: u64,
    caught_up: Option<Instant>,
}

impl Repetition {
    /// Tells the second worker all up to the next thing that it has to say, and gives that; nothing at the end.
    fn feed(&mut self, pump: &Pump) -> Option<u64> {
        loop {
            match pump.line().entry(self.at)? {
                Entry::Told(kind, bytes) => self.outbox.put(kind, bytes),
                Entry::Said(said) => return Some(said),
            }
            self.at += 1;
        }
    }

    /// Lines that were printed already are not printed again; their text may be an interpreter's own.
    fn is_repeated_line(&mut self, frame: &FromWorker, logged: u64) -> bool {
        let repeated = matches!(frame, FromWorker::Log { .. }) && self.lines < logged;
        if repeated {
            self.lines += 1;
        }
        repeated
    }
}
