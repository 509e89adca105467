//! What the kernel tells about a process beside its memory: threads, signals, privileges, filters, descriptors, limits.

use std::ffi::OsString;
use std::fs;
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    status: Vec<String>,
    descriptors: Vec<(OsString, PathBuf)>,
}

impl Identity {
    /// Of a stopped process; `status` is the text of its `/proc/PID/status`.
    pub(crate) fn of(pid: pid_t, status: &str) -> Result<Self, Refusal> {
        let is_compared = |line: &&str| line.split_once(':').is_some_and(|(name, _)| COMPARED.contains(&name));
        let status: Vec<_> = status.lines().filter(is_compared).map(str::to_owned).collect();
        if !status.iter().any(|line| line == "Threads:\t1") {
            return Err(Refusal::Differs("the number of threads"));
        }
        let descriptors = descriptors(pid).map_err(|error| Refusal::Kernel("descriptors", error))?;
        Ok(Identity { status, descriptors })
    }

    /// Fails unless nothing differs from `earlier`.
    pub(crate) fn check(&self, earlier: &Identity) -> Result<(), Refusal> {
        if self.status != earlier.status {
            return Err(Refusal::Differs("the state of threads, signals or privileges"));
        }
        if self.descriptors != earlier.descriptors {
            return Err(Refusal::Differs("the list of descriptors"));
        }
        Ok(())
    }
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
fn descriptors(pid: pid_t) -> std::io::Result<Vec<(OsString, PathBuf)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        all.push((entry.file_name(), fs::read_link(entry.path())?));
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const STATUS: &str =
        "Name:\tworker\nThreads:\t1\nSigBlk:\t0\nSigCgt:\t0\nSeccomp_filters:\t2\nvoluntary_ctxt_switches:\t7\n";

    /// Held by tests that compare the descriptors of this process, which other tests open and close.
    static ALONE: Mutex<()> = Mutex::new(());

    fn of(status: &str) -> Result<Identity, Refusal> {
        Identity::of(std::process::id().cast_signed(), status)
    }

    fn check(from: &str, to: &str, is_same: bool) {
        let is_equal = |_| {
            let (before, after) = (of(STATUS).expect("a state"), of(&STATUS.replace(from, to)));
            after.and_then(|after| after.check(&before)).is_ok()
        };
        // The harness may open a descriptor meanwhile.
        assert_eq!((0..100).any(is_equal), is_same, "{from} {to}");
    }

    #[test]
    fn a_difference_in_threads_signals_or_filters_is_found_and_a_counter_is_none() {
        let _alone = ALONE.lock().expect("no test failed");
        check("switches:\t7", "switches:\t9", true);
        check("Threads:\t1", "Threads:\t2", false);
        check("SigBlk:\t0", "SigBlk:\t2", false);
        check("SigCgt:\t0", "SigCgt:\t4", false);
        check("filters:\t2", "filters:\t3", false);
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
    fn a_descriptor_more_is_found() {
        let _alone = ALONE.lock().expect("no test failed");
        let before = of(STATUS).expect("a state");
        let _file = fs::File::open("/dev/null").expect("a descriptor");
        assert!(of(STATUS).expect("a state").check(&before).is_err());
    }
}
