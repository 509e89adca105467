//! Moves a run to another worker while it goes on.
//!
//! A run begins on QuickJS, where a start is cheap. When it has computed for longer than a threshold, its worker (the
//! source) is stopped, and a second worker (the target) gets the same program and the same messages in the same order.
//! The host compares the target's messages with those of the source and does not act on them again, so every call is
//! made once. The first new message shows that the target has caught up: the source is killed and the run goes on with
//! the target. If the target sends a different message, ends, or is too slow, it is killed and the source resumes.
//!
//! While a core is idle, the source is not stopped: both go on, and the run ends with the one that is ahead. What the host
//! has seen of a program decides when its next run moves.
//!
//! # Layout
//! - `known`: where earlier runs of a program ended
//! - `race`: source and target at the same time
//! - `replay`: the repetition on the target; the messages themselves are in [`crate::transcript`]

mod known;
mod race;
mod replay;

use std::io;
use std::time::{Duration, Instant};

use toolgate_wire::frame::Layers;
use toolgate_wire::{Destination, Moved};

use crate::cancel::Registered;
use crate::clock::CpuClock;
use crate::process::ProcessEnd;
use crate::pump::Lost;
use crate::socket::WorkerSocket;

pub(crate) use known::{KnownPrograms, ProgramKey};
pub use race::RacePolicy;
pub(crate) use race::Raced;

/// How often a starting target is checked.
const TARGET_PROBE_INTERVAL: Duration = Duration::from_millis(2);
/// Shortest time between two reads of the source's processor time.
const MIN_CLOCK_INTERVAL: Duration = Duration::from_millis(1);
/// How long a target may take to start.
const TARGET_START_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two looks for an idle core.
const IDLE_CORE_INTERVAL: Duration = Duration::from_millis(10);

/// Processor time after which a run migrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// If a core is idle: the run loses nothing.
    pub(crate) racing: Duration,
    /// If the source must be stopped for it.
    pub(crate) alone: Duration,
}

/// The worker that a run leaves.
pub(crate) trait SourceWorker {
    /// Its processor time.
    fn clock(&self) -> CpuClock;
    /// Stops it with SIGSTOP and waits until it is stopped.
    fn stop(&self) -> io::Result<()>;
    /// Lets it go on.
    fn resume(&self);
    /// Kills it.
    fn kill(&self);
}

/// The worker that a run goes on with.
pub(crate) trait TargetWorker {
    /// Its socket.
    fn socket(&mut self) -> &mut WorkerSocket;
    /// Its processor time.
    fn clock(&self) -> CpuClock;
    /// The isolation layers that it reported.
    fn layers(&self) -> Layers;
    /// A function that kills it from any thread, at any time.
    fn killer(&self) -> Box<dyn Fn() + Send + Sync>;
    /// How its process ended, after its socket closed without a last message.
    fn wait(&mut self) -> ProcessEnd;
}

/// A target that is starting.
pub(crate) trait PendingWorker {
    /// Whether it has sent its first message, or ended.
    fn has_input(&mut self) -> bool;
    /// The started worker; `None` when it ended, or reports no seccomp filter.
    fn ready(self: Box<Self>, deadline: Instant) -> Option<Box<dyn TargetWorker>>;
}

/// Starts a target.
pub(crate) type StartTarget<'a> = &'a dyn Fn() -> io::Result<Box<dyn PendingWorker>>;
/// Registers a function that is called when the run is cancelled.
pub(crate) type OnCancel<'a> = &'a dyn Fn(Box<dyn Fn() + Send + Sync>) -> Registered;

/// What the migration of one run needs.
pub(crate) struct MigrationOptions<'a> {
    pub(crate) source: &'a dyn SourceWorker,
    pub(crate) thresholds: Thresholds,
    pub(crate) race: RacePolicy,
    pub(crate) start: StartTarget<'a>,
    pub(crate) on_cancel: OnCancel<'a>,
}

impl MigrationOptions<'_> {
    /// Processor time before which the run does not migrate.
    fn earliest(&self) -> Duration {
        let Thresholds { racing, alone } = self.thresholds;
        if self.race == RacePolicy::Never { alone } else { racing.min(alone) }
    }
}

/// A migration that may happen: from the start of the run until its target is ready.
pub(crate) struct Migration<'a> {
    pub(crate) options: MigrationOptions<'a>,
    began: Instant,
    next_check: Instant,
    pending: Option<(Box<dyn PendingWorker>, Instant)>,
    /// Whether the source goes on beside the target.
    is_race: bool,
}

impl<'a> Migration<'a> {
    pub(crate) fn new(options: MigrationOptions<'a>) -> Self {
        let began = Instant::now();
        let earliest = options.earliest();
        Migration { next_check: began + earliest, options, began, pending: None, is_race: false }
    }

    /// When [`Migration::check`] is due.
    pub(crate) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Starts the target when the source has computed for long enough, and returns it when it is ready. An error ends
    /// the attempt.
    pub(crate) fn check(&mut self, now: Instant) -> io::Result<Option<Box<dyn TargetWorker>>> {
        match self.pending.take() {
            None => {
                let used = self.options.source.clock().read();
                let Thresholds { racing, alone } = self.options.thresholds;
                self.is_race = used >= racing && self.options.race.allows();
                if !self.is_race && used < alone {
                    let earliest = self.options.earliest();
                    let wait = if used < earliest { earliest - used } else { (alone - used).min(IDLE_CORE_INTERVAL) };
                    self.next_check = now + wait.max(MIN_CLOCK_INTERVAL);
                    return Ok(None);
                }
                self.pending = Some(((self.options.start)()?, now));
                self.check(now)
            }
            Some((mut pending, since)) => {
                if pending.has_input() {
                    let ready = pending.ready(now + TARGET_PROBE_INTERVAL);
                    return ready.map(Some).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
                }
                if now - since > TARGET_START_TIMEOUT {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.pending = Some((pending, since));
                self.next_check = now + TARGET_PROBE_INTERVAL;
                Ok(None)
            }
        }
    }

    /// When the race ends, if the source goes on beside the target.
    pub(crate) fn race_end(&self, now: Instant) -> Option<Instant> {
        self.is_race.then(|| race::race_end(now, self.options.source.clock().read()))
    }

    /// What the report says about the attempt.
    pub(crate) fn record(&self, to: Destination, stopped: Instant, caught_up: Instant) -> Moved {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Moved { to, at_ms: ms(stopped - self.began), cost_ms: ms(caught_up - stopped) }
    }
}

/// Why a run did not migrate.
#[derive(Debug)]
pub(crate) enum MigrationFailure {
    /// The target sent a message that the source had not sent.
    Diverged,
    /// The target ended, or was too slow, or the run said more than is kept for a target.
    Lost,
    /// The run itself is over; `caught_up` tells whether the target had repeated everything by then.
    Over { lost: Lost, caught_up: bool },
}

impl MigrationFailure {
    /// Where the run is.
    pub(crate) fn destination(&self) -> Destination {
        match self {
            MigrationFailure::Over { caught_up: true, .. } => Destination::V8,
            MigrationFailure::Diverged => Destination::StayedDiverged,
            MigrationFailure::Lost | MigrationFailure::Over { .. } => Destination::StayedLost,
        }
    }
}
