//! A queue in which callers take turns.
//!
//! A bounded number of jobs run; the others wait. A caller that sends a thousand jobs delays another caller by one job and
//! not by a thousand. Of a full queue, the caller with the most waiting jobs gives up its last one for a caller that has
//! clearly fewer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Limits how many jobs run at one time. The others wait, and callers take turns.
#[derive(Debug)]
pub struct TurnQueue {
    limit: AtomicUsize,
    /// Turns of jobs that wait, which others may have meanwhile.
    lent: AtomicUsize,
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    running: usize,
    queued: usize,
    waiting: HashMap<u64, VecDeque<oneshot::Sender<Permit>>>,
    /// Callers that have something waiting, the next one first.
    turns: VecDeque<u64>,
}

/// The right to run one job; dropping it lets the next one in.
#[derive(Debug)]
pub struct Permit {
    queue: Option<Arc<TurnQueue>>,
}

/// The turn of a job that waits, lent to another one until it is dropped.
#[derive(Debug)]
pub struct TurnLoan(Arc<TurnQueue>);

impl Drop for TurnLoan {
    fn drop(&mut self) {
        self.0.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a job got no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPermit {
    /// So many wait already that this one is turned away.
    Full,
    /// The queue was closed.
    Closed,
}

impl TurnQueue {
    /// A queue in which `limit` jobs run and `capacity` wait.
    pub fn new(limit: usize, capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit.max(1)),
            lent: AtomicUsize::new(0),
            capacity,
            state: Mutex::default(),
        })
    }

    /// A permit, if a job may run now.
    pub fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.state.lock();
        let may_run = !state.closed && state.running < self.limit();
        state.running += usize::from(may_run);
        may_run.then(|| self.permit())
    }

    /// Waits for this caller's turn. Dropping the future gives the place up.
    ///
    /// # Errors
    /// If too many wait, or the queue is closed, also while this job waits.
    pub async fn enter(self: &Arc<Self>, caller: u64) -> Result<Permit, NoPermit> {
        if let Some(permit) = self.try_enter() {
            return Ok(permit);
        }
        let turn = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(NoPermit::Closed);
            }
            if state.queued >= self.capacity {
                state.forget_the_gone();
            }
            if state.queued >= self.capacity && !state.make_room_for(caller) {
                return Err(NoPermit::Full);
            }
            state.line_up(caller)
        };
        // A permit may have been returned since the first look.
        self.let_in();
        turn.await.map_err(|_| if self.state.lock().closed { NoPermit::Closed } else { NoPermit::Full })
    }

    /// Refuses new jobs and those that wait.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
        state.turns.clear();
        state.queued = 0;
    }

    /// Changes how many may run: more are let in at once; of too many, those that end next are not replaced.
    pub fn resize(self: &Arc<Self>, limit: usize) {
        self.limit.store(limit.max(1), Ordering::Relaxed);
        self.let_in();
    }

    /// Lets one more in until the loan is dropped: for a job that has a turn and waits for something. It takes its turn back at
    /// once; of too many, those that end next are not replaced.
    pub fn lend(self: &Arc<Self>) -> TurnLoan {
        self.lent.fetch_add(1, Ordering::Relaxed);
        self.let_in();
        TurnLoan(Arc::clone(self))
    }

    /// Lets in those that wait while there is room.
    fn let_in(self: &Arc<Self>) {
        loop {
            {
                let mut state = self.state.lock();
                if state.running >= self.limit() || state.queued == 0 {
                    return;
                }
                state.running += 1;
            }
            self.release();
        }
    }

    fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed) + self.lent.load(Ordering::Relaxed)
    }

    /// How many run and how many wait.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.running, state.queued)
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { queue: Some(Arc::clone(self)) }
    }

    fn release(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state.lock();
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

    /// Turns away the last job of the caller that has the most, for a caller that has at least two fewer.
    fn make_room_for(&mut self, caller: u64) -> bool {
        let own = self.waiting.get(&caller).map_or(0, VecDeque::len);
        let Some((_, line)) = self.waiting.iter_mut().max_by_key(|(_, line)| line.len()) else { return false };
        let makes_room = line.len() > own + 1;
        if makes_room {
            // Its receiver learns from the drop that the queue is full.
            line.pop_back();
            self.queued -= 1;
        }
        makes_room
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

    type Turn<'a> = Pin<&'a mut dyn Future<Output = Result<Permit, NoPermit>>>;

    fn poll(turn: &mut Turn<'_>) -> Poll<Result<Permit, NoPermit>> {
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
        let queue = TurnQueue::new(1, 10);
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
        let queue = TurnQueue::new(1, 10);
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
        let queue = TurnQueue::new(1, 10);
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
    fn a_turn_that_is_lent_lets_one_more_in_and_is_taken_back_at_once() {
        let queue = TurnQueue::new(1, 10);
        let waits = queue.try_enter();
        let mut second: Turn<'_> = pin!(queue.enter(1));
        assert!(poll(&mut second).is_pending());
        let loan = queue.lend();
        let running = granted(&mut second);
        assert!(running.is_some());
        drop(loan);
        drop(running);
        assert!(queue.try_enter().is_none(), "the one that waited has its turn");
        drop(waits);
        assert!(queue.try_enter().is_some());
    }

    #[test]
    fn the_queue_is_bounded_and_the_gone_do_not_count() {
        let queue = TurnQueue::new(1, 1);
        let mut first: Turn<'_> = pin!(queue.enter(1));
        let running = granted(&mut first);
        let mut waiting = Box::pin(queue.enter(1));
        assert!(poll(&mut (waiting.as_mut() as Turn<'_>)).is_pending());
        let mut refused: Turn<'_> = pin!(queue.enter(2));
        assert!(matches!(poll(&mut refused), Poll::Ready(Err(NoPermit::Full))));
        drop(waiting);
        let mut again: Turn<'_> = pin!(queue.enter(2));
        assert!(poll(&mut again).is_pending());
        drop(running);
        assert!(granted(&mut again).is_some());
        assert_eq!(queue.load(), (0, 0));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_caller_with_fewer_jobs() {
        let queue = TurnQueue::new(1, 3);
        let running = queue.try_enter();
        let mut greedy: Vec<_> = (0..3).map(|_| Box::pin(queue.enter(1))).collect();
        for turn in &mut greedy {
            assert!(poll(&mut (turn.as_mut() as Turn<'_>)).is_pending());
        }
        let mut modest: Turn<'_> = pin!(queue.enter(2));
        assert!(poll(&mut modest).is_pending());
        let last = greedy.last_mut().map(|turn| poll(&mut (turn.as_mut() as Turn<'_>)));
        assert!(matches!(last, Some(Poll::Ready(Err(NoPermit::Full)))));
        // Two and one: a third of the second caller takes no other caller's place.
        let mut equal: Turn<'_> = pin!(queue.enter(2));
        assert!(matches!(poll(&mut equal), Poll::Ready(Err(NoPermit::Full))));
        drop(running);
        assert!(greedy.first_mut().and_then(|turn| granted(&mut (turn.as_mut() as Turn<'_>))).is_some());
        assert!(granted(&mut modest).is_some());
    }

    #[test]
    fn a_closed_queue_turns_away_everybody() {
        let queue = TurnQueue::new(1, 10);
        let running = queue.try_enter();
        let mut waiting: Turn<'_> = pin!(queue.enter(1));
        assert!(poll(&mut waiting).is_pending());
        queue.close();
        assert!(matches!(poll(&mut waiting), Poll::Ready(Err(NoPermit::Closed))));
        drop(running);
        assert!(queue.try_enter().is_none());
        let mut late: Turn<'_> = pin!(queue.enter(1));
        assert!(matches!(poll(&mut late), Poll::Ready(Err(NoPermit::Closed))));
    }
}
