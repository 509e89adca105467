//! The state of one run, shared by the native functions and the event loop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use toolgate_wire::frame::{Question, Seed, Stream, Target};
use toolgate_wire::limits::{MAX_LOG_BYTES, MAX_NAME, MAX_TIMERS};
use toolgate_wire::{CallId, FromWorker, Limits, Profile, Start, ToWorker};

use crate::calls::UnansweredCalls;
use crate::channel::{Broken, Channel, Received};
use crate::data::Listing;
use crate::memory::Meter;
use crate::random::Random;

/// How often gathered log lines leave while the program computes.
const LOG_INTERVAL: Duration = Duration::from_millis(50);

/// Why the interpreter was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The deadline passed.
    Timeout,
    /// An allocation was refused.
    Memory,
    /// The host is gone, or has cancelled the run.
    Cancelled,
}

/// Why a call was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this run may make {0} host calls in all: batch the work, or ask for less")]
    TooManyCalls(u64),
    #[error("a name of {0} bytes is too long to call: the most is {MAX_NAME}")]
    NameTooLong(usize),
    #[error("this run may have {MAX_TIMERS} timers waiting at one time")]
    TooManyTimers,
    #[error("there is no memory left for this")]
    Memory,
    #[error("the host did not list this backend's tools in a way that can be read")]
    Listing,
    #[error("the host is gone")]
    Broken,
}

/// One run. Made before the program is known, since workers are forked ahead.
pub(crate) struct State {
    pub(crate) meter: Rc<Meter>,
    pub(crate) now: Cell<f64>,
    pub(crate) random: RefCell<Random>,
    pub(crate) unanswered: UnansweredCalls,
    channel: RefCell<Option<Rc<Channel>>>,
    limits: RefCell<Limits>,
    deadline: Cell<Option<Instant>>,
    cancelled: RefCell<Option<Arc<AtomicBool>>>,
    stop: Cell<Option<Stop>>,
    next_id: Cell<u32>,
    calls_made: Cell<u64>,
    in_flight: Cell<u64>,
    /// Calls beyond the number in flight, and the bytes of their arguments.
    waiting_calls: RefCell<VecDeque<(u64, FromWorker)>>,
    /// The timers that are armed. The frame of one that the program cleared may still arrive.
    timers: RefCell<BTreeSet<CallId>>,
    /// Frames that arrived while the program waited for an answer.
    inbox: RefCell<VecDeque<ToWorker>>,
    /// Answers about backends that came with the start frame.
    named: RefCell<Vec<(String, Vec<u8>)>>,
    /// The tools of the backends that the program has used.
    listings: RefCell<BTreeMap<String, Listing>>,
    log_lines: Cell<u64>,
    log_bytes: Cell<usize>,
    log_dropped: Cell<u64>,
    last_flush: Cell<Instant>,
}

impl State {
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        State {
            meter,
            now: Cell::new(0.0),
            random: RefCell::new(Random::seeded(&Seed::from(0))),
            unanswered: UnansweredCalls::default(),
            channel: RefCell::default(),
            limits: RefCell::new(Limits::of(Profile::Compute)),
            deadline: Cell::default(),
            cancelled: RefCell::default(),
            stop: Cell::default(),
            next_id: Cell::new(1),
            calls_made: Cell::new(0),
            in_flight: Cell::new(0),
            waiting_calls: RefCell::default(),
            timers: RefCell::default(),
            inbox: RefCell::default(),
            named: RefCell::default(),
            listings: RefCell::default(),
            log_lines: Cell::new(0),
            log_bytes: Cell::new(0),
            log_dropped: Cell::new(0),
            last_flush: Cell::new(Instant::now()),
        }
    }

    /// Starts a run. With `cancelled` a host stops a run that it cannot kill.
    pub(crate) fn begin(&self, start: &mut Start, channel: Rc<Channel>, cancelled: Option<Arc<AtomicBool>>) {
        self.now.set(start.now);
        self.named.replace(std::mem::take(&mut start.named));
        self.random.replace(Random::seeded(&start.seed));
        self.limits.replace(start.limits.clone());
        self.deadline.set(Some(Instant::now() + start.limits.wall));
        self.channel.replace(Some(channel));
        self.cancelled.replace(cancelled);
    }

    /// The run waited for a person this long: its deadline is that much later.
    pub(crate) fn waited(&self, time: std::time::Duration) {
        self.deadline.set(self.deadline.get().map(|deadline| deadline.checked_add(time).unwrap_or(deadline)));
    }

    /// Called by the interpreter every few thousand steps: whether to stop.
    pub(crate) fn interrupt(&self) -> bool {
        self.check();
        let now = Instant::now();
        let has_program = self.deadline.get().is_some();
        if has_program && now - self.last_flush.get() > LOG_INTERVAL {
            self.last_flush.set(now);
            self.stop_if_broken(self.with_channel(Channel::flush));
        }
        self.stop.get().is_some()
    }

    /// Checks the deadline, the meter and the cancel flag.
    pub(crate) fn check(&self) -> Option<Stop> {
        if self.stop.get().is_none() {
            let late = self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline);
            let cancelled = self.cancelled.borrow().as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
            if self.meter.was_refused() {
                self.stop.set(Some(Stop::Memory));
            } else if cancelled {
                self.stop.set(Some(Stop::Cancelled));
            } else if late {
                self.stop.set(Some(Stop::Timeout));
            }
        }
        self.stop.get()
    }

    /// Whether no call, timer or frame is left that could settle a promise.
    pub(crate) fn has_nothing_pending(&self) -> bool {
        self.in_flight.get() == 0 && self.timers.borrow().is_empty() && self.inbox.borrow().is_empty()
    }

    /// The next message, waiting for it if need be.
    pub(crate) fn next_frame(&self) -> Option<Received> {
        if let Some(frame) = self.inbox.borrow_mut().pop_front() {
            return Some(Received::Frame(frame));
        }
        let received = self.with_channel(|channel| channel.receive_head(|length| self.meter.has_room(length as u64)));
        self.stop_if_broken(received)
    }

    fn receive(&self) -> Option<ToWorker> {
        let received = self.with_channel(|channel| channel.receive(|length| self.meter.has_room(length as u64)));
        self.stop_if_broken(received)
    }

    /// Fills `target` with the bytes that follow a frame; false, when the host is gone.
    pub(crate) fn read_into(&self, target: &mut [u8]) -> bool {
        let read = self.with_channel(|channel| channel.read_into(target));
        self.stop_if_broken(read).is_some()
    }

    /// Sends a host call, or queues it while too many are under way.
    pub(crate) fn call(&self, target: Target, args: String) -> Result<CallId, Refused> {
        if target.name_bytes() > MAX_NAME {
            return Err(Refused::NameTooLong(target.name_bytes()));
        }
        let limits = self.limits.borrow();
        if self.calls_made.get() >= limits.calls {
            return Err(Refused::TooManyCalls(limits.calls));
        }
        self.calls_made.set(self.calls_made.get() + 1);
        let id = self.new_id();
        let length = args.len() as u64;
        let frame = FromWorker::Call { id, target, args: args.into_bytes() };
        if self.in_flight.get() >= limits.calls_in_flight {
            // Waiting arguments count as the program's memory.
            if !self.meter.charge(length) {
                return Err(Refused::Memory);
            }
            self.waiting_calls.borrow_mut().push_back((length, frame));
            return Ok(id);
        }
        self.in_flight.set(self.in_flight.get() + 1);
        self.send(&frame).map(|()| id).ok_or(Refused::Broken)
    }

    /// A call was answered: sends the next in the queue.
    pub(crate) fn call_ended(&self) {
        let next = self.waiting_calls.borrow_mut().pop_front();
        match next {
            Some((length, frame)) => {
                self.meter.release(length);
                let _ = self.send(&frame);
            }
            None => self.in_flight.set(self.in_flight.get().saturating_sub(1)),
        }
    }

    pub(crate) fn timer(&self, delay: f64) -> Result<CallId, Refused> {
        if self.timers.borrow().len() >= MAX_TIMERS {
            return Err(Refused::TooManyTimers);
        }
        let id = self.new_id();
        self.timers.borrow_mut().insert(id);
        self.send(&FromWorker::Timer { id, delay }).map(|()| id).ok_or(Refused::Broken)
    }

    pub(crate) fn cancel_timer(&self, id: CallId) {
        if self.timers.borrow_mut().remove(&id) {
            let _ = self.send(&FromWorker::Cancel { id });
        }
    }

    pub(crate) fn timer_ended(&self, id: CallId) {
        self.timers.borrow_mut().remove(&id);
    }

    /// Asks and waits. Whatever else arrives meanwhile is kept for the event loop, in order. No backend or tool has a name
    /// longer than [`MAX_NAME`], and the host ends a run that asks about one.
    pub(crate) fn ask(&self, question: Question) -> Result<Option<Vec<u8>>, Refused> {
        if question.name_bytes() > MAX_NAME {
            return Ok(None);
        }
        if let Question::Global(name) = &question
            && let Some(answer) = self.take_named(name)
        {
            return Ok(Some(answer));
        }
        self.send(&FromWorker::Ask(question)).ok_or(Refused::Broken)?;
        loop {
            let frame = self.receive().ok_or(Refused::Broken)?;
            match frame {
                ToWorker::Answer(answer) => return Ok(answer),
                other => self.inbox.borrow_mut().push_back(other),
            }
        }
    }

    /// The name of the backend that the question means. Its listing is kept.
    pub(crate) fn backend(&self, question: Question) -> Result<Option<String>, Refused> {
        let Some(answer) = self.ask(question)? else { return Ok(None) };
        let length = answer.len() as u64;
        let listing = Listing::read(answer).ok_or(Refused::Listing)?;
        let name = listing.name().to_owned();
        if !self.listings.borrow().contains_key(&name) {
            if !self.meter.charge(length) {
                return Err(Refused::Memory);
            }
            self.listings.borrow_mut().insert(name.clone(), listing);
        }
        Ok(Some(name))
    }

    /// Adds an answer as if it had come with the start frame.
    pub(crate) fn add_named(&self, name: &str, listing: &str) {
        self.named.borrow_mut().push((name.to_owned(), listing.into()));
    }

    /// Drops everything known of backends.
    pub(crate) fn forget_backends(&self) {
        self.named.borrow_mut().clear();
        self.listings.borrow_mut().clear();
    }

    /// Calls `look` with a backend's tools.
    pub(crate) fn listed<T>(&self, backend: &str, look: impl FnOnce(&Listing) -> T) -> Option<T> {
        self.listings.borrow().get(backend).map(look)
    }

    /// The answer for this name that came with the start frame, if there is one. It is used once.
    fn take_named(&self, name: &str) -> Option<Vec<u8>> {
        let mut named = self.named.borrow_mut();
        let at = named.iter().position(|(known, _)| known == name)?;
        Some(named.swap_remove(at).1)
    }

    /// Sends console text, line by line, as far as the run's lines and bytes reach.
    pub(crate) fn log(&self, stream: Stream, text: &str) {
        for line in text.split('\n') {
            let (lines, bytes) = (self.log_lines.get(), self.log_bytes.get());
            if lines >= self.limits.borrow().log_lines || bytes + line.len() > MAX_LOG_BYTES {
                self.log_dropped.set(self.log_dropped.get() + 1);
                continue;
            }
            self.log_lines.set(lines + 1);
            self.log_bytes.set(bytes + line.len());
            let _ = self.send(&FromWorker::Log { stream, text: line.to_owned() });
        }
    }

    pub(crate) fn dropped_lines(&self) -> u64 {
        self.log_dropped.get()
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.borrow().clone()
    }

    fn new_id(&self) -> CallId {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        CallId(id)
    }

    fn send(&self, frame: &FromWorker) -> Option<()> {
        self.stop_if_broken(self.with_channel(|channel| channel.send(frame)))
    }

    fn with_channel<T>(&self, act: impl FnOnce(&Channel) -> Result<T, Broken>) -> Result<T, Broken> {
        match &*self.channel.borrow() {
            Some(channel) => act(channel),
            None => Err(Broken::Closed),
        }
    }

    fn stop_if_broken<T>(&self, result: Result<T, Broken>) -> Option<T> {
        match &result {
            Ok(_) => {}
            Err(Broken::NoRoom(_)) => self.stop.set(Some(Stop::Memory)),
            Err(_) => self.stop.set(Some(Stop::Cancelled)),
        }
        result.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_machine_interrupts_no_interpreter_that_has_no_program_yet() {
        let state = State::new(Rc::default());
        state.last_flush.set(Instant::now() - 2 * LOG_INTERVAL);
        assert!(!state.interrupt());
        assert_eq!(state.check(), None);
    }
}
