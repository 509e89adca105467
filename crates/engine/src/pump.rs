//! Drives one worker from program to end.
//!
//! The pump is a blocking loop on one thread: waking a second one for each call costs more than
//! the call. It treats the worker as hostile native code: every frame is checked for size, form
//! and right before anything is done with it, and the first one that is wrong ends the run.
//! A call's future is polled once on the spot; only one that is not ready goes to the async
//! runtime, and its reply is written from there.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_wire::codec::{self, HEADER, MAX_FROM_WORKER};
use toolgate_wire::frame::{End, Layers, Question, Stream, Target};
use toolgate_wire::limits::MAX_ARGUMENTS;
use toolgate_wire::{CallId, CallRecord, FromWorker, Limits, Logs, Start, ToWorker};

use crate::host::{Host, HostCall, HostError, HostFuture};
use crate::ledger::Ledger;
use crate::observer::Observer;
use crate::outbox::{Kind, Outbox};

/// How long after the deadline a worker may take to report it by itself, with logs and position.
const GRACE: Duration = Duration::from_millis(12);
/// Timers that a worker may have waiting; its own bound is lower.
const MAX_TIMERS: usize = 20_000;
/// Console lines and bytes that a host accepts beyond the run's own bound are none.
const MAX_LOG_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a name that a worker may call or ask about; catalogs have far shorter ones.
const MAX_NAME: usize = 64 * 1024;

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

/// A worker's first words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) pid: u32,
    pub(crate) layers: Layers,
}

/// The host's end of a worker's socket.
pub(crate) struct Wire {
    stream: UnixStream,
    /// Bytes that arrived: `buffer[start..end]`. What lies beyond is room, cleared once and used again.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Wire { stream, buffer: Vec::new(), start: 0, end: 0 })
    }

    /// Whether there is something to read: a frame, a part of one, or the end.
    pub(crate) fn has_input(&mut self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.stream, PollFlags::IN)];
        self.start < self.buffer.len() || matches!(poll(&mut watched, Some(&at_once)), Ok(1..))
    }

    /// The worker's first frame.
    pub(crate) fn hello(&mut self, deadline: Instant) -> Result<Hello, Lost> {
        match self.next(deadline, None)? {
            Some(FromWorker::Ready { pid, layers }) => Ok(Hello { pid, layers }),
            Some(_) => Err(Lost::Breach("a worker spoke before it was ready")),
            None => Err(Lost::Deadline),
        }
    }

    /// The next frame, or nothing at `until`.
    fn next(&mut self, until: Instant, outbox: Option<&Outbox>) -> Result<Option<FromWorker>, Lost> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            match self.read() {
                Ok(0) => return Err(Lost::Closed { started: true }),
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Lost::Closed { started: true }),
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(None) };
            self.wait(left, outbox);
        }
    }

    fn decode(&mut self) -> Result<Option<FromWorker>, Lost> {
        let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let length = codec::frame_length(*header, MAX_FROM_WORKER).map_err(|_| Lost::Breach("a frame too long"))?;
        let Some(payload) = waiting.get(HEADER..HEADER + length) else { return Ok(None) };
        let frame = codec::decode_from_worker(payload).map_err(|_| Lost::Breach("a frame that means nothing"))?;
        self.start += HEADER + length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Ok(Some(frame))
    }

    /// Reads what is there. The buffer grows with what has arrived, never with what was announced.
    fn read(&mut self) -> io::Result<usize> {
        const ROOM: usize = 16 * 1024;
        if self.buffer.len() - self.end < ROOM {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize((2 * self.end).max(2 * ROOM), 0);
        }
        let got = (&self.stream).read(&mut self.buffer[self.end..])?;
        self.end += got;
        Ok(got)
    }

    fn wait(&self, left: Duration, outbox: Option<&Outbox>) {
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let backlog = outbox.is_some_and(Outbox::push_backlog);
        let interest = if backlog { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut watched = vec![PollFd::new(&self.stream, interest)];
        if let Some(outbox) = outbox {
            watched.push(PollFd::new(outbox.wake(), PollFlags::IN));
        }
        // An interrupted wait looks again; any other error shows at the next read.
        let _ = poll(&mut watched, Some(&timeout));
        if let Some(outbox) = outbox {
            outbox.hush();
        }
    }
}

/// What calls under way and the pump share.
struct Shared {
    outbox: Outbox,
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
        self.outbox.send(&ToWorker::Reply { id, now: wall_clock(), body });
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

/// Sends the program and serves the worker until it ends. `meanwhile` runs while the worker starts on it.
pub(crate) fn drive(wire: &mut Wire, job: Job, meanwhile: impl FnOnce()) -> Driven {
    let outbox = match Outbox::new(&wire.stream) {
        Ok(outbox) => outbox,
        Err(_) => {
            let end = Err(Lost::Closed { started: false });
            return Driven { end, logs: Logs::default(), calls: Vec::new() };
        }
    };
    let shared = Arc::new(Shared { outbox, ledger: Mutex::default(), observer: job.observer.clone() });
    let Job { start, data, deadline, host, observer, runtime } = job;
    let limits = start.limits.clone();
    let _in_runtime = runtime.enter();
    shared.outbox.send(&ToWorker::Start(Box::new(start)));
    if let Some(data) = data {
        shared.outbox.send_data(data.into_bytes());
    }
    meanwhile();
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
    };
    let end = pump.serve(wire);
    for task in pump.tasks.drain(..) {
        task.abort();
    }
    let calls = lock(&shared.ledger).close();
    Driven { end, logs: pump.logs, calls }
}

struct Pump {
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
}

impl Pump {
    fn serve(&mut self, wire: &mut Wire) -> Result<Finished, Lost> {
        let last_moment = self.deadline + GRACE;
        loop {
            let until = self.timers.next().map_or(last_moment, |due| due.min(last_moment));
            let shared = self.shared.clone();
            match wire.next(until, Some(&shared.outbox))? {
                Some(FromWorker::Done { end, memory, cpu, dropped }) => {
                    self.logs.dropped = self.logs.dropped.saturating_add(dropped);
                    return Ok(Finished { end, memory, cpu: Duration::from_micros(cpu) });
                }
                Some(frame) => {
                    self.take(frame)?;
                    // A worker that never stops talking is never waited for, so its clock is looked at here.
                    if Instant::now() >= last_moment {
                        return Err(Lost::Deadline);
                    }
                }
                None if Instant::now() >= last_moment => return Err(Lost::Deadline),
                None => {
                    for id in self.timers.due(Instant::now()) {
                        self.shared.outbox.send(&ToWorker::Fire { id, now: wall_clock() });
                    }
                }
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
        if self.timers.len() + self.shared.outbox.waiting(Kind::Fire) >= MAX_TIMERS {
            return Err(Lost::Breach("more timers than allowed"));
        }
        self.timers.arm(id, delay)
    }

    /// A program stands still until it has its answer, so an honest worker has one question open.
    fn ask(&mut self, question: Question, name: &str) -> Result<(), Lost> {
        if name.len() > MAX_NAME {
            return Err(Lost::Breach("a name too long"));
        }
        if self.shared.outbox.waiting(Kind::Answer) > 0 {
            return Err(Lost::Breach("a question before the answer to the last"));
        }
        let answer = self.host.answer(question, name);
        self.shared.outbox.send(&ToWorker::Answer(answer.map(String::into_bytes)));
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
            let under_way = ledger.in_flight() + self.shared.outbox.waiting(Kind::Reply);
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
        let lines = (self.logs.stdout.len() + self.logs.stderr.len()) as u64;
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

/// A worker's timers, by time.
#[derive(Default)]
struct Timers {
    due: BTreeSet<(Instant, CallId)>,
    at: HashMap<CallId, Instant>,
}

impl Timers {
    fn arm(&mut self, id: CallId, delay: f64) -> Result<(), Lost> {
        if self.at.contains_key(&id) {
            return Err(Lost::Breach("a timer number used twice"));
        }
        // A day is beyond every deadline; NaN and negatives fire at once.
        let at = Instant::now() + Duration::from_secs_f64(delay.clamp(0.0, 86_400_000.0).max(0.0) / 1e3);
        self.due.insert((at, id));
        self.at.insert(id, at);
        Ok(())
    }

    fn disarm(&mut self, id: CallId) {
        if let Some(at) = self.at.remove(&id) {
            self.due.remove(&(at, id));
        }
    }

    fn len(&self) -> usize {
        self.at.len()
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn due(&mut self, now: Instant) -> Vec<CallId> {
        let mut ids = Vec::new();
        while let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.disarm(id);
            ids.push(id);
        }
        ids
    }
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| (since.as_millis()) as f64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
