//! Servers in a sandbox: a real server that tries to read, write, connect and take more than it may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_backends::{Backend, BackendKind, BackendSpec, BackendState};
use toolgate_mcp::client::StdioSandbox;

use crate::fixture::{call, members, start, state, up_as, value};

/// A folder of a user, with a home for the server and a secret that is not for it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(place.path("secret"), "s3cret").unwrap();
        std::fs::create_dir(place.path("work")).unwrap();
        std::fs::create_dir(place.path("given")).unwrap();
        std::fs::write(place.path("given/file"), "given").unwrap();
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).display().to_string()
    }

    fn sandbox(&self) -> StdioSandbox {
        StdioSandbox {
            read: Vec::new(),
            write: Vec::new(),
            network: true,
            memory: 256 << 20,
            processes: 64,
            home: Some(self.path("home")),
        }
    }

    fn spec(&self, sandbox: StdioSandbox) -> BackendSpec {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sandboxed.py");
        let kind = BackendKind::Stdio {
            command: "python3".to_owned(),
            args: vec![script.display().to_string()],
            env: BTreeMap::new(),
            cwd: Some(self.path("work")),
        };
        BackendSpec { sandbox: Some(sandbox), ..BackendSpec::new("sandboxed", kind) }
    }

    async fn up(&self, sandbox: StdioSandbox) -> Backend {
        up_as(self.spec(sandbox)).await
    }
}

/// Whether this kernel makes sandboxes; says why not on stderr.
fn is_possible() -> bool {
    let refusal = StdioSandbox::support().refusal;
    if let Some(refusal) = &refusal {
        eprintln!("skipped: a server is not started: {refusal}");
    }
    refusal.is_none()
}

async fn tried(backend: &Backend, tool: &str, arguments: Value) -> String {
    let answer = value(backend, tool, arguments).await;
    answer["value"].as_str().map_or_else(|| answer["value"].to_string(), str::to_owned)
}

async fn check(backend: &Backend, tool: &str, arguments: Value, expected: &str) {
    let found = tried(backend, tool, arguments.clone()).await;
    assert!(found.starts_with(expected), "{tool} {arguments}: {found}, not {expected}");
}

#[tokio::test]
async fn a_server_in_a_sandbox_reads_and_writes_its_own_folders_and_no_others() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let backend = place.up(place.sandbox()).await;
    for own in ["work/a", "home/a", "home/tmp/a"] {
        check(&backend, "write", json!({ "path": place.path(own) }), "written").await;
        check(&backend, "read", json!({ "path": place.path(own) }), "x").await;
    }
    for other in ["secret", "given/file"] {
        check(&backend, "read", json!({ "path": place.path(other) }), "PermissionError").await;
        check(&backend, "write", json!({ "path": place.path(other) }), "PermissionError").await;
        check(&backend, "truncate", json!({ "path": place.path(other) }), "PermissionError").await;
        // Nor does a program that it starts, or a link that it makes.
        check(&backend, "run", json!({ "command": ["cat", place.path(other)] }), "1 ").await;
    }
    std::os::unix::fs::symlink(place.path("secret"), place.path("work/link")).unwrap();
    check(&backend, "read", json!({ "path": place.path("work/link") }), "PermissionError").await;
    check(&backend, "write", json!({ "path": place.path("new") }), "PermissionError").await;
    check(&backend, "write", json!({ "path": "/tmp/toolgate-sandbox-test" }), "PermissionError").await;
    check(&backend, "read", json!({ "path": "/etc/shadow" }), "PermissionError").await;
    check(&backend, "read", json!({ "path": format!("/proc/{}/cmdline", std::process::id()) }), "PermissionError")
        .await;
    assert_eq!(std::fs::read_to_string(place.path("secret")).unwrap(), "s3cret");
}

#[tokio::test]
async fn what_the_configuration_permits_is_permitted() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let reading = StdioSandbox { read: vec![place.path("given")], ..place.sandbox() };
    let backend = place.up(reading).await;
    check(&backend, "read", json!({ "path": place.path("given/file") }), "given").await;
    check(&backend, "write", json!({ "path": place.path("given/file") }), "PermissionError").await;
    let writing = StdioSandbox { write: vec![place.path("given")], ..place.sandbox() };
    let backend = place.up(writing).await;
    check(&backend, "write", json!({ "path": place.path("given/new") }), "written").await;
    check(&backend, "read", json!({ "path": place.path("secret") }), "PermissionError").await;
    // One file, and not what is beside it.
    let one = StdioSandbox { write: vec![place.path("secret")], ..place.sandbox() };
    let backend = place.up(one).await;
    check(&backend, "write", json!({ "path": place.path("secret") }), "written").await;
    check(&backend, "read", json!({ "path": place.path("given/file") }), "PermissionError").await;
}

#[tokio::test]
async fn a_server_in_a_sandbox_has_a_home_of_its_own_and_no_privileges() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let mut spec = place.spec(place.sandbox());
    if let BackendKind::Stdio { cwd, .. } = &mut spec.kind {
        *cwd = None;
    }
    let backend = up_as(spec).await;
    let status = value(&backend, "status", json!({})).await["value"].clone();
    let home = place.text("home");
    assert_eq!((&status["home"], &status["cwd"]), (&json!(home), &json!(home)));
    assert_eq!(status["tmp"], json!(place.text("home/tmp")));
    assert_eq!(status["no_new_privs"], json!(1));
    // As root it may open files of other users, where landlock permits it, and nothing else.
    let dac_override = json!(1);
    let capabilities = status["capabilities"].as_array().unwrap();
    assert!(capabilities.iter().all(|number| *number == dac_override), "{status}");
}

#[tokio::test]
async fn sockets_are_closed_to_a_server_without_the_network_and_local_ones_to_every_server() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let inet = json!({ "family": "AF_INET", "address": ["127.0.0.1", port] });
    let _unix = std::os::unix::net::UnixListener::bind(place.path("work/socket")).unwrap();
    let unix = json!({ "family": "AF_UNIX", "address": place.path("work/socket") });
    let backend = place.up(place.sandbox()).await;
    check(&backend, "connect", inet.clone(), "connected").await;
    check(&backend, "connect", unix.clone(), "PermissionError").await;
    // Either end of such a pair could send to any local address; a pair of streams cannot.
    check(&backend, "datagrams", json!({}), "PermissionError").await;
    check(&backend, "pair", json!({}), "made").await;
    let backend = place.up(StdioSandbox { network: false, ..place.sandbox() }).await;
    check(&backend, "connect", inet, "PermissionError").await;
    check(&backend, "connect", unix, "PermissionError").await;
}

/// Whether servers get a cgroup here; otherwise each process has a limit of its own.
fn has_cgroups(backend: &Backend) -> bool {
    let pid = backend.stats().pid.unwrap();
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap().contains("/toolgate-")
}

#[tokio::test]
async fn a_server_that_takes_too_much_memory_does_not_get_it() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let backend = place.up(StdioSandbox { memory: 128 << 20, ..place.sandbox() }).await;
    check(&backend, "hold", json!({ "megabytes": 16 }), "held").await;
    let before = backend.stats().restarts;
    if has_cgroups(&backend) {
        let error = call(&backend, "hold", json!({ "megabytes": 400 })).await.unwrap_err().to_string();
        assert!(error.contains("used more than the 128 MB of memory of its sandbox"), "{error}");
        // It comes back, in a cgroup of its own.
        state(&backend, |state| state.is_ready()).await;
        check(&backend, "hold", json!({ "megabytes": 16 }), "held").await;
        assert!(backend.stats().restarts > before);
    } else {
        check(&backend, "hold", json!({ "megabytes": 400 }), "MemoryError").await;
    }
}

#[tokio::test]
async fn a_server_cannot_fill_the_machine_with_processes_and_leaves_none_behind() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let backend = place.up(StdioSandbox { processes: 16, ..place.sandbox() }).await;
    if !has_cgroups(&backend) {
        eprintln!("skipped: no cgroup can be made here");
        return;
    }
    let group = backend.stats().pid.unwrap();
    let folder = cgroup_of(group);
    check(&backend, "fork", json!({ "times": 200 }), "BlockingIOError").await;
    backend.shut_down().await;
    assert_eq!(members(group), Vec::<u32>::new());
    let backend = place.up(place.sandbox()).await;
    let daemon_file = place.path("work/daemon");
    check(&backend, "daemon", json!({ "file": daemon_file }), "left").await;
    let daemon = read_when_there(&daemon_file).await;
    backend.shut_down().await;
    assert!(!is_running(&daemon), "{daemon} is left");
    assert!(folder.iter().all(|folder| !folder.exists()), "{folder:?}");
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The folders of a process's cgroups that are ours, wherever their hierarchies are mounted.
fn cgroup_of(pid: u32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let ours = text.lines().filter(|line| line.contains("/toolgate-"));
    let folder = |line: &str| {
        let (controller, path) = line.split_once(':').unwrap().1.split_once(':').unwrap();
        Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'))
    };
    ours.map(folder).collect()
}

async fn read_when_there(file: &Path) -> String {
    let text = async {
        loop {
            match std::fs::read_to_string(file) {
                Ok(text) if !text.is_empty() => return text,
                _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(crate::fixture::TEST_TIMEOUT, text).await.unwrap()
}

#[tokio::test]
async fn a_server_cannot_end_processes_outside_of_its_sandbox() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let mut other = tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
    let backend = place.up(place.sandbox()).await;
    let answer = tried(&backend, "send_signal", json!({ "pid": other.id().unwrap() })).await;
    // A limit of processor time would end it too.
    check(&backend, "limit", json!({ "pid": other.id().unwrap() }), "PermissionError").await;
    check(&backend, "limit", json!({ "pid": 0 }), "limited").await;
    // Scopes came with Linux 6.12.
    if landlock_abi() >= 6 {
        assert!(answer.starts_with("PermissionError"), "{answer}");
        assert!(other.try_wait().unwrap().is_none());
    }
}

fn landlock_abi() -> u32 {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 12) { 6 } else { 0 }
}

#[tokio::test]
async fn what_is_said_of_this_machine_is_what_a_server_gets() {
    let support = StdioSandbox::support();
    let place = Place::new();
    match support.refusal {
        Some(refusal) => check_refused(place.spec(place.sandbox()), &refusal).await,
        None => assert_eq!(has_cgroups(&place.up(place.sandbox()).await), support.cgroup),
    }
}

async fn check_refused(spec: BackendSpec, expected: &str) {
    let (backend, _) = start(spec);
    let found = state(&backend, |state| matches!(state, BackendState::Failed { .. })).await.to_string();
    assert!(found.contains(expected), "{found}");
}

#[tokio::test]
async fn a_server_whose_sandbox_cannot_be_made_is_not_started_and_says_why() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let missing = StdioSandbox { write: vec![place.path("nowhere")], ..place.sandbox() };
    check_refused(place.spec(missing), &format!("{}: No such file", place.text("nowhere"))).await;
    check_refused(place.spec(StdioSandbox { home: None, ..place.sandbox() }), "needs a home directory").await;
    let below_a_file = StdioSandbox { home: Some(place.path("secret/home")), ..place.sandbox() };
    check_refused(place.spec(below_a_file), &place.text("secret/home")).await;
    // The server may have made the link itself, the last time that it ran.
    std::os::unix::fs::symlink(place.path("secret"), place.path("work/link")).unwrap();
    let linked = StdioSandbox { read: vec![place.path("work/link")], ..place.sandbox() };
    check_refused(place.spec(linked), "it is a link in a folder that the server can write").await;
    let mut spec = place.spec(place.sandbox());
    if let BackendKind::Stdio { command, .. } = &mut spec.kind {
        *command = "no-such-program".to_owned();
    }
    check_refused(spec, "can't run no-such-program").await;
}
