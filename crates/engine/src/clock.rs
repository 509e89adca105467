//! Processor time of another process.

use std::time::Duration;

use rustix::process::Pid;

/// The processor time of one process's main thread, on which its program runs.
#[derive(Debug, Clone)]
pub(crate) struct CpuClock {
    path: String,
    /// Processor time that does not count.
    before: Duration,
}

impl CpuClock {
    pub(crate) fn of(pid: Pid) -> Self {
        CpuClock { path: format!("/proc/{}/schedstat", pid.as_raw_nonzero()), before: Duration::ZERO }
    }

    /// The same clock, which begins now.
    pub(crate) fn restarted(self) -> Self {
        CpuClock { before: self.before + self.read(), ..self }
    }

    /// Processor time so far; zero when the system does not provide it.
    pub(crate) fn read(&self) -> Duration {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or(0)).saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_advances_the_clock() {
        let clock = CpuClock::of(rustix::process::getpid());
        let before = clock.read();
        let mut sum = 0u64;
        while clock.read() == before {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        assert!(clock.read() > before);
        let total = clock.read();
        assert!(clock.clone().restarted().read() < total);
    }
}
