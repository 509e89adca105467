//! What the kernel says of a worker: no capability, an empty root, the first to go when memory runs out.
//!
//! A worker cannot be asked, since it has no system call that would tell; so its host reads `/proc`. What depends on the
//! user is looked at by a copy of this test that runs as another one.

#[path = "../../engine/tests/support/rewinding.rs"]
mod rewinding;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rewinding::permits_rewinding;
use toolgate_engine::wire::Profile;
use toolgate_engine::{Engine, Request, Reuse, WorkerCommand};

/// The user that owns nothing on every system.
const NOBODY: u32 = 65_534;
/// Set for the copy of this test: the worker that it starts.
const WORKER: &str = "TOOLGATE_TEST_WORKER";
const START_TIMEOUT: Duration = Duration::from_secs(60);

fn worker() -> PathBuf {
    std::env::var_os(WORKER).map_or_else(|| env!("CARGO_BIN_EXE_toolgate-hostile-worker").into(), PathBuf::from)
}

/// The fields of `/proc/PID/status`.
fn status(pid: u32) -> Option<BTreeMap<String, String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Some(text.lines().filter_map(field).collect())
}

/// A child of this process that has put on both filters.
fn locked_down_child() -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_locked_down = |pid: &u32| {
        let fields = status(*pid).unwrap_or_default();
        let is = |name: &str, value: &str| fields.get(name).is_some_and(|found| found == value);
        is("PPid", &std::process::id().to_string()) && is("Seccomp_filters", "2")
    };
    processes.into_iter().find(is_locked_down)
}

/// Runs `look` with the number of a worker that waits for a program.
async fn with_worker(look: impl FnOnce(u32)) {
    let engine = Engine::builder().worker_command(WorkerCommand::Program(worker())).build().expect("a process engine");
    engine.run(Request::new(Profile::Chain, "return \"do say nothing\"")).await;
    let deadline = Instant::now() + START_TIMEOUT;
    let pid = loop {
        match locked_down_child() {
            Some(pid) => break pid,
            None => assert!(Instant::now() < deadline, "no worker is started ahead"),
        }
        tokio::task::yield_now().await;
    };
    look(pid);
    engine.dispose();
}

fn has_no_capability(pid: u32) {
    let fields = status(pid).expect("a worker that waits");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(fields[set], "0000000000000000", "{set}");
    }
}

fn is_killed_first(pid: u32) {
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a score").trim(), "1000");
}

fn is_root() -> bool {
    status(std::process::id()).expect("status")["Uid"].starts_with("0\t")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_no_capability_and_is_killed_first() {
    with_worker(|pid| {
        has_no_capability(pid);
        is_killed_first(pid);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_root_sees_an_empty_root() {
    with_worker(|pid| {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
        match (namespace(&pid.to_string()), namespace("self")) {
            (Ok(theirs), Ok(ours)) if theirs != ours => {}
            _ => return eprintln!("skipped: this system permits no namespaces, or no look at them"),
        }
        let files = fs::read_dir(format!("/proc/{pid}/root/")).expect("its root");
        assert_eq!(files.count(), 0);
    })
    .await;
}

/// Starts a copy of this test as another user, in a folder that this user can read.
fn run_as_nobody(test: &str) {
    let folder = std::env::temp_dir().join(format!("toolgate-confinement-{}-{test}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let everyone = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    everyone(&folder);
    let copy = |from: PathBuf, name: &str| {
        let to = folder.join(name);
        // By another process: a program that a child of another test has inherited open for writing cannot be executed.
        assert!(Command::new("cp").arg(from).arg(&to).status().expect("cp runs").success());
        everyone(&to);
        to
    };
    let program = copy(std::env::current_exe().expect("this program"), "test");
    let worker = copy(worker(), "worker");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(WORKER, worker)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("an end");
    fs::remove_dir_all(&folder).expect("gone");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    assert!(String::from_utf8_lossy(&text).contains("1 passed"), "{}", String::from_utf8_lossy(&text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_put_back_by_its_host() {
    if !permits_rewinding() {
        return;
    }
    let builder = Engine::builder().worker_command(WorkerCommand::Program(worker())).reuse(Reuse::SameCaller);
    let engine = builder.build().expect("a process engine");
    let program = || Request { caller: Some("ada".into()), ..Request::new(Profile::Chain, "return \"do leave data\"") };
    assert!(!engine.run(program()).await.isolation.rewound);
    let again = engine.run(program()).await;
    assert!(again.isolation.rewound && again.failure().is_none(), "{again:?}");
}

/// Whose workers are dumpable, since the host has no privilege to trace others.
#[test]
fn a_worker_of_an_ordinary_user_is_put_back_by_its_host() {
    if is_root() {
        run_as_nobody("a_worker_is_put_back_by_its_host");
    }
}

#[test]
fn a_worker_of_an_ordinary_user_has_no_capability_in_its_own_user_namespace() {
    if is_root() {
        run_as_nobody("a_worker_has_no_capability_and_is_killed_first");
    }
}
