//! The stages of one V8 worker: idle, ready for one program, ended. Each stage consumes the one before.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, pidfd_send_signal, prlimit, waitpid};
use toolgate_wire::Start;
use toolgate_wire::frame::Layers;

use super::parent::{MemorySize, ParentThread, StartedWorker};
use super::watch::MemoryWatch;
use crate::clock::CpuClock;
use crate::migrate::TargetWorker;
use crate::process::ProcessEnd;
use crate::pump::{Driven, Job, Lost, drive};
use crate::socket::WorkerSocket;

/// Bytes of its standard error that are read.
const MAX_STDERR: usize = 64 * 1024;

/// A worker that waits for a program, or is still starting.
pub(crate) struct Idle {
    socket: WorkerSocket,
    process: Process,
    size: MemorySize,
}

/// Why a worker did not become ready.
#[derive(Debug)]
pub(crate) enum Unready {
    /// It was too slow.
    Late,
    /// It ended; this is its standard error.
    Ended(String),
}

/// A worker that has sent its first frame.
pub(crate) struct Ready {
    socket: WorkerSocket,
    process: Process,
    layers: Layers,
}

/// The process; dropping this value ends it.
struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
    stderr: std::io::PipeReader,
    parent: Arc<ParentThread>,
    watch: Option<MemoryWatch>,
    reaped: bool,
}

impl Idle {
    pub(super) fn new(started: StartedWorker, parent: Arc<ParentThread>, size: MemorySize) -> std::io::Result<Self> {
        let StartedWorker { pid, handle, stream, stderr } = started;
        let process = Process { pid, handle: Arc::new(handle), stderr, parent, watch: None, reaped: false };
        Ok(Idle { socket: WorkerSocket::new(stream)?, process, size })
    }

    /// Whether it has sent its first frame, or ended.
    pub(super) fn has_input(&mut self) -> bool {
        self.socket.has_input()
    }

    /// Waits for the worker's first frame.
    pub(crate) fn ready(mut self, deadline: Instant) -> Result<Ready, Unready> {
        match self.socket.hello(deadline) {
            Ok(hello) => {
                // Without this thread, the worker's own meter and `RLIMIT_DATA` still bound its memory.
                self.process.watch = self.process.watch(self.size.allowed()).ok();
                Ok(Ready { socket: self.socket, process: self.process, layers: hello.layers })
            }
            Err(Lost::Deadline) => Err(Unready::Late),
            Err(_) => Err(Unready::Ended(self.process.stderr())),
        }
    }
}

impl Ready {
    pub(crate) fn layers(&self) -> Layers {
        self.layers
    }

    /// A function that kills the worker from any thread, at any time.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let handle = self.process.handle.clone();
        move || {
            let _ = pidfd_send_signal(&*handle, Signal::KILL);
        }
    }

    /// Runs the program, then ends the process in any case. A worker is never used twice.
    pub(crate) fn run(mut self, job: Job) -> (Driven, ProcessEnd) {
        self.limit_cpu(&job.start);
        let clock = self.clock();
        let before = clock.read();
        let mut driven = drive(&mut self.socket, job, Some(clock.clone()), None);
        if let Ok(finished) = &mut driven.end {
            finished.cpu = clock.read().saturating_sub(before);
        }
        let end = match driven.end {
            Err(Lost::Closed { .. }) => self.process.wait(),
            _ => ProcessEnd::Exit,
        };
        (driven, end)
    }

    /// Sets `RLIMIT_CPU` for this run. Best effort: the host may lack the permission.
    ///
    /// The limit counts all threads, so it has room for V8's compiler and garbage collector.
    fn limit_cpu(&self, start: &Start) {
        let seconds = 4 * (start.limits.wall.as_secs() + 2);
        let _ =
            prlimit(Some(self.process.pid), Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds) });
    }
}

impl TargetWorker for Ready {
    fn socket(&mut self) -> &mut WorkerSocket {
        &mut self.socket
    }

    fn clock(&self) -> CpuClock {
        CpuClock::of(self.process.pid)
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(Ready::killer(self))
    }

    fn wait(&mut self) -> ProcessEnd {
        self.process.wait()
    }
}

impl Process {
    fn watch(&self, allowed: u64) -> std::io::Result<MemoryWatch> {
        MemoryWatch::start(self.pid, self.handle.clone(), allowed)
    }

    fn wait(&mut self) -> ProcessEnd {
        let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::empty()) else { return ProcessEnd::Exit };
        self.reaped = true;
        match status.terminating_signal() {
            Some(_) if self.ran_out_of_memory() => ProcessEnd::OutOfMemory,
            Some(signal) => ProcessEnd::Signal(signal),
            None => ProcessEnd::Exit,
        }
    }

    /// Whether the memory watch killed it, or V8 or the allocator reported on standard error that memory ran out.
    ///
    /// Guest code cannot write to standard error, so the report proves that memory ran out.
    fn ran_out_of_memory(&mut self) -> bool {
        if self.watch.as_ref().is_some_and(MemoryWatch::was_exceeded) {
            return true;
        }
        let printed = self.stderr();
        ["out of memory", "memory allocation of"].iter().any(|report| printed.contains(report))
    }

    /// What it has printed on standard error so far. The pipe is non-blocking: an error means that it is empty.
    fn stderr(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = Read::by_ref(&mut self.stderr).take(MAX_STDERR as u64).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.watch = None;
        if !self.reaped {
            let _ = pidfd_send_signal(&*self.handle, Signal::TERM);
            if let Ok(handle) = self.handle.try_clone() {
                self.parent.reap(self.pid, handle);
            }
        }
    }
}
