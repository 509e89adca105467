//! A kernel that permits less: containers with a seccomp filter of their own, ordinary users without user namespaces.

use serde_json::{Value, json};

use crate::client::{COUNT, User};

const FILTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/filter.py");
/// A user who owns nothing.
const NOBODY: u32 = 65_534;

fn filtered(options: &[&str]) -> User {
    User::new().with_prefix(&[&["python3", FILTER], options, &["--"]].concat())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The layers of a run, by its report.
fn isolation(user: &User) -> Value {
    let (code, stdout, stderr) = user.run_program(COUNT, &["--json"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    assert_eq!(report["value"], json!(20), "{report}");
    report["isolation"].clone()
}

fn check_serves(user: &User) {
    let mut client = user.serve();
    assert_eq!(client.chain(COUNT), "20");
    client.leave();
}

#[test]
fn in_a_container_without_namespaces_programs_run_and_reports_say_so() {
    let user = filtered(&["--without", "namespaces"]);
    let isolation = isolation(&user);
    assert_eq!(isolation["seccomp"], json!(true), "{isolation}");
    assert_eq!(isolation["namespaces"], json!([]), "{isolation}");
    check_serves(&user);
}

#[test]
fn without_landlock_programs_run_reports_say_so_and_a_server_with_a_sandbox_is_not_started() {
    let user = filtered(&["--without", "namespaces,landlock"]);
    let isolation = isolation(&user);
    assert_eq!(isolation["seccomp"], json!(true), "{isolation}");
    assert_eq!(isolation["landlock"], json!(0), "{isolation}");
    user.configure(&json!({ "backends": { "demo": { "sandbox": true } } }));
    let config = user.config().display().to_string();
    let (_, stdout, stderr) = user.run(&["list", "--config", &config]);
    assert!(stdout.contains("needs landlock as of Linux 6.2"), "{stdout}{stderr}");
    let mut client = user.serve();
    let answer = client.chain("try { return await demo.list_issues({}) } catch (error) { return error.message }");
    assert!(answer.contains("needs landlock as of Linux 6.2"), "{answer}");
    client.leave();
}

#[test]
fn an_ordinary_user_without_user_namespaces_runs_programs_and_servers_in_a_sandbox() {
    if !is_root() {
        return;
    }
    let id = NOBODY.to_string();
    let user = filtered(&["--user", &id, "--without", "namespaces"]);
    for path in [user.folder().to_owned(), user.home()] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root");
    }
    // A checkout below the home of root is closed to him.
    if !user.command(&["--version"]).output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: the binary is in a folder that an ordinary user may not enter");
        return;
    }
    let isolation = isolation(&user);
    assert_eq!(isolation["seccomp"], json!(true), "{isolation}");
    assert_eq!(isolation["namespaces"], json!([]), "{isolation}");
    check_serves(&user);
    if let Some(refusal) = toolgate_mcp::client::StdioSandbox::support().refusal {
        eprintln!("skipped: a server with a sandbox is not started: {refusal}");
        return;
    }
    // There is no cgroup for him, so the kernel's limit of one process holds.
    user.configure(&json!({ "backends": { "demo": { "sandbox": { "memory": "512MB" } } } }));
    let mut client = user.serve();
    assert_eq!(client.chain(COUNT), "20");
    let server = children(client.pid()).into_iter().find(|(_, line)| line.ends_with("demo")).expect("a server").0;
    let limits = std::fs::read_to_string(format!("/proc/{server}/limits")).expect("limits");
    let data = limits.lines().find(|line| line.starts_with("Max data size")).expect("a limit").to_owned();
    assert!(data.contains(&(512u64 << 20).to_string()), "{data}");
    client.leave();
}

/// The children of a process with their command lines.
fn children(parent: u32) -> Vec<(u32, String)> {
    let pids = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        fields.split_whitespace().nth(1).is_some_and(|field| field == parent.to_string())
    };
    let line = |pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
    };
    pids.filter(of_parent).map(|pid| (pid, line(pid))).collect()
}
