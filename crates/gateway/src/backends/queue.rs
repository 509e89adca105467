//! Who may use a backend now, and who is next.
//!
//! A bounded number of calls run; the others wait, and callers take turns: a script that fires
//! a thousand calls delays another caller by one call and not by a thousand. Time spent here is
//! not the call's own: its timeout starts when it gets its permit.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The queue in front of one backend.
#[derive(Debug)]
pub(crate) struct Queue {
    limit: AtomicUsize,
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    queued: usize,
    waiting: HashMap<u64, VecDeque<oneshot::Sender<Permit>>>,
    /// Callers that have something waiting, the next one first.
    turns: VecDeque<u64>,
}

/// The right to run one call; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Permit {
    queue: Option<Arc<Queue>>,
}

/// So many wait already that one more is turned away.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) usize);

impl Queue {
    pub(crate) fn new(limit: usize, capacity: usize) -> Arc<Self> {
        Arc::new(Self { limit: AtomicUsize::new(limit.max(1)), capacity, state: Mutex::default() })
    }

    /// Waits for this caller's turn. Dropping the future gives the place up.
    pub(crate) async fn enter(self: &Arc<Self>, caller: u64) -> Result<Permit, Full> {
        let turn = {
            let mut state = self.lock();
            if state.running < self.limit() {
                state.running += 1;
                return Ok(self.permit());
            }
            if state.queued >= self.capacity {
                state.forget_the_gone();
            }
            if state.queued >= self.capacity {
                return Err(Full(state.queued));
            }
            state.line_up(caller)
        };
        turn.await.map_err(|_| Full(self.capacity))
    }

    /// Changes how many may run: more are let in at once; of too many, those that end next are not replaced.
    pub(crate) fn resize(self: &Arc<Self>, limit: usize) {
        self.limit.store(limit.max(1), Ordering::Relaxed);
        loop {
            {
                let mut state = self.lock();
                if state.running >= self.limit() || state.queued == 0 {
                    return;
                }
                state.running += 1;
            }
            self.release();
        }
    }

    fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many run and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.queued)
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { queue: Some(Arc::clone(self)) }
    }

    fn release(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                let next = if state.running > self.limit() { None } else { state.next() };
                if next.is_none() {
                    state.running -= 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(self.permit()) {
                Ok(()) => return,
                // It stopped waiting: its place goes to the one behind it.
                Err(mut unused) => unused.queue = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn line_up(&mut self, caller: u64) -> oneshot::Receiver<Permit> {
        let (turn, come) = oneshot::channel();
        let line = self.waiting.entry(caller).or_default();
        if line.is_empty() {
            self.turns.push_back(caller);
        }
        line.push_back(turn);
        self.queued += 1;
        come
    }

    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        let caller = self.turns.pop_front()?;
        let line = self.waiting.get_mut(&caller)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.waiting.remove(&caller);
        } else {
            self.turns.push_back(caller);
        }
        self.queued -= usize::from(next.is_some());
        next
    }

    fn forget_the_gone(&mut self) {
        self.waiting.retain(|_, line| {
            line.retain(|turn| !turn.is_closed());
            !line.is_empty()
        });
        let waiting = &self.waiting;
        self.turns.retain(|caller| waiting.contains_key(caller));
        self.queued = waiting.values().map(VecDeque::len).sum();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    type Turn<'a> = Pin<&'a mut dyn Future<Output = Result<Permit, Full>>>;

    fn poll(turn: &mut Turn<'_>) -> Poll<Result<Permit, Full>> {
        turn.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn granted(turn: &mut Turn<'_>) -> Option<Permit> {
        match poll(turn) {
            Poll::Ready(Ok(permit)) => Some(permit),
            _ => None,
        }
    }

    #[test]
    fn callers_take_turns() {
        let queue = Queue::new(1, 10);
        let mut first: Turn<'_> = pin!(queue.enter(1));
        let mut greedy: Turn<'_> = pin!(queue.enter(1));
        let mut greedier: Turn<'_> = pin!(queue.enter(1));
        let mut modest: Turn<'_> = pin!(queue.enter(2));
        let running = granted(&mut first);
        assert!(poll(&mut greedy).is_pending());
        assert!(poll(&mut greedier).is_pending());
        assert!(poll(&mut modest).is_pending());
        drop(running);
        let running = granted(&mut greedy);
        assert!(running.is_some());
        drop(running);
        assert!(poll(&mut greedier).is_pending());
        assert!(granted(&mut modest).is_some());
    }

    #[test]
    fn a_place_given_up_goes_to_the_next() {
        let queue = Queue::new(1, 10);
        let mut first: Turn<'_> = pin!(queue.enter(1));
        let running = granted(&mut first);
        let mut quitter = Box::pin(queue.enter(1));
        assert!(poll(&mut (quitter.as_mut() as Turn<'_>)).is_pending());
        let mut patient: Turn<'_> = pin!(queue.enter(1));
        assert!(poll(&mut patient).is_pending());
        drop(quitter);
        drop(running);
        assert!(granted(&mut patient).is_some());
    }

    #[test]
    fn a_wider_queue_lets_in_those_who_wait_and_a_narrower_one_fewer() {
        let queue = Queue::new(1, 10);
        let mut first: Turn<'_> = pin!(queue.enter(1));
        let mut second: Turn<'_> = pin!(queue.enter(1));
        let mut third: Turn<'_> = pin!(queue.enter(1));
        let one = granted(&mut first);
        assert!(poll(&mut second).is_pending());
        assert!(poll(&mut third).is_pending());
        queue.resize(2);
        let two = granted(&mut second);
        assert!(two.is_some());
        assert!(poll(&mut third).is_pending());
        queue.resize(1);
        drop(one);
        assert!(poll(&mut third).is_pending());
        drop(two);
        assert!(granted(&mut third).is_some());
    }

    #[test]
    fn the_queue_is_bounded_and_the_gone_do_not_count() {
        let queue = Queue::new(1, 1);
        let mut first: Turn<'_> = pin!(queue.enter(1));
        let running = granted(&mut first);
        let mut waiting = Box::pin(queue.enter(1));
        assert!(poll(&mut (waiting.as_mut() as Turn<'_>)).is_pending());
        let mut refused: Turn<'_> = pin!(queue.enter(2));
        assert!(matches!(poll(&mut refused), Poll::Ready(Err(Full(1)))));
        drop(waiting);
        let mut again: Turn<'_> = pin!(queue.enter(2));
        assert!(poll(&mut again).is_pending());
        drop(running);
        assert!(granted(&mut again).is_some());
        assert_eq!(queue.load(), (0, 0));
    }
}
