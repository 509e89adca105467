//! The stages of one worker: idle, ready for one program, used, ended. Each stage consumes the one before; a used worker
//! that was rewound is ready again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid,
};
use toolgate_guest::lockdown::bounds_of;
use toolgate_rewind::{Bounds, Refusal, Snapshot};
use toolgate_wire::frame::{End, Layers};

use super::command::StartError;
use super::end::ProcessEnd;
use super::request::MigrationRequest;
use super::zygote::{GroupUse, InUse, Zygote, kill};
use crate::clock::CpuClock;
use crate::migrate::{MigrationOptions, PendingWorker, SourceWorker, TargetWorker};
use crate::pump::{Driven, Finished, Job, Lost, drive};
use crate::shared_core::SharedCore;
use crate::socket::WorkerSocket;

/// A worker that waits for a program, or is still being forked.
pub(crate) struct Idle {
    socket: WorkerSocket,
    group: GroupUse,
}

/// A worker that has sent its first frame: locked down, with a known process.
pub(crate) struct Ready {
    socket: WorkerSocket,
    pid: Pid,
    handle: Arc<OwnedFd>,
    clock: CpuClock,
    layers: Layers,
    zygote: Arc<Zygote>,
    /// Given up when it is dropped.
    group: Option<GroupUse>,
    reaped: bool,
    /// The state to which it can be put back, where workers are used again.
    snapshot: Option<Snapshot>,
    /// The resource limits that its runs have set. A limit is never raised.
    bounds: Option<Bounds>,
    rewinds: u32,
    in_use: Option<InUse>,
}

/// Runs that one process serves before it is replaced: address space layouts are not kept for long.
const MAX_REWINDS: u32 = 256;

/// Processor time of all runs of a process. `RLIMIT_CPU` counts the process's whole life and leaves each run two seconds
/// more than it may take.
const MAX_CPU_OF_ALL_RUNS: Duration = Duration::from_secs(1);

/// A worker that has returned a value. It still holds the program, until it is rewound or killed.
pub(crate) struct UsedWorker(Ready);

impl Idle {
    pub(super) fn new(stream: UnixStream, group: GroupUse) -> Result<Self, StartError> {
        Ok(Idle { socket: WorkerSocket::new(stream)?, group })
    }

    /// Waits for the worker's first frame. Nothing was sent to it yet, so another worker can take its place.
    pub(super) fn ready(mut self, zygote: &Arc<Zygote>, deadline: Instant) -> Result<Ready, Lost> {
        let (pid, handle, layers) = match self.first_frame(deadline) {
            Ok(first) => first,
            Err(lost) => {
                zygote.release(None, self.group);
                return Err(lost);
            }
        };
        Ok(Ready {
            socket: self.socket,
            pid,
            handle: Arc::new(handle),
            clock: CpuClock::of(pid),
            layers,
            zygote: zygote.clone(),
            group: Some(self.group),
            reaped: false,
            snapshot: None,
            bounds: None,
            rewinds: 0,
            in_use: Some(zygote.in_use.clone()),
        })
    }

    /// The process, and the layers that confine it.
    fn first_frame(&mut self, deadline: Instant) -> Result<(Pid, OwnedFd, Layers), Lost> {
        let not_started = |_| Lost::Closed { started: false };
        let hello = self.socket.hello(deadline).map_err(|lost| match lost {
            Lost::Closed { .. } => Lost::Closed { started: false },
            lost => lost,
        })?;
        let pid = i32::try_from(hello.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Lost::Violation("an invalid process id"))?;
        // The worker is a child of this process and was not waited for, so its process id was not reused.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(not_started)?;
        Ok((pid, handle, hello.layers))
    }
}

impl Ready {
    pub(crate) fn layers(&self) -> Layers {
        self.layers
    }

    /// A function that kills the worker from any thread, at any time.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let handle = self.handle.clone();
        move || kill(&handle)
    }

    /// Takes the snapshot to which the worker can be put back. No program was sent to it yet.
    pub(super) fn with_snapshot(mut self) -> Result<Self, Refusal> {
        self.snapshot = Some(Snapshot::take(self.pid.as_raw_nonzero().get().cast_unsigned())?);
        Ok(self)
    }

    /// Whether the process had run a program before.
    pub(crate) fn was_rewound(&self) -> bool {
        self.rewinds > 0
    }

    /// No longer, or again, counts as one that executes a run.
    pub(super) fn count_in_use(&mut self, is_in_use: bool) {
        self.in_use = is_in_use.then(|| self.zygote.in_use.clone());
    }

    /// Whether it can take a run: its process has not ended, and `RLIMIT_CPU` leaves the run its time.
    pub(super) fn can_run_for(&mut self, wall: Duration) -> bool {
        self.has_time_for(wall) && !self.socket.has_input()
    }

    /// Whether `RLIMIT_CPU` leaves a run its time.
    pub(super) fn has_time_for(&self, wall: Duration) -> bool {
        self.bounds.is_none_or(|bounds| bounds.cpu >= bounds_of_wall(wall))
    }

    /// Runs the program, then kills the process, unless it returned a value and can be rewound.
    pub(crate) fn run(
        mut self,
        mut job: Job,
        migration: Option<MigrationRequest<'_>>,
    ) -> (Driven, ProcessEnd, Option<UsedWorker>) {
        let clock = self.clock.clone();
        let clock = if self.was_rewound() && migration.is_some() { clock.restarted() } else { clock };
        let source = Process { clock, handle: self.handle.clone() };
        self.bounds = Some(self.bounds_with(&job));
        job.core = job.cores.and_then(|cores| SharedCore::of_worker(self.pid, cores));
        let options = migration.map(|MigrationRequest { thresholds, race, start, on_cancel }| MigrationOptions {
            source: &source,
            thresholds,
            race,
            start,
            on_cancel,
        });
        let driven = drive(&mut self.socket, job, Some(self.clock.clone()), options);
        if self.snapshot.is_some() && self.rewinds < MAX_REWINDS && returned(&driven) {
            self.count_in_use(false);
            return (driven, ProcessEnd::Exit, Some(UsedWorker(self)));
        }
        // Kill before answering: a worker that outlives its answer could still act in its run's name.
        kill(&self.handle);
        let end = match (&driven.end, driven.target_end) {
            (Err(Lost::Closed { .. }), Some(target_end)) => target_end,
            (Err(Lost::Closed { .. }), None) => self.wait(),
            _ => ProcessEnd::Exit,
        };
        (driven, end, None)
    }

    /// The resource limits of the process once it has begun a job.
    fn bounds_with(&self, job: &Job) -> Bounds {
        let (data, cpu) = bounds_of(&job.start.limits);
        self.bounds.map_or(Bounds { data, cpu }, |old| Bounds { data: data.min(old.data), cpu: cpu.min(old.cpu) })
    }

    /// Waits for the process and tells how it ended.
    fn wait(&mut self) -> ProcessEnd {
        match waitpid(Some(self.pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                self.reaped = true;
                status.terminating_signal().map_or(ProcessEnd::Exit, ProcessEnd::Signal)
            }
            _ => ProcessEnd::Exit,
        }
    }
}

/// Whether the program returned a value, in this process alone.
fn returned(driven: &Driven) -> bool {
    driven.moved.is_none() && matches!(&driven.end, Ok(Finished { end: End::Returned(_), .. }))
}

/// What `RLIMIT_CPU` must be for a run that may take so long.
fn bounds_of_wall(wall: Duration) -> u64 {
    wall.as_secs() + 2
}

impl UsedWorker {
    /// Puts the process back to its snapshot. It is killed when anything remains that cannot be compared or put back.
    pub(super) fn rewind(self) -> Option<Ready> {
        let UsedWorker(mut worker) = self;
        let (snapshot, bounds) = (worker.snapshot.as_mut()?, worker.bounds?);
        if worker.clock.read() > MAX_CPU_OF_ALL_RUNS {
            return None;
        }
        let stopped = snapshot.stop().ok()?;
        if !worker.socket.is_silent() {
            return None;
        }
        stopped.rewind(bounds).ok()?;
        worker.rewinds += 1;
        Some(worker)
    }
}

/// The process of a worker, apart from its socket.
struct Process {
    clock: CpuClock,
    handle: Arc<OwnedFd>,
}

impl SourceWorker for Process {
    fn clock(&self) -> CpuClock {
        self.clock.clone()
    }

    fn stop(&self) -> io::Result<()> {
        pidfd_send_signal(&*self.handle, Signal::STOP)?;
        // Waits until the process is stopped or has ended; WNOWAIT leaves its status for a later wait.
        let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.handle.as_fd()), what)?;
        Ok(())
    }

    fn resume(&self) {
        let _ = pidfd_send_signal(&*self.handle, Signal::CONT);
    }

    fn kill(&self) {
        kill(&self.handle);
    }
}

impl TargetWorker for Ready {
    fn socket(&mut self) -> &mut WorkerSocket {
        &mut self.socket
    }

    fn clock(&self) -> CpuClock {
        self.clock.clone()
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(Ready::killer(self))
    }

    fn wait(&mut self) -> ProcessEnd {
        Ready::wait(self)
    }
}

/// A QuickJS worker as the target of a migration, for tests of migration without V8.
pub(super) struct RehearsalWorker {
    pub(super) idle: Idle,
    pub(super) zygote: Arc<Zygote>,
}

impl PendingWorker for RehearsalWorker {
    fn has_input(&mut self) -> bool {
        self.idle.socket.has_input()
    }

    fn ready(self: Box<Self>, deadline: Instant) -> Option<Box<dyn TargetWorker>> {
        let ready = self.idle.ready(&self.zygote, deadline).ok()?;
        Some(Box::new(ready))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if !self.reaped {
            kill(&self.handle);
        }
        if let Some(group) = self.group.take() {
            self.zygote.release((!self.reaped).then_some(self.pid), group);
        }
    }
}
