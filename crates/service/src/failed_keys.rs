//! Slows down guesses of keys and tokens, by address.
//!
//! After some failures, every request with a key or token from that address waits before its key is compared, and only a
//! few may wait at one time. So a guess costs time whether or not it is right, and a client with the right key at the same
//! address is delayed, not locked out. Failures are forgotten over time. The table is bounded; its log lines have the
//! address and a number, never a key.

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
/// Delay of a request with a key, after more failures than are free.
const DELAY: Duration = Duration::from_secs(1);
/// Delayed requests of one address at one time.
const MAX_WAITING: usize = 16;
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
    /// Waits if the address has failed too often; to be called before a key is compared.
    ///
    /// # Errors
    /// If too many requests of the address wait already.
    pub(super) async fn wait(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(address) = address.map(group_of) else { return Ok(()) };
        let Some(_waiting) = self.enter(address, Instant::now())? else { return Ok(()) };
        tokio::time::sleep(DELAY).await;
        Ok(())
    }

    fn enter(&self, address: IpAddr, now: Instant) -> Result<Option<WaitingMark<'_>>, Refusal> {
        let mut table = self.table.lock();
        let Some(failures) = table.get_mut(&address) else { return Ok(None) };
        if failures.level_at(now) <= FREE_FAILURES {
            return Ok(None);
        }
        if failures.waiting >= MAX_WAITING {
            return Err(Refusal::RateLimited { retry_after: DELAY });
        }
        failures.waiting += 1;
        Ok(Some(WaitingMark { failed: self, address }))
    }

    /// How many there were since the start.
    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Records a wrong key or token, and logs it once in a while.
    pub(super) fn record(&self, address: Option<IpAddr>) {
        self.total.fetch_add(1, Ordering::Relaxed);
        let Some(address) = address.map(group_of) else { return };
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
        let new = Failures { level: 0.0, at: now, waiting: 0, unlogged: 0, logged: None };
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

/// A waiting request, until it is dropped.
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
    fn few_requests_of_an_address_wait_at_one_time() {
        let (failed, now) = (FailedKeys::default(), Instant::now());
        for _ in 0..20 {
            failed.add(address(1), now);
        }
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| failed.enter(address(1), now).expect("room")).collect();
        assert!(failed.enter(address(1), now).is_err());
        waiting.pop();
        assert!(failed.enter(address(1), now).is_ok());
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
