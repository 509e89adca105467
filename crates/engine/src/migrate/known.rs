//! What earlier runs of a program showed: where it ends sooner.
//!
//! A program that runs again mostly does so over data of about the same size. This is kept in memory, and a wrong guess
//! costs time only.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use toolgate_wire::{Destination, Profile};

use super::Thresholds;

/// Programs that are remembered. All are forgotten when there are more.
const MAX_PROGRAMS: usize = 4_096;
/// Processor time after which a program that moved before moves again: enough for a run that ends at once.
const KNOWN_TO_MOVE_AFTER: Duration = Duration::from_millis(3);

/// What a program did the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It moved.
    Moved,
    /// It ended where it began after so much processor time, although the target had its chance.
    Stayed(Duration),
}

/// A program of one caller, with data of about one size. No caller learns by the time of a run what others run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramKey(u64);

/// The programs of earlier runs.
#[derive(Default)]
pub(crate) struct KnownPrograms {
    seen: Mutex<HashMap<u64, Seen>>,
    /// With keys of its own: a program cannot choose to be taken for another.
    hasher: RandomState,
}

impl KnownPrograms {
    pub(crate) fn key(&self, caller: Option<&str>, profile: Profile, code: &str, data: Option<&str>) -> ProgramKey {
        let size = data.map(|data| data.len().checked_ilog2());
        ProgramKey(self.hasher.hash_one((caller, profile.name(), code, size)))
    }

    /// When a run moves, given when one of an unknown program does.
    pub(crate) fn thresholds(&self, key: ProgramKey, unknown: Thresholds) -> Thresholds {
        match self.seen.lock().get(&key.0) {
            None => unknown,
            Some(Seen::Moved) => Thresholds {
                racing: unknown.racing.min(KNOWN_TO_MOVE_AFTER),
                alone: unknown.alone.min(KNOWN_TO_MOVE_AFTER),
            },
            // Not before it has computed for longer than the last time.
            Some(Seen::Stayed(computed)) => {
                let later = unknown.alone + 2 * *computed;
                Thresholds { racing: later, alone: later }
            }
        }
    }

    /// Remembers how a run ended: where it moved to, if it tried, and how long it computed.
    pub(crate) fn remember(&self, key: ProgramKey, moved: Option<Destination>, computed: Duration) {
        let mut seen = self.seen.lock();
        let now = match moved {
            Some(Destination::V8) => Seen::Moved,
            Some(Destination::StayedDiverged | Destination::StayedLost) => Seen::Stayed(computed),
            None => {
                // It ended before it could move: what is known of it is from another amount of work.
                if seen.get(&key.0) == Some(&Seen::Moved) {
                    seen.remove(&key.0);
                }
                return;
            }
        };
        if seen.len() >= MAX_PROGRAMS && !seen.contains_key(&key.0) {
            seen.clear();
        }
        seen.insert(key.0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: Thresholds = Thresholds { racing: Duration::from_millis(50), alone: Duration::from_millis(80) };

    fn after(moved: &[Option<Destination>]) -> Thresholds {
        let known = KnownPrograms::default();
        let key = known.key(None, Profile::Chain, "return 1", None);
        moved.iter().for_each(|moved| known.remember(key, *moved, Duration::from_millis(100)));
        known.thresholds(key, UNKNOWN)
    }

    #[test]
    fn a_program_that_moved_moves_at_once() {
        assert_eq!(after(&[]), UNKNOWN);
        let soon = Thresholds { racing: KNOWN_TO_MOVE_AFTER, alone: KNOWN_TO_MOVE_AFTER };
        assert_eq!(after(&[Some(Destination::V8)]), soon);
        assert_eq!(after(&[Some(Destination::StayedLost), Some(Destination::V8)]), soon);
    }

    #[test]
    fn a_program_that_ends_before_it_moves_is_unknown_again() {
        assert_eq!(after(&[Some(Destination::V8), None]), UNKNOWN);
    }

    #[test]
    fn a_program_that_stayed_is_left_alone_for_as_long_as_it_took() {
        let later = Duration::from_millis(280);
        for stayed in [Destination::StayedLost, Destination::StayedDiverged] {
            assert_eq!(after(&[Some(stayed)]), Thresholds { racing: later, alone: later });
            assert_eq!(after(&[Some(stayed), None]), Thresholds { racing: later, alone: later });
        }
    }

    #[test]
    fn another_amount_of_data_or_another_caller_is_another_program() {
        let known = KnownPrograms::default();
        let key = |data: Option<&str>| known.key(None, Profile::Compute, "(d) => d", data);
        assert_eq!(key(Some("12345")), key(Some("1234567")));
        assert_ne!(key(Some("12345")), key(Some("12345678")));
        assert_ne!(key(Some("")), key(None));
        let of = |caller, profile| known.key(caller, profile, "x", None);
        assert_ne!(of(None, Profile::Chain), of(None, Profile::Snippet));
        assert_ne!(of(Some("a"), Profile::Chain), of(Some("b"), Profile::Chain));
    }

    #[test]
    fn the_number_of_programs_is_bounded() {
        let known = KnownPrograms::default();
        for n in 0..2 * MAX_PROGRAMS {
            let key = known.key(None, Profile::Chain, &n.to_string(), None);
            known.remember(key, Some(Destination::V8), Duration::ZERO);
        }
        assert!(known.seen.lock().len() <= MAX_PROGRAMS);
    }
}
