//! Worker processes as the kernel shows them to their parent: truth that does not pass through a worker.

use std::collections::BTreeSet;
use std::fs;

/// The processes that this one is the parent of, zygotes and workers alike.
pub fn children() -> BTreeSet<u32> {
    let us = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(us))
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; after it come the state and the parent.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
}

/// Bytes of memory that this process shares with no other. Reading it of a sealed worker takes root.
pub fn private_memory(pid: u32) -> std::io::Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kilobytes =
        ["Private_Clean", "Private_Dirty"].into_iter().filter_map(|name| number(&rollup, name)).sum::<u64>();
    Ok(kilobytes * 1024)
}

/// What the kernel says about one worker. `None`: this kernel does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// A seccomp filter is in force.
    pub seccomp: Option<bool>,
    /// See `prctl(2)`, `PR_SET_NO_NEW_PRIVS`.
    pub no_new_privs: Option<bool>,
    /// The user it runs as.
    pub user: Option<u64>,
    /// Its bounds as the kernel enforces them: processor seconds, data bytes, file bytes, core bytes.
    pub limits: Vec<(&'static str, u64)>,
}

/// The filters of a worker: its zygote's, and its own.
const FILTERS: u64 = 2;

/// Limits to look for, as `/proc/PID/limits` names them.
const LIMITS: [&str; 4] = ["Max cpu time", "Max data size", "Max file size", "Max core file size"];

/// Looks at a process.
pub fn look_at(pid: u32) -> Seen {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let (status, limits) = (read("status"), read("limits"));
    let limit = |name| limits.lines().find_map(|line| first_number(line.strip_prefix(name)?));
    Seen {
        seccomp: filtered(&status, &fs::read_to_string("/proc/self/status").unwrap_or_default()),
        no_new_privs: number(&status, "NoNewPrivs").map(|flag| flag == 1),
        user: number(&status, "Uid"),
        limits: LIMITS.into_iter().filter_map(|name| Some((name, limit(name)?))).collect(),
    }
}

/// Whether a worker's filters are in force besides those that this process has itself.
fn filtered(worker: &str, this: &str) -> Option<bool> {
    let by_filters = number(worker, "Seccomp")? == 2;
    let filters = |status| number(status, "Seccomp_filters");
    // Older kernels do not count them.
    let enough = filters(worker).is_none_or(|count| count >= filters(this).unwrap_or(0) + FILTERS);
    Some(by_filters && enough)
}

/// The number after `name:` at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| first_number(line.strip_prefix(name)?.strip_prefix(':')?))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_look_at_itself() {
        let us = std::process::id();
        assert!(look_at(us).user.is_some());
        assert!(private_memory(us).is_ok_and(|bytes| bytes > 0));
        assert!(parent_of(us).is_some());
    }

    #[test]
    fn a_zygotes_filter_alone_is_not_enough() {
        let status = |filters| format!("Seccomp:\t2\nSeccomp_filters:\t{filters}\n");
        assert_eq!(filtered(&status(2), "Seccomp:\t0\nSeccomp_filters:\t0\n"), Some(true));
        assert_eq!(filtered(&status(1), "Seccomp:\t0\nSeccomp_filters:\t0\n"), Some(false));
        assert_eq!(filtered(&status(2), &status(1)), Some(false), "one is a container's");
        assert_eq!(filtered("Seccomp:\t2\n", ""), Some(true), "an older kernel");
        assert_eq!(filtered("Seccomp:\t0\n", ""), Some(false));
        assert_eq!(filtered("", ""), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "Seccomp_filters:\t3\nSeccomp:\t2\nUid:\t7\t7\t7\t7\n";
        assert_eq!(number(status, "Seccomp"), Some(2));
        assert_eq!(number(status, "Uid"), Some(7));
        assert_eq!(number(status, "Gid"), None);
    }
}
