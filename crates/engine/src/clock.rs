//! Processor time of a worker, and whether it sleeps.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::Pid;

/// The processor time of the thread on which a program runs: the main thread of a worker's process.
#[derive(Debug, Clone)]
pub(crate) struct CpuClock {
    /// Its folder in `/proc`.
    folder: Arc<Path>,
    /// The file with the times, opened by the first reading; `None` if it cannot be opened.
    file: Arc<OnceLock<Option<File>>>,
    /// Processor time that does not count.
    before: Duration,
}

/// More than the kernel's three numbers take.
const MAX_TEXT: usize = 80;

impl CpuClock {
    pub(crate) fn of(pid: Pid) -> Self {
        Self::in_folder(Path::new(&format!("/proc/{}", pid.as_raw_nonzero())))
    }

    /// The clock of the thread that asks; `None` where the system has no such clock.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let link = fs::read_link("/proc/thread-self").ok()?;
        Some(Self::in_folder(&Path::new("/proc").join(link)))
    }

    fn in_folder(folder: &Path) -> Self {
        CpuClock { folder: folder.into(), file: Arc::default(), before: Duration::ZERO }
    }

    /// Whether the thread sleeps until something wakes it. `false` where the system does not tell.
    pub(crate) fn is_asleep(&self) -> bool {
        let stat = fs::read_to_string(self.folder.join("stat")).unwrap_or_default();
        // The name before the state is in parentheses and may contain some.
        stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('S'))
    }

    /// The same clock, which begins now.
    pub(crate) fn restarted(self) -> Self {
        CpuClock { before: self.before + self.read(), ..self }
    }

    /// Processor time so far; zero when the system does not provide it.
    pub(crate) fn read(&self) -> Duration {
        let file = self.file.get_or_init(|| File::open(self.folder.join("schedstat")).ok());
        let mut text = [0; MAX_TEXT];
        let length = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = str::from_utf8(&text[..length]).unwrap_or_default();
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

    #[test]
    fn a_thread_is_asleep_while_it_waits_and_not_while_it_computes() {
        let (clock_of, clock) = std::sync::mpsc::channel();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            clock_of.send(CpuClock::of_this_thread()).expect("a receiver");
            woken.recv()
        });
        let clock = clock.recv().expect("a thread").expect("a clock");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while !clock.is_asleep() {
            assert!(std::time::Instant::now() < until, "it sleeps");
            std::thread::yield_now();
        }
        assert!(!CpuClock::of_this_thread().expect("a clock").is_asleep());
        wake.send(()).expect("a receiver");
        thread.join().expect("joined").expect("woken");
        assert!(!clock.is_asleep(), "it is gone");
    }
}
