//! Watches from outside how much memory a V8 worker holds, and kills it when it holds more than its run may use.
//!
//! The worker's own meter is exact, but it runs in the worker; `RLIMIT_DATA` also counts address space that V8 reserves and
//! never uses. Resident memory is what the machine loses.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, pidfd_send_signal};

/// Time between two reads of the process's memory.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// Watches one process until it is dropped.
pub(super) struct MemoryWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    is_exceeded: AtomicBool,
}

impl MemoryWatch {
    /// Kills the process when it holds `allowed` bytes more than now. The process must not have been waited for.
    pub(super) fn start(pid: Pid, process: Arc<OwnedFd>, allowed: u64) -> io::Result<Self> {
        let limit = held_by(pid).unwrap_or(0).saturating_add(allowed);
        let shared = Arc::new(Shared::default());
        let watching = shared.clone();
        let thread = std::thread::Builder::new().name("toolgate-v8-mem".into()).spawn(move || {
            while !watching.is_stopped.load(Ordering::Acquire) {
                match held_by(pid) {
                    Some(held) if held > limit => {
                        watching.is_exceeded.store(true, Ordering::Release);
                        let _ = pidfd_send_signal(&*process, Signal::KILL);
                        return;
                    }
                    Some(_) => std::thread::park_timeout(PROBE_INTERVAL),
                    None => return,
                }
            }
        })?;
        Ok(MemoryWatch { shared, thread: Some(thread) })
    }

    /// Whether the process was killed because it held too much.
    pub(super) fn was_exceeded(&self) -> bool {
        self.shared.is_exceeded.load(Ordering::Acquire)
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Resident bytes that are not backed by a file, private and shared; `None` when there is no such process.
fn held_by(pid: Pid) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // A zombie has neither line.
    Some((kilobytes("RssAnon")? + kilobytes("RssShmem")?) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    const MB: u64 = 1024 * 1024;

    /// A process that keeps as much as it is sent.
    fn hoarder() -> (Child, Pid, Arc<OwnedFd>) {
        let mut command = Command::new("tail");
        let child = command.args(["-c", "1000000000"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.expect("a process");
        let pid = Pid::from_raw(child.id().try_into().expect("a number")).expect("a number");
        let handle = Arc::new(pidfd_open(pid, PidfdFlags::empty()).expect("a handle"));
        (child, pid, handle)
    }

    #[test]
    fn a_process_that_holds_too_much_is_killed() {
        let (mut child, pid, handle) = hoarder();
        let watch = MemoryWatch::start(pid, handle, 16 * MB).expect("a watch");
        let mut stdin = child.stdin.take().expect("piped");
        let megabyte = vec![1; MB as usize];
        // Ends when the process does; without a watch it would have to hold all of it.
        let sent = (0..500).take_while(|_| stdin.write_all(&megabyte).is_ok()).count();
        drop(stdin);
        let signal = child.wait().expect("an end").signal();
        assert_eq!((signal, watch.was_exceeded()), (Some(Signal::KILL.as_raw()), true), "after {sent} MB");
    }

    #[test]
    fn a_process_that_holds_little_is_left_alone() {
        let (mut child, pid, handle) = hoarder();
        let watch = MemoryWatch::start(pid, handle, 64 * MB).expect("a watch");
        child.stdin.take().expect("piped").write_all(&vec![1; 8 * MB as usize]).expect("written");
        assert!(child.wait().expect("an end").success());
        assert!(!watch.was_exceeded());
    }
}
