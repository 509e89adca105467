//! Lets the source go on while the target repeats the run, if a core is idle: the run ends with the one that is ahead.

use std::time::{Duration, Instant};

use super::replay::MigrationReplay;
use super::{MigrationFailure, TargetWorker};
use crate::pump::{Finished, Lost, Pump};
use crate::socket::WorkerSocket;

/// When a run that migrates goes on in its first worker while the second one repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RacePolicy {
    /// While a core is idle.
    #[default]
    WhenIdle,
    /// Whatever else the machine does.
    Always,
    /// Never: the first worker is stopped.
    Never,
}

impl RacePolicy {
    /// Whether the target may start beside the source now.
    pub(super) fn allows(self) -> bool {
        match self {
            RacePolicy::WhenIdle => is_a_core_idle(),
            RacePolicy::Always => true,
            RacePolicy::Never => false,
        }
    }
}

/// Whether the machine has a core for one task more. This thread counts as running, and will wait.
fn is_a_core_idle() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let running = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| running_tasks(&text));
    cores > 1 && running.is_some_and(|running| running <= cores)
}

/// The number of running tasks in a line such as `0.42 0.31 0.28 2/345 6789`.
fn running_tasks(load: &str) -> Option<usize> {
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// The shortest time that a race takes, if nothing decides it.
const MIN_RACE: Duration = Duration::from_millis(500);

/// When a race ends undecided: the target then goes on alone.
pub(super) fn race_end(now: Instant, computed: Duration) -> Instant {
    now + (2 * computed).max(MIN_RACE)
}

/// How a race ended.
pub(crate) enum Raced {
    /// The target sent what the source has not sent, as far as the host knows. The source must be stopped to find out.
    TargetIsAhead(toolgate_wire::FromWorker),
    /// Neither was ahead for long.
    Undecided,
    /// The run ended with the source.
    SourceEnded(Result<Finished, Lost>),
    /// The run stays with the source, which goes on.
    TargetFailed(MigrationFailure),
}

impl Pump {
    /// Serves the source, and has the target repeat what the source does, until one of them is ahead.
    pub(crate) fn race(
        &mut self,
        source: &mut WorkerSocket,
        target: &mut dyn TargetWorker,
        replay: &mut MigrationReplay,
        until: Instant,
    ) -> Raced {
        loop {
            self.fire_due();
            let now = Instant::now();
            if now >= self.hard_deadline() {
                return Raced::SourceEnded(Err(Lost::Deadline));
            }
            if now >= until {
                return Raced::Undecided;
            }
            // The source makes calls as it goes on, and no budget of the run counts their replies in the transcript.
            if self.channel().is_full() {
                return Raced::TargetFailed(MigrationFailure::Lost);
            }
            let expected = replay.feed(self);
            if expected.is_none() {
                replay.caught_up.get_or_insert(now);
            }
            match source.arrived().and_then(|frame| frame.map_or(Ok(Served::Nothing), |frame| self.serve_one(frame))) {
                Ok(Served::Nothing) => {}
                Ok(Served::Frame) => continue,
                Ok(Served::End(finished)) => return Raced::SourceEnded(Ok(finished)),
                Err(lost) => return Raced::SourceEnded(Err(lost)),
            }
            let frame = match target.socket().arrived() {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    let wakeup = self.next_wakeup().min(until);
                    source.wait_with(target.socket(), wakeup.saturating_duration_since(now));
                    continue;
                }
                Err(_) => return Raced::TargetFailed(MigrationFailure::Lost),
            };
            if replay.is_repeated_line(&frame, self.lines_logged()) {
                continue;
            }
            match expected {
                None => return Raced::TargetIsAhead(frame),
                Some(digest) if self.channel().has_digest(&frame, digest) => replay.index += 1,
                Some(_) => return Raced::TargetFailed(MigrationFailure::Diverged),
            }
        }
    }

    fn serve_one(&mut self, frame: toolgate_wire::FromWorker) -> Result<Served, Lost> {
        Ok(self.handle(frame)?.map_or(Served::Frame, Served::End))
    }
}

/// What the source sent.
enum Served {
    Nothing,
    Frame,
    End(Finished),
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use rustix::process::getpid;
    use toolgate_wire::frame::{Layers, Seed, Target};
    use toolgate_wire::{CallId, FromWorker, Limits, Profile, Start, codec};

    use super::*;
    use crate::clock::CpuClock;
    use crate::host::{HeldBytes, Host, HostCall, HostFuture};
    use crate::process::ProcessEnd;
    use crate::pump::Job;
    use crate::transcript::MAX_BYTES;

    /// A target that has not sent anything yet.
    struct SilentTarget(WorkerSocket);

    impl TargetWorker for SilentTarget {
        fn socket(&mut self) -> &mut WorkerSocket {
            &mut self.0
        }

        fn clock(&self) -> CpuClock {
            CpuClock::of(getpid())
        }

        fn layers(&self) -> Layers {
            Layers::default()
        }

        fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
            Box::new(|| {})
        }

        fn wait(&mut self) -> ProcessEnd {
            unreachable!("a race waits for no process")
        }
    }

    /// Every answer is as long as a transcript may be.
    struct LongAnswers;

    impl Host for LongAnswers {
        fn call(&self, _: HostCall) -> HostFuture {
            Box::pin(std::future::ready(Ok(format!("\"{}\"", "x".repeat(MAX_BYTES)))))
        }

        fn take_held(&self, _: CallId) -> Option<HeldBytes> {
            None
        }
    }

    fn job(runtime: &tokio::runtime::Runtime) -> Job {
        let start = Start {
            profile: Profile::Chain,
            limits: Limits::of(Profile::Chain),
            seed: Seed { math: 0, crypto: [0; 32] },
            now: 0.0,
            code: String::new(),
            data: None,
            functions: Vec::new(),
            tools: false,
            named: Vec::new(),
        };
        Job {
            start,
            data: None,
            deadline: Instant::now() + Duration::from_secs(60),
            host: Arc::new(LongAnswers),
            observer: None,
            recorder: None,
            replay: None,
            runtime: runtime.handle().clone(),
            cores: None,
            core: None,
        }
    }

    #[test]
    fn a_race_ends_when_the_transcript_is_full() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (ours, theirs) = UnixStream::pair().expect("pair");
        let mut source = WorkerSocket::new(ours).expect("socket");
        let (of_target, _peer) = UnixStream::pair().expect("pair");
        let mut target = SilentTarget(WorkerSocket::new(of_target).expect("socket"));
        let mut pump = Pump::begin(source.outbox(), job(&runtime), None, true);
        let mut replay = pump.begin_replay(&mut target);
        let mut call = Vec::new();
        let id = CallId(1);
        let frame = FromWorker::Call { id, target: Target::Function("long".into()), args: b"[]".to_vec() };
        codec::encode_from_worker(&frame, &mut call);
        std::io::Write::write_all(&mut &theirs, &call).expect("written");
        let raced = pump.race(&mut source, &mut target, &mut replay, Instant::now() + Duration::from_secs(20));
        assert!(matches!(raced, Raced::TargetFailed(MigrationFailure::Lost)));
    }

    #[test]
    fn the_number_of_running_tasks_is_read() {
        assert_eq!(running_tasks("0.42 0.31 0.28 2/345 6789\n"), Some(2));
        assert_eq!(running_tasks("0.42 0.31"), None);
        assert_eq!(running_tasks(""), None);
    }
}
