//! Drives one worker from its program to its end.
//!
//! The pump is a blocking loop on one thread, because waking a second thread for each call costs more than the call.
//! It treats the worker as hostile native code: it checks size, form and limits of every frame before it acts on it,
//! and the first wrong frame ends the run. The future of a host call is polled once in place; only a future that is not
//! ready is spawned on the async runtime, which then sends the reply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use toolgate_wire::frame::{End, Layers, Question, Stream, Target};
use toolgate_wire::limits::{self, MAX_ARGUMENTS, MAX_NAME};
use toolgate_wire::{CallId, CallRecord, Destination, Failure, FromWorker, Limits, Logs, Moved, Start, ToWorker};

use crate::call_replies::{CallReplies, PendingReply, RunSoFar, WorkerClock, panicked};
use crate::clock::CpuClock;
use crate::host::{Host, HostCall, HostFuture};
use crate::ledger::Ledger;
use crate::migrate::{Migration, MigrationFailure, MigrationOptions, Raced, TargetWorker};
use crate::observer::Observer;
use crate::outbox::{FrameKind, Outbox};
use crate::process::ProcessEnd;
use crate::shared_core::{CpuSet, SharedCore};
use crate::socket::{WakeSource, WorkerSocket};
use crate::timers::Timers;
use crate::transcript::{AfterReplay, Channel, ChannelOptions, Divergence, Recorder, Replay, hold_back};

/// Time after the deadline in which a worker may still report the timeout itself, with logs and position.
const DEADLINE_GRACE: Duration = Duration::from_millis(12);
/// Timers that the host accepts. Twice what a worker allows its program: fired timers that the worker has not read count.
const MAX_TIMERS: usize = 2 * limits::MAX_TIMERS;
/// Bytes of console output that the host accepts: twice what a worker sends.
const MAX_LOG_BYTES: usize = 2 * limits::MAX_LOG_BYTES;

/// Why a worker did not report the end of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The deadline and [`DEADLINE_GRACE`] passed.
    Deadline,
    /// The socket closed.
    Closed {
        /// Whether the program had been sent. If not, another worker may run it.
        started: bool,
    },
    /// The worker sent something that the protocol or the run's limits forbid.
    Violation(&'static str),
    /// The worker did not repeat what is recorded.
    Diverged(Box<Divergence>),
    /// The record ends here, and the recorded run was ended from outside with this failure.
    Stopped(Box<Failure>),
    /// The record ends with a call whose effect is unknown.
    UnknownEffect(String),
}

/// The result of driving a worker.
pub(crate) struct Driven {
    pub(crate) end: Result<Finished, Lost>,
    pub(crate) logs: Logs,
    pub(crate) calls: Vec<CallRecord>,
    /// The attempt to migrate, if there was one.
    pub(crate) moved: Option<Moved>,
    /// How the target's process ended, when it ended without a last message.
    pub(crate) target_end: Option<ProcessEnd>,
    /// The isolation layers of the target, when it executed the program.
    pub(crate) target_layers: Option<Layers>,
}

impl Driven {
    /// The result for a worker that got no program.
    pub(crate) fn lost(lost: Lost) -> Self {
        Driven {
            end: Err(lost),
            logs: Logs::default(),
            calls: Vec::new(),
            moved: None,
            target_end: None,
            target_layers: None,
        }
    }
}

/// The end of a run as the worker reported it.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) memory: u64,
    pub(crate) cpu: Duration,
}

/// What a worker is to run, and the host that serves it.
pub(crate) struct Job {
    pub(crate) start: Start,
    /// The data that `start` announces.
    pub(crate) data: Option<String>,
    pub(crate) deadline: Instant,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// What the run repeats first; `start` and `data` are from it.
    pub(crate) replay: Option<Arc<Replay>>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// The cores that the run may use.
    pub(crate) cores: Option<CpuSet>,
    /// The core of a run that has just begun.
    pub(crate) core: Option<SharedCore>,
}

/// Sends the program and serves the worker until the run ends.
///
/// With `migration`, the run may go on with another worker, which has ended when this returns.
pub(crate) fn drive(
    socket: &mut WorkerSocket,
    job: Job,
    clock: Option<CpuClock>,
    migration: Option<MigrationOptions<'_>>,
) -> Driven {
    let (runtime, replay) = (job.runtime.clone(), job.replay.clone());
    let recorder = job.recorder.clone();
    // A run that goes on makes such calls: its recorder knows what becomes of them.
    let stops = |replay: &&Arc<Replay>| matches!(replay.then, AfterReplay::Stop(_));
    let unsent = replay.as_ref().filter(stops).map(|replay| replay.unsent.clone()).unwrap_or_default();
    let _in_runtime = runtime.enter();
    let mut pump = Pump::begin(socket.outbox(), job, clock, migration.is_some());
    let repeated = replay.map_or(Ok(None), |replay| {
        let repeated = pump.repeat(socket, &replay);
        // The time of the repetition is not the program's.
        if let Some(left) = replay.left {
            pump.deadline = pump.deadline.min(Instant::now() + left);
        }
        repeated
    });
    let end = match repeated {
        Ok(Some(finished)) => Ok(finished),
        Ok(None) => pump.serve(socket, migration.map(Migration::new)),
        Err(lost) => Err(lost),
    };
    for task in pump.tasks.drain(..) {
        task.abort();
    }
    let is_unsent = |id| unsent.contains(&id) || recorder.as_ref().is_some_and(|recorder| recorder.is_unsent(id));
    let calls = pump.ledger().close(is_unsent);
    Driven {
        end,
        logs: pump.logs,
        calls,
        moved: pump.moved,
        target_end: pump.target_end,
        target_layers: pump.target_layers,
    }
}

/// Processor time before the run went on with the target.
struct CpuBefore {
    /// Of the source.
    source: Duration,
    /// Of the target, before it got the program.
    target: Duration,
}

/// The result of checking whether to migrate.
enum Checked<'a> {
    /// Not yet.
    Later(Migration<'a>),
    /// The run stays with its worker.
    Stays,
    /// The run ended, on the target or during the migration.
    Ended(Result<Finished, Lost>),
}

/// The host's side of one run.
pub(crate) struct Pump {
    limits: Limits,
    deadline: Instant,
    host: Arc<dyn Host>,
    observer: Option<Arc<dyn Observer>>,
    /// Knows how long the run has waited for people.
    waits: Option<Arc<dyn Recorder>>,
    clock: WorkerClock,
    replies: Arc<CallReplies>,
    runtime: tokio::runtime::Handle,
    /// Until the run has lasted for a while.
    core: Option<SharedCore>,
    tasks: Vec<tokio::task::AbortHandle>,
    timers: Timers,
    logs: Logs,
    log_bytes: usize,
    moved: Option<Moved>,
    target_end: Option<ProcessEnd>,
    target_layers: Option<Layers>,
}

impl Pump {
    /// Sends the program.
    pub(crate) fn begin(outbox: Arc<Outbox>, job: Job, clock: Option<CpuClock>, may_migrate: bool) -> Self {
        let Job { start, data, deadline, host, observer, recorder, replay, runtime, core, cores: _ } = job;
        let waits = recorder.clone();
        let options = ChannelOptions { may_migrate, recorder, is_repeating: replay.is_some() };
        let channel = Channel::new(outbox, options);
        let replies = Arc::new(CallReplies {
            channel,
            ledger: Mutex::default(),
            host: host.clone(),
            observer: observer.clone(),
            // A recorded run may wait for a person, and then its time ends later.
            deadline: waits.is_none().then_some(deadline),
        });
        let clock: WorkerClock = Arc::new(Mutex::new(clock));
        if let Some(recorder) = &waits {
            recorder.begins(RunSoFar::new(&replies, &clock));
        }
        let limits = start.limits.clone();
        replies.channel.send_start(start, data);
        Pump {
            limits,
            deadline,
            host,
            observer,
            waits,
            clock,
            replies,
            runtime,
            core,
            tasks: Vec::new(),
            timers: Timers::default(),
            logs: Logs::default(),
            log_bytes: 0,
            moved: None,
            target_end: None,
            target_layers: None,
        }
    }

    fn serve(&mut self, socket: &mut WorkerSocket, mut migration: Option<Migration<'_>>) -> Result<Finished, Lost> {
        loop {
            let check = migration.as_ref().map(Migration::next_check);
            let until = check.map_or(self.next_wakeup(), |check| check.min(self.next_wakeup()));
            let outbox = self.replies.channel.outbox();
            let wake = self.wake_source();
            // A read ends soon in any case.
            let core = self.core.as_ref().filter(|_| wake == WakeSource::WorkerAndOutbox);
            let until = core.map_or(until, |core| until.min(core.until));
            let frame = socket.next(until, Some(&outbox), wake)?;
            // Replies to a burst of calls are sent together.
            if socket.has_frame() {
                outbox.hold();
            }
            if let Some(frame) = frame
                && let Some(finished) = self.handle(frame)?
            {
                return Ok(finished);
            }
            let now = Instant::now();
            // Checked for every frame: a worker that sends without pause never lets `next` reach its timeout.
            if now >= self.hard_deadline() {
                return Err(Lost::Deadline);
            }
            self.fire_due();
            // A migration starts processes and threads, which would have the one core as well.
            let is_checked = check.is_some_and(|check| check <= now);
            if let Some(core) = self.core.take_if(|core| core.until <= now || is_checked) {
                core.give_up();
            }
            if check.is_some_and(|check| check <= now)
                && let Some(due) = migration.take()
            {
                match self.check_migration(socket, due, now) {
                    Checked::Later(later) => migration = Some(later),
                    Checked::Stays => self.replies.channel.stop_recording(),
                    Checked::Ended(end) => return end,
                }
            }
        }
    }

    /// A task of a call can need the pump without a frame of the worker. A person is waited for by such a task too.
    fn wake_source(&self) -> WakeSource {
        if self.tasks.is_empty() { WakeSource::Worker } else { WakeSource::WorkerAndOutbox }
    }

    /// Acts on a frame; returns the end of the run when the frame reports it.
    pub(crate) fn handle(&mut self, frame: FromWorker) -> Result<Option<Finished>, Lost> {
        let read_only = match &frame {
            FromWorker::Call { target, args, .. } => {
                check_length(target, args)?;
                std::str::from_utf8(args).is_ok_and(|args| self.host.call_is_read_only(target, args))
            }
            _ => false,
        };
        self.replies.channel.record_received(&frame, read_only);
        match frame {
            FromWorker::Done { end, memory, cpu, dropped } => Ok(Some(self.finished(end, memory, cpu, dropped))),
            FromWorker::Call { id, target, args } => self.call(id, target, args, read_only).map(|()| None),
            other => self.dispatch(other).map(|()| None),
        }
    }

    /// The end of the run as the worker reported it.
    pub(crate) fn finished(&mut self, end: End, memory: u64, cpu: u64, dropped: u64) -> Finished {
        self.logs.dropped = self.logs.dropped.saturating_add(dropped);
        Finished { end, memory, cpu: Duration::from_micros(cpu) }
    }

    /// Checks whether it is time to migrate, and migrates.
    fn check_migration<'a>(
        &mut self,
        socket: &mut WorkerSocket,
        mut migration: Migration<'a>,
        now: Instant,
    ) -> Checked<'a> {
        if !self.replies.channel.can_migrate() {
            return Checked::Stays;
        }
        match migration.check(now) {
            Ok(Some(target)) => self.migrate(socket, &migration, target).map_or(Checked::Stays, Checked::Ended),
            Ok(None) => Checked::Later(migration),
            Err(_) => Checked::Stays,
        }
    }

    /// Migrates the run; returns its end, or `None` when it stays with the source.
    fn migrate(
        &mut self,
        socket: &mut WorkerSocket,
        migration: &Migration<'_>,
        mut target: Box<dyn TargetWorker>,
    ) -> Option<Result<Finished, Lost>> {
        let source = migration.options.source;
        let _registered = (migration.options.on_cancel)(target.killer());
        let mut before = CpuBefore { source: Duration::ZERO, target: target.clock().read() };
        let mut replay = self.begin_replay(&mut *target);
        let began = Instant::now();
        if let Some(until) = migration.race_end(began) {
            self.target_layers = Some(target.layers());
            self.moved = Some(migration.record(Destination::StayedLost, began, began));
            match self.race(socket, &mut *target, &mut replay, until) {
                Raced::TargetIsAhead(frame) => replay.put_back(frame),
                Raced::Undecided => {}
                Raced::SourceEnded(end) => return Some(end),
                Raced::TargetFailed(failure) => {
                    self.moved = Some(migration.record(failure.destination(), began, Instant::now()));
                    return None;
                }
            }
        }
        source.stop().ok()?;
        let stopped = if self.moved.is_some() { began } else { Instant::now() };
        if let Some(end) = self.drain(socket) {
            return Some(end);
        }
        before.source = source.clock().read();
        self.target_layers = Some(target.layers());
        let replayed = self.replay(&mut *target, replay, before.source);
        let caught_up = replayed.as_ref().map_or_else(|_| Instant::now(), |replayed| replayed.caught_up);
        let to = replayed.as_ref().map_or_else(MigrationFailure::destination, |_| Destination::V8);
        self.moved = Some(migration.record(to, stopped, caught_up));
        match replayed {
            Ok(replayed) => {
                source.kill();
                Some(self.continue_on(target, replayed.frame, &before))
            }
            Err(MigrationFailure::Over { lost, .. }) => Some(Err(lost)),
            Err(MigrationFailure::Diverged | MigrationFailure::Lost) => {
                source.resume();
                None
            }
        }
    }

    /// Handles the frames that the source sent before it was stopped; returns the end of the run if they report it.
    fn drain(&mut self, socket: &mut WorkerSocket) -> Option<Result<Finished, Lost>> {
        loop {
            match socket.arrived() {
                Ok(None) => return None,
                Ok(Some(frame)) => match self.handle(frame) {
                    Ok(None) => {}
                    Ok(Some(finished)) => return Some(Ok(finished)),
                    Err(lost) => return Some(Err(lost)),
                },
                Err(lost) => return Some(Err(lost)),
            }
        }
    }

    /// Serves the target to the end of the run, beginning with its first new frame.
    fn continue_on(
        &mut self,
        mut target: Box<dyn TargetWorker>,
        frame: FromWorker,
        before: &CpuBefore,
    ) -> Result<Finished, Lost> {
        let clock = target.clock();
        *self.clock.lock() = Some(clock.clone());
        let end = match self.handle(frame) {
            Ok(None) => self.serve(target.socket(), None),
            Ok(Some(finished)) => Ok(finished),
            Err(lost) => Err(lost),
        };
        if matches!(end, Err(Lost::Closed { .. })) {
            self.target_end = Some(target.wait());
        }
        end.map(|finished| Finished { cpu: before.source + clock.read().saturating_sub(before.target), ..finished })
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.replies.channel
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &*self.host
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.replies.ledger.lock()
    }

    /// When the run ends in any case.
    pub(crate) fn hard_deadline(&self) -> Instant {
        self.deadline + DEADLINE_GRACE + self.waits.as_ref().map_or(Duration::ZERO, |recorder| recorder.waited())
    }

    /// When the pump has something to do without a frame: a timer, or the deadline.
    pub(crate) fn next_wakeup(&self) -> Instant {
        self.timers.next().map_or(self.hard_deadline(), |due| due.min(self.hard_deadline()))
    }

    /// Console lines so far.
    pub(crate) fn lines_logged(&self) -> u64 {
        (self.logs.stdout.len() + self.logs.stderr.len()) as u64
    }

    /// Sends the timers that are due.
    pub(crate) fn fire_due(&mut self) {
        let now = Instant::now();
        if self.timers.next().is_some_and(|due| due <= now) {
            for id in self.timers.due(now) {
                self.replies.channel.send(&ToWorker::Fire { id, now: wall_clock() }, None);
            }
        }
    }

    fn dispatch(&mut self, frame: FromWorker) -> Result<(), Lost> {
        match frame {
            FromWorker::Timer { id, delay } => self.arm(id, delay),
            FromWorker::Cancel { id } => {
                self.timers.disarm(id);
                Ok(())
            }
            FromWorker::Ask(question) => self.ask(&question),
            FromWorker::Log { stream, text } => self.log(stream, text),
            FromWorker::Ready { .. } | FromWorker::Call { .. } | FromWorker::Done { .. } => {
                Err(Lost::Violation("a frame out of order"))
            }
        }
    }

    pub(crate) fn arm(&mut self, id: CallId, delay: f64) -> Result<(), Lost> {
        if self.timers.len() + self.replies.channel.outbox().waiting(FrameKind::Fire) >= MAX_TIMERS {
            return Err(Lost::Violation("more timers than allowed"));
        }
        self.timers.arm(id, delay)
    }

    /// A program is suspended until it has its answer, so a well-behaved worker has at most one question open.
    pub(crate) fn ask(&mut self, question: &Question) -> Result<(), Lost> {
        if question.name_bytes() > MAX_NAME {
            return Err(Lost::Violation("a name too long"));
        }
        if self.replies.channel.outbox().waiting(FrameKind::Answer) > 0 {
            return Err(Lost::Violation("a question before the answer to the previous one"));
        }
        let answer = self.host.answer(question);
        self.replies.channel.send(&ToWorker::Answer(answer.map(String::into_bytes)), None);
        Ok(())
    }

    fn call(&mut self, id: CallId, target: Target, args: Vec<u8>, read_only: bool) -> Result<(), Lost> {
        let index = {
            let mut ledger = self.replies.ledger.lock();
            if ledger.is_open(id) {
                return Err(Lost::Violation("a call number used twice"));
            }
            // A call whose reply the worker has not read is still in progress for that worker.
            let in_flight = ledger.in_flight() + self.replies.channel.outbox().waiting(FrameKind::Reply);
            if ledger.len() as u64 >= self.limits.calls || in_flight as u64 >= self.limits.calls_in_flight {
                return Err(Lost::Violation("more calls than allowed"));
            }
            ledger.begin(id, &target, args.len(), read_only)
        };
        let args = as_text(args)?;
        if let Some(observer) = &self.observer {
            observer.call_noted(index, &args, None);
        }
        self.make(id, target, args, read_only)
    }

    /// Makes a call that is in the ledger.
    pub(crate) fn make(&mut self, id: CallId, target: Target, args: String, read_only: bool) -> Result<(), Lost> {
        if let Some(observer) = &self.observer {
            observer.call_began(&target);
            observer.call_arguments(&target, &args, read_only);
        }
        if serde_json::from_str::<&serde_json::value::RawValue>(&args).is_err() {
            return Err(Lost::Violation("arguments that are not JSON"));
        }
        let call = HostCall { id, target: target.clone(), args };
        let future = match self.replies.channel.recorder().filter(|_| !read_only) {
            Some(recorder) => hold_back(recorder, self.host.clone(), id, call),
            None => self.host.call(call),
        };
        self.answer(id, target, future);
        Ok(())
    }

    /// Tells the observer of a call that is repeated.
    pub(crate) fn note_again(&self, index: usize, args: &[u8], then: Duration) {
        if let (Some(observer), Ok(args)) = (&self.observer, std::str::from_utf8(args)) {
            observer.call_noted(index, args, Some(then));
        }
    }

    /// Polls the call once; a future that is not ready is spawned on the runtime.
    fn answer(&mut self, id: CallId, target: Target, mut future: HostFuture) {
        let mut context = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| pin!(&mut future).poll(&mut context)));
        match polled {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(answer)) => return self.replies.reply(id, &target, answer),
            Err(_) => return self.replies.reply(id, &target, Err(panicked())),
        }
        let replies = self.replies.clone();
        let task = self.runtime.spawn(async move {
            let mut reply = PendingReply::new(replies, id, target);
            let answer = future.await;
            reply.send(answer);
        });
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(task.abort_handle());
    }

    pub(crate) fn log(&mut self, stream: Stream, text: String) -> Result<(), Lost> {
        let lines = self.lines_logged();
        self.log_bytes += text.len();
        if lines >= self.limits.log_lines || self.log_bytes > MAX_LOG_BYTES {
            return Err(Lost::Violation("more console output than allowed"));
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

fn check_length(target: &Target, args: &[u8]) -> Result<(), Lost> {
    if target.name_bytes() > MAX_NAME || args.len() > MAX_ARGUMENTS {
        return Err(Lost::Violation("a call too long"));
    }
    Ok(())
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| (since.as_millis()) as f64)
}

/// The arguments of a call as text.
pub(crate) fn as_text(args: Vec<u8>) -> Result<String, Lost> {
    String::from_utf8(args).map_err(|_| Lost::Violation("arguments that are not text"))
}
