//! The stages of one worker: idle, ready for one program, ended. Each stage consumes the one before.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid,
};
use toolgate_wire::frame::Layers;

use super::zygote::{InUse, StartError, Zygote, kill};
use crate::clock::CpuClock;
use crate::migrate::{MigrationOptions, OnCancel, PendingWorker, SourceWorker, StartTarget, TargetWorker};
use crate::pump::{Driven, Job, Lost, drive};
use crate::socket::WorkerSocket;

/// A worker that waits for a program, or is still being forked.
pub(crate) struct Idle {
    socket: WorkerSocket,
}

/// A worker that has sent its first frame: locked down, with a known process.
pub(crate) struct Ready {
    socket: WorkerSocket,
    pid: Pid,
    handle: Arc<OwnedFd>,
    layers: Layers,
    zygote: Arc<Zygote>,
    reaped: bool,
    _in_use: InUse,
}

/// How a worker's process ended, when it did not report the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// Killed by a signal that the engine did not send.
    Signal(i32),
    /// Ended by its interpreter or its allocator when memory ran out.
    OutOfMemory,
    /// It exited, or the reason is not known.
    Exit,
}

impl Idle {
    pub(crate) fn new(stream: UnixStream) -> Result<Self, StartError> {
        Ok(Idle { socket: WorkerSocket::new(stream)? })
    }

    /// Waits for the worker's first frame. Nothing was sent to it yet, so another worker can take its place.
    pub(super) fn ready(mut self, zygote: &Arc<Zygote>, deadline: Instant) -> Result<Ready, Lost> {
        let not_started = |_| Lost::Closed { started: false };
        let hello = self.socket.hello(deadline).map_err(|lost| match lost {
            Lost::Closed { .. } => Lost::Closed { started: false },
            lost => lost,
        })?;
        let pid = i32::try_from(hello.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Lost::Violation("an invalid process id"))?;
        // The worker is a child of this process and was not waited for, so its process id was not reused.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(not_started)?;
        Ok(Ready {
            socket: self.socket,
            pid,
            handle: Arc::new(handle),
            layers: hello.layers,
            zygote: zygote.clone(),
            reaped: false,
            _in_use: zygote.in_use.clone(),
        })
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

    /// Runs the program, then kills the process in any case. A worker is never used twice.
    pub(crate) fn run(mut self, job: Job, migration: Option<MigrationRequest<'_>>) -> (Driven, ProcessEnd) {
        let source = Process { pid: self.pid, handle: self.handle.clone() };
        let options = migration.map(|MigrationRequest { threshold, start, on_cancel }| MigrationOptions {
            source: &source,
            threshold,
            start,
            on_cancel,
        });
        let driven = drive(&mut self.socket, job, options);
        // Kill before answering: a worker that outlives its answer could still act in its run's name.
        kill(&self.handle);
        let end = match (&driven.end, driven.target_end) {
            (Err(Lost::Closed { .. }), Some(target_end)) => target_end,
            (Err(Lost::Closed { .. }), None) => self.wait(),
            _ => ProcessEnd::Exit,
        };
        (driven, end)
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

/// How a run may migrate away from its worker.
pub(crate) struct MigrationRequest<'a> {
    /// Processor time after which it migrates.
    pub(crate) threshold: Duration,
    pub(crate) start: StartTarget<'a>,
    pub(crate) on_cancel: OnCancel<'a>,
}

/// The process of a worker, apart from its socket.
struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
}

impl SourceWorker for Process {
    fn clock(&self) -> CpuClock {
        CpuClock::of(self.pid)
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
        CpuClock::of(self.pid)
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

impl ProcessEnd {
    /// SIGXCPU: the process used more processor time than RLIMIT_CPU allows.
    pub(crate) fn is_cpu_limit(self) -> bool {
        self == ProcessEnd::Signal(Signal::XCPU.as_raw())
    }

    /// SIGKILL, which the engine did not send: from the OOM killer or from another process.
    pub(crate) fn is_kill(self) -> bool {
        self == ProcessEnd::Signal(Signal::KILL.as_raw())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if !self.reaped {
            kill(&self.handle);
            self.zygote.reap(self.pid);
        }
    }
}
