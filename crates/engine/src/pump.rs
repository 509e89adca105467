//! Drives one worker from program to end.
//!
//! The pump is a blocking loop on one thread: waking a second one for each call costs more than
//! the call. It treats the worker as hostile native code: every frame is checked for size, form
//! and right before anything is done with it, and the first one that is wrong ends the run.
//! A call's future is polled once on the spot; only one that is not ready goes to the async
//! runtime, and its reply is written from there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolgate_wire::frame::{End, Question, Stream, Target};
use toolgate_wire::limits::{MAX_ARGUMENTS, MAX_NAME};
use toolgate_wire::{CallId, CallRecord, Destination, FromWorker, Limits, Logs, Moved, Start, ToWorker};

use crate::host::{Host, HostCall, HostError, HostFuture};
use crate::ledger::Ledger;
use crate::moving::{Attempt, GivenUp, Line, Mover, Second};
use crate::observer::Observer;
use crate::outbox::Kind;
use crate::process::Ended;
use crate::socket::Wire;
use crate::timers::Timers;

/// How long after the deadline a worker may take to report it by itself, with logs and position.
const GRACE: Duration = Duration::from_millis(12);
/// Timers that a worker may have waiting; its own bound is lower.
const MAX_TIMERS: usize = 20_000;
/// Console lines and bytes that a host accepts beyond the run's own bound are none.
const MAX_LOG_BYTES: usize = 2 * 1024 * 1024;

/// Why a run ended without the worker saying so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The deadline passed and the grace with it.
    Deadline,
    /// The socket closed.
    Closed {
        /// Whether the program had been sent: if not, nothing was run and another worker may take it.
        started: bool,
    },
    /// The worker broke the rules.
    Breach(&'static str),
}

/// What came of driving a worker.
pub(crate) struct Driven {
    pub(crate) end: Result<Finished, Lost>,
    pub(crate) logs: Logs,
    pub(crate) calls: Vec<CallRecord>,
    /// That the run was moved to another worker, or that this was tried.
    pub(crate) moved: Option<Moved>,
    /// How that other worker's process ended, when it ended without a word.
    pub(crate) ended: Option<Ended>,
}

impl Driven {
    /// A worker that was never driven.
    pub(crate) fn lost(lost: Lost) -> Self {
        Driven { end: Err(lost), logs: Logs::default(), calls: Vec::new(), moved: None, ended: None }
    }
}

/// The worker's own words.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) memory: u64,
    pub(crate) cpu: Duration,
}

/// A program, its limits and its host.
pub(crate) struct Job {
    pub(crate) start: Start,
    /// The bytes that `start` announces.
    pub(crate) data: Option<String>,
    pub(crate) deadline: Instant,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) runtime: tokio::runtime::Handle,
}

/// What calls under way and the pump share.
struct Shared {
    line: Line,
    ledger: Mutex<Ledger>,
    observer: Option<Arc<dyn Observer>>,
}

impl Shared {
    fn reply(&self, id: CallId, target: &Target, answer: Result<String, HostError>) {
        if let Some(record) = lock(&self.ledger).end(id, &answer)
            && let Some(observer) = &self.observer
        {
            observer.call_ended(record);
        }
        let body = answer.map(String::into_bytes).map_err(|error| error.to_json(target).into_bytes());
        self.line.tell(&ToWorker::Reply { id, now: wall_clock(), body });
    }
}

/// A reply that is owed. When the host's own code panics, the program learns that no answer will come.
struct Promised {
    shared: Arc<Shared>,
    id: CallId,
    target: Target,
    kept: bool,
}

impl Promised {
    fn keep(&mut self, answer: Result<String, HostError>) {
        self.kept = true;
        self.shared.reply(self.id, &self.target, answer);
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if !self.kept && std::thread::panicking() {
            self.keep(Err(panicked()));
        }
    }
}

fn panicked() -> HostError {
    HostError::unknown("INTERNAL", "the host failed while it carried out the call")
}

/// Sends the program and serves the worker until it ends.
///
/// With a mover, the run may go on with another worker; that one is gone when this comes back.
pub(crate) fn drive(wire: &mut Wire, job: Job, mover: Option<Mover<'_>>) -> Driven {
    let line = Line::new(wire.outbox(), mover.is_some());
    let shared = Arc::new(Shared { line, ledger: Mutex::default(), observer: job.observer.clone() });
    let Job { start, data, deadline, host, observer, runtime } = job;
    let limits = start.limits.clone();
    let _in_runtime = runtime.enter();
    shared.line.tell(&ToWorker::Start(Box::new(start)));
    if let Some(data) = data {
        shared.line.tell_data(data.into_bytes());
    }
    let mut pump = Pump {
        limits,
        deadline,
        host,
        observer,
        shared: shared.clone(),
        runtime: runtime.clone(),
        tasks: Vec::new(),
        timers: Timers::default(),
        logs: Logs::default(),
        log_bytes: 0,
        moved: None,
        ended: None,
    };
    let end = pump.serve(wire, mover.map(Attempt::new));
    for task in pump.tasks.drain(..) {
        task.abort();
    }
    let calls = lock(&shared.ledger).close();
    Driven { end, logs: pump.logs, calls, moved: pump.moved, ended: pump.ended }
}

/// Processor time up to a move.
struct Before {
    /// The first worker's.
    used: Duration,
    /// The second's, before it was given the program.
    warm_up: Duration,
}

/// What came of looking whether it is time to move.
enum Looked<'a> {
    /// Not yet.
    Again(Attempt<'a>),
    /// It will not move.
    Stays,
    /// It moved, or ended on the way.
    Ended(Result<Finished, Lost>),
}

/// One run, from the host's side.
pub(crate) struct Pump {
    limits: Limits,
    deadline: Instant,
    host: Arc<dyn Host>,
    observer: Option<Arc<dyn Observer>>,
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    tasks: Vec<tokio::task::AbortHandle>,
    timers: Timers,
    logs: Logs,
    log_bytes: usize,
    moved: Option<Moved>,
    ended: Option<Ended>,
}

impl Pump {
    fn serve(&mut self, wire: &mut Wire, mut attempt: Option<Attempt<'_>>) -> Result<Finished, Lost> {
        loop {
            let look = attempt.as_ref().map(Attempt::next_look);
            let until = look.map_or(self.next_moment(), |look| look.min(self.next_moment()));
            let outbox = self.shared.line.outbox();
            let frame = wire.next(until, Some(&outbox))?;
            // Answers to a burst of calls leave together.
            if wire.has_frame() {
                outbox.hold();
            }
            if let Some(frame) = frame
                && let Some(finished) = self.hear(frame)?
            {
                return Ok(finished);
            }
            let now = Instant::now();
            // A worker that never stops talking is never waited for, so its clock is looked at in any case.
            if now >= self.last_moment() {
                return Err(Lost::Deadline);
            }
            self.fire_due();
            if look.is_some_and(|look| look <= now)
                && let Some(looking) = attempt.take()
            {
                match self.look(wire, looking, now) {
                    Looked::Again(looking) => attempt = Some(looking),
                    Looked::Stays => self.shared.line.stay(),
                    Looked::Ended(end) => return end,
                }
            }
        }
    }

    /// Does what a frame asks for; gives the worker's last words when they are that.
    fn hear(&mut self, frame: FromWorker) -> Result<Option<Finished>, Lost> {
        if let FromWorker::Done { end, memory, cpu, dropped } = frame {
            self.logs.dropped = self.logs.dropped.saturating_add(dropped);
            return Ok(Some(Finished { end, memory, cpu: Duration::from_micros(cpu) }));
        }
        // Lines are counted, not compared.
        if !matches!(frame, FromWorker::Log { .. }) {
            self.shared.line.heard(&frame);
        }
        self.take(frame).map(|()| None)
    }

    /// Looks whether it is time to move, and does it.
    fn look<'a>(&mut self, wire: &mut Wire, mut attempt: Attempt<'a>, now: Instant) -> Looked<'a> {
        if !self.shared.line.can_move() {
            return Looked::Stays;
        }
        match attempt.look(now) {
            Ok(Some(second)) => self.go(wire, &attempt, second).map_or(Looked::Stays, Looked::Ended),
            Ok(None) => Looked::Again(attempt),
            Err(_) => Looked::Stays,
        }
    }

    /// Moves the run; gives its end, or nothing when it stays where it was.
    fn go(
        &mut self,
        wire: &mut Wire,
        attempt: &Attempt<'_>,
        mut second: Box<dyn Second>,
    ) -> Option<Result<Finished, Lost>> {
        let first = attempt.mover.first;
        let _registered = (attempt.mover.on_cancel)(second.killer());
        first.stop().ok()?;
        let stopped = Instant::now();
        if let Some(end) = self.hear_the_rest(wire) {
            return Some(end);
        }
        let used = first.clock().read();
        let warm_up = second.clock().read();
        let repeated = self.repeat(&mut *second, used);
        let caught_up = repeated.as_ref().map_or_else(|_| Instant::now(), |repeated| repeated.caught_up);
        let to = match &repeated {
            Ok(_) | Err(GivenUp::Over { caught_up: true, .. }) => Destination::V8,
            Err(GivenUp::Diverged) => Destination::StayedDiverged,
            Err(GivenUp::Lost | GivenUp::Over { .. }) => Destination::StayedLost,
        };
        self.moved = Some(attempt.told(to, stopped, caught_up));
        match repeated {
            Ok(repeated) => {
                first.kill();
                let before = Before { used, warm_up };
                Some(self.go_on(second, repeated.frame, before))
            }
            Err(GivenUp::Over { lost, .. }) => Some(Err(lost)),
            Err(GivenUp::Diverged | GivenUp::Lost) => {
                first.resume();
                None
            }
        }
    }

    /// What a worker said before it was stopped counts as said; gives the run's end when that was among it.
    fn hear_the_rest(&mut self, wire: &mut Wire) -> Option<Result<Finished, Lost>> {
        loop {
            match wire.arrived() {
                Ok(None) => return None,
                Ok(Some(frame)) => match self.hear(frame) {
                    Ok(None) => {}
                    Ok(Some(finished)) => return Some(Ok(finished)),
                    Err(lost) => return Some(Err(lost)),
                },
                Err(lost) => return Some(Err(lost)),
            }
        }
    }

    /// Goes on with the second worker, whose first new words are these.
    fn go_on(&mut self, mut second: Box<dyn Second>, frame: FromWorker, before: Before) -> Result<Finished, Lost> {
        let clock = second.clock();
        let end = match self.hear(frame) {
            Ok(None) => self.serve(second.wire(), None),
            Ok(Some(finished)) => Ok(finished),
            Err(lost) => Err(lost),
        };
        if matches!(end, Err(Lost::Closed { .. })) {
            self.ended = Some(second.ended());
        }
        end.map(|finished| Finished { cpu: before.used + clock.read().saturating_sub(before.warm_up), ..finished })
    }

    pub(crate) fn line(&self) -> &Line {
        &self.shared.line
    }

    /// When the run is over in any case.
    pub(crate) fn last_moment(&self) -> Instant {
        self.deadline + GRACE
    }

    /// When there is something to do by itself.
    pub(crate) fn next_moment(&self) -> Instant {
        self.timers.next().map_or(self.last_moment(), |due| due.min(self.last_moment()))
    }

    /// Console lines so far.
    pub(crate) fn lines_logged(&self) -> u64 {
        (self.logs.stdout.len() + self.logs.stderr.len()) as u64
    }

    /// Tells the worker of every timer whose time has come.
    pub(crate) fn fire_due(&mut self) {
        let now = Instant::now();
        if self.timers.next().is_some_and(|due| due <= now) {
            for id in self.timers.due(now) {
                self.shared.line.tell(&ToWorker::Fire { id, now: wall_clock() });
            }
        }
    }

    fn take(&mut self, frame: FromWorker) -> Result<(), Lost> {
        match frame {
            FromWorker::Call { id, target, args } => self.call(id, target, args),
            FromWorker::Timer { id, delay } => self.arm(id, delay),
            FromWorker::Cancel { id } => {
                self.timers.disarm(id);
                Ok(())
            }
            FromWorker::Ask { question, name } => self.ask(question, &name),
            FromWorker::Log { stream, text } => self.log(stream, text),
            FromWorker::Ready { .. } | FromWorker::Done { .. } => Err(Lost::Breach("a frame out of turn")),
        }
    }

    fn arm(&mut self, id: CallId, delay: f64) -> Result<(), Lost> {
        if self.timers.len() + self.shared.line.outbox().waiting(Kind::Fire) >= MAX_TIMERS {
            return Err(Lost::Breach("more timers than allowed"));
        }
        self.timers.arm(id, delay)
    }

    /// A program stands still until it has its answer, so an honest worker has one question open.
    fn ask(&mut self, question: Question, name: &str) -> Result<(), Lost> {
        if name.len() > MAX_NAME {
            return Err(Lost::Breach("a name too long"));
        }
        if self.shared.line.outbox().waiting(Kind::Answer) > 0 {
            return Err(Lost::Breach("a question before the answer to the last"));
        }
        let answer = self.host.answer(question, name);
        self.shared.line.tell(&ToWorker::Answer(answer.map(String::into_bytes)));
        Ok(())
    }

    fn call(&mut self, id: CallId, target: Target, args: Vec<u8>) -> Result<(), Lost> {
        if target.name_bytes() > MAX_NAME || args.len() > MAX_ARGUMENTS {
            return Err(Lost::Breach("a call too long"));
        }
        let args = String::from_utf8(args).map_err(|_| Lost::Breach("arguments that are not text"))?;
        {
            let mut ledger = lock(&self.shared.ledger);
            if ledger.is_open(id) {
                return Err(Lost::Breach("a call number used twice"));
            }
            // A reply that the worker has not taken is a call that it still has under way.
            let under_way = ledger.in_flight() + self.shared.line.outbox().waiting(Kind::Reply);
            if ledger.len() as u64 >= self.limits.calls || under_way as u64 >= self.limits.calls_in_flight {
                return Err(Lost::Breach("more calls than allowed"));
            }
            ledger.begin(id, &target, args.len(), self.host.is_read_only(&target));
        }
        if let Some(observer) = &self.observer {
            observer.call_began(&target);
        }
        if serde_json::from_str::<&serde_json::value::RawValue>(&args).is_err() {
            return Err(Lost::Breach("arguments that are not JSON"));
        }
        let future = self.host.call(HostCall { target: target.clone(), args });
        self.answer(id, target, future);
        Ok(())
    }

    /// Polls once on the spot; what is not ready then goes to the runtime.
    fn answer(&mut self, id: CallId, target: Target, mut future: HostFuture) {
        let mut context = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| pin!(&mut future).poll(&mut context)));
        match polled {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(answer)) => return self.shared.reply(id, &target, answer),
            Err(_) => return self.shared.reply(id, &target, Err(panicked())),
        }
        let shared = self.shared.clone();
        let task = self.runtime.spawn(async move {
            let mut promise = Promised { shared, id, target, kept: false };
            let answer = future.await;
            promise.keep(answer);
        });
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(task.abort_handle());
    }

    fn log(&mut self, stream: Stream, text: String) -> Result<(), Lost> {
        let lines = self.lines_logged();
        self.log_bytes += text.len();
        if lines >= self.limits.log_lines || self.log_bytes > MAX_LOG_BYTES {
            return Err(Lost::Breach("more console output than allowed"));
        }
        if let Some(observer) = &self.observer {
            observer.logged(stream, &text);
        }
        match stream {
            Stream::Stdout => self.logs.stdout.push(text),
            Stream::Stderr => self.logs.stderr.push(text),
        }
        Ok(())
    }
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| (since.as_millis()) as f64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
