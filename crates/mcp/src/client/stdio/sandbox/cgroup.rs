//! A cgroup for one server: its memory, and the number of its processes and threads.
//!
//! Made below the cgroup of this process or beside it, whichever the system permits; in the hierarchy of version 2, or in
//! the two of version 1. `None` where the system permits neither: the caller then has to bound memory another way.
//! A cgroup also knows the processes that left the process group, so it ends them too.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The beginning of the names of all cgroups of this program; the process id of the gateway follows.
const PREFIX: &str = "toolgate-";
/// How often the removal of a cgroup is tried while its processes end, and the pause between.
const REMOVAL_TRIES: usize = 1000;
const REMOVAL_PAUSE: Duration = Duration::from_millis(2);

/// The cgroup of one server; removed when dropped.
#[derive(Debug)]
pub(in super::super) struct Cgroup {
    /// One folder in version 2; one for memory and one for processes in version 1.
    folders: Vec<PathBuf>,
    memory: u64,
}

/// A folder that cgroups can be made in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parent {
    Unified(PathBuf),
    Separate { memory: PathBuf, processes: PathBuf },
}

impl Cgroup {
    /// A cgroup with these limits; `None` where the system permits none.
    pub(super) fn create(memory: u64, processes: usize) -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let parents = parents(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let name = format!("{PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        parents.iter().find_map(|parent| Self::create_in(parent, &name, memory, processes).ok())
    }

    fn create_in(parent: &Parent, name: &str, memory: u64, processes: usize) -> std::io::Result<Self> {
        let (memory_text, processes_text) = (memory.to_string(), processes.to_string());
        let folders = match parent {
            Parent::Unified(parent) => vec![parent.join(name)],
            Parent::Separate { memory, processes } => vec![memory.join(name), processes.join(name)],
        };
        folders.iter().filter_map(|folder| folder.parent()).for_each(remove_abandoned);
        let mut cgroup = Self { folders: Vec::new(), memory };
        for folder in folders {
            fs::create_dir(&folder)?;
            cgroup.folders.push(folder);
        }
        let set = |folder: usize, file: &str, value: &str| write(&cgroup.folders[folder].join(file), value);
        match parent {
            Parent::Unified(_) => {
                set(0, "memory.max", &memory_text)?;
                set(0, "pids.max", &processes_text)?;
                // Without swap or with all of it: the first is meant, the kernel may not have the setting.
                let _ = set(0, "memory.swap.max", "0");
                let _ = set(0, "memory.oom.group", "1");
            }
            Parent::Separate { .. } => {
                set(0, "memory.limit_in_bytes", &memory_text)?;
                set(1, "pids.max", &processes_text)?;
                let _ = set(0, "memory.memsw.limit_in_bytes", &memory_text);
            }
        }
        Ok(cgroup)
    }

    /// Moves a process into it.
    pub(super) fn add(&self, pid: Pid) -> std::io::Result<()> {
        let pid = pid.as_raw_nonzero().to_string();
        self.folders.iter().try_for_each(|folder| write(&folder.join("cgroup.procs"), &pid))
    }

    /// What to say of an end that the limit caused; `None` if it did not.
    pub(in super::super) fn says_out_of_memory(&self) -> Option<String> {
        let folder = self.folders.first()?;
        let counters = ["memory.events", "memory.oom_control"].map(|file| fs::read_to_string(folder.join(file)));
        let killed = counters.iter().flatten().any(|text| kills_in(text) > 0);
        killed.then(|| format!("used more than the {} MB of memory of its sandbox", self.memory >> 20))
    }

    /// Kills every process in it.
    pub(in super::super) fn kill(&self) {
        let Some(folder) = self.folders.first() else { return };
        if write(&folder.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        for pid in members(folder) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Cgroup {
    /// The processes that it kills need a moment to end, so the removal is tried for a while.
    fn drop(&mut self) {
        for folder in &self.folders {
            for _ in 0..REMOVAL_TRIES {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                self.kill();
                std::thread::sleep(REMOVAL_PAUSE);
            }
        }
    }
}

fn write(file: &Path, value: &str) -> std::io::Result<()> {
    fs::File::options().write(true).open(file)?.write_all(value.as_bytes())
}

fn members(folder: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// How many processes the kernel killed for memory, in the words of either version.
fn kills_in(counters: &str) -> u64 {
    let value = |line: &str| line.strip_prefix("oom_kill ").and_then(|count| count.trim().parse().ok());
    counters.lines().find_map(value).unwrap_or(0)
}

/// Removes the cgroups of gateways that were killed; one that has processes stays.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Where cgroups might be made, best first, by `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn parents(own: &str, mounts: &str) -> Vec<Parent> {
    let own_path = |controller: &str| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            controllers.split(',').any(|it| it == controller).then(|| fields.next())?
        })
    };
    let folder = |kind: &str, controller: &str| {
        mounts.lines().find_map(|line| mounted(line, kind, controller, own_path(controller)?))
    };
    let mut found = Vec::new();
    if let Some(below) = folder("cgroup2", "") {
        // A cgroup with processes of its own can have no controllers for its children, so the place beside it is next.
        let beside = below.parent().map(Path::to_owned);
        let has_controllers = |folder: &PathBuf| {
            let text = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
            ["memory", "pids"].iter().all(|name| text.split_whitespace().any(|it| it == *name))
        };
        found.extend(std::iter::once(below).chain(beside).filter(has_controllers).map(Parent::Unified));
    }
    if let (Some(memory), Some(processes)) = (folder("cgroup", "memory"), folder("cgroup", "pids")) {
        found.push(Parent::Separate { memory, processes });
    }
    found
}

/// The folder of a cgroup, if this line of `mountinfo` is the mount of its hierarchy.
fn mounted(line: &str, kind: &str, controller: &str, own: &str) -> Option<PathBuf> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let is_kind = system.next()? == kind;
    let has_controller = controller.is_empty() || system.nth(1)?.split(',').any(|option| option == controller);
    if !is_kind || !has_controller {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    // A container may have a part of the hierarchy mounted as if it were the whole.
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    Some(Path::new(point).join(below.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str =
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const SEPARATE: &str = "41 32 0:36 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         42 32 0:37 /box /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
         43 32 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_folder_of_a_cgroup_is_below_its_mount() {
        let line = UNIFIED.lines().next().unwrap();
        assert_eq!(mounted(line, "cgroup2", "", "/a/b.scope"), Some("/sys/fs/cgroup/a/b.scope".into()));
        assert_eq!(mounted(line, "cgroup", "memory", "/a"), None);
    }

    #[test]
    fn version_one_has_a_folder_for_memory_and_one_for_processes() {
        let own = "4:memory:/box/x\n8:pids:/box/x\n0::/\n";
        let expected = Parent::Separate {
            memory: "/sys/fs/cgroup/memory/box/x".into(),
            processes: "/sys/fs/cgroup/pids/x".into(),
        };
        assert_eq!(parents(own, SEPARATE).last(), Some(&expected));
        assert_eq!(parents("", SEPARATE), []);
    }

    #[test]
    fn a_cgroup_that_cannot_be_made_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        // A folder of files: the limits cannot be written, since the kernel made no files for them.
        let parent = Parent::Unified(folder.path().to_owned());
        assert!(Cgroup::create_in(&parent, "toolgate-1-0", 1 << 20, 8).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn kills_are_counted_in_the_words_of_both_versions() {
        assert_eq!(kills_in("low 0\nhigh 0\noom 3\noom_kill 2\noom_group_kill 1\n"), 2);
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(kills_in("oom_kill_disable 0\n"), 0);
    }
}
