//! How much of a bound each caller has, so that one caller cannot take it all.
//!
//! Bounds of the process (memory of bodies, open streams, kept results, sessions) are for all callers together. Where what
//! is held cannot be taken back, a caller gets more only while at least as much as it then has stays free: one caller has at
//! most half of the whole, and each of `n` greedy ones about a part of `n + 1`. Where old entries make room for new ones,
//! those of the caller that has the most go first.
//!
//! Counts only; what an amount means (bytes, entries, connections) is up to its user.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A bound, and how much of it each caller has.
#[derive(Debug, Clone)]
pub struct CallerShares<K> {
    capacity: usize,
    used: usize,
    by_caller: HashMap<K, usize>,
}

impl<K: Eq + Hash> CallerShares<K> {
    /// A bound of which nothing is used.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, used: 0, by_caller: HashMap::new() }
    }

    /// What all callers have together.
    pub fn used(&self) -> usize {
        self.used
    }

    /// What a caller has.
    pub fn of<Q: Eq + Hash + ?Sized>(&self, caller: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.by_caller.get(caller).copied().unwrap_or(0)
    }

    /// Whether this much more is within the bound.
    pub fn fits(&self, more: usize) -> bool {
        self.used.checked_add(more).is_some_and(|sum| sum <= self.capacity)
    }

    /// Whether a caller may have this much more: it fits, and leaves at least as much to others as the caller then has. A
    /// caller that has nothing may have what fits.
    pub fn permits<Q: Eq + Hash + ?Sized>(&self, caller: &Q, more: usize) -> bool
    where
        K: Borrow<Q>,
    {
        let own = self.of(caller);
        self.fits(more) && (own == 0 || own + more <= self.capacity - self.used - more)
    }

    /// Counts an amount for a caller, also beyond the bound.
    pub fn add(&mut self, caller: K, amount: usize) {
        self.used = self.used.saturating_add(amount);
        let own = self.by_caller.entry(caller).or_default();
        *own = own.saturating_add(amount);
    }

    /// Counts an amount no longer. A caller that has nothing is forgotten.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, caller: &Q, amount: usize)
    where
        K: Borrow<Q>,
    {
        let Some(own) = self.by_caller.get_mut(caller) else { return };
        let amount = amount.min(*own);
        *own -= amount;
        self.used = self.used.saturating_sub(amount);
        if *own == 0 {
            self.by_caller.remove(caller);
        }
    }

    /// The caller that has the most, if any has something.
    pub fn largest(&self) -> Option<&K> {
        self.by_caller.iter().max_by_key(|(_, own)| **own).map(|(caller, _)| caller)
    }

    /// Whether more is used than the bound.
    pub fn is_exceeded(&self) -> bool {
        self.used > self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each caller has once none of them gets more, taking turns.
    fn greedy(capacity: usize, callers: &[&'static str]) -> Vec<usize> {
        let mut shares = CallerShares::<&str>::new(capacity);
        while let Some(caller) = callers.iter().find(|caller| shares.permits(**caller, 1)) {
            shares.add(caller, 1);
        }
        callers.iter().map(|caller| shares.of(*caller)).collect()
    }

    #[test]
    fn a_caller_leaves_as_much_as_it_has() {
        assert_eq!(greedy(100, &["a"]), [50]);
        assert_eq!(greedy(100, &["a", "b"]), [50, 25]);
        assert_eq!(greedy(8, &["a", "b", "c", "d"]), [4, 2, 1, 1]);
        assert_eq!(greedy(1, &["a", "b"]), [1, 0]);
        assert_eq!(greedy(0, &["a"]), [0]);
    }

    #[test]
    fn a_caller_that_has_nothing_gets_what_fits() {
        let mut shares = CallerShares::new(10);
        assert!(shares.permits("a", 10) && !shares.permits("a", 11));
        shares.add("a", 4);
        assert!(shares.permits("a", 1) && !shares.permits("a", 2));
        assert!(shares.permits("b", 6) && !shares.permits("b", 7) && !shares.permits("b", usize::MAX));
    }

    #[test]
    fn what_is_removed_is_free_and_the_caller_forgotten() {
        let mut shares = CallerShares::new(10);
        shares.add("a", 7);
        shares.add("b", 5);
        assert_eq!((shares.largest(), shares.used(), shares.is_exceeded()), (Some(&"a"), 12, true));
        shares.remove("a", 7);
        assert_eq!((shares.largest(), shares.used(), shares.is_exceeded()), (Some(&"b"), 5, false));
        shares.remove("b", 9);
        shares.remove("c", 9);
        assert_eq!((shares.largest(), shares.used()), (None, 0));
        assert!(shares.by_caller.is_empty());
    }
}
