//! A child process with everything it starts.
//!
//! `npx` and `uvx` run the real server as a grandchild, so a backend is a process group of its
//! own, and it is the group that gets signals. A group that is dropped is killed, and should we be
//! killed ourselves, the [`warden`](super::warden) does it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

#[cfg(unix)]
use super::warden::Watched;

/// How long a server may take to go by itself once its input ended.
const INPUT_GRACE: Duration = Duration::from_millis(500);
/// How long it may take to go once it was told to.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end what was killed.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// How long the others of the group are waited for. Whoever adopted them may never bury them.
const BURIAL_GRACE: Duration = Duration::from_millis(200);

/// What a child inherits from us: what it needs to find its way, and nothing that may be a secret.
const INHERITED: [&str; 12] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "SYSTEMROOT"];

/// What to run.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, looked up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables besides the few that every child inherits.
    pub env: BTreeMap<String, String>,
    /// Its working folder; ours if absent.
    pub cwd: Option<PathBuf>,
}

/// A running child and its pipes.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) family: Family,
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
        let family = Family::new(child);
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        Ok(Launched { family, stdin, stdout, stderr })
    }
}

/// The variables every child gets. A value that starts like a shell function is left out.
fn inherited() -> impl Iterator<Item = (&'static str, std::ffi::OsString)> {
    let harmless = |value: &std::ffi::OsString| !value.to_string_lossy().starts_with("()");
    INHERITED.into_iter().filter_map(move |name| Some((name, std::env::var_os(name).filter(harmless)?)))
}

/// A child and the group it leads.
#[derive(Debug)]
pub(super) struct Family {
    pid: Option<u32>,
    child: Child,
    alive: bool,
    /// Until all of it is gone, should that not be our doing.
    #[cfg(unix)]
    watched: Option<Watched>,
}

#[derive(Debug, Clone, Copy)]
enum Blow {
    Term,
    Kill,
}

impl Family {
    fn new(child: Child) -> Self {
        let pid = child.id();
        Self {
            pid,
            child,
            alive: true,
            #[cfg(unix)]
            watched: pid.map(Watched::new),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits for the leader to end by itself.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => format!("can't be watched: {error}"),
        }
    }

    /// Ends the group, the gentle way first. Its input must have been closed before.
    pub(super) async fn end(&mut self) {
        if timeout(INPUT_GRACE, self.child.wait()).await.is_err() {
            self.strike(Blow::Term);
            let _ = timeout(TERM_GRACE, self.child.wait()).await;
        }
        self.kill().await;
    }

    /// Ends what is left of the group at once. While a member lives its number can't be anyone else's.
    pub(super) async fn kill(&mut self) {
        self.strike(Blow::Kill);
        let _ = timeout(KILL_GRACE, self.child.wait()).await;
        let _ = timeout(BURIAL_GRACE, self.emptied()).await;
        // The leader is reaped: its number may soon belong to somebody else.
        self.alive = false;
        #[cfg(unix)]
        drop(self.watched.take());
    }

    /// Waits until the group has no member. Only its leader is ours to wait for, so the others are watched.
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
    fn strike(&mut self, blow: Blow) {
        use rustix::process::{Signal, kill_process_group};
        let signal = match blow {
            Blow::Term => Signal::TERM,
            Blow::Kill => Signal::KILL,
        };
        if let Some(leader) = self.leader().filter(|_| self.alive) {
            // An empty group is what we want, so there is nothing to do about an error.
            let _ = kill_process_group(leader, signal);
        }
    }

    #[cfg(not(unix))]
    fn strike(&mut self, blow: Blow) {
        if matches!(blow, Blow::Kill) {
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.strike(Blow::Kill);
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
