//! Processes as the kernel shows them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A process; its start time tells it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pid: u32,
    started: u64,
}

/// Kills a child when this process ends without doing so itself, as after SIGKILL.
///
/// A shell reads a pipe from this process, which the kernel closes however the process ends. `PR_SET_PDEATHSIG` would need
/// unsafe code, and ends a child with the thread that started it.
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn of(child: &Child) -> std::io::Result<Self> {
        let script = r#"trap '' HUP INT TERM; read -r line; kill -s KILL "$1""#;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "sh", &child.id().to_string()]).current_dir("/").process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().map(Self)
    }
}

impl Drop for Guard {
    /// Before its pipe is closed, which would make it kill.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process below the gateway is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// A worker, or the zygote that workers are forked from: they cannot be told apart from outside.
    Worker,
    /// A deno for V8.
    V8,
    /// An MCP server.
    Server,
}

impl Process {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Process { pid, started: Stat::of(pid)?.started })
    }

    pub(crate) fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_zombie)
    }

    pub(crate) fn kill(self) {
        if self.is_alive()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// What it and its descendants are for, the process itself not included.
    pub(crate) fn descendants(self) -> Vec<(Process, Role)> {
        let parents: HashMap<u32, Stat> = all().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
        let mut family = HashSet::from([self.pid]);
        loop {
            let before = family.len();
            let found = parents.iter().filter(|(_, stat)| family.contains(&stat.parent)).map(|(pid, _)| *pid);
            let found: Vec<_> = found.collect();
            family.extend(found);
            if family.len() == before {
                break;
            }
        }
        family.remove(&self.pid);
        let process = |pid: u32| {
            let stat = parents.get(&pid).filter(|stat| !stat.is_zombie)?;
            Some((Process { pid, started: stat.started }, role_of(pid)?))
        };
        family.into_iter().filter_map(process).collect()
    }

    /// Its anonymous and shared memory in bytes. Pages of files that it has mapped, such as its own program, do not count: the
    /// kernel loads and drops them as it likes.
    pub(crate) fn memory(self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        held_bytes(&status)
    }

    /// The number of its open files.
    pub(crate) fn open_files(self) -> Option<usize> {
        Some(fs::read_dir(format!("/proc/{}/fd", self.pid)).ok()?.count())
    }
}

/// Anonymous and shared bytes, by `/proc/{pid}/status`.
fn held_bytes(status: &str) -> Option<u64> {
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    Some((kilobytes("RssAnon:")? + kilobytes("RssShmem:")?) * 1024)
}

fn all() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn role_of(pid: u32) -> Option<Role> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let contains = |text: &str| line.windows(text.len()).any(|part| part == text.as_bytes());
    Some(if contains("--counter") {
        Role::Server
    } else if contains("deno") {
        Role::V8
    } else {
        Role::Worker
    })
}

/// The part of `/proc/PID/stat` that is needed.
struct Stat {
    is_zombie: bool,
    parent: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything.
        let (_, after_name) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        Some(Stat { is_zombie: fields.first() == Some(&"Z"), parent, started: number(19)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_and_can_be_killed() {
        let us = Process::of(std::process::id()).expect("this process");
        assert!(us.is_alive() && us.memory() > Some(0) && us.open_files() > Some(0));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("a child");
        let found = us.descendants().into_iter().find(|(process, _)| process.pid == child.id());
        let (process, _) = found.expect("the child is a descendant");
        process.kill();
        child.wait().expect("it ended");
        assert!(!process.is_alive());
    }

    #[test]
    fn pages_of_files_are_not_memory() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t  100 kB\nRssFile:\t  700 kB\nRssShmem:\t   10 kB\n";
        assert_eq!(held_bytes(status), Some(110 * 1024));
        assert_eq!(held_bytes("VmRSS:\t900 kB\n"), None);
    }
}
