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
    /// Megabytes that V8's heap may grow to.
    pub(super) heap: u64,
    /// Bytes of private memory that the process may ever have.
    pub(super) memory: u64,
}

/// A worker that was just started.
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
    pub(super) stream: UnixStream,
    pub(super) stderr: io::PipeReader,
}

enum Task {
    Start(Sender<io::Result<Started>>),
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

    pub(super) fn start(&self) -> io::Result<Started> {
        let (answer, started) = channel();
        self.task(Task::Start(answer));
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
            Ok(Task::Start(answer)) => {
                let _ = answer.send(start(recipe));
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

fn start(recipe: &Recipe) -> io::Result<Started> {
    let (ours, theirs) = UnixStream::pair()?;
    let (stderr, their_stderr) = io::pipe()?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let child = Command::new(&recipe.jail)
        .arg0(toolgate_guest::JAIL)
        .arg(recipe.without.names())
        .arg(recipe.memory.to_string())
        .arg(&recipe.deno)
        .args(script::arguments(recipe.heap))
        .env_clear()
        .current_dir("/")
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
