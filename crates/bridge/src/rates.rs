//! Counts the tool calls of each caller that has a rate.
//!
//! A bucket of tokens for each name: full at first, refilled evenly over a minute. Names come from configured keys and from
//! tokens of an issuer; a bucket that must be full again is dropped when there are many. It reads no clock: the caller passes the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_wire::CallRate;

const MINUTE: Duration = Duration::from_secs(60);
/// Full buckets are dropped past this number.
const MAX_BUCKETS: usize = 1024;

/// The calls that callers have left.
#[derive(Debug, Default)]
pub(super) struct CallRates(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: CallRate,
    left: f64,
    at: Instant,
}

impl CallRates {
    /// Takes one call from the caller's bucket; `Err` is how long it takes until there is one.
    pub(super) fn take(&self, caller: &str, rate: CallRate, now: Instant) -> Result<(), Duration> {
        let full = Bucket { rate, left: f64::from(rate.calls()), at: now };
        let mut buckets = self.0.lock();
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(caller) {
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < MINUTE);
        }
        let bucket = match buckets.get_mut(caller) {
            // A reload changed the rate: begin anew.
            Some(bucket) if bucket.rate == rate => bucket,
            _ => buckets.entry(caller.to_owned()).and_modify(|bucket| *bucket = full).or_insert(full),
        };
        let per_second = f64::from(rate.calls()) / MINUTE.as_secs_f64();
        let refilled = bucket.left + now.saturating_duration_since(bucket.at).as_secs_f64() * per_second;
        bucket.left = refilled.min(f64::from(rate.calls()));
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_minute(calls: u32) -> CallRate {
        CallRate::per_minute(calls).expect("a rate")
    }

    #[test]
    fn calls_beyond_the_rate_wait_for_their_part_of_a_minute() {
        let (rates, now) = (CallRates::default(), Instant::now());
        let take = |caller: &str, seconds: u64| rates.take(caller, per_minute(2), now + Duration::from_secs(seconds));
        assert_eq!((take("a", 0), take("a", 0)), (Ok(()), Ok(())));
        assert_eq!(take("a", 0), Err(Duration::from_secs(30)));
        assert_eq!(take("b", 0), Ok(()), "another caller has its own");
        assert_eq!(take("a", 10), Err(Duration::from_secs(20)));
        assert_eq!(take("a", 30), Ok(()));
        assert!(take("a", 30).is_err());
        assert_eq!((take("a", 1_000), take("a", 1_000)), (Ok(()), Ok(())), "no more than a minute's worth is saved");
        assert!(take("a", 1_000).is_err());
    }

    #[test]
    fn buckets_of_callers_that_went_are_dropped() {
        let (rates, now) = (CallRates::default(), Instant::now());
        for n in 0..3 * MAX_BUCKETS {
            let later = now + Duration::from_millis(100) * u32::try_from(n).expect("a number");
            assert_eq!(rates.take(&n.to_string(), per_minute(1), later), Ok(()));
        }
        assert!(rates.0.lock().len() <= MAX_BUCKETS + 1);
    }

    #[test]
    fn a_changed_rate_counts_from_the_start() {
        let (rates, now) = (CallRates::default(), Instant::now());
        assert_eq!(rates.take("a", per_minute(1), now), Ok(()));
        assert!(rates.take("a", per_minute(1), now).is_err());
        assert_eq!(rates.take("a", per_minute(5), now), Ok(()));
    }
}
