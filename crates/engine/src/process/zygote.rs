//! Keeps one zygote running and has it fork workers.
//!
//! The zygote forks with `CLONE_PARENT`, so workers are children of the host, which can wait for them. Their
//! `PR_SET_PDEATHSIG` fires when the thread that started the zygote ends. That thread, the [`ParentThread`], therefore
//! lives as long as the engine and does nothing but start zygotes and wait for ended processes.
//!
//! Forks of one zygote share one address space layout. So a zygote is replaced after some hundreds of forks: a thread starts
//! the next one, which takes over when it has forked a worker that is ready. No run waits for that.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};
use toolgate_guest::Pace;
use toolgate_guest::lockdown::{Reuse, Without};

use super::worker::Idle;

/// Forks of one zygote before the next one is started, unless the engine is built with another number.
pub(crate) const FORKS_PER_ZYGOTE: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);
/// A zygote whose successor could not be started goes on for this many times as many forks.
const MAX_OVERTIME: u32 = 10;
/// How long the next zygote may take to fork its first worker.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(30);

/// Why no worker process can be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be started again as a worker.
    #[error(
        "this program cannot be started again as a worker: call take_over_if_asked() first in main, \
         or name a worker command"
    )]
    NotPrepared,
    /// The program called `take_over_if_asked()` when it had threads already.
    #[error(
        "take_over_if_asked() was called when this program had other threads already, as in the body of a #[tokio::main] \
         function: call it first in a plain fn main and start the runtime after it, or use \
         #[tokio::main(flavor = \"current_thread\")], or name a worker command"
    )]
    PreparedLate,
    /// The system refused.
    #[error("the worker process could not be started: {0}")]
    Io(#[from] io::Error),
}

/// The program that is started as the zygote.
#[derive(Debug, Clone, Default)]
pub enum WorkerCommand {
    /// This one, which must have called `take_over_if_asked()` first in `main`.
    #[default]
    ThisProgram,
    /// Another program that does so.
    Program(PathBuf),
}

impl WorkerCommand {
    pub(crate) fn path(&self) -> Result<PathBuf, StartError> {
        match self {
            WorkerCommand::Program(path) => Ok(path.clone()),
            WorkerCommand::ThisProgram if toolgate_guest::was_called_late() => Err(StartError::PreparedLate),
            WorkerCommand::ThisProgram if toolgate_guest::can_take_over() => Ok("/proc/self/exe".into()),
            WorkerCommand::ThisProgram => Err(StartError::NotPrepared),
        }
    }
}

/// The current zygote; a new one is started when it is needed.
pub(crate) struct Zygote {
    current: Mutex<Option<Control>>,
    parent: Mutex<Option<(Sender<Task>, JoinHandle<()>)>>,
    pub(super) in_use: InUse,
    /// Forks before a zygote is replaced.
    forks: NonZeroU32,
    /// Whether the next zygote is being started.
    is_renewing: AtomicBool,
    this: Weak<Zygote>,
}

/// A counter: every worker that has left the pool holds a clone.
#[derive(Clone, Default)]
pub(super) struct InUse(Arc<()>);

impl InUse {
    /// Number of other clones.
    pub(super) fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// The host's end of one zygote.
struct Control {
    socket: OwnedFd,
    /// The number of its process.
    id: u32,
    forks: u32,
}

enum Task {
    Start(Sender<Result<Control, StartError>>),
    Reap(Pid),
    /// Waits for a zygote whose control socket is closed.
    Retire(u32),
}

impl Zygote {
    pub(crate) fn new(
        command: WorkerCommand,
        without: Without,
        reuse: Reuse,
        forks: NonZeroU32,
    ) -> Result<Arc<Self>, StartError> {
        let path = command.path()?;
        let (tasks, inbox) = channel();
        let parent = std::thread::Builder::new()
            .name("toolgate-parent".into())
            .spawn(move || ParentThread { path, without, reuse, zygotes: Vec::new() }.serve(&inbox))?;
        let parent = Mutex::new(Some((tasks, parent)));
        Ok(Arc::new_cyclic(|this| Zygote {
            current: Mutex::default(),
            parent,
            in_use: InUse::default(),
            forks,
            is_renewing: AtomicBool::new(false),
            this: this.clone(),
        }))
    }

    /// Requests a fork and returns the socket on which it will send its first frame. A dead zygote is replaced first.
    pub(crate) fn fork(&self, pace: Pace) -> Result<UnixStream, StartError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut current = self.current.lock();
        for _ in 0..2 {
            let control = match current.take() {
                Some(control) if control.forks < self.forks.get().saturating_mul(MAX_OVERTIME) => control,
                _ => self.start()?,
            };
            if send_socket(&control.socket, &theirs, pace).is_ok() {
                let forks = control.forks + 1;
                *current = Some(Control { forks, ..control });
                if forks.is_multiple_of(self.forks.get()) {
                    self.renew();
                }
                return Ok(ours);
            }
        }
        Err(io::Error::from(io::ErrorKind::BrokenPipe).into())
    }

    /// Waits for a killed worker on the parent thread, so that it does not stay a zombie; on this thread if that one has
    /// ended.
    pub(crate) fn reap(&self, pid: Pid) {
        if !self.task(Task::Reap(pid)) {
            wait_for(pid);
        }
    }

    /// Has the next zygote started in the background. Without a thread for it, the current one goes on.
    fn renew(&self) {
        if self.is_renewing.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.this.clone();
        let renewing = std::thread::Builder::new().name("toolgate-renew".into()).spawn(move || {
            if let Some(zygote) = this.upgrade() {
                zygote.replace_current();
                zygote.is_renewing.store(false, Ordering::Release);
            }
        });
        if renewing.is_err() {
            self.is_renewing.store(false, Ordering::Release);
        }
    }

    /// Starts a zygote, and has it take over once a fork of it is ready. Idle workers of the old one stay.
    fn replace_current(self: &Arc<Self>) {
        let Ok(mut next) = self.start() else { return };
        let retired = if self.forks_ready_workers(&next) {
            next.forks = 1;
            self.current.lock().replace(next)
        } else {
            Some(next)
        };
        if let Some(Control { socket, id, .. }) = retired {
            // It serves the orders that it has, and ends.
            drop(socket);
            self.task(Task::Retire(id));
        }
    }

    /// Whether a zygote forks workers that get ready. The one that it forks for this is ended.
    fn forks_ready_workers(self: &Arc<Self>, control: &Control) -> bool {
        let forked = UnixStream::pair().and_then(|(ours, theirs)| {
            send_socket(&control.socket, &theirs, Pace::Now)?;
            Ok(ours)
        });
        let worker = forked.ok().and_then(|socket| Idle::new(socket).ok());
        worker.is_some_and(|worker| worker.ready(self, Instant::now() + SUCCESSOR_TIMEOUT).is_ok())
    }

    fn start(&self) -> Result<Control, StartError> {
        let (answer, started) = channel();
        self.task(Task::Start(answer));
        started.recv().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::BrokenPipe).into()))
    }

    /// Sends a task to the parent thread; false when the thread has ended.
    fn task(&self, task: Task) -> bool {
        self.parent.lock().as_ref().is_some_and(|(tasks, _)| tasks.send(task).is_ok())
    }

    /// Ends the zygote and the parent thread. Workers that still run are killed by `PR_SET_PDEATHSIG`.
    pub(crate) fn stop(&self) {
        self.current.lock().take();
        if let Some((tasks, parent)) = self.parent.lock().take() {
            drop(tasks);
            let _ = parent.join();
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread that is the parent of every zygote and worker.
struct ParentThread {
    path: PathBuf,
    without: Without,
    reuse: Reuse,
    zygotes: Vec<Child>,
}

impl ParentThread {
    fn serve(mut self, inbox: &Receiver<Task>) {
        while let Ok(task) = inbox.recv() {
            match task {
                Task::Start(answer) => {
                    let _ = answer.send(self.start());
                }
                Task::Reap(pid) => wait_for(pid),
                Task::Retire(id) => self.retire(id),
            }
            self.zygotes.retain_mut(|zygote| matches!(zygote.try_wait(), Ok(None)));
        }
        self.zygotes.iter_mut().for_each(end_process_group);
    }

    fn retire(&mut self, id: u32) {
        if let Some(at) = self.zygotes.iter().position(|zygote| zygote.id() == id) {
            let _ = self.zygotes.swap_remove(at).wait();
        }
    }

    fn start(&mut self) -> Result<Control, StartError> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)?;
        let zygote = Command::new(&self.path)
            .arg0(toolgate_guest::ZYGOTE)
            .arg(self.without.names())
            .arg(self.reuse.name())
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let id = zygote.id();
        self.zygotes.push(zygote);
        Ok(Control { socket: ours, id, forks: 0 })
    }
}

/// Ends a zygote and all its forks, including those that died before they sent their process id.
///
/// A zygote leads a process group. Until it is waited for, no other process can get that group's id.
fn end_process_group(zygote: &mut Child) {
    let group = i32::try_from(zygote.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let _ = zygote.wait();
    if let Some(group) = group {
        while let Ok(Some(_)) = rustix::process::waitpgid(group, WaitOptions::empty()) {}
    }
}

fn wait_for(pid: Pid) {
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
}

fn send_socket(control: &OwnedFd, socket: &UnixStream, pace: Pace) -> io::Result<()> {
    let sockets = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    rustix::net::sendmsg(control, &[IoSlice::new(&[pace as u8])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Kills the process; does nothing when it has ended.
pub(super) fn kill(pidfd: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
}
