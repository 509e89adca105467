//! The thread that is every V8 worker's parent.
//!
//! A worker dies with the thread that started it, so that thread lives as long as the engine. It
//! starts workers, waits for the dead, and lets idle ones go when nobody needed one for a while.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use toolgate_guest::lockdown::Without;

use super::script;

/// How long a worker that was asked to end may take to do so.
const GRACE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What a worker is made of.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    /// The program that is started again as the jail.
    pub(super) jail: PathBuf,
    pub(super) deno: PathBuf,
    pub(super) without: Without,
    /// Megabytes that V8's heap may grow to, whatever a run's own limit is.
    pub(super) max_heap: u64,
}

impl Recipe {
    /// Megabytes of V8's heap for runs of a size: what deno itself holds comes on top.
    fn heap(&self, size: Size) -> u64 {
        (size.0 + DENO_HEAP).min(self.max_heap)
    }

    /// Bytes of private memory that a process for runs of a size may ever have.
    ///
    /// It bounds what the heap's limit does not, such as typed arrays. The kernel counts reserved code space too.
    fn memory(size: Size) -> u64 {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        (RESERVED + threads * THREAD) * 1024 * 1024 + size.allowed()
    }
}

/// Megabytes of heap that deno has before a program is there.
const DENO_HEAP: u64 = 12;
/// Megabytes that V8 maps writable without using them.
const RESERVED: u64 = 576;
/// Megabytes that a thread's stack and buffers take.
const THREAD: u64 = 10;
/// Megabytes for the young generation, the compiler and frames under way.
const SLACK: u64 = 112;

/// The megabytes of memory that a worker's run may use: a process is started for runs of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(u64);

impl Size {
    /// The size of runs with this limit in bytes.
    pub(crate) fn of(memory: u64) -> Self {
        Size(memory.div_ceil(1024 * 1024))
    }

    /// Bytes that a process for runs of this size may hold once it is up.
    pub(super) fn allowed(self) -> u64 {
        (self.0 + SLACK) * 1024 * 1024
    }
}

/// A worker that was just started.
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
    pub(super) stream: UnixStream,
    pub(super) stderr: io::PipeReader,
}

enum Task {
    Start(Size, Sender<io::Result<Started>>),
    Reap(Pid, OwnedFd),
}

/// The way to the thread.
pub(super) struct Keeper(Mutex<Option<(Sender<Task>, JoinHandle<()>)>>);

impl Keeper {
    /// `idle` is called when nothing was asked for during `patience`.
    pub(super) fn new(recipe: Recipe, patience: Duration, idle: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (tasks, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("toolgate-v8".into())
            .spawn(move || serve(&recipe, &inbox, patience, idle))?;
        Ok(Keeper(Mutex::new(Some((tasks, thread)))))
    }

    pub(super) fn start(&self, size: Size) -> io::Result<Started> {
        let (answer, started) = channel();
        self.task(Task::Start(size, answer));
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Makes sure that a worker which was asked to end does, in the background.
    pub(super) fn reap(&self, pid: Pid, handle: OwnedFd) {
        if let Some(Task::Reap(pid, handle)) = self.task(Task::Reap(pid, handle)) {
            end(pid, &handle);
        }
    }

    /// Gives the thread something to do; gives it back when there is no thread any more.
    fn task(&self, task: Task) -> Option<Task> {
        match lock(&self.0).as_ref() {
            Some((tasks, _)) => tasks.send(task).err().map(|unsent| unsent.0),
            None => Some(task),
        }
    }

    /// Waits until everything asked for is done and ends the thread; every worker still there dies with it.
    pub(super) fn stop(&self) {
        let thread = lock(&self.0).take();
        if let Some((tasks, thread)) = thread {
            drop(tasks);
            let _ = thread.join();
        }
    }
}

fn serve(recipe: &Recipe, inbox: &Receiver<Task>, patience: Duration, idle: impl Fn()) {
    loop {
        match inbox.recv_timeout(patience) {
            Ok(Task::Start(size, answer)) => {
                let _ = answer.send(start(recipe, size));
            }
            Ok(Task::Reap(pid, handle)) => end(pid, &handle),
            Err(RecvTimeoutError::Timeout) => idle(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Asks politely, waits a little, kills, and waits for the end.
fn end(pid: Pid, handle: &OwnedFd) {
    let _ = pidfd_send_signal(handle, Signal::TERM);
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&GRACE));
    let _ = pidfd_send_signal(handle, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

fn start(recipe: &Recipe, size: Size) -> io::Result<Started> {
    let (ours, theirs) = UnixStream::pair()?;
    let (stderr, their_stderr) = io::pipe()?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let child = Command::new(&recipe.jail)
        .arg0(toolgate_guest::JAIL)
        .arg(recipe.without.names())
        .arg(Recipe::memory(size).to_string())
        .arg(&recipe.deno)
        .args(script::arguments(recipe.heap(size)))
        .env_clear()
        .stdin(OwnedFd::from(theirs.try_clone()?))
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::from(their_stderr))
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // The child was not waited for yet, so the number is still its own.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    io::Write::write_all(&mut &ours, &script::first_message())?;
    Ok(Started { pid, handle, stream: ours, stderr })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
