//! What this process holds of the machine, as the kernel tells it.

use std::fs;

/// One of this process's children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) state: char,
}

impl Child {
    pub(crate) fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }
}

/// Open descriptors.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Threads whose name starts with this.
pub(crate) fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.starts_with(name)).count()
}

/// Resident bytes.
pub(crate) fn resident() -> u64 {
    bytes_of("VmRSS:")
}

/// The most resident bytes since the last [`forget_peak`].
pub(crate) fn peak() -> u64 {
    bytes_of("VmHWM:")
}

/// Starts [`peak`] anew. Does nothing where the kernel does not permit it: the peak is then that of the whole test.
pub(crate) fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn bytes_of(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The children of a process, zombies included.
pub(crate) fn children_of(parent: u32) -> Vec<Child> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| child_of(parent, pid)).collect()
}

/// This process's children.
pub(crate) fn children() -> Vec<Child> {
    children_of(std::process::id())
}

fn child_of(parent: u32, pid: u32) -> Option<Child> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may itself hold some.
    let (head, tail) = stat.rsplit_once(')')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let name = head.split_once('(')?.1.to_owned();
    (fields.next()?.parse::<u32>().ok()? == parent).then_some(Child { pid, name, state })
}
