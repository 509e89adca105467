//! A bound on the bytes that are held at one time, for a run, a caller, a backend or the process.
//!
//! The host holds bytes for others: arguments on their way to a tool, replies on their way back, bodies of requests. A run's
//! memory limit does not cover them, so each holder reserves them in a [`ByteBudget`] and frees them by dropping the
//! [`BytePermit`]. A budget has an optional parent, in which every byte counts too: a run's budget is part of its caller's,
//! which is part of the process's.
//!
//! Two ways to reserve, so that no two holders can wait for each other: [`ByteBudget::reserve`] waits its turn and needs
//! the whole size before the first byte is held; [`BytePermit::try_grow`] extends what is held already and never waits.
//! Counts only; allocates nothing and knows nothing of what the bytes are.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::freed_bytes;

/// A bound on bytes held at one time. Clones share it.
#[derive(Clone)]
pub struct ByteBudget(Arc<Node>);

struct Node {
    name: &'static str,
    limit: AtomicUsize,
    parent: Option<ByteBudget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    /// Reservations that wait, first come first served.
    waiting: VecDeque<Waiting>,
    next_ticket: u64,
}

struct Waiting {
    ticket: u64,
    waker: Waker,
}

/// The bytes do not fit into a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} bytes more do not fit into the {limit} bytes that {budget} may have in flight, of which {used} are in use: \
     make fewer calls at one time, or ask for less data in each"
)]
pub struct OverBudget {
    /// Whose budget it is.
    pub budget: &'static str,
    /// Its size in bytes.
    pub limit: usize,
    /// How many of them are in use.
    pub used: usize,
    /// How many more were wanted.
    pub wanted: usize,
}

impl ByteBudget {
    /// A budget of `limit` bytes; `name` says whose it is in refusals ("this run").
    pub fn new(name: &'static str, limit: usize) -> Self {
        Self::with_parent(name, limit, None)
    }

    fn with_parent(name: &'static str, limit: usize, parent: Option<ByteBudget>) -> Self {
        Self(Arc::new(Node { name, limit: AtomicUsize::new(limit), parent, state: Mutex::default() }))
    }

    /// A budget whose bytes count in this one too.
    pub fn child(&self, name: &'static str, limit: usize) -> Self {
        Self::with_parent(name, limit, Some(self.clone()))
    }

    /// A budget that refuses nothing.
    pub fn unlimited() -> Self {
        Self::new("everything", usize::MAX)
    }

    /// Its size in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Changes its size. What is held stays held; reservations that wait are looked at again, and refused if they can
    /// no longer fit.
    pub fn set_limit(&self, limit: usize) {
        let old = self.0.limit.swap(limit, Ordering::Relaxed);
        if old == limit {
            return;
        }
        let waiting: Vec<Waker> = self.state().waiting.iter().map(|waiting| waiting.waker.clone()).collect();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The bytes held now.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// A permit for no bytes, to be grown.
    pub fn empty_permit(&self) -> BytePermit {
        BytePermit { budget: self.clone(), bytes: 0 }
    }

    /// Reserves bytes that must fit now.
    pub fn try_reserve(&self, bytes: usize) -> Result<BytePermit, OverBudget> {
        let mut permit = self.empty_permit();
        permit.try_grow(bytes)?;
        Ok(permit)
    }

    /// Reserves bytes, after those that wait already. Fails at once if they can never fit.
    pub async fn reserve(&self, bytes: usize) -> Result<BytePermit, OverBudget> {
        let mut levels = Levels { bytes, taken: Vec::new() };
        for level in self.levels() {
            level.check_size(bytes)?;
        }
        for level in self.levels() {
            Turn { level, bytes, ticket: None }.await?;
            levels.taken.push(level.clone());
        }
        levels.taken.clear();
        Ok(BytePermit { budget: self.clone(), bytes })
    }

    /// This budget, its parent, and so on.
    fn levels(&self) -> impl Iterator<Item = &ByteBudget> {
        std::iter::successors(Some(self), |level| level.0.parent.as_ref())
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_size(&self, bytes: usize) -> Result<(), OverBudget> {
        if bytes <= self.limit() { Ok(()) } else { Err(self.refusal(bytes, self.used())) }
    }

    fn refusal(&self, wanted: usize, used: usize) -> OverBudget {
        OverBudget { budget: self.0.name, limit: self.limit(), used, wanted }
    }

    fn try_take(&self, bytes: usize) -> Result<(), OverBudget> {
        let mut state = self.state();
        match state.used.checked_add(bytes).filter(|sum| *sum <= self.limit()) {
            Some(sum) => {
                state.used = sum;
                Ok(())
            }
            None => Err(self.refusal(bytes, state.used)),
        }
    }

    fn give_back(&self, bytes: usize) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(bytes);
        let first = state.waiting.front().map(|first| first.waker.clone());
        drop(state);
        if let Some(first) = first {
            first.wake();
        }
    }
}

impl Default for ByteBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl fmt::Debug for ByteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteBudget({}: {} of {})", self.0.name, self.used(), self.limit())
    }
}

/// The levels that an unfinished reservation has taken; dropping it gives them back.
struct Levels {
    bytes: usize,
    taken: Vec<ByteBudget>,
}

impl Drop for Levels {
    fn drop(&mut self) {
        self.taken.iter().for_each(|level| level.give_back(self.bytes));
    }
}

/// Waits until one level has room and every earlier reservation there has its bytes. Fails if the level has become too
/// small for it.
struct Turn<'a> {
    level: &'a ByteBudget,
    bytes: usize,
    ticket: Option<u64>,
}

impl Future for Turn<'_> {
    type Output = Result<(), OverBudget>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.level.check_size(self.bytes)?;
        let mut state = self.level.state();
        let is_first = match (self.ticket, state.waiting.front()) {
            (_, None) => true,
            (ticket, Some(first)) => ticket == Some(first.ticket),
        };
        let sum = state.used.saturating_add(self.bytes);
        if is_first && sum <= self.level.limit() {
            state.used = sum;
            if self.ticket.is_some() {
                state.waiting.pop_front();
            }
            let next = state.waiting.front().map(|next| next.waker.clone());
            drop(state);
            self.ticket = None;
            // The next one may fit as well.
            if let Some(next) = next {
                next.wake();
            }
            return Poll::Ready(Ok(()));
        }
        let waker = context.waker().clone();
        match self.ticket {
            Some(ticket) => {
                if let Some(own) = state.waiting.iter_mut().find(|waiting| waiting.ticket == ticket) {
                    own.waker = waker;
                }
            }
            None => {
                let ticket = state.next_ticket;
                state.next_ticket = ticket.wrapping_add(1);
                state.waiting.push_back(Waiting { ticket, waker });
                drop(state);
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.level.state();
        state.waiting.retain(|waiting| waiting.ticket != ticket);
        let first = state.waiting.front().map(|first| first.waker.clone());
        drop(state);
        if let Some(first) = first {
            first.wake();
        }
    }
}

/// Bytes of a budget and its parents; dropping it gives them back.
#[derive(Debug)]
pub struct BytePermit {
    budget: ByteBudget,
    bytes: usize,
}

impl BytePermit {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes, which must fit now. On failure it holds what it held.
    pub fn try_grow(&mut self, more: usize) -> Result<(), OverBudget> {
        for (taken, level) in self.budget.levels().enumerate() {
            if let Err(refused) = level.try_take(more) {
                self.budget.levels().take(taken).for_each(|level| level.give_back(more));
                return Err(refused);
            }
        }
        self.bytes = self.bytes.saturating_add(more);
        Ok(())
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.budget.levels().for_each(|level| level.give_back(excess));
        self.bytes -= excess;
        freed_bytes::note(excess);
    }

    /// Moves the bytes to another budget, after those that wait there. Parents that both budgets share keep counting the
    /// bytes meanwhile, once, so that a full parent cannot make its own holders wait for it.
    pub async fn move_to(mut self, target: &ByteBudget) -> Result<BytePermit, OverBudget> {
        let is_new = |level: &&ByteBudget| !self.budget.levels().any(|old| old.is(level));
        for level in target.levels().filter(is_new) {
            level.check_size(self.bytes)?;
        }
        let mut taken = Levels { bytes: self.bytes, taken: Vec::new() };
        for level in target.levels().filter(is_new) {
            Turn { level, bytes: self.bytes, ticket: None }.await?;
            taken.taken.push(level.clone());
        }
        taken.taken.clear();
        let bytes = std::mem::take(&mut self.bytes);
        for level in self.budget.levels().filter(|old| !target.levels().any(|new| new.is(old))) {
            level.give_back(bytes);
        }
        Ok(BytePermit { budget: target.clone(), bytes })
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn now<F: Future>(future: F) -> F::Output {
        match poll(pin!(future)) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn bytes_count_in_every_parent_and_are_given_back() {
        let process = ByteBudget::new("the process", 100);
        let (one, other) = (process.child("run one", 80), process.child("run two", 80));
        let held = now(one.reserve(70)).unwrap();
        assert_eq!((one.used(), process.used()), (70, 70));
        let refused = other.try_reserve(40).unwrap_err();
        assert_eq!(refused, OverBudget { budget: "the process", limit: 100, used: 70, wanted: 40 });
        assert_eq!(other.used(), 0);
        drop(held);
        assert_eq!((one.used(), process.used()), (0, 0));
    }

    #[test]
    fn a_reservation_waits_until_there_is_room() {
        let budget = ByteBudget::new("b", 10);
        let held = budget.try_reserve(8).unwrap();
        let mut waits = pin!(budget.reserve(5));
        assert!(poll(waits.as_mut()).is_pending());
        drop(held);
        let Poll::Ready(Ok(permit)) = poll(waits.as_mut()) else { panic!("it still waits") };
        assert_eq!((permit.bytes(), budget.used()), (5, 5));
    }

    #[test]
    fn a_later_small_reservation_does_not_overtake() {
        let budget = ByteBudget::new("b", 10);
        let held = budget.try_reserve(8).unwrap();
        let mut large = Box::pin(budget.reserve(9));
        assert!(poll(large.as_mut()).is_pending());
        let mut small = pin!(budget.reserve(1));
        assert!(poll(small.as_mut()).is_pending());
        // Dropping the one in front lets the next one in.
        drop(large);
        assert!(poll(small.as_mut()).is_ready());
        drop(held);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_dropped_reservation_gives_back_what_it_took() {
        let process = ByteBudget::new("the process", 10);
        let run = process.child("run", 10);
        let _held = process.try_reserve(8).unwrap();
        let mut waits = Box::pin(run.reserve(5));
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(run.used(), 5);
        drop(waits);
        assert_eq!((run.used(), process.used()), (0, 8));
    }

    #[test]
    fn what_can_never_fit_is_refused_at_once() {
        let budget = ByteBudget::new("this run", 10);
        let refused = now(budget.reserve(11)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "11 bytes more do not fit into the 10 bytes that this run may have in flight, of which 0 are in use: make fewer \
             calls at one time, or ask for less data in each"
        );
    }

    #[test]
    fn a_new_size_holds_for_what_comes_and_for_what_waits() {
        let budget = ByteBudget::new("b", 10);
        let held = budget.try_reserve(8).unwrap();
        let mut waits = pin!(budget.reserve(5));
        assert!(poll(waits.as_mut()).is_pending());
        budget.set_limit(13);
        let Poll::Ready(Ok(permit)) = poll(waits.as_mut()) else { panic!("it still waits") };
        assert_eq!(budget.used(), 13);
        budget.set_limit(4);
        assert_eq!((budget.limit(), budget.used()), (4, 13));
        assert!(budget.try_reserve(1).is_err());
        drop((held, permit));
        assert!(budget.try_reserve(4).is_ok());
    }

    #[test]
    fn what_waits_for_a_budget_that_became_too_small_is_refused() {
        let budget = ByteBudget::new("b", 10);
        let _held = budget.try_reserve(8).unwrap();
        let mut large = pin!(budget.reserve(9));
        let mut small = pin!(budget.reserve(1));
        assert!(poll(large.as_mut()).is_pending() && poll(small.as_mut()).is_pending());
        budget.set_limit(9);
        assert!(poll(large.as_mut()).is_pending(), "it may still fit");
        budget.set_limit(8);
        let Poll::Ready(Err(refused)) = poll(large.as_mut()) else { panic!("it waits for what cannot come") };
        assert_eq!(refused, OverBudget { budget: "b", limit: 8, used: 8, wanted: 9 });
        assert!(poll(small.as_mut()).is_pending());
    }

    #[test]
    fn growing_never_waits_and_keeps_what_it_has_on_failure() {
        let budget = ByteBudget::new("b", 10).child("c", 20);
        let mut permit = budget.empty_permit();
        permit.try_grow(9).unwrap();
        assert!(permit.try_grow(2).is_err());
        assert_eq!((permit.bytes(), budget.used()), (9, 9));
        permit.shrink_to(3);
        assert_eq!((permit.bytes(), budget.used()), (3, 3));
    }

    #[test]
    fn bytes_that_move_count_once_in_the_shared_parent() {
        let process = ByteBudget::new("the process", 10);
        let (backend, run) = (process.child("backend", 10), process.child("run", 10));
        let permit = now(backend.try_reserve(9).unwrap().move_to(&run)).unwrap();
        assert_eq!((backend.used(), run.used(), process.used()), (0, 9, 9));
        drop(permit);
        assert_eq!((run.used(), process.used()), (0, 0));
    }

    #[test]
    fn bytes_that_cannot_move_are_given_back() {
        let process = ByteBudget::new("the process", 10);
        let run = process.child("run", 3);
        let permit = process.try_reserve(9).unwrap();
        assert_eq!(now(permit.move_to(&run)).unwrap_err().budget, "run");
        assert_eq!((run.used(), process.used()), (0, 0));
    }
}
