//! Tells a kill by the kernel's OOM killer from a SIGKILL that another process sent.
//!
//! The exit status is the same for both. The kernel counts the processes that its OOM killer ends, and raises the
//! counter before it sends the signal: a counter of this process's cgroup that rose during the run means that the OOM
//! killer did it, one that did not rise means that another process sent the signal. Where no such counter can be read, the counter
//! of the whole machine can still rule the OOM killer out.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Who sent a SIGKILL that the engine did not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killer {
    /// The kernel, because memory ran out.
    Oom,
    /// Another process.
    Outside,
    /// One of the two.
    Unsure,
}

/// Counters of processes that the OOM killer ended.
pub(crate) struct OomCounters {
    /// Processes of this process's cgroup; workers belong to it too.
    cgroup: Option<Counter>,
    /// Processes of the whole machine, and their number when the engine was made. Too slow to read for every run.
    machine: Option<(Counter, u64)>,
}

/// The number of kills in the cgroup when a run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline(Option<u64>);

impl OomCounters {
    /// Finds the counters that this system offers.
    pub(crate) fn new() -> Self {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let cgroup = candidates(&cgroups).into_iter().find_map(Counter::open);
        let machine = Counter::open("/proc/vmstat".into()).and_then(|counter| Some((counter.read()?, counter)));
        OomCounters { cgroup, machine: machine.map(|(count, counter)| (counter, count)) }
    }

    /// Called when a run begins; one read of a small file.
    pub(crate) fn baseline(&self) -> Baseline {
        Baseline(self.cgroup.as_ref().and_then(Counter::read))
    }

    /// Who killed a worker of the run that began at `baseline`.
    pub(crate) fn killer(&self, baseline: Baseline) -> Killer {
        let since_run = self.cgroup.as_ref().and_then(Counter::read).zip(baseline.0);
        let since_engine = self.machine.as_ref().and_then(|(counter, before)| Some((counter.read()?, *before)));
        match (since_run, since_engine) {
            (Some((now, before)), _) if now > before => Killer::Oom,
            (Some(_), _) => Killer::Outside,
            (None, Some((now, before))) if now == before => Killer::Outside,
            (None, _) => Killer::Unsure,
        }
    }
}

/// A file with a line `oom_kill <count>`.
struct Counter(File);

impl Counter {
    /// The counter in a file, if it has one.
    fn open(path: PathBuf) -> Option<Self> {
        let counter = Counter(File::open(path).ok()?);
        counter.read().map(|_| counter)
    }

    fn read(&self) -> Option<u64> {
        // `/proc/vmstat` has about five kilobytes.
        let mut buffer = [0; 16 * 1024];
        let length = self.0.read_at(&mut buffer, 0).ok()?;
        count(&String::from_utf8_lossy(buffer.get(..length)?))
    }
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Files that may count the kills of the cgroup that `/proc/self/cgroup` describes: version 2 first, then version 1.
///
/// In a container the path may be relative to a root that is not mounted; its own cgroup is then the mount point.
fn candidates(cgroups: &str) -> Vec<PathBuf> {
    let file =
        |root: &str, path: &str, name: &str| PathBuf::from(format!("{root}{}/{name}", path.trim_end_matches('/')));
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.events"),
            _ if controllers.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.oom_control"),
            _ => continue,
        };
        files.extend([file(root, path, name), file(root, "", name)]);
    }
    files.sort_by_key(|path| !path.ends_with("memory.events"));
    files
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    fn rewrite(mut file: &File, text: &str) {
        file.seek(SeekFrom::Start(0)).expect("seek");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn check(cgroup: Option<[u64; 2]>, machine: Option<[u64; 2]>, expected: Killer) {
        let text = |count: u64| format!("low 0\noom 3\noom_kill {count}\noom_group_kill 0\n");
        let files = [cgroup, machine].map(|counts| counts.map(|[before, _]| file(&text(before))));
        let counter = |file: &Option<File>| file.as_ref().map(|file| Counter(file.try_clone().expect("a descriptor")));
        let counters = OomCounters {
            cgroup: counter(&files[0]),
            machine: counter(&files[1]).zip(machine.map(|[before, _]| before)),
        };
        let baseline = counters.baseline();
        for (file, counts) in files.iter().zip([cgroup, machine]) {
            if let (Some(file), Some([_, after])) = (file, counts) {
                rewrite(file, &text(after));
            }
        }
        assert_eq!(counters.killer(baseline), expected, "{cgroup:?} {machine:?}");
    }

    #[test]
    fn the_cgroups_counter_decides() {
        check(Some([4, 5]), Some([7, 8]), Killer::Oom);
        check(Some([4, 4]), Some([7, 7]), Killer::Outside);
        check(Some([4, 4]), Some([7, 8]), Killer::Outside);
    }

    #[test]
    fn the_machines_counter_can_only_rule_the_oom_killer_out() {
        check(None, Some([7, 7]), Killer::Outside);
        check(None, Some([7, 8]), Killer::Unsure);
        check(None, None, Killer::Unsure);
    }

    #[test]
    fn a_text_without_the_line_has_no_count() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), Some(12));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn both_versions_of_cgroups_are_looked_for() {
        let paths = |text: &str| candidates(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            paths("4:memory:/a/b\n3:cpu,cpuacct:/\n0::/\n"),
            [
                "/sys/fs/cgroup/memory.events",
                "/sys/fs/cgroup/memory.events",
                "/sys/fs/cgroup/memory/a/b/memory.oom_control",
                "/sys/fs/cgroup/memory/memory.oom_control",
            ]
        );
        assert_eq!(
            paths("0::/user.slice/x.scope\n"),
            ["/sys/fs/cgroup/user.slice/x.scope/memory.events", "/sys/fs/cgroup/memory.events"]
        );
        assert!(paths("nonsense").is_empty());
    }
}
