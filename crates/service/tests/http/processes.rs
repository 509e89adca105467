//! This program in other roles: a server that shares its sessions, clients that only hold connections, and the parent of
//! a backend.

#![allow(clippy::print_stdout, reason = "a process of the test talks to it")]

use crate::support::Setup;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolgate_backends::{Backend, BackendKind, BackendSpec};
use toolgate_service::rpc_sessions::{RedisStore, RpcSessions, SystemClock};

const ROLE: &str = "TOOLGATE_TEST_ROLE";

/// Whether this process was started to play a role.
pub(crate) fn is_one() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Plays it until its standard input closes.
pub(crate) fn play() -> ExitCode {
    let role = std::env::var(ROLE).unwrap_or_default();
    match role.split_once(' ') {
        Some(("serve", redis)) => serve(redis),
        Some(("idle", rest)) => idle(rest),
        Some(("parent", script)) => parent(script),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// Says a line that the parent waits for, then waits for the parent.
fn ready(line: impl std::fmt::Display) {
    println!("{line}");
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read(&mut [0]);
}

fn serve(redis: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(async {
        let store = RedisStore::open(redis).await.expect("a URL");
        let sessions = Arc::new(RpcSessions::new(Arc::new(store), Arc::new(SystemClock)));
        crate::support::start(Setup { sessions, ..Setup::default() }).await
    });
    ready(server.at);
    // A closed input is an orderly shutdown; a crash is a kill.
    runtime.block_on(async {
        server.shutdown.begin.cancel();
        server.service.close().await.expect("closed");
    });
}

fn idle(rest: &str) {
    let (count, at) = rest.split_once(' ').expect("a number and an address");
    let (count, at): (usize, SocketAddr) = (count.parse().expect("a number"), at.parse().expect("an address"));
    let held: Vec<TcpStream> = (0..count).map_while(|_| TcpStream::connect(at).ok()).collect();
    ready(held.len());
}

/// Starts a backend that ignores the end of its input and has a child of its own, and says its number.
fn parent(script: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let backend = runtime.block_on(async {
        let args = [script, "--stubborn", "--grandchild"].map(str::to_owned).to_vec();
        let kind = BackendKind::Stdio { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
        let backend = Backend::start(BackendSpec::new("stubborn", kind), tokio::sync::broadcast::channel(1).0);
        backend.ready(Duration::from_secs(30)).await.expect("up");
        backend
    });
    ready(backend.stats().pid.expect("a process"));
}

/// A process of a test, killed with it.
pub(crate) struct Process {
    child: Child,
    /// The line it said when it was ready.
    pub(crate) line: String,
}

pub(crate) async fn start(role: String) -> Process {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = lines.next_line().await.expect("readable").expect("a line");
    Process { child, line }
}

impl Process {
    pub(crate) fn at(&self) -> SocketAddr {
        self.line.parse().expect("an address")
    }

    /// As a crash would end it.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// Ends in order.
    pub(crate) async fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().await.expect("ended").success());
    }
}
