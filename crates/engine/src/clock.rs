//! A process's own processor time, read from outside.

use std::time::Duration;

use rustix::process::Pid;

/// The clock of one process's main thread, which is where its program runs.
#[derive(Debug, Clone)]
pub(crate) struct CpuClock(String);

impl CpuClock {
    pub(crate) fn of(pid: Pid) -> Self {
        CpuClock(format!("/proc/{}/schedstat", pid.as_raw_nonzero()))
    }

    /// Time on a processor so far; zero when the system does not say.
    pub(crate) fn read(&self) -> Duration {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_moves_the_clock() {
        let clock = CpuClock::of(rustix::process::getpid());
        let before = clock.read();
        let mut sum = 0u64;
        while clock.read() == before {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        assert!(clock.read() > before);
    }
}
