//! Moves a run to another worker while it goes on.
//!
//! A run begins where starting is cheap. When it has computed for longer than a threshold, its
//! worker is stopped, and a second one is given the same program and the same messages in the same
//! order. What the second says is compared with what the first said and not acted on again, so every
//! call is made once. When the second says something new, it has gone past: the first is killed and
//! the run goes on there. If it says something else instead, or ends, or is slow, the second is
//! killed and the first goes on as if nothing had happened.
//!
//! # Layout
//! - `tape`: what was said, and the line on which it is said
//! - `replay`: the repetition

mod replay;
mod tape;

use std::io;
use std::time::{Duration, Instant};

use toolgate_wire::frame::Layers;
use toolgate_wire::{Destination, Moved};

use crate::cancel::Registered;
use crate::clock::CpuClock;
use crate::process::Ended;
use crate::pump::Lost;
use crate::socket::Wire;

pub(crate) use tape::Line;

/// How often a second worker that is on its way up is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// The shortest time between two looks at the first worker's clock.
const SHORTEST: Duration = Duration::from_millis(1);
/// How long a second worker may take to come up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A worker that a run can be moved away from.
pub(crate) trait First {
    /// Its own clock.
    fn clock(&self) -> CpuClock;
    /// Stops it where it is, and waits until it stands.
    fn stop(&self) -> io::Result<()>;
    /// Lets it go on.
    fn resume(&self);
    /// Ends it.
    fn kill(&self);
}

/// A worker that a run can be moved to.
pub(crate) trait Second {
    fn wire(&mut self) -> &mut Wire;
    fn clock(&self) -> CpuClock;
    /// The isolation layers that it reported.
    fn layers(&self) -> Layers;
    /// What kills it from any thread, at any time.
    fn killer(&self) -> Box<dyn Fn() + Send + Sync>;
    /// How its process ended, when its socket closed without a last word.
    fn ended(&mut self) -> Ended;
}

/// A second worker on its way up.
pub(crate) trait Coming {
    /// Whether it has said hello, or ended.
    fn has_spoken(&mut self) -> bool;
    /// Takes its hello; nothing when it gave none, or is not confined.
    fn ready(self: Box<Self>, deadline: Instant) -> Option<Box<dyn Second>>;
}

/// Where second workers come from.
pub(crate) type Start<'a> = &'a dyn Fn() -> io::Result<Box<dyn Coming>>;
/// Registers what is to be done when the run is cancelled.
pub(crate) type OnCancel<'a> = &'a dyn Fn(Box<dyn Fn() + Send + Sync>) -> Registered;

/// What a move of one run needs.
pub(crate) struct Mover<'a> {
    pub(crate) first: &'a dyn First,
    /// Processor time after which the run moves.
    pub(crate) threshold: Duration,
    pub(crate) start: Start<'a>,
    pub(crate) on_cancel: OnCancel<'a>,
}

/// A move that may come: from a run's start to its second worker.
pub(crate) struct Attempt<'a> {
    pub(crate) mover: Mover<'a>,
    began: Instant,
    next_look: Instant,
    coming: Option<(Box<dyn Coming>, Instant)>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(mover: Mover<'a>) -> Self {
        let began = Instant::now();
        Attempt { next_look: began + mover.threshold, mover, began, coming: None }
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks at the clock, then at the second worker: gives it when it is up. An error ends the attempt.
    pub(crate) fn look(&mut self, now: Instant) -> io::Result<Option<Box<dyn Second>>> {
        match self.coming.take() {
            None => {
                let used = self.mover.first.clock().read();
                if used < self.mover.threshold {
                    self.next_look = now + (self.mover.threshold - used).max(SHORTEST);
                    return Ok(None);
                }
                self.coming = Some(((self.mover.start)()?, now));
                self.look(now)
            }
            Some((mut coming, since)) => {
                if coming.has_spoken() {
                    return coming.ready(now + LOOK).map(Some).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
                }
                if now - since > PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.coming = Some((coming, since));
                self.next_look = now + LOOK;
                Ok(None)
            }
        }
    }

    /// How it is told in the report.
    pub(crate) fn told(&self, to: Destination, stopped: Instant, caught_up: Instant) -> Moved {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Moved { to, at_ms: ms(stopped - self.began), cost_ms: ms(caught_up - stopped) }
    }
}

/// Why a move was given up.
#[derive(Debug)]
pub(crate) enum GivenUp {
    /// The second worker said something else.
    Diverged,
    /// It ended, or was slow.
    Lost,
    /// The run itself is over, with the second worker ahead of the first or behind it.
    Over { lost: Lost, caught_up: bool },
}
