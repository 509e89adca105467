//! Slows down guesses of keys and tokens, by address.
//!
//! After some failures, a wrong key or token from that address is answered late, only a few may wait for that at one time,
//! and others are told at once that too many wrong keys came. A right one is compared as ever and never waits: behind a
//! reverse proxy all clients have one address, and a stranger must not shut the others out. So that guesses are bounded
//! too, an address that has failed has so many comparisons a second. Failures are forgotten over time. The table is bounded;
//! its log lines have the address and a number, never a key.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::refusal::Refusal;

/// Failures of an address that have no consequence.
const FREE_FAILURES: f64 = 10.0;
/// Time after which one failure is forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(6);
/// Delay of the answer to a wrong key, after more failures than are free.
const DELAY: Duration = Duration::from_secs(1);
/// Delayed answers of one address at one time.
const MAX_WAITING: usize = 16;
/// Comparisons of one address a second, after more failures than are free.
const MAX_COMPARISONS: u32 = 1_000;
/// The time in which `MAX_COMPARISONS` are counted.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(1);
/// Addresses in the table.
const MAX_ADDRESSES: usize = 4096;
/// The least time between two log lines about one address.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The recent failures of each address.
#[derive(Debug, Default)]
pub(super) struct FailedKeys {
    table: Mutex<HashMap<IpAddr, Failures>>,
    total: AtomicU64,
}

#[derive(Debug)]
struct Failures {
    /// Failures that are not forgotten yet, as of `at`.
    level: f64,
    at: Instant,
    waiting: usize,
    /// Comparisons since the time of the second field.
    compared: (u32, Instant),
    /// Failures since the last log line.
    unlogged: u64,
    logged: Option<Instant>,
}

impl Failures {
    fn level_at(&self, now: Instant) -> f64 {
        let forgotten = now.saturating_duration_since(self.at).as_secs_f64() / FORGET_INTERVAL.as_secs_f64();
        (self.level - forgotten).max(0.0)
    }
}

impl FailedKeys {
    /// To be called before a key or token is compared.
    ///
    /// # Errors
    /// If too many were compared for the address lately.
    pub(super) fn begin(&self, address: Option<IpAddr>) -> Result<Comparison<'_>, Refusal> {
        let address = address.map(group_of);
        if address.is_some_and(|address| !self.may_compare(address, Instant::now())) {
            return Err(TOO_MANY);
        }
        Ok(Comparison { failed: self, address })
    }

    fn may_compare(&self, address: IpAddr, now: Instant) -> bool {
        let mut table = self.table.lock();
        let Some(failures) = table.get_mut(&address) else { return true };
        if failures.level_at(now) <= FREE_FAILURES {
            return true;
        }
        if now.saturating_duration_since(failures.compared.1) >= COMPARISON_INTERVAL {
            failures.compared = (0, now);
        }
        failures.compared.0 = failures.compared.0.saturating_add(1);
        failures.compared.0 <= MAX_COMPARISONS
    }

    /// A place to wait, if the address has failed too often.
    ///
    /// # Errors
    /// If too many answers to the address wait already.
    fn enter(&self, address: IpAddr, now: Instant) -> Result<Option<WaitingMark<'_>>, Refusal> {
        let mut table = self.table.lock();
        let Some(failures) = table.get_mut(&address) else { return Ok(None) };
        if failures.level_at(now) <= FREE_FAILURES {
            return Ok(None);
        }
        if failures.waiting >= MAX_WAITING {
            return Err(TOO_MANY);
        }
        failures.waiting += 1;
        Ok(Some(WaitingMark { failed: self, address }))
    }

    /// How many there were since the start.
    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Records a wrong key or token, and logs it once in a while.
    fn record(&self, address: Option<IpAddr>) {
        self.total.fetch_add(1, Ordering::Relaxed);
        let Some(address) = address else { return };
        if let Some(failures) = self.add(address, Instant::now()) {
            tracing::warn!(%address, failures, "requests with a wrong key or token");
        }
    }

    /// Adds a failure; the number to log, if it is time for a log line.
    fn add(&self, address: IpAddr, now: Instant) -> Option<u64> {
        let mut table = self.table.lock();
        if !table.contains_key(&address) && table.len() >= MAX_ADDRESSES {
            make_room(&mut table, now);
        }
        let new = Failures { level: 0.0, at: now, waiting: 0, compared: (0, now), unlogged: 0, logged: None };
        let failures = table.entry(address).or_insert(new);
        failures.level = (failures.level_at(now) + 1.0).min(2.0 * FREE_FAILURES);
        failures.at = now;
        failures.unlogged += 1;
        let is_due = failures.logged.is_none_or(|at| now.saturating_duration_since(at) >= LOG_INTERVAL);
        is_due.then(|| {
            failures.logged = Some(now);
            std::mem::take(&mut failures.unlogged)
        })
    }
}

/// Removes what is forgotten, or else the address whose last failure is the oldest.
fn make_room(table: &mut HashMap<IpAddr, Failures>, now: Instant) {
    table.retain(|_, failures| failures.waiting > 0 || failures.level_at(now) > 0.0);
    if table.len() >= MAX_ADDRESSES
        && let Some(oldest) = table.iter().min_by_key(|(_, failures)| failures.at).map(|(address, _)| *address)
    {
        table.remove(&oldest);
    }
}

/// The addresses that count as one: a host may have all addresses of an IPv6 /64.
fn group_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// The refusal of an address from which too many wrong keys came.
const TOO_MANY: Refusal = Refusal::TooManyWrongKeys { retry_after: DELAY };

/// The comparison of one key or token. Dropped where it was right.
pub(super) struct Comparison<'a> {
    failed: &'a FailedKeys,
    address: Option<IpAddr>,
}

impl Comparison<'_> {
    /// The answer to a wrong one: the refusal, late if the address has failed too often, or at once that it has.
    pub(super) async fn failed(self, refusal: Refusal) -> Refusal {
        self.failed.record(self.address);
        let place = self.address.map_or(Ok(None), |address| self.failed.enter(address, Instant::now()));
        match place {
            Ok(None) => refusal,
            Ok(Some(_waiting)) => {
                tokio::time::sleep(DELAY).await;
                refusal
            }
            Err(too_many) => too_many,
        }
    }
}

/// An answer that waits, until it is dropped.
struct WaitingMark<'a> {
    failed: &'a FailedKeys,
    address: IpAddr,
}

impl Drop for WaitingMark<'_> {
    fn drop(&mut self) {
        if let Some(failures) = self.failed.table.lock().get_mut(&self.address) {
            failures.waiting = failures.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn delayed(failed: &FailedKeys, number: u32, now: Instant) -> bool {
        failed.enter(address(number), now).expect("room").is_some()
    }

    #[test]
    fn an_address_is_slowed_after_some_failures_and_forgiven_over_time() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        for _ in 0..10 {
            failed.add(address(1), now);
            assert!(!delayed(&failed, 1, now));
        }
        failed.add(address(1), now);
        assert!(delayed(&failed, 1, now) && !delayed(&failed, 2, now));
        assert!(!delayed(&failed, 1, now + FORGET_INTERVAL));
    }

    #[test]
    fn few_answers_to_an_address_wait_at_one_time() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        for _ in 0..20 {
            failed.add(address(1), now);
        }
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| failed.enter(address(1), now).expect("room")).collect();
        assert_eq!(failed.enter(address(1), now).err(), Some(TOO_MANY));
        waiting.pop();
        assert!(failed.enter(address(1), now).is_ok());
    }

    #[test]
    fn comparisons_of_an_address_that_failed_are_bounded_and_no_others() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        let compared = |number, now| (0..5_000).filter(|_| failed.may_compare(address(number), now)).count();
        assert_eq!(compared(1, now), 5_000);
        for _ in 0..20 {
            failed.add(address(1), now);
        }
        assert_eq!((compared(1, now), compared(2, now)), (1_000, 5_000));
        assert_eq!(compared(1, now + COMPARISON_INTERVAL), 1_000);
    }

    #[tokio::test]
    async fn wrong_keys_are_answered_late_and_right_ones_at_once() {
        let (failed, address) = (FailedKeys::default(), address(1));
        let compare = || failed.begin(Some(address)).expect("few");
        assert_eq!(compare().failed(Refusal::Unauthorised).await, Refusal::Unauthorised);
        for _ in 0..20 {
            failed.add(address, Instant::now());
        }
        let mut late: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(compare().failed(Refusal::Unauthorised))).collect();
        for answer in &mut late {
            assert!(futures_util::poll!(answer).is_pending());
        }
        assert_eq!(compare().failed(Refusal::Unauthorised).await, TOO_MANY);
        // A right one is compared at once; nothing waits before that.
        let _ = compare();
        assert_eq!(failed.total(), 2 + MAX_WAITING as u64);
    }

    #[test]
    fn the_table_is_bounded() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        for number in 0..2 * MAX_ADDRESSES as u32 {
            failed.add(address(number), now + Duration::from_micros(number.into()));
        }
        assert_eq!(failed.table.lock().len(), MAX_ADDRESSES);
        assert!(failed.table.lock().contains_key(&address(2 * MAX_ADDRESSES as u32 - 1)));
    }

    #[test]
    fn failures_are_logged_once_in_a_while() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        let logged: Vec<_> = (0..5).map(|_| failed.add(address(1), now)).collect();
        assert_eq!(logged, [Some(1), None, None, None, None]);
        assert_eq!(failed.add(address(1), now + LOG_INTERVAL), Some(5));
    }

    #[test]
    fn addresses_of_one_ipv6_host_count_as_one() {
        let group = |text: &str| group_of(text.parse().expect("an address")).to_string();
        assert_eq!(group("2001:db8:0:1:aaaa::1"), group("2001:db8:0:1::2"));
        assert_ne!(group("2001:db8:0:1::1"), group("2001:db8:0:2::1"));
        assert_eq!(group("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
