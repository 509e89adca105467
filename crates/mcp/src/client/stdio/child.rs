//! A child process and its process group.
//!
//! `npx` and `uvx` run the real server as a grandchild, so a server has a process group of its own, and signals go to the
//! group. Dropping it kills the group; if this process itself is killed, the [`reaper`](super::reaper) does. No messages are
//! read or written here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

#[cfg(unix)]
use super::reaper::ReapedGroup;

/// How long a server may take to exit after its input was closed.
const INPUT_CLOSED_TIMEOUT: Duration = Duration::from_millis(500);
/// How long it may take to exit after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take to exit after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for the other processes of the group. Their new parent may never reap them.
const GROUP_EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// The environment variables a child inherits: what programs need to find files, nothing that may be a secret.
const INHERITED_VARIABLES: [&str; 12] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "SYSTEMROOT"];

/// The command of a child process.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, looked up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables besides the inherited ones.
    pub env: BTreeMap<String, String>,
    /// Its working directory; that of this process if absent.
    pub cwd: Option<PathBuf>,
}

/// A running child and its pipes.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) group: ProcessGroup,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Launch {
    pub(super) fn start(&self) -> std::io::Result<Launched> {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env_clear().envs(inherited()).envs(&self.env);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = ProcessGroup::new(child);
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(std::io::Error::other("the child process has no pipes"));
        };
        Ok(Launched { group, stdin, stdout, stderr })
    }
}

/// The inherited variables, except values that begin like an exported shell function.
fn inherited() -> impl Iterator<Item = (&'static str, std::ffi::OsString)> {
    let harmless = |value: &std::ffi::OsString| !value.to_string_lossy().starts_with("()");
    INHERITED_VARIABLES.into_iter().filter_map(move |name| Some((name, std::env::var_os(name).filter(harmless)?)))
}

/// A child process and the process group it leads.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    pid: Option<u32>,
    child: Child,
    alive: bool,
    /// Registered with the reaper until the group is gone.
    #[cfg(unix)]
    reaped: Option<ReapedGroup>,
}

#[derive(Debug, Clone, Copy)]
enum EndSignal {
    Term,
    Kill,
}

impl ProcessGroup {
    fn new(child: Child) -> Self {
        let pid = child.id();
        Self {
            pid,
            child,
            alive: true,
            #[cfg(unix)]
            reaped: pid.map(ReapedGroup::new),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits for the leader to exit; describes its status.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => format!("can't wait for the process: {error}"),
        }
    }

    /// Ends the group: waits, then SIGTERM, then SIGKILL. Its input must be closed before.
    pub(super) async fn end(&mut self) {
        if timeout(INPUT_CLOSED_TIMEOUT, self.child.wait()).await.is_err() {
            self.send(EndSignal::Term);
            let _ = timeout(TERM_TIMEOUT, self.child.wait()).await;
        }
        self.kill().await;
    }

    /// Kills what is left of the group. Its id is not reused while a member exists.
    pub(super) async fn kill(&mut self) {
        self.send(EndSignal::Kill);
        let _ = timeout(KILL_TIMEOUT, self.child.wait()).await;
        let _ = timeout(GROUP_EXIT_TIMEOUT, self.emptied()).await;
        // The leader was waited for, so its id may be reused from now on.
        self.alive = false;
        #[cfg(unix)]
        drop(self.reaped.take());
    }

    /// Waits until the group is empty. Only the leader is a child that can be waited for, so the rest is polled.
    async fn emptied(&self) {
        while self.has_members() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[cfg(unix)]
    fn leader(&self) -> Option<rustix::process::Pid> {
        self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw)
    }

    #[cfg(unix)]
    fn has_members(&self) -> bool {
        self.leader().is_some_and(|leader| rustix::process::test_kill_process_group(leader).is_ok())
    }

    #[cfg(not(unix))]
    fn has_members(&self) -> bool {
        false
    }

    #[cfg(unix)]
    fn send(&mut self, signal: EndSignal) {
        use rustix::process::{Signal, kill_process_group};
        let signal = match signal {
            EndSignal::Term => Signal::TERM,
            EndSignal::Kill => Signal::KILL,
        };
        if let Some(leader) = self.leader().filter(|_| self.alive) {
            // An error means that the group is empty already.
            let _ = kill_process_group(leader, signal);
        }
    }

    #[cfg(not(unix))]
    fn send(&mut self, signal: EndSignal) {
        if matches!(signal, EndSignal::Kill) {
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.send(EndSignal::Kill);
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => "exited".to_owned(),
    }
}
