//! Tells listeners that runs have ended, on a thread of its own.
//!
//! Records, spans and log lines grow with the calls of a run. The run only copies what they are made of; the thread makes them, so that
//! no answer waits for it. It sleeps until notes are due instead of being woken for each. Notes are bounded: a run that finds no room
//! for its note tells the listeners itself, so that none is lost.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use serde_json::value::RawValue;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::{CallRecord, CallerScope, Outcome, Report};

use super::door::Door;
use super::listen::{CallDetails, EndedRun, Listeners};
use super::metrics::log_calls;
use super::request::{RunReport, RunTrace};
use super::statistics::Transfer;

/// How long a note waits for others.
const NOTE_INTERVAL: Duration = Duration::from_millis(10);
/// Notes that wait.
const MAX_WAITING: usize = 4_096;
/// Their bytes.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// What a call takes beside what was noted of it.
const CALL_BYTES: usize = size_of::<CallRecord>() + 100;
/// How long the last notes may take at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Notes for the thread, which is started with the first of them.
#[derive(Default)]
pub(super) struct Later {
    queue: Arc<Queue>,
    /// Whether there is a thread; false where none can be started.
    thread: OnceLock<bool>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Something is to be done.
    wanted: Condvar,
    /// Everything was done.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    notes: Vec<EndedNote>,
    bytes: usize,
    due: Option<Instant>,
    is_busy: bool,
    is_closed: bool,
}

/// What listeners are told of a run.
struct EndedNote {
    door: Door,
    caller: CallerScope,
    session: Option<u64>,
    text: Option<Box<str>>,
    origin: RequestOrigin,
    trace: Option<RunTrace>,
    noted: Arc<CallDetails>,
    at: SystemTime,
    report: RunReport,
    transfer: Transfer,
    saved: u64,
}

impl EndedNote {
    fn of(run: &EndedRun<'_>) -> Self {
        EndedNote {
            door: run.door,
            caller: run.caller.clone(),
            session: run.session,
            text: run.text.map(Into::into),
            origin: run.origin.clone(),
            trace: run.trace.cloned(),
            noted: Arc::clone(run.noted),
            at: run.at,
            report: without_contents(run.report),
            transfer: run.transfer,
            saved: run.saved,
        }
    }

    fn bytes(&self) -> usize {
        let text = self.text.as_deref().map_or(0, str::len);
        size_of::<Self>() + text + self.noted.bytes() + CALL_BYTES * self.report.report.calls.len()
    }

    fn tell(&self, listeners: &Listeners) {
        let run = EndedRun {
            door: self.door,
            caller: &self.caller,
            session: self.session,
            text: self.text.as_deref(),
            origin: &self.origin,
            trace: self.trace.as_ref(),
            noted: &self.noted,
            at: self.at,
            report: &self.report,
            transfer: self.transfer,
            saved: self.saved,
        };
        log_calls(run.report);
        listeners.tell_end_later(&run);
    }
}

/// A report without its value, its logs and its warnings, which may be large.
fn without_contents(run: &RunReport) -> RunReport {
    let report = &run.report;
    let outcome = match report.failure() {
        Some(failure) => Outcome::Failed(failure.clone()),
        None => Outcome::Returned(Box::<RawValue>::default()),
    };
    let report =
        Report { calls: report.calls.clone(), engine: report.engine, ..Report::not_started(outcome, report.elapsed) };
    RunReport { is_durable: run.is_durable, ..RunReport::ended(run.id.clone(), run.route, report) }
}

impl Later {
    /// Tells the listeners of a run, now or in a moment.
    pub(super) fn add(&self, run: &EndedRun<'_>, listeners: &Arc<Listeners>) {
        let has_thread = *self.thread.get_or_init(|| self.start(listeners));
        let note = EndedNote::of(run);
        if let Some(note) = if has_thread { self.queue.push(note) } else { Some(note) } {
            note.tell(listeners);
        }
    }

    fn start(&self, listeners: &Arc<Listeners>) -> bool {
        let (queue, listeners) = (Arc::clone(&self.queue), Arc::clone(listeners));
        let thread = std::thread::Builder::new().name("listeners".to_owned());
        thread.spawn(move || queue.serve(&listeners)).is_ok()
    }

    /// Waits until all notes were told, for a bounded time.
    pub(super) fn settle(&self) {
        let mut state = self.queue.state.lock();
        if !state.notes.is_empty() {
            state.due = Some(Instant::now());
            self.queue.wanted.notify_one();
        }
        let is_open = |state: &mut State| state.is_busy || !state.notes.is_empty();
        self.queue.idle.wait_while_for(&mut state, is_open, SETTLE_TIMEOUT);
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.settle();
        self.queue.state.lock().is_closed = true;
        self.queue.wanted.notify_one();
    }
}

impl Queue {
    /// Takes a note; gives it back if there is no room.
    fn push(&self, note: EndedNote) -> Option<EndedNote> {
        let bytes = note.bytes();
        let mut state = self.state.lock();
        if state.notes.len() >= MAX_WAITING || state.bytes.saturating_add(bytes) > MAX_WAITING_BYTES {
            return Some(note);
        }
        state.bytes += bytes;
        state.notes.push(note);
        let is_first = state.due.is_none();
        state.due.get_or_insert_with(|| Instant::now() + NOTE_INTERVAL);
        drop(state);
        if is_first {
            self.wanted.notify_one();
        }
        None
    }

    fn serve(&self, listeners: &Listeners) {
        let mut state = self.state.lock();
        loop {
            match state.due {
                Some(due) if due <= Instant::now() => {
                    let notes = std::mem::take(&mut state.notes);
                    (state.due, state.is_busy) = (None, true);
                    drop(state);
                    notes.iter().for_each(|note| note.tell(listeners));
                    let bytes: usize = notes.iter().map(EndedNote::bytes).sum();
                    state = self.state.lock();
                    (state.bytes, state.is_busy) = (state.bytes.saturating_sub(bytes), false);
                    self.idle.notify_all();
                }
                Some(due) => drop(self.wanted.wait_until(&mut state, due)),
                None if state.is_closed => return,
                None => self.wanted.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunListener;
    use crate::request::Route;
    use std::thread::ThreadId;
    use toolgate_wire::Target;

    /// The thread that told of each run, its calls and its value.
    #[derive(Default)]
    struct Heard(Mutex<Vec<(ThreadId, usize, String)>>);

    impl RunListener for Heard {
        fn ended(&self, run: &EndedRun<'_>) {
            let value = run.report.report.value().map_or_else(|_| String::new(), |value| value.get().to_owned());
            self.0.lock().push((std::thread::current().id(), run.report.report.calls.len(), value));
        }
    }

    fn end(later: &Later, listeners: &Arc<Listeners>, text: &str) {
        let value = RawValue::from_string("[1,2,3]".to_owned()).unwrap();
        let mut report = Report::not_started(Outcome::Returned(value), Duration::ZERO);
        report.calls.push(CallRecord::begin(&Target::Function("f".into()), 2, true));
        let report = RunReport::ended("1".into(), Route::Script, report);
        let run = EndedRun {
            door: Door::Api,
            caller: &CallerScope::default(),
            session: None,
            text: Some(text),
            origin: &RequestOrigin::default(),
            trace: None,
            noted: &Arc::default(),
            at: SystemTime::UNIX_EPOCH,
            report: &report,
            transfer: Transfer::default(),
            saved: 0,
        };
        later.add(&run, listeners);
    }

    fn listeners() -> (Arc<Listeners>, Arc<Heard>) {
        let (listeners, heard) = (Arc::new(Listeners::default()), Arc::new(Heard::default()));
        listeners.add_later(heard.clone());
        (listeners, heard)
    }

    #[test]
    fn a_listener_hears_of_a_run_on_another_thread_and_without_its_value() {
        let ((listeners, heard), later) = (listeners(), Later::default());
        (0..100).for_each(|_| end(&later, &listeners, "return 1"));
        later.settle();
        let heard = heard.0.lock();
        assert_eq!(heard.len(), 100);
        let here = std::thread::current().id();
        assert!(heard.iter().all(|(thread, calls, value)| *thread != here && (*calls, value.as_str()) == (1, "null")));
    }

    #[test]
    fn a_run_that_finds_no_room_tells_its_listeners_itself() {
        let ((listeners, heard), later) = (listeners(), Later::default());
        end(&later, &listeners, &"x".repeat(MAX_WAITING_BYTES));
        let (thread, ..) = heard.0.lock()[0];
        assert_eq!(thread, std::thread::current().id());
        assert_eq!(later.queue.state.lock().bytes, 0);
    }

    #[test]
    fn the_last_notes_are_told_before_it_is_gone() {
        let ((listeners, heard), later) = (listeners(), Later::default());
        end(&later, &listeners, "return 1");
        drop(later);
        assert_eq!(heard.0.lock().len(), 1);
    }
}
