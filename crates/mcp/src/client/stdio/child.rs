//! A child process and its process group.
//!
//! `npx` and `uvx` run the real server as a grandchild, so a server has a process group of its own, and signals go to the
//! group. Dropping it kills the group; if this process itself is killed, the [`reaper`](super::reaper) does. No messages are
//! read or written here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

#[cfg(unix)]
use super::reaper::ReapedGroup;
#[cfg(not(target_os = "linux"))]
use super::sandbox::SandboxError;
use super::sandbox::StdioSandbox;
#[cfg(target_os = "linux")]
use super::sandbox::{Cgroup, Confined, leads_home};
use crate::client::redact::Redactor;

/// How long a server may take to exit after its input was closed.
const INPUT_CLOSED_TIMEOUT: Duration = Duration::from_millis(500);
/// How long it may take to exit after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take to exit after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for the other processes of the group. Their new parent may never reap them.
const GROUP_EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// The environment variables that every child inherits: what programs need to find files, to print text, and to reach the
/// network through a proxy or with certificates of their own. Nothing else, which may be a secret.
const INHERITED_VARIABLES: [&str; 25] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SYSTEMROOT",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "DENO_TLS_CA_STORE",
    "NODE_USE_SYSTEM_CA",
    "PIP_PROXY",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "npm_config_https_proxy",
    "npm_config_proxy",
];

/// The variables that name files with certificates; every child inherits them too.
pub(super) const CERTIFICATE_VARIABLES: [&str; 12] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "npm_config_cafile",
];

/// The command of a child process.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, looked up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables besides the inherited ones.
    pub env: BTreeMap<String, String>,
    /// Removes secrets from what is shown of its output.
    pub redactor: Redactor,
    /// What it inherits of the environment of this process.
    pub inherit: InheritedEnv,
    /// Its working directory; if absent that of this process, or its home in a sandbox.
    pub cwd: Option<PathBuf>,
    /// The sandbox that it is started in.
    pub sandbox: Option<StdioSandbox>,
}

/// What a child inherits of the environment of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InheritedEnv {
    /// Search path, home, locale, and the variables of proxies and certificates.
    #[default]
    Basic,
    /// Every variable, secrets of other servers included.
    All,
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
        let (mut child, cgroup) = match &self.sandbox {
            None => (self.plain().spawn()?, None),
            Some(sandbox) => self.start_in(sandbox)?,
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = ProcessGroup::new(child, cgroup);
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(std::io::Error::other("the child process has no pipes"));
        };
        Ok(Launched { group, stdin, stdout, stderr })
    }

    fn plain(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env_clear().envs(inherited(self.inherit)).envs(&self.env);
        self.complete(command, self.cwd.as_deref())
    }

    /// The command with its pipes, in a process group of its own.
    fn complete(&self, mut command: Command, cwd: Option<&Path>) -> Command {
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    #[cfg(target_os = "linux")]
    fn start_in(&self, sandbox: &StdioSandbox) -> std::io::Result<(Child, Option<Cgroup>)> {
        let mut environment: Vec<(OsString, OsString)> =
            inherited(self.inherit).filter(|(name, _)| !leads_home(name)).collect();
        let home = sandbox.home.iter().flat_map(|home| Confined::variables(home));
        environment.extend(home.map(|(name, value)| (name.into(), value.into())));
        environment.extend(self.env.iter().map(|(name, value)| (name.into(), value.into())));
        let confined = Confined::prepare(sandbox, self, &environment)?;
        let mut command = confined.command(&self.args);
        command.env_clear().envs(environment);
        let command = self.complete(command, Some(self.cwd.as_deref().unwrap_or(confined.home())));
        confined.start(command)
    }

    #[cfg(not(target_os = "linux"))]
    fn start_in(&self, _: &StdioSandbox) -> std::io::Result<(Child, Option<Cgroup>)> {
        Err(SandboxError::System.into())
    }
}

/// There are none on other systems.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) enum Cgroup {}

#[cfg(not(target_os = "linux"))]
impl Cgroup {
    fn says_out_of_memory(&self) -> Option<String> {
        match *self {}
    }

    fn kill(&self) {
        match *self {}
    }
}

/// The inherited variables, except values that begin like an exported shell function.
fn inherited(which: InheritedEnv) -> impl Iterator<Item = (OsString, OsString)> {
    let harmless = |value: &OsStr| !value.to_string_lossy().starts_with("()");
    std::env::vars_os().filter(move |(name, value)| harmless(value) && (which == InheritedEnv::All || is_basic(name)))
}

/// Variables of proxies are spelt in both cases.
fn is_basic(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        INHERITED_VARIABLES.iter().chain(&CERTIFICATE_VARIABLES).any(|known| known.eq_ignore_ascii_case(name))
    })
}

/// A child process and the process group it leads.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    pid: Option<u32>,
    child: Child,
    alive: bool,
    /// The cgroup of a child in a sandbox, where one could be made.
    cgroup: Option<Cgroup>,
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
    fn new(child: Child, cgroup: Option<Cgroup>) -> Self {
        let pid = child.id();
        Self {
            pid,
            child,
            alive: true,
            cgroup,
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
            Ok(status) => self.out_of_memory().unwrap_or_else(|| describe(status)),
            Err(error) => format!("can't wait for the process: {error}"),
        }
    }

    fn out_of_memory(&self) -> Option<String> {
        self.cgroup.as_ref().and_then(Cgroup::says_out_of_memory)
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
        self.remove_cgroup().await;
    }

    /// Kills what left the process group, and removes the cgroup, which takes a moment.
    async fn remove_cgroup(&mut self) {
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.kill();
            let _ = tokio::task::spawn_blocking(move || drop(cgroup)).await;
        }
    }

    /// Waits until the group is empty. Only the leader is a child of this process, so the rest is polled.
    async fn emptied(&self) {
        self.reap_orphans();
        while self.has_members() {
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.reap_orphans();
        }
    }

    /// Waits for processes of the group whose parent has exited: where this process is the first one of a container, or a
    /// subreaper, they are its children now and would stay zombies. The leader was waited for before.
    #[cfg(unix)]
    fn reap_orphans(&self) {
        use rustix::process::{WaitOptions, waitpgid};
        let Some(leader) = self.leader() else { return };
        while let Ok(Some(_)) = waitpgid(leader, WaitOptions::NOHANG) {}
    }

    #[cfg(not(unix))]
    fn reap_orphans(&self) {}

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

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};

    fn launch(script: &str) -> Launch {
        Launch {
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::from([("OWN".to_owned(), "mine".to_owned())]),
            redactor: Redactor::default(),
            inherit: InheritedEnv::Basic,
            cwd: None,
            sandbox: None,
        }
    }

    async fn line_of(launched: &mut Launched) -> String {
        BufReader::new(&mut launched.stdout).lines().next_line().await.unwrap().unwrap()
    }

    fn exists(pid: &str) -> bool {
        std::path::Path::new("/proc").join(pid).exists()
    }

    #[test]
    fn a_child_inherits_what_is_named_in_both_cases() {
        let words = "PATH HOME HTTP_PROXY https_proxy ALL_PROXY no_proxy npm_config_proxy npm_config_https_proxy PIP_PROXY \
                     SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT \
                     npm_config_cafile AWS_CA_BUNDLE GIT_SSL_CAINFO GIT_SSL_CAPATH CARGO_HTTP_CAINFO DENO_CERT DENO_TLS_CA_STORE \
                     UV_NATIVE_TLS UV_SYSTEM_CERTS";
        for name in words.split_whitespace() {
            assert!(is_basic(OsStr::new(name)), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD", "NODE_OPTIONS", "TOOLGATE_KEY", ""] {
            assert!(!is_basic(OsStr::new(name)), "{name}");
        }
    }

    #[tokio::test]
    async fn a_child_has_its_own_variables_and_not_ours() {
        // Cargo sets this one for tests.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let script = "echo $OWN-$CARGO_MANIFEST_DIR-${PATH:+path}";
        let mut launched = launch(script).start().unwrap();
        assert_eq!(line_of(&mut launched).await, "mine--path");
        let mut launched = Launch { inherit: InheritedEnv::All, ..launch(script) }.start().unwrap();
        assert_eq!(line_of(&mut launched).await, format!("mine-{}-path", env!("CARGO_MANIFEST_DIR")));
    }

    #[tokio::test]
    async fn a_child_that_exits_at_once_leaves_no_zombie() {
        for _ in 0..20 {
            let mut launched = launch("exit 3").start().unwrap();
            let pid = launched.group.pid().unwrap().to_string();
            assert_eq!(launched.group.ended().await, "exited with code 3");
            launched.group.kill().await;
            assert!(!exists(&pid), "{pid} is still there");
        }
    }

    #[tokio::test]
    async fn processes_that_a_child_leaves_behind_become_no_zombies_of_ours() {
        // As in a container whose first process is this one: orphans become children of this process.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let mut launched = launch("sleep 1000 & echo $!; exit 0").start().unwrap();
        let orphan = line_of(&mut launched).await;
        launched.group.ended().await;
        launched.group.kill().await;
        assert!(!exists(&orphan), "{orphan} is still there");
    }
}
