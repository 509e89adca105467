//! Runs that wait for a person with their worker: a decision continues them at once, without a repetition.
//!
//! The store has such a run as paused, like any other: any process may claim it when it is decided. Where this process claims it
//! and no other has had it in between, the worker goes on; otherwise the worker is ended and the record decides. Parked runs are
//! bounded in number, memory and time, and a newer one takes the place of the oldest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolgate_engine::Observer;
use toolgate_journal::store::Lease;
use toolgate_wire::frame::{Stream, Target};
use toolgate_wire::{CallRecord, Logs};

/// Runs that wait here with their worker at one time.
const MAX_PARKED: usize = 16;
/// Memory that their programs may use and their records have, all together.
const MAX_PARKED_MEMORY: u64 = 1 << 30;
/// How long a worker waits, unless settings say otherwise. A decision that comes later repeats the record.
pub(super) const PARK_TIME: Duration = Duration::from_secs(300);

/// Why a parked run is woken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// This process has claimed it, under this lease.
    Claimed(Lease),
    /// Its place is needed.
    Evicted,
}

/// The parked runs of one process.
#[derive(Default)]
pub(super) struct ParkedRuns(Mutex<Places>);

#[derive(Default)]
struct Places {
    /// The number of the next one.
    next: u64,
    runs: HashMap<String, Place>,
}

struct Place {
    number: u64,
    memory: u64,
    wake: oneshot::Sender<Wake>,
}

impl ParkedRuns {
    /// A place for a run that may take this much memory; those that have waited longest make room. `None` where that is too much.
    pub(super) fn park(&self, run: &str, memory: u64) -> Option<oneshot::Receiver<Wake>> {
        if memory > MAX_PARKED_MEMORY {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        let mut places = self.0.lock();
        while places.runs.len() >= MAX_PARKED || places.memory() + memory > MAX_PARKED_MEMORY {
            let oldest = places.runs.iter().min_by_key(|(_, place)| place.number).map(|(run, _)| run.clone())?;
            if let Some(place) = places.runs.remove(&oldest) {
                // One that is gone has no place to give up.
                let _ = place.wake.send(Wake::Evicted);
            }
        }
        let number = places.next;
        places.next += 1;
        places.runs.insert(run.to_owned(), Place { number, memory, wake });
        Some(woken)
    }

    /// Hands a lease over to the run's parked worker. Gives it back where there is none.
    pub(super) fn claimed(&self, lease: Lease) -> Option<Lease> {
        let Some(place) = self.0.lock().runs.remove(&lease.run) else { return Some(lease) };
        match place.wake.send(Wake::Claimed(lease)) {
            Ok(()) | Err(Wake::Evicted) => None,
            Err(Wake::Claimed(lease)) => Some(lease),
        }
    }

    /// Whether a run waits here.
    pub(super) fn has(&self, run: &str) -> bool {
        self.0.lock().runs.contains_key(run)
    }

    /// Gives the place of a run up. `false` when it was woken before.
    pub(super) fn leave(&self, run: &str) -> bool {
        self.0.lock().runs.remove(run).is_some()
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().runs.len()
    }
}

impl Places {
    fn memory(&self) -> u64 {
        self.runs.values().map(|place| place.memory).sum()
    }
}

/// Keeps what a program printed, for the report of a run that waits, and passes everything on.
#[derive(Default)]
pub(super) struct PrintedLines {
    lines: Mutex<Logs>,
    next: Option<Arc<dyn Observer>>,
}

impl PrintedLines {
    pub(super) fn before(next: Option<Arc<dyn Observer>>) -> Arc<Self> {
        Arc::new(PrintedLines { lines: Mutex::default(), next })
    }

    pub(super) fn so_far(&self) -> Logs {
        self.lines.lock().clone()
    }
}

impl Observer for PrintedLines {
    fn logged(&self, stream: Stream, line: &str) {
        {
            let mut lines = self.lines.lock();
            match stream {
                Stream::Stdout => lines.stdout.push(line.to_owned()),
                Stream::Stderr => lines.stderr.push(line.to_owned()),
            }
        }
        if let Some(next) = &self.next {
            next.logged(stream, line);
        }
    }

    fn call_noted(&self, index: usize, arguments: &str, then: Option<Duration>) {
        if let Some(next) = &self.next {
            next.call_noted(index, arguments, then);
        }
    }

    fn call_began(&self, target: &Target) {
        if let Some(next) = &self.next {
            next.call_began(target);
        }
    }

    fn call_arguments(&self, target: &Target, arguments: &str, read_only: bool) {
        if let Some(next) = &self.next {
            next.call_arguments(target, arguments, read_only);
        }
    }

    fn call_ended(&self, record: &CallRecord) {
        if let Some(next) = &self.next {
            next.call_ended(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(run: &str) -> Lease {
        Lease { run: run.to_owned(), epoch: 2 }
    }

    #[test]
    fn the_oldest_makes_room_and_memory_counts() {
        let parked = ParkedRuns::default();
        let mut first = parked.park("first", 1).expect("a place");
        let mut rest: Vec<_> = (1..MAX_PARKED).map(|it| parked.park(&it.to_string(), 1).expect("a place")).collect();
        assert_eq!((parked.count(), first.try_recv().ok()), (MAX_PARKED, None));
        let _next = parked.park("next", 1).expect("a place");
        assert_eq!((parked.count(), first.try_recv().ok()), (MAX_PARKED, Some(Wake::Evicted)));
        let _large = parked.park("large", MAX_PARKED_MEMORY).expect("a place");
        assert_eq!(parked.count(), 1, "it needs all the memory");
        assert!(rest.iter_mut().all(|it| it.try_recv().ok() == Some(Wake::Evicted)));
        assert!(parked.park("too large", MAX_PARKED_MEMORY + 1).is_none());
    }

    #[test]
    fn a_lease_goes_to_the_worker_that_waits_and_to_nobody_else() {
        let parked = ParkedRuns::default();
        let mut woken = parked.park("run", 1).expect("a place");
        assert_eq!(parked.claimed(lease("other")), Some(lease("other")));
        assert_eq!(parked.claimed(lease("run")), None);
        assert_eq!(woken.try_recv().ok(), Some(Wake::Claimed(lease("run"))));
        assert!(!parked.leave("run"), "it was woken");
        drop(parked.park("gone", 1));
        assert_eq!(parked.claimed(lease("gone")), Some(lease("gone")));
    }
}
