//! Keeps one zygote running and has it fork workers.
//!
//! The zygote forks with `CLONE_PARENT`, so workers are children of the host, which can wait for them. Their
//! `PR_SET_PDEATHSIG` fires when the thread that started the zygote ends. That thread, the [`ParentThread`], therefore
//! lives as long as the engine and does nothing but start zygotes and wait for ended processes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};
use toolgate_guest::Pace;
use toolgate_guest::lockdown::{Reuse, Without};

/// Forks of one zygote before it is replaced. Forks of one zygote share one address space layout.
const MAX_FORKS_PER_ZYGOTE: u32 = 20_000;

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
    forks: u32,
}

enum Task {
    Start(Sender<Result<OwnedFd, StartError>>),
    Reap(Pid),
}

impl Zygote {
    pub(crate) fn new(command: WorkerCommand, without: Without, reuse: Reuse) -> Result<Arc<Self>, StartError> {
        let path = command.path()?;
        let (tasks, inbox) = channel();
        let parent = std::thread::Builder::new()
            .name("toolgate-parent".into())
            .spawn(move || ParentThread { path, without, reuse, zygotes: Vec::new() }.serve(&inbox))?;
        let parent = Mutex::new(Some((tasks, parent)));
        Ok(Arc::new(Zygote { current: Mutex::default(), parent, in_use: InUse::default() }))
    }

    /// Requests a fork and returns the socket on which it will send its first frame. A dead zygote is replaced first.
    pub(crate) fn fork(&self, pace: Pace) -> Result<UnixStream, StartError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut current = self.current.lock();
        for _ in 0..2 {
            let control = match current.take() {
                Some(control) if control.forks < MAX_FORKS_PER_ZYGOTE => control,
                _ => Control { socket: self.start()?, forks: 0 },
            };
            if send_socket(&control.socket, &theirs, pace).is_ok() {
                *current = Some(Control { forks: control.forks + 1, ..control });
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

    fn start(&self) -> Result<OwnedFd, StartError> {
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
            }
            self.zygotes.retain_mut(|zygote| matches!(zygote.try_wait(), Ok(None)));
        }
        self.zygotes.iter_mut().for_each(end_process_group);
    }

    fn start(&mut self) -> Result<OwnedFd, StartError> {
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
        self.zygotes.push(zygote);
        Ok(ours)
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
