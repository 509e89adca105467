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
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};
use toolgate_guest::Pace;
use toolgate_guest::lockdown::{Reuse, Without};

use super::command::{StartError, WorkerCommand};
use super::worker::Idle;

/// A zygote whose successor could not be started goes on for this many times as many forks.
const MAX_OVERTIME: u32 = 10;
/// How long the next zygote may take to fork its first worker.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a zygote may take to end once its control socket is closed; then it is killed.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two checks whether such a zygote has ended.
const RETIRE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

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

/// Held by everything that uses a zygote's process group: the host's end of the zygote, and every worker that it forked.
#[derive(Clone, Default)]
pub(super) struct GroupUse(Arc<()>);

impl GroupUse {
    /// Whether no other clone is left. None appears later: each is made from one that exists.
    fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// The host's end of one zygote.
struct Control {
    socket: OwnedFd,
    group: GroupUse,
    forks: u32,
}

enum Task {
    Start(Sender<Result<Control, StartError>>),
    /// Waits for a killed worker, if it is known and was not waited for.
    Release(Option<Pid>, GroupUse),
    /// Closes the control socket of a zygote: it serves the orders that it has, and ends.
    Retire(Control),
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
    pub(super) fn fork(&self, pace: Pace) -> Result<(UnixStream, GroupUse), StartError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut current = self.current.lock();
        for _ in 0..2 {
            let control = match current.take() {
                Some(control) if control.forks < self.forks.get().saturating_mul(MAX_OVERTIME) => control,
                worn => {
                    worn.into_iter().for_each(|control| self.retire(control));
                    self.start()?
                }
            };
            if send_socket(&control.socket, &theirs, pace).is_ok() {
                let (forks, group) = (control.forks + 1, control.group.clone());
                *current = Some(Control { forks, ..control });
                if forks.is_multiple_of(self.forks.get()) {
                    self.renew();
                }
                return Ok((ours, group));
            }
            self.retire(control);
        }
        Err(io::Error::from(io::ErrorKind::BrokenPipe).into())
    }

    /// Gives up a worker. One that was killed is waited for on the parent thread, so that it does not stay a zombie; on this
    /// thread if that one has ended.
    pub(super) fn release(&self, killed: Option<Pid>, group: GroupUse) {
        if !self.task(Task::Release(killed, group)) {
            killed.into_iter().for_each(wait_for);
        }
    }

    fn retire(&self, control: Control) {
        self.task(Task::Retire(control));
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
        retired.into_iter().for_each(|control| self.retire(control));
    }

    /// Whether a zygote forks workers that get ready. The one that it forks for this is ended.
    fn forks_ready_workers(self: &Arc<Self>, control: &Control) -> bool {
        let forked = UnixStream::pair().and_then(|(ours, theirs)| {
            send_socket(&control.socket, &theirs, Pace::Now)?;
            Ok(ours)
        });
        let worker = forked.ok().and_then(|socket| Idle::new(socket, control.group.clone()).ok());
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
    zygotes: Vec<ZygoteProcess>,
}

/// A zygote whose process group is not yet known to be empty.
struct ZygoteProcess {
    child: Child,
    group: GroupUse,
    has_ended: bool,
    /// When it is killed, once it is retired.
    kill_at: Option<Instant>,
}

impl ParentThread {
    fn serve(mut self, inbox: &Receiver<Task>) {
        loop {
            match self.next_task(inbox) {
                Ok(Task::Start(answer)) => {
                    let _ = answer.send(self.start());
                }
                Ok(Task::Release(killed, group)) => {
                    killed.into_iter().for_each(wait_for);
                    // After the wait: an unused group has no process that something else waits for.
                    drop(group);
                }
                Ok(Task::Retire(control)) => self.retire(control),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.zygotes.retain_mut(ZygoteProcess::is_needed);
        }
        self.zygotes.iter().for_each(ZygoteProcess::end_group);
    }

    /// The next task. While a retired zygote has not ended, it waits for a short time only.
    fn next_task(&self, inbox: &Receiver<Task>) -> Result<Task, RecvTimeoutError> {
        if self.zygotes.iter().any(|zygote| zygote.kill_at.is_some() && !zygote.has_ended) {
            inbox.recv_timeout(RETIRE_CHECK_INTERVAL)
        } else {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    fn retire(&mut self, control: Control) {
        if let Some(zygote) = self.zygotes.iter_mut().find(|zygote| zygote.leads(&control)) {
            zygote.kill_at = Some(Instant::now() + RETIRE_TIMEOUT);
        }
    }

    fn start(&mut self) -> Result<Control, StartError> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)?;
        let child = Command::new(&self.path)
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
        let group = GroupUse::default();
        self.zygotes.push(ZygoteProcess { child, group: group.clone(), has_ended: false, kill_at: None });
        Ok(Control { socket: ours, group, forks: 0 })
    }
}

impl ZygoteProcess {
    fn leads(&self, control: &Control) -> bool {
        Arc::ptr_eq(&self.group.0, &control.group.0)
    }

    /// Whether something still uses the process group; ends the group if not. Waits for the zygote when it has ended, and
    /// never for one that may hang.
    fn is_needed(&mut self) -> bool {
        if self.group.is_last() {
            self.end_group();
            return false;
        }
        if !self.has_ended && self.kill_at.is_some_and(|at| at <= Instant::now()) {
            let _ = self.child.kill();
        }
        self.has_ended = self.has_ended || !matches!(self.child.try_wait(), Ok(None));
        true
    }

    /// Ends the zygote and all its forks, including those that died before they sent their process id.
    ///
    /// A zygote leads a process group. While this process has a child in it, no other group can get its id.
    fn end_group(&self) {
        let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        let mut options = WaitOptions::NOHANG;
        loop {
            match rustix::process::waitpgid(group, options) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                    options = WaitOptions::empty();
                }
                Err(_) => return,
            }
        }
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
