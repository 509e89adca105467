//! What a case costs the gateway's own process: memory while it lasts, memory afterwards, and time.
//!
//! Anonymous memory counts, read some thousand times a second; pages of the program's file do not. Control must be back 100 ms after
//! the deadline where `TOOLGATE_QUIET` says that the machine is quiet, and within some seconds elsewhere; time after it in which threads
//! of the gateway or of this test were ready and the machine ran others does not count. What the machine did before the deadline does
//! not matter to it.

#[path = "../../../../tests/rust/scheduling_delay.rs"]
mod delay;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delay::SchedulingDelay;

/// What a gateway may take beside the bytes that a limit permits.
const HOST_BYTES: u64 = 16 << 20;
/// How long after its deadline a case may have control.
const CONTROL_MARGIN: Duration = Duration::from_millis(100);
/// The margin where the machine may be loaded: what holds up workers, servers and the disk is not among the delays that are seen.
const LOADED_MARGIN: Duration = Duration::from_secs(3);
/// Set on a quiet machine: cases keep to their margin.
const QUIET: &str = "TOOLGATE_QUIET";
/// How long memory may take to go back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the delay of threads is read: there are many of them.
const DELAY_INTERVAL: Duration = Duration::from_millis(20);
const SAMPLE_INTERVAL: Duration = Duration::from_micros(500);

/// Anonymous and shared bytes of a process; those of the files that it has mapped do not count.
fn held(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    let kb = |name: &str| of(name).trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
    (kb("RssAnon:") + kb("RssShmem:")) * 1024
}

/// Watches a gateway during one case.
pub(crate) struct Bar {
    pid: u32,
    before: u64,
    since: Instant,
    stop: Arc<AtomicBool>,
    samples: JoinHandle<Samples>,
}

/// What was seen during a case.
#[derive(Default)]
struct Samples {
    peak: u64,
    /// Delays of threads so far, by the time since the start of the case.
    delays: Vec<(Duration, Duration)>,
}

impl Samples {
    /// The delay of threads from a deadline on.
    fn delay_since(&self, deadline: Duration) -> Duration {
        let before = self.delays.iter().rev().find(|(at, _)| *at <= deadline).or(self.delays.first());
        let end = self.delays.last().map_or(Duration::ZERO, |(_, delay)| *delay);
        before.map_or(Duration::ZERO, |(_, delay)| end.saturating_sub(*delay))
    }
}

impl Bar {
    pub(crate) fn of(pid: u32) -> Self {
        let before = held(pid);
        assert!(before > 0, "the memory of {pid} cannot be read");
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let since = Instant::now();
        let samples = std::thread::spawn(move || {
            let (mut delay, processes) = (SchedulingDelay::default(), [pid, std::process::id()]);
            let mut samples = Samples { peak: 0, delays: vec![(Duration::ZERO, delay.look(&processes))] };
            while !is_over.load(Ordering::Relaxed) {
                samples.peak = samples.peak.max(held(pid));
                let last = samples.delays.last().map_or(Duration::ZERO, |(at, _)| *at);
                if since.elapsed() >= last + DELAY_INTERVAL {
                    let at = since.elapsed();
                    samples.delays.push((at, delay.look(&processes)));
                }
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            samples.delays.push((since.elapsed(), delay.look(&processes)));
            samples
        });
        Bar { pid, before, since, stop, samples }
    }

    /// Fails if the case took more bytes than `limit` permits, keeps more than `kept`, or came back too late.
    pub(crate) fn check(self, case: &str, limit: u64, kept: u64, deadline: Duration) {
        self.check_with_margin(case, limit, kept, deadline, CONTROL_MARGIN);
    }

    /// The same with another margin of time, for a case that is known not to keep the usual one.
    pub(crate) fn check_with_margin(self, case: &str, limit: u64, kept: u64, deadline: Duration, margin: Duration) {
        let margin = if std::env::var_os(QUIET).is_some() { margin } else { margin.max(LOADED_MARGIN) };
        self.hold_to(case, limit, kept, deadline + margin);
    }

    /// Fails also if control was not back by this time.
    fn hold_to(self, case: &str, limit: u64, kept: u64, deadline: Duration) {
        let took = self.since.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.samples.join().expect("no panic");
        let delay = samples.delay_since(deadline);
        let grew = samples.peak.saturating_sub(self.before);
        assert!(grew <= limit + HOST_BYTES, "{case}: the gateway grew by {grew} bytes, for a limit of {limit}");
        assert!(
            took <= deadline + delay,
            "{case}: control came back after {took:?} and not within {deadline:?}; the machine was busy for {delay:?}"
        );
        let since = Instant::now();
        let mut stays = held(self.pid).saturating_sub(self.before);
        while stays > kept + HOST_BYTES {
            assert!(since.elapsed() < RETURN_TIMEOUT, "{case}: the gateway keeps {stays} bytes");
            std::thread::sleep(Duration::from_millis(50));
            stays = held(self.pid).saturating_sub(self.before);
        }
    }
}

#[test]
fn the_bar_sees_what_a_process_takes_and_keeps() {
    let fails = |work: fn() -> Vec<u8>, limit: u64| {
        let watched = std::panic::catch_unwind(|| {
            let bar = Bar::of(std::process::id());
            let kept = work();
            std::thread::sleep(SAMPLE_INTERVAL * 20);
            bar.check("a case", limit, u64::MAX / 2, Duration::from_secs(60));
            kept
        });
        watched.is_err()
    };
    // Other tests of this program run beside it, and take little.
    assert!(fails(|| vec![1; 256 << 20], 128 << 20));
    assert!(!fails(|| vec![1; 1 << 20], 128 << 20));
}

#[test]
fn the_bar_sees_control_that_comes_back_late() {
    // Threads of other tests in this process are delayed too, so it takes some tries on a busy machine.
    let is_late = || {
        let watched = std::panic::catch_unwind(|| {
            let bar = Bar::of(std::process::id());
            std::thread::sleep(Duration::from_millis(300));
            bar.hold_to("a case", u64::MAX / 2, u64::MAX / 2, CONTROL_MARGIN);
        });
        watched.is_err()
    };
    assert!((0..100).any(|_| is_late()), "300 ms for a deadline of none");
}
