//! The recorder of a durable run, which can be closed: then nothing that may have an effect is sent any more.
//!
//! A run is paused or given away between effects: whatever has been sent is answered, and what was not sent is made by
//! the process that goes on with the run. So no call becomes unknown because of a pause or a shutdown. The gate of a run that is parked
//! with its worker opens again when the run goes on here.
//!
//! A call that is not sent before it is decided about has no intent before that (`foreseen`): it is held.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_bridge::approvals::KeptQuestion;
use toolgate_engine::transcript::{AfterReplay, Delivery, Durable, OpenCall, Recorder, Replay, RunSoFar, StepEvent};
use toolgate_journal::durable::DurableRun;
use toolgate_wire::{CallId, CallRecord, CallState, FromWorker, Target, ToWorker};

use super::foreseen::Expected;

/// How often a worker that is awake is looked at again, and the time between two looks.
const MAX_WAKE_CHECKS: u32 = 5;
const WAKE_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A hash of the schemas of a tool; `None` where there is none.
pub(super) type SchemaOf = Box<dyn Fn(&Target) -> Option<String> + Send + Sync>;

/// How a call that may have an effect is made.
pub(super) type ExpectedOf = Box<dyn Fn(CallId, &Target, &[u8]) -> Expected + Send + Sync>;

/// Records a run, and may stop it between two effects.
pub(super) struct Gate {
    run: Arc<DurableRun>,
    schema_of: SchemaOf,
    expected_of: ExpectedOf,
    state: Mutex<GateState>,
    changed: Notify,
    this: Weak<Gate>,
}

struct GateState {
    is_closed: bool,
    is_stopped: bool,
    /// Whether a message was recorded.
    has_begun: bool,
    /// Whether the program has said how it ended.
    has_ended: bool,
    /// How many calls were made.
    made: usize,
    /// Calls without a reply, with their places among those that were made.
    open: HashMap<CallId, usize>,
    /// Calls that were sent, may have an effect and were not answered.
    in_flight: HashSet<CallId>,
    /// Calls that are open and were not sent: a person is asked about them, or they are held.
    unsent: HashSet<CallId>,
    /// Calls whose intent is not written when they are made: what they are to be decided by, or `None` where an earlier run answers
    /// them.
    held: HashMap<CallId, Option<KeptQuestion>>,
    /// Calls that a person is asked about, and since when the first is.
    asked: HashSet<CallId>,
    asked_since: Option<Instant>,
    /// The tools whose schemas were recorded since this process has the run.
    called: HashSet<Target>,
    /// When the last message went to or came from the guest.
    last: Instant,
    /// Timers that have not fired.
    timers: HashSet<CallId>,
    /// Knows the calls of the run and its worker.
    so_far: Option<RunSoFar>,
    /// How long the run was parked before, and since when it is.
    waited: Duration,
    parked: Option<ParkedSince>,
}

impl GateState {
    /// Whether a task waits for messages to be delivered: a person is asked, or what was sent is to be answered before the run ends
    /// here. Otherwise each message of a run would wake its task for nothing.
    fn is_watched(&self) -> bool {
        self.asked_since.is_some() || self.is_closed
    }

    fn opens(&mut self, call: CallId) {
        self.open.insert(call, self.made);
        self.made += 1;
    }

    /// Lets a call through, unless nothing is sent any more.
    fn pass(&mut self, call: CallId) -> Option<Passed> {
        let held = self.held.get(&call);
        // Its answer is recorded at once, before the intent of any later call: after a crash it is known which of equal calls were
        // sent.
        if held.is_some_and(Option::is_none) {
            return Some(Passed::Held);
        }
        if self.is_closed {
            return None;
        }
        let passed = if held.is_some() { Passed::Held } else { Passed::Sent };
        self.in_flight.insert(call);
        if passed == Passed::Sent {
            self.unsent.remove(&call);
        }
        Some(passed)
    }

    fn has_only_asked(&self) -> bool {
        self.open.keys().all(|call| self.asked.contains(call))
    }
}

/// What becomes of a call that is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// It is sent, once its intent is kept.
    Sent,
    /// It is decided about first, or an earlier run answers it.
    Held,
}

/// When a run was parked, and the processor time that its worker had then.
#[derive(Clone, Copy)]
struct ParkedSince {
    at: Instant,
    cpu: Duration,
}

impl ParkedSince {
    /// The time since then in which the worker did nothing, given its processor time.
    fn idle(self, cpu: Duration) -> Duration {
        self.at.elapsed().saturating_sub(cpu.saturating_sub(self.cpu))
    }
}

impl Gate {
    pub(super) fn new(run: Arc<DurableRun>, schema_of: SchemaOf, expected_of: ExpectedOf) -> Arc<Self> {
        let state = GateState {
            is_closed: false,
            is_stopped: false,
            has_begun: false,
            has_ended: false,
            made: 0,
            open: HashMap::new(),
            in_flight: HashSet::new(),
            unsent: HashSet::new(),
            held: HashMap::new(),
            asked: HashSet::new(),
            asked_since: None,
            called: HashSet::new(),
            last: Instant::now(),
            timers: HashSet::new(),
            so_far: None,
            waited: Duration::ZERO,
            parked: None,
        };
        Arc::new_cyclic(|this| Gate {
            run,
            schema_of,
            expected_of,
            state: Mutex::new(state),
            changed: Notify::new(),
            this: this.clone(),
        })
    }

    /// Takes over what is open where a record ends: the engine tells of nothing that it repeats.
    pub(super) fn repeats(&self, replay: &Replay) {
        let mut made: BTreeMap<CallId, (&Target, &[u8])> = BTreeMap::new();
        {
            let mut state = self.state.lock();
            state.unsent.clone_from(&replay.unsent);
            for step in &replay.steps {
                match &step.event {
                    StepEvent::Said { then: FromWorker::Call { id, target, args }, read_only, .. } => {
                        state.opens(*id);
                        made.extend((!read_only).then_some((*id, (target, args.as_slice()))));
                    }
                    StepEvent::Said { then: FromWorker::Timer { id, .. }, .. } => drop(state.timers.insert(*id)),
                    StepEvent::Said { then: FromWorker::Cancel { id }, .. }
                    | StepEvent::Delivered { message: ToWorker::Fire { id, .. }, .. } => drop(state.timers.remove(id)),
                    StepEvent::Delivered { message: ToWorker::Reply { id, .. }, .. } => {
                        state.open.remove(id);
                        made.remove(id);
                    }
                    StepEvent::Said { .. } | StepEvent::Delivered { .. } => {}
                }
            }
        }
        let AfterReplay::GoOn(open) = &replay.then else { return };
        made.retain(|id, _| matches!(open.get(id), Some(OpenCall::Make)));
        for (id, (target, args)) in made {
            self.expect((self.expected_of)(id, target, args), id);
        }
    }

    /// Holds a call that is not sent at once.
    fn expect(&self, expected: Expected, call: CallId) {
        match expected {
            Expected::Sent => {}
            Expected::Decided(question) => self.hold(call, question),
            Expected::Answered => drop(self.state.lock().held.insert(call, None)),
        }
    }

    /// Writes no intent of this call before it is decided about.
    pub(super) fn hold(&self, call: CallId, question: KeptQuestion) {
        self.state.lock().held.insert(call, Some(question));
    }

    /// Whether a call has no intent before it is decided about.
    pub(super) fn is_held(&self, call: CallId) -> bool {
        self.state.lock().held.contains_key(&call)
    }

    /// What such a call is to be decided by.
    pub(super) fn held_question(&self, call: CallId) -> Option<KeptQuestion> {
        self.state.lock().held.get(&call).cloned().flatten()
    }

    /// The calls without a reply, with their places among those that were made.
    pub(super) fn open_calls(&self) -> Vec<(CallId, usize)> {
        self.state.lock().open.iter().map(|(call, place)| (*call, *place)).collect()
    }

    /// Whether a message went to a guest.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// Whether the program has said how it ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Sends nothing more that may have an effect, and waits until what was sent is answered.
    pub(super) async fn close(&self) {
        self.state.lock().is_closed = true;
        loop {
            let changed = self.changed.notified();
            if self.state.lock().in_flight.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Whether the worker of a closed run can wait as it is: nothing but questions is open, and for `settle` the program has done
    /// nothing. One that computes may not: it would do so without a turn and without a wall time.
    pub(super) async fn may_park(&self, settle: Duration) -> bool {
        let Some(so_far) = self.state.lock().so_far.clone() else { return false };
        let cpu = so_far.cpu();
        if !self.has_only_questions() || !so_far.is_asleep() {
            return false;
        }
        tokio::time::sleep(settle).await;
        self.has_only_questions() && so_far.is_asleep() && so_far.cpu() == cpu
    }

    /// Whether the worker of a parked run still waits. One that was killed does not: it runs to its end, or has ended, also where the
    /// engine has not noticed it yet. One that woke up for a moment sleeps again soon.
    pub(super) async fn has_waiting_worker(&self) -> bool {
        let Some(so_far) = self.state.lock().so_far.clone() else { return false };
        for _ in 0..MAX_WAKE_CHECKS {
            if so_far.is_asleep() {
                return true;
            }
            tokio::time::sleep(WAKE_CHECK_INTERVAL).await;
        }
        false
    }

    fn has_only_questions(&self) -> bool {
        let state = self.state.lock();
        let only_asked = !state.open.is_empty() && state.has_only_asked();
        state.is_closed && only_asked && state.in_flight.is_empty() && state.timers.is_empty() && !state.has_ended
    }

    /// From now on the run waits for a person. Where its program does nothing, that is no time of it.
    pub(super) fn park(&self) {
        let cpu = self.cpu();
        self.state.lock().parked = Some(ParkedSince { at: Instant::now(), cpu });
    }

    /// Processor time of the worker.
    fn cpu(&self) -> Duration {
        let so_far = self.state.lock().so_far.clone();
        so_far.map_or(Duration::ZERO, |so_far| so_far.cpu())
    }

    /// The run goes on: what was held back is sent.
    pub(super) fn open(&self) {
        let cpu = self.cpu();
        let mut state = self.state.lock();
        let now = Instant::now();
        let parked = state.parked.take().map_or(Duration::ZERO, |since| since.idle(cpu));
        state.waited += parked;
        state.is_closed = false;
        // What still waits gets its time anew: the calls that were decided come first.
        state.last = now;
        state.asked_since = state.asked_since.map(|_| now);
        drop(state);
        self.changed.notify_waiters();
    }

    /// The calls of the run so far.
    pub(super) fn calls(&self) -> Vec<CallRecord> {
        // Not under the lock: the engine may be recording a call.
        let so_far = self.state.lock().so_far.clone();
        so_far.map(|so_far| so_far.calls()).unwrap_or_default()
    }

    /// A call waits for a person: it was not sent, unless its server asks, and is open until there is a verdict.
    pub(super) fn asks(&self, call: CallId, by_server: bool) {
        let mut state = self.state.lock();
        if !by_server {
            state.unsent.insert(call);
        }
        state.in_flight.remove(&call);
        state.asked.insert(call);
        state.asked_since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_waiters();
    }

    /// A call that waited is about to be sent. Completes when something may be sent; never where the run ends here.
    pub(super) async fn sends(&self, call: CallId) {
        self.settles(call);
        self.state.lock().held.remove(&call);
        self.let_through(call).await;
    }

    /// Waits until the gate is open, and lets the call through.
    async fn let_through(&self, call: CallId) -> Passed {
        loop {
            let changed = self.changed.notified();
            if let Some(passed) = self.state.lock().pass(call) {
                return passed;
            }
            changed.await;
        }
    }

    /// The intent of a call that was let through.
    fn intent(&self, call: CallId, passed: Passed) -> Durable {
        match passed {
            Passed::Sent => self.run.before_effect(call),
            Passed::Held => Box::pin(std::future::ready(Ok(()))),
        }
    }

    /// A call that waited is not sent.
    pub(super) fn settles(&self, call: CallId) {
        let mut state = self.state.lock();
        state.in_flight.remove(&call);
        state.asked.remove(&call);
        if state.asked.is_empty() {
            state.asked_since = None;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether a call waits for a person.
    #[cfg(test)]
    pub(super) fn asks_about(&self, call: CallId) -> bool {
        self.state.lock().asked.contains(&call)
    }

    /// A person stopped the run.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_waiters();
    }

    /// Completes when a person has stopped the run.
    pub(super) async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().is_stopped {
                return;
            }
            changed.await;
        }
    }

    /// Completes when the run is to be paused, with the gate closed: nothing but calls that wait for a person is open,
    /// and the program has been silent for `settle`; or they have waited for `max_wait`.
    pub(super) async fn wants_pause(&self, settle: Duration, max_wait: Duration) {
        loop {
            let changed = self.changed.notified();
            let wait = {
                let state = self.state.lock();
                state.asked_since.map(|since| {
                    let late = (since + max_wait).saturating_duration_since(Instant::now());
                    let silent = (state.last + settle).saturating_duration_since(Instant::now());
                    if state.has_only_asked() && state.in_flight.is_empty() { late.min(silent) } else { late }
                })
            };
            match wait {
                Some(wait) if wait.is_zero() => return self.close().await,
                Some(wait) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(wait) => {}
                },
                None => changed.await,
            }
        }
    }
}

impl Recorder for Gate {
    fn delivered(&self, delivery: Delivery<'_>) {
        let is_watched = {
            let mut state = self.state.lock();
            state.last = Instant::now();
            state.has_begun = true;
            if let ToWorker::Reply { id, .. } = delivery.message {
                state.open.remove(id);
                state.unsent.remove(id);
                state.held.remove(id);
                state.asked.remove(id);
                // One that only reads is not waited for by `before_reply`, and may have been asked about.
                state.in_flight.remove(id);
            }
            if let ToWorker::Fire { id, .. } = delivery.message {
                state.timers.remove(id);
            }
            state.is_watched()
        };
        self.run.delivered(delivery);
        if is_watched {
            self.changed.notify_waiters();
        }
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        let mut is_first = false;
        {
            let mut state = self.state.lock();
            state.last = Instant::now();
            state.has_ended |= matches!(frame, FromWorker::Done { .. });
            match frame {
                FromWorker::Call { id, target, .. } => {
                    state.opens(*id);
                    is_first = !state.called.contains(target);
                }
                FromWorker::Timer { id, .. } => drop(state.timers.insert(*id)),
                FromWorker::Cancel { id } => drop(state.timers.remove(id)),
                _ => {}
            }
        }
        if let FromWorker::Call { id, target, args } = frame
            && !read_only
        {
            self.expect((self.expected_of)(*id, target, args), *id);
            let mut state = self.state.lock();
            if state.held.contains_key(id) {
                state.unsent.insert(*id);
            }
        }
        let schema = match frame {
            FromWorker::Call { target, .. } if is_first => (self.schema_of)(target).inspect(|_| {
                // A tool that is not known yet has its schema recorded with a later call.
                self.state.lock().called.insert(target.clone());
            }),
            _ => None,
        };
        match schema {
            Some(hash) => self.run.said_with_schema(frame, read_only, hash),
            None => self.run.said(frame, read_only),
        }
    }

    fn before_effect(&self, id: CallId) -> Durable {
        let passed = self.state.lock().pass(id);
        if let Some(passed) = passed {
            return self.intent(id, passed);
        }
        // Where the run ends here, the process that goes on with it makes the call.
        let this = self.this.clone();
        Box::pin(async move {
            let Some(gate) = this.upgrade() else { return std::future::pending().await };
            let passed = gate.let_through(id).await;
            gate.intent(id, passed).await
        })
    }

    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable {
        let durable = self.run.before_reply(id, state, body);
        let is_watched = {
            let mut state = self.state.lock();
            state.in_flight.remove(&id);
            state.is_watched()
        };
        if is_watched {
            self.changed.notify_waiters();
        }
        durable
    }

    fn is_unsent(&self, id: CallId) -> bool {
        self.state.lock().unsent.contains(&id)
    }

    fn waited(&self) -> Duration {
        let (waited, parked) = {
            let state = self.state.lock();
            (state.waited, state.parked)
        };
        waited + parked.map_or(Duration::ZERO, |since| since.idle(self.cpu()))
    }

    fn begins(&self, run: RunSoFar) {
        self.state.lock().so_far = Some(run);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;
    use toolgate_journal::durable::{Began, Journal};
    use toolgate_journal::recording::RunFacts;
    use toolgate_journal::seal::Sealer;
    use toolgate_journal::store::memory::MemoryStore;
    use toolgate_wire::Profile;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn messages_wake_the_task_of_a_run_only_while_a_person_is_asked() {
        let sealer = Sealer::new([1; 32]).expect("a key");
        let journal = Journal::new(Arc::new(MemoryStore::new()), sealer, "one".into(), Duration::from_secs(600));
        let facts = RunFacts {
            run: "run".into(),
            profile: Profile::Chain,
            code: "return 1".into(),
            caller: String::new(),
            request: None,
        };
        let Ok(Began::New(run)) = journal.begin(facts, None).await else { panic!("it is new") };
        let gate = Gate::new(run, Box::new(|_| None), Box::new(|_, _, _| Expected::Sent));
        let long = Duration::from_secs(3600);
        let wakes = Arc::new(CountingWaker::default());
        let mut pausing = std::pin::pin!(gate.wants_pause(long, long));
        let mut poll = || {
            let waker = wakes.clone().into();
            assert!(pausing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            wakes.0.swap(0, Ordering::SeqCst)
        };
        let fire = ToWorker::Fire { id: CallId(7), now: 0.0 };
        let deliver = || gate.delivered(Delivery { message: &fire, data: None, state: None });
        poll();
        deliver();
        drop(gate.before_reply(CallId(7), CallState::Applied, Ok("1")));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "no question is asked");
        gate.asks(CallId(1), false);
        assert_eq!(poll(), 1);
        deliver();
        assert_eq!(poll(), 1, "how long the program has been silent decides when it is paused");
    }
}
