//! The bytes of records that are read for callers at one time: to repeat, export, fork or correct a run.
//!
//! All callers share a bound, and each has one of its own, so that one caller's records leave room for those of others.
//! A record that does not fit waits, and not for ever.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use toolgate_wire::{ByteBudget, BytePermit};

/// For all callers together.
const MAX_READING: usize = 256 << 20;
/// For one caller.
const MAX_READING_OF_CALLER: usize = 128 << 20;
/// How long a record waits for others.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Budgets of idle callers are dropped past this number.
const MAX_CALLERS: usize = 1024;

pub(super) struct Reading {
    all: ByteBudget,
    callers: Mutex<HashMap<String, ByteBudget>>,
    timeout: Duration,
}

impl Default for Reading {
    fn default() -> Self {
        let all = ByteBudget::new("the records that are read", MAX_READING);
        Reading { all, callers: Mutex::default(), timeout: READ_TIMEOUT }
    }
}

impl Reading {
    /// Room for a record of this caller; a larger one than the bound takes all of it. `None` if there is none in time.
    pub(super) async fn reserve(&self, caller: &str, bytes: usize) -> Option<BytePermit> {
        let budget = self.of(caller);
        let reserved = budget.reserve(bytes.min(MAX_READING_OF_CALLER));
        tokio::time::timeout(self.timeout, reserved).await.ok()?.ok()
    }

    fn of(&self, caller: &str) -> ByteBudget {
        let mut callers = self.callers.lock();
        if callers.len() >= MAX_CALLERS {
            callers.retain(|_, budget| budget.used() > 0);
        }
        let made = || self.all.child("the records of this caller", MAX_READING_OF_CALLER);
        callers.entry(caller.to_owned()).or_insert_with(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn records_of_one_caller_leave_room_for_those_of_others_and_wait_a_bounded_time() {
        let reading = Reading { timeout: Duration::from_millis(10), ..Reading::default() };
        let held = reading.reserve("ann", usize::MAX).await.expect("the first one");
        assert!(reading.reserve("ann", 1).await.is_none(), "her share is in use");
        let other = reading.reserve("bob", MAX_READING_OF_CALLER).await.expect("he has his own");
        assert!(reading.reserve("carl", 1).await.is_none(), "all is in use");
        drop((held, other));
        assert!(reading.reserve("ann", 1).await.is_some());
        assert_eq!(reading.all.used(), 0);
    }
}
