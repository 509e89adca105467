//! One V8 worker: idle, then running one program, then dead. Each stage eats the one before.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, pidfd_send_signal, prlimit, waitpid};
use toolgate_wire::Start;
use toolgate_wire::frame::Layers;

use super::keeper::{Keeper, Size, Started};
use super::watch::MemoryWatch;
use crate::clock::CpuClock;
use crate::moving::Second;
use crate::process::Ended;
use crate::pump::{Driven, Job, Lost, drive};
use crate::socket::Wire;

/// Bytes of its last words that are looked at.
const MAX_LAST_WORDS: usize = 64 * 1024;

/// A worker that waits for a program, or will as soon as it is up.
pub(crate) struct Idle {
    wire: Wire,
    process: Process,
    size: Size,
}

/// Why a worker gave no hello.
#[derive(Debug)]
pub(crate) enum Unready {
    /// It was too slow.
    Late,
    /// It ended, with these last words.
    Ended(String),
}

/// A worker that said hello.
pub(crate) struct Ready {
    wire: Wire,
    process: Process,
    layers: Layers,
}

/// The process, which ends with this value.
struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
    stderr: std::io::PipeReader,
    keeper: Arc<Keeper>,
    watch: Option<MemoryWatch>,
    waited_for: bool,
}

impl Idle {
    pub(super) fn new(started: Started, keeper: Arc<Keeper>, size: Size) -> std::io::Result<Self> {
        let Started { pid, handle, stream, stderr } = started;
        let process = Process { pid, handle: Arc::new(handle), stderr, keeper, watch: None, waited_for: false };
        Ok(Idle { wire: Wire::new(stream)?, process, size })
    }

    /// Whether a hello has arrived, or an end.
    pub(super) fn has_spoken(&mut self) -> bool {
        self.wire.has_input()
    }

    /// Waits for the worker's hello; when none comes, its last words may say why.
    pub(crate) fn ready(mut self, deadline: Instant) -> Result<Ready, Unready> {
        match self.wire.hello(deadline) {
            Ok(hello) => {
                // Without a thread for it, the worker's own meter and the kernel's limit still hold.
                self.process.watch = self.process.watch(self.size.allowed()).ok();
                Ok(Ready { wire: self.wire, process: self.process, layers: hello.layers })
            }
            Err(Lost::Deadline) => Err(Unready::Late),
            Err(_) => Err(Unready::Ended(self.process.last_words())),
        }
    }
}

impl Ready {
    pub(crate) fn layers(&self) -> Layers {
        self.layers
    }

    /// Kills the worker from any thread, at any time.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let handle = self.process.handle.clone();
        move || {
            let _ = pidfd_send_signal(&*handle, Signal::KILL);
        }
    }

    /// Runs the program, then ends the process whatever it says. A worker is never used twice.
    pub(crate) fn run(mut self, job: Job) -> (Driven, Ended) {
        self.limit(&job.start);
        let before = self.clock().read();
        let mut driven = drive(&mut self.wire, job, None);
        if let Ok(finished) = &mut driven.end {
            finished.cpu = self.clock().read().saturating_sub(before);
        }
        let ended = match driven.end {
            Err(Lost::Closed { .. }) => self.ended(),
            _ => Ended::Exit,
        };
        (driven, ended)
    }

    /// The kernel's own bound for this run's processor time. Best effort: a host may lack the right to set it.
    ///
    /// The compiler and the collector have threads of their own, which count too.
    pub(crate) fn limit(&self, start: &Start) {
        let seconds = 4 * (start.limits.wall.as_secs() + 2);
        let _ =
            prlimit(Some(self.process.pid), Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds) });
    }
}

impl Second for Ready {
    fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn clock(&self) -> CpuClock {
        CpuClock::of(self.process.pid)
    }

    fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(Ready::killer(self))
    }

    fn ended(&mut self) -> Ended {
        self.process.wait()
    }
}

impl Process {
    fn watch(&self, allowed: u64) -> std::io::Result<MemoryWatch> {
        MemoryWatch::start(self.pid, self.handle.clone(), allowed)
    }

    fn wait(&mut self) -> Ended {
        let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::empty()) else { return Ended::Exit };
        self.waited_for = true;
        match status.terminating_signal() {
            Some(_) if self.ran_out_of_memory() => Ended::OutOfMemory,
            Some(signal) => Ended::Signal(signal),
            None => Ended::Exit,
        }
    }

    /// Whether it was killed for what it held, or its last words are V8's, or its allocator's, report that memory ran out.
    ///
    /// Guest code has no function that writes there: the report is proof that the handler ran.
    fn ran_out_of_memory(&mut self) -> bool {
        if self.watch.as_ref().is_some_and(MemoryWatch::was_exceeded) {
            return true;
        }
        let words = self.last_words();
        ["out of memory", "memory allocation of"].iter().any(|report| words.contains(report))
    }
}

impl Process {
    fn last_words(&mut self) -> String {
        let mut words = Vec::new();
        // The pipe never blocks: an error is its end so far.
        let _ = Read::by_ref(&mut self.stderr).take(MAX_LAST_WORDS as u64).read_to_end(&mut words);
        String::from_utf8_lossy(&words).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.watch = None;
        if !self.waited_for {
            let _ = pidfd_send_signal(&*self.handle, Signal::TERM);
            if let Ok(handle) = self.handle.try_clone() {
                self.keeper.reap(self.pid, handle);
            }
        }
    }
}
