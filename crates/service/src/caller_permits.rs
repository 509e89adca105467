//! What callers hold at one time (bytes of bodies, WebSockets, streams, waiting requests), with a share for each caller.
//!
//! The rule is that of [`CallerShares`]: a caller gets more only while at least as much as it then has stays free for others.
//! Where there are no keys, there is one caller, which may have all of it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_wire::CallerShares;

/// A bound that callers share. Clones are the same bound.
#[derive(Debug, Clone)]
pub(super) struct CallerPermits(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Mutex<CallerShares<Arc<str>>>,
    freed: Notify,
}

/// What one caller holds; dropping it gives it back.
#[derive(Debug)]
pub(super) struct CallerPermit {
    permits: CallerPermits,
    caller: Arc<str>,
    amount: usize,
}

impl CallerPermits {
    pub(super) fn new(capacity: usize) -> Self {
        CallerPermits(Arc::new(Inner { shares: Mutex::new(CallerShares::new(capacity)), freed: Notify::new() }))
    }

    /// What all callers hold.
    pub(super) fn used(&self) -> usize {
        self.0.shares.lock().used()
    }

    /// A permit for nothing, to be grown.
    pub(super) fn empty(&self, caller: &Arc<str>) -> CallerPermit {
        CallerPermit { permits: self.clone(), caller: Arc::clone(caller), amount: 0 }
    }

    /// One of what is bounded, if the caller may have one more.
    pub(super) fn try_take(&self, caller: &str) -> Option<CallerPermit> {
        let mut permit = self.empty(&caller.into());
        permit.try_grow(1).then_some(permit)
    }

    /// One of what is bounded, as soon as the caller may have one more.
    pub(super) async fn take(&self, caller: &str) -> CallerPermit {
        loop {
            // Made before the look, so that what is freed after it is noticed.
            let freed = self.0.freed.notified();
            if let Some(permit) = self.try_take(caller) {
                return permit;
            }
            freed.await;
        }
    }
}

impl CallerPermit {
    /// What it holds.
    pub(super) fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more, if the caller may have it now; false otherwise.
    pub(super) fn try_grow(&mut self, more: usize) -> bool {
        let mut shares = self.permits.0.shares.lock();
        // The name of the only caller where there are no keys.
        let is_only_caller = self.caller.is_empty();
        let may = if is_only_caller { shares.fits(more) } else { shares.permits::<str>(&self.caller, more) };
        if may {
            shares.add(Arc::clone(&self.caller), more);
            self.amount += more;
        }
        may
    }

    /// Gives back all but this.
    pub(super) fn shrink_to(&mut self, amount: usize) {
        let excess = self.amount.saturating_sub(amount);
        if excess > 0 {
            self.permits.0.shares.lock().remove::<str>(&self.caller, excess);
            self.amount -= excess;
            self.permits.0.freed.notify_waiters();
        }
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_half_to_others() {
        let permits = CallerPermits::new(8);
        let take = |caller: &str| std::iter::from_fn(|| permits.try_take(caller)).collect::<Vec<_>>();
        let greedy = take("greedy");
        assert_eq!((greedy.len(), take("other").len()), (4, 2));
        drop(greedy);
        assert_eq!((permits.used(), take("").len()), (0, 8));
    }

    #[tokio::test]
    async fn a_caller_waits_for_its_own_share_and_not_for_those_of_others() {
        let permits = CallerPermits::new(4);
        let held: Vec<_> = (0..2).filter_map(|_| permits.try_take("greedy")).collect();
        let mut waits = Box::pin(permits.take("greedy"));
        assert!(futures_util::poll!(&mut waits).is_pending());
        let other = permits.take("other").await;
        drop(held);
        let permit = waits.await;
        assert_eq!((other.amount(), permit.amount(), permits.used()), (1, 1, 2));
    }
}
