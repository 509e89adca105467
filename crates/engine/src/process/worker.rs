//! One worker: idle, then running one program, then dead. Each stage eats the one before.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid,
};
use toolgate_wire::frame::Layers;

use super::zygote::{AtWork, StartError, Zygote, kill};
use crate::clock::CpuClock;
use crate::moving::{Coming, First, Mover, OnCancel, Second, Start};
use crate::pump::{Driven, Job, Lost, drive};
use crate::socket::Wire;

/// A worker that waits for a program, or will as soon as its fork is done.
pub(crate) struct Idle {
    wire: Wire,
}

/// A worker that said hello: locked down, known by its process.
pub(crate) struct Ready {
    wire: Wire,
    pid: Pid,
    handle: Arc<OwnedFd>,
    layers: Layers,
    zygote: Arc<Zygote>,
    waited_for: bool,
    _at_work: AtWork,
}

/// How the process itself ended, when it ended without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Killed by a signal that nobody here sent.
    Signal(i32),
    /// Its interpreter or its allocator ended it when memory ran out.
    OutOfMemory,
    /// It exited, or nothing is known.
    Exit,
}

impl Idle {
    pub(crate) fn new(stream: UnixStream) -> Result<Self, StartError> {
        Ok(Idle { wire: Wire::new(stream)? })
    }

    /// Waits for the worker's hello. Nothing was sent to it yet, so a failure costs nothing.
    pub(super) fn ready(mut self, zygote: &Arc<Zygote>, deadline: Instant) -> Result<Ready, Lost> {
        let unstarted = |_| Lost::Closed { started: false };
        let hello = self.wire.hello(deadline).map_err(|lost| match lost {
            Lost::Closed { .. } => Lost::Closed { started: false },
            lost => lost,
        })?;
        let pid =
            i32::try_from(hello.pid).ok().and_then(Pid::from_raw).ok_or(Lost::Breach("a worker without a number"))?;
        // The worker is this process's child and not yet waited for, so the number is still its own.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(unstarted)?;
        Ok(Ready {
            wire: self.wire,
            pid,
            handle: Arc::new(handle),
            layers: hello.layers,
            zygote: zygote.clone(),
            waited_for: false,
            _at_work: zygote.at_work.clone(),
        })
    }
}

impl Ready {
    pub(crate) fn layers(&self) -> Layers {
        self.layers
    }

    /// Kills the worker from any thread, at any time.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let handle = self.handle.clone();
        move || kill(&handle)
    }

    /// Runs the program, then kills the process whatever it says. A worker is never used twice.
    pub(crate) fn run(mut self, job: Job, moves: Option<Moves<'_>>) -> (Driven, Ended) {
        let first = Stoppable { pid: self.pid, handle: self.handle.clone() };
        let mover =
            moves.map(|Moves { threshold, start, on_cancel }| Mover { first: &first, threshold, start, on_cancel });
        let driven = drive(&mut self.wire, job, mover);
        // Kill before answering: a worker that outlives its answer could still act in its run's name.
        kill(&self.handle);
        let ended = match (&driven.end, driven.ended) {
            (Err(Lost::Closed { .. }), Some(of_second)) => of_second,
            (Err(Lost::Closed { .. }), None) => self.wait(),
            _ => Ended::Exit,
        };
        (driven, ended)
    }

    /// Why a worker closed its socket without a last word.
    fn wait(&mut self) -> Ended {
        match waitpid(Some(self.pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                self.waited_for = true;
                status.terminating_signal().map_or(Ended::Exit, Ended::Signal)
            }
            _ => Ended::Exit,
        }
    }
}

/// How a run may leave its worker.
pub(crate) struct Moves<'a> {
    /// Processor time after which it does.
    pub(crate) threshold: Duration,
    pub(crate) start: Start<'a>,
    pub(crate) on_cancel: OnCancel<'a>,
}

/// The process, apart from its socket.
struct Stoppable {
    pid: Pid,
    handle: Arc<OwnedFd>,
}

impl First for Stoppable {
    fn clock(&self) -> CpuClock {
        CpuClock::of(self.pid)
    }

    fn stop(&self) -> io::Result<()> {
        pidfd_send_signal(&*self.handle, Signal::STOP)?;
        // Waits for the stop itself, or for an end that came before; either is left for others to see.
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

impl Second for Ready {
    fn wire(&mut self) -> &mut Wire {
        &mut self.wire
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

    fn ended(&mut self) -> Ended {
        self.wait()
    }
}

/// A worker of the same kind, for rehearsals of a move.
pub(super) struct Understudy {
    pub(super) idle: Idle,
    pub(super) zygote: Arc<Zygote>,
}

impl Coming for Understudy {
    fn has_spoken(&mut self) -> bool {
        self.idle.wire.has_input()
    }

    fn ready(self: Box<Self>, deadline: Instant) -> Option<Box<dyn Second>> {
        let ready = self.idle.ready(&self.zygote, deadline).ok()?;
        Some(Box::new(ready))
    }
}

impl Ended {
    /// The process used more processor time than any run may.
    pub(crate) fn is_cpu_limit(self) -> bool {
        self == Ended::Signal(Signal::XCPU.as_raw())
    }

    /// SIGKILL, which the engine did not send: from the OOM killer or from another process.
    pub(crate) fn is_kill(self) -> bool {
        self == Ended::Signal(Signal::KILL.as_raw())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if !self.waited_for {
            kill(&self.handle);
            self.zygote.reap(self.pid);
        }
    }
}
