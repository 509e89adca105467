//! Processes: a run sees nothing of another one, and none outlives the command.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use toolgate_engine::{Engine, Request, WorkerCommand};
use toolgate_wire::Profile;

/// The processes whose parent is this one.
fn children_of(parent: u32) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok()) == Some(parent)
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}

/// A command in the middle of a run, and its processes: the zygote and its workers.
fn command_at_work() -> (Child, Vec<Pid>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["run", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let program = b"console.log('here'); await sleep(25000);";
    command.stdin.take().expect("piped").write_all(program).expect("read");
    let mut line = String::new();
    BufReader::new(command.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "| here\n");
    let children = children_of(command.id());
    assert!(children.len() >= 2, "a zygote and a worker: {children:?}");
    (command, children)
}

/// Kilobytes of code that a process has on huge pages; nothing, where this may not be looked at.
fn code_on_huge_pages(pid: Pid) -> Option<u64> {
    let regions = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let mut is_code = false;
    let mut kilobytes = 0;
    for line in regions.lines() {
        match line.split_once(':') {
            Some(("AnonHugePages", size)) if is_code => {
                kilobytes += size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
            }
            _ if line.contains(" r-xp ") => is_code = true,
            _ if line.contains("-p ") || line.contains("-s ") => is_code = false,
            _ => {}
        }
    }
    Some(kilobytes)
}

/// Whether this system moves code to huge pages on request, which Linux does since 6.1.
fn has_huge_pages_for_code() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().any(|line| line.split_whitespace().eq(["THP_enabled:", "1"]));
    version >= (6, 1) && allowed && rustix::param::page_size() == 4096
}

#[test]
fn forks_share_the_code_of_their_zygote() {
    if !has_huge_pages_for_code() {
        return eprintln!("skipped: this system has no huge pages for code");
    }
    // A kernel short of memory may have none to give at a moment.
    for _ in 0..5 {
        let (mut command, processes) = command_at_work();
        let code: Option<Vec<u64>> = processes.iter().map(|pid| code_on_huge_pages(*pid)).collect();
        command.kill().expect("killed");
        command.wait().expect("gone");
        match code {
            None => return eprintln!("skipped: only root may look at the pages of a worker"),
            Some(code) if code.iter().all(|kilobytes| *kilobytes > 0) => return,
            Some(_) => {}
        }
    }
    panic!("no process has code on huge pages");
}

#[test]
fn killing_the_command_leaves_no_process_behind() {
    let (mut command, children) = command_at_work();
    let handles: Vec<_> = children.iter().map(|pid| pidfd_open(*pid, PidfdFlags::empty()).expect("alive")).collect();
    command.kill().expect("killed");
    command.wait().expect("gone");
    for handle in &handles {
        // Readable when the process is gone.
        let gone = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
        assert_eq!(gone, Ok(1), "a process outlived the command by ten seconds");
    }
}

#[test]
fn a_run_sees_nothing_of_the_one_before() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let worker = WorkerCommand::Program(env!("CARGO_BIN_EXE_toolgate").into());
        let engine = Engine::builder().worker_command(worker).workers_ahead(2).build().expect("an engine");
        let code =
            "const seen = [globalThis.mark, [].mark]; globalThis.mark = 1; Array.prototype.mark = 2; return seen";
        for _ in 0..8 {
            let report = engine.run(Request::new(Profile::Chain, code)).await;
            assert_eq!(report.value().expect("a value").get(), "[null,null]");
        }
    });
}

/// What a command in the middle of a run prints after this signal.
fn ended_by(signal: rustix::process::Signal) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["run", "-", "--demo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let program = b"await demo.create_note({ name: 'a', text: 'b' }); console.log('here'); await sleep(25000);";
    command.stdin.take().expect("piped").write_all(program).expect("read");
    let mut said = BufReader::new(command.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "| here\n");
    rustix::process::kill_process(Pid::from_child(&command), signal).expect("sent");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).expect("text");
    (command.wait().expect("it ends").code().expect("an exit code"), rest)
}

#[test]
fn a_signal_ends_a_run_with_its_report() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let (code, said) = ended_by(signal);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("error[ABORTED]: cancelled during sandbox execution"), "{said}");
        assert!(said.contains("demo.create_note") && said.contains("applied"), "{said}");
    }
}

/// The owner of a process's files in /proc: root if the process hides its memory, its user otherwise.
fn owner_of_environment(pid: u32) -> u32 {
    fs::metadata(format!("/proc/{pid}/environ")).expect("it runs").uid()
}

#[test]
fn other_processes_of_the_user_read_neither_its_memory_nor_its_environment() {
    // Root may read the files of every process, so the command runs as another user.
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let program = folder.path().join("toolgate");
    // By another process: a program that a child of another test has inherited open for writing cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_toolgate")).arg(&program).status().expect("cp runs");
    assert!(copied.success(), "a copy that every user can read");
    let is_root = rustix::process::getuid().is_root();
    let spawn = |mut command: Command| {
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.env("HOME", folder.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let mut run = Command::new(&program);
    run.args(["run", "-"]);
    let mut hidden = spawn(run);
    hidden.stdin.take().expect("piped").write_all(b"console.log('here'); await sleep(25000);").expect("read");
    let mut line = String::new();
    BufReader::new(hidden.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "| here\n");
    let mut plain = spawn(Command::new("cat"));
    let owners = (owner_of_environment(hidden.id()), owner_of_environment(plain.id()));
    for process in [&mut hidden, &mut plain] {
        process.kill().expect("ours");
        process.wait().expect("ours");
    }
    assert_eq!(owners.0, 0, "the command's environment");
    assert_ne!(owners.1, 0, "that of a program which does nothing about it");
}
