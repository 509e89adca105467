//! The thread that is the parent of all V8 workers.
//!
//! `PR_SET_PDEATHSIG` kills a worker when the thread that started it ends, so this thread lives as long as the engine.
//! It starts workers, waits for ended ones, and calls a function when no worker was needed for a while.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use toolgate_guest::lockdown::Without;

use super::script;

/// Time between SIGTERM and SIGKILL.
const TERM_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What workers are started with.
#[derive(Debug, Clone)]
pub(super) struct WorkerSpec {
    /// The program that is started as the jail around deno.
    pub(super) jail: PathBuf,
    pub(super) deno: PathBuf,
    pub(super) without: Without,
    /// Upper bound of V8's heap in megabytes.
    pub(super) max_heap: u64,
}

impl WorkerSpec {
    /// V8's heap limit in megabytes for runs of a size: their memory and what deno itself needs.
    fn heap(&self, size: MemorySize) -> u64 {
        (size.0 + DENO_HEAP_MB).min(self.max_heap)
    }

    /// `RLIMIT_DATA` in bytes of a process for runs of a size.
    ///
    /// It bounds what V8's heap limit does not, such as typed arrays. The kernel also counts address space that V8 reserves
    /// for code and does not use.
    fn memory(size: MemorySize) -> u64 {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        (RESERVED_MB + threads * THREAD_MB) * 1024 * 1024 + size.allowed()
    }
}

/// Heap of deno itself in megabytes.
const DENO_HEAP_MB: u64 = 12;
/// Megabytes that V8 maps writable and does not use.
const RESERVED_MB: u64 = 576;
/// Megabytes of one thread's stack and buffers.
const THREAD_MB: u64 = 10;
/// Megabytes for the young generation, the compiler and frames in transit.
const SLACK_MB: u64 = 112;

/// A run's memory limit in megabytes. A worker is started for runs of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemorySize(u64);

impl MemorySize {
    /// The size for a limit in bytes.
    pub(crate) fn of(memory: u64) -> Self {
        MemorySize(memory.div_ceil(1024 * 1024))
    }

    /// Bytes that a worker for runs of this size may hold beyond what it holds when it is ready.
    pub(super) fn allowed(self) -> u64 {
        (self.0 + SLACK_MB) * 1024 * 1024
    }
}

/// A worker that was just started.
pub(super) struct StartedWorker {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
    pub(super) stream: UnixStream,
    pub(super) stderr: io::PipeReader,
}

enum Task {
    Start(MemorySize, Sender<io::Result<StartedWorker>>),
    Reap(Pid, OwnedFd),
}

/// A handle on the thread.
pub(super) struct ParentThread(Mutex<Option<(Sender<Task>, JoinHandle<()>)>>);

impl ParentThread {
    /// `on_idle` is called when the thread got no task during `idle_timeout`.
    pub(super) fn new(
        spec: WorkerSpec,
        idle_timeout: Duration,
        on_idle: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (tasks, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("toolgate-v8".into())
            .spawn(move || serve(&spec, &inbox, idle_timeout, on_idle))?;
        Ok(ParentThread(Mutex::new(Some((tasks, thread)))))
    }

    pub(super) fn start(&self, size: MemorySize) -> io::Result<StartedWorker> {
        let (answer, started) = channel();
        self.task(Task::Start(size, answer));
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Ends a worker that got SIGTERM: waits for it on the thread, and kills it after a timeout.
    pub(super) fn reap(&self, pid: Pid, handle: OwnedFd) {
        if let Some(Task::Reap(pid, handle)) = self.task(Task::Reap(pid, handle)) {
            end(pid, &handle);
        }
    }

    /// Sends a task to the thread; returns the task when the thread has ended.
    fn task(&self, task: Task) -> Option<Task> {
        match self.0.lock().as_ref() {
            Some((tasks, _)) => tasks.send(task).err().map(|unsent| unsent.0),
            None => Some(task),
        }
    }

    /// Waits until all tasks are done and ends the thread. Workers that still run are killed by `PR_SET_PDEATHSIG`.
    pub(super) fn stop(&self) {
        let thread = self.0.lock().take();
        if let Some((tasks, thread)) = thread {
            drop(tasks);
            let _ = thread.join();
        }
    }
}

fn serve(spec: &WorkerSpec, inbox: &Receiver<Task>, idle_timeout: Duration, on_idle: impl Fn()) {
    loop {
        match inbox.recv_timeout(idle_timeout) {
            Ok(Task::Start(size, answer)) => {
                let _ = answer.send(start(spec, size));
            }
            Ok(Task::Reap(pid, handle)) => end(pid, &handle),
            Err(RecvTimeoutError::Timeout) => on_idle(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Sends SIGTERM, waits for [`TERM_TIMEOUT`], sends SIGKILL, and waits for the end.
fn end(pid: Pid, handle: &OwnedFd) {
    let _ = pidfd_send_signal(handle, Signal::TERM);
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&TERM_TIMEOUT));
    let _ = pidfd_send_signal(handle, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

fn start(spec: &WorkerSpec, size: MemorySize) -> io::Result<StartedWorker> {
    let (ours, theirs) = UnixStream::pair()?;
    let (stderr, their_stderr) = io::pipe()?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let child = Command::new(&spec.jail)
        .arg0(toolgate_guest::JAIL)
        .arg(spec.without.names())
        .arg(WorkerSpec::memory(size).to_string())
        .arg(&spec.deno)
        .args(script::arguments(spec.heap(size)))
        .env_clear()
        .stdin(OwnedFd::from(theirs.try_clone()?))
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::from(their_stderr))
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // The child was not waited for, so its process id was not reused.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    io::Write::write_all(&mut &ours, &script::first_message())?;
    Ok(StartedWorker { pid, handle, stream: ours, stderr })
}
