//! What the kernel tells about a process beside its memory: threads, signals, privileges, filters, descriptors, limits.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use libc::pid_t;

use crate::Refusal;

/// The lines of `/proc/PID/status` that are compared. The others are counters, or belong to the machine.
const COMPARED: [&str; 20] = [
    "Umask",
    "Tgid",
    "PPid",
    "Uid",
    "Gid",
    "Groups",
    "Threads",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
];

/// What must be the same before and after.
#[derive(Debug)]
pub(crate) struct Identity {
    status: Vec<String>,
    /// `/proc/PID/fd`, whose size is the number of descriptors (Linux 6.2, older than the seals that a snapshot needs).
    directory: File,
    /// Each descriptor's entry there, and what it is open on.
    descriptors: Vec<(PathBuf, PathBuf)>,
}

impl Identity {
    /// Of a stopped process; `status` is the text of its `/proc/PID/status`.
    pub(crate) fn of(pid: pid_t, status: &str) -> Result<Self, Refusal> {
        let status: Vec<_> = compared(status).map(str::to_owned).collect();
        if !status.iter().any(|line| line == "Threads:\t1") {
            return Err(Refusal::Differs("the number of threads"));
        }
        let path = format!("/proc/{pid}/fd");
        let directory = File::open(&path).map_err(in_descriptors)?;
        let descriptors = descriptors(&path).map_err(in_descriptors)?;
        Ok(Identity { status, directory, descriptors })
    }

    /// Fails unless nothing of the process differs; `status` is the text of its `/proc/PID/status` now.
    pub(crate) fn check(&self, status: &str) -> Result<(), Refusal> {
        if !compared(status).eq(self.status.iter().map(String::as_str)) {
            return Err(Refusal::Differs("the state of threads, signals or privileges"));
        }
        // As many as before, and each that there was: so there is no other.
        let count = self.directory.metadata().map_err(in_descriptors)?.len();
        let is_open = |(entry, on): &(PathBuf, PathBuf)| fs::read_link(entry).is_ok_and(|now| now == *on);
        if count != self.descriptors.len() as u64 || !self.descriptors.iter().all(is_open) {
            return Err(Refusal::Differs("the list of descriptors"));
        }
        Ok(())
    }
}

/// The lines that are compared.
fn compared(status: &str) -> impl Iterator<Item = &str> {
    status.lines().filter(|line| line.split_once(':').is_some_and(|(name, _)| COMPARED.contains(&name)))
}

fn in_descriptors(error: io::Error) -> Refusal {
    Refusal::Kernel("descriptors", error)
}

/// Resource limits of a process that it can lower itself, in bytes and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// `RLIMIT_DATA`.
    pub data: u64,
    /// `RLIMIT_CPU`.
    pub cpu: u64,
}

impl Bounds {
    /// Reads the text of `/proc/PID/limits`. A process has none that are known when a soft limit is below its hard limit.
    pub(crate) fn parse(limits: &str) -> Option<Self> {
        let of = |name| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
            let mut words = line.split_ascii_whitespace();
            let (soft, hard) = (words.next()?, words.next()?);
            if soft == hard { soft.parse().ok() } else { None }
        };
        Some(Bounds { data: of("Max data size")?, cpu: of("Max cpu time")? })
    }
}

/// Every descriptor with what it is open on.
fn descriptors(directory: &str) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        all.push((path.clone(), fs::read_link(path)?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    const STATUS: &str =
        "Name:\tworker\nThreads:\t1\nSigBlk:\t0\nSigCgt:\t0\nSeccomp_filters:\t2\nvoluntary_ctxt_switches:\t7\n";

    /// A shell that takes one step for each line that it gets.
    struct Stepping(Child);

    impl Stepping {
        fn new(steps: &str) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo; read a; {steps}")]);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let mut stepping = Stepping(child.expect("a shell"));
            stepping.wait();
            stepping
        }

        fn step(&mut self) {
            self.0.stdin.as_mut().expect("its input").write_all(b"\n").expect("a step");
            self.wait();
        }

        fn wait(&mut self) {
            let mut line = [0];
            self.0.stdout.as_mut().expect("its output").read_exact(&mut line).expect("a line");
        }

        fn identity(&self) -> Identity {
            Identity::of(self.0.id().cast_signed(), STATUS).expect("a state")
        }
    }

    impl Drop for Stepping {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_difference_in_threads_signals_or_filters_is_found_and_a_counter_is_none() {
        let child = Stepping::new("");
        let identity = child.identity();
        let check = |from: &str, to: &str, is_same: bool| {
            assert_eq!(identity.check(&STATUS.replace(from, to)).is_ok(), is_same, "{from} {to}");
        };
        check("switches:\t7", "switches:\t9", true);
        check("Threads:\t1", "Threads:\t2", false);
        check("SigBlk:\t0", "SigBlk:\t2", false);
        check("SigCgt:\t0", "SigCgt:\t4", false);
        check("filters:\t2", "filters:\t3", false);
        check("SigBlk:\t0\n", "", false);
    }

    #[test]
    fn limits_are_read_and_a_lower_soft_limit_is_none() {
        let text = |soft| {
            format!("Max cpu time             {soft}          31              seconds\nMax data size   77  77  bytes\n")
        };
        assert_eq!(Bounds::parse(&text(31)), Some(Bounds { data: 77, cpu: 31 }));
        assert_eq!(Bounds::parse(&text(30)), None);
        assert_eq!(Bounds::parse("Max data size  unlimited  unlimited  bytes\n"), None);
    }

    #[test]
    fn a_descriptor_more_or_on_something_else_is_found() {
        if fs::metadata("/proc/self/fd").is_ok_and(|directory| directory.len() == 0) {
            // Before Linux 6.2. No snapshot is taken there.
            return;
        }
        let mut child = Stepping::new("exec 3</dev/null; echo; read a; exec 3<&- 2</; echo; read a");
        let identity = child.identity();
        assert!(identity.check(STATUS).is_ok());
        child.step();
        assert!(identity.check(STATUS).is_err());
        child.step();
        assert!(identity.check(STATUS).is_err());
        assert!(child.identity().check(STATUS).is_ok());
    }
}
