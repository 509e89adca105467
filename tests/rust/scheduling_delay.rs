//! How long the threads of processes were ready to run and did not, because the machine was busy with others.
//!
//! Tests that bound a time subtract it: what is left is what the code under test took by itself, on an idle machine and on a loaded
//! one alike. On an idle machine it is next to nothing, so that it hides no work of the code itself.

use std::collections::HashMap;
use std::time::Duration;

/// Adds up the delay of threads, also of those that end between two looks.
#[derive(Default)]
pub(crate) struct SchedulingDelay {
    /// The delay of each thread at the last look, by process and thread.
    threads: HashMap<(u32, u32), u64>,
    total: u64,
}

impl SchedulingDelay {
    /// Looks at all threads of these processes; the delay since the first look. Zero where the kernel does not tell it.
    pub(crate) fn look(&mut self, processes: &[u32]) -> Duration {
        let is_first = self.threads.is_empty();
        for (thread, now) in processes.iter().flat_map(|pid| delays_of(*pid)) {
            let before = self.threads.insert(thread, now).unwrap_or(if is_first { now } else { 0 });
            // A thread that got the number of one that ended begins anew.
            self.total += if now >= before { now - before } else { now };
        }
        Duration::from_nanos(self.total)
    }
}

fn delays_of(pid: u32) -> Vec<((u32, u32), u64)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let delay = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let id = thread.file_name().to_str()?.parse().ok()?;
        Some(((pid, id), text.split_whitespace().nth(1)?.parse().ok()?))
    };
    threads.filter_map(delay).collect()
}
