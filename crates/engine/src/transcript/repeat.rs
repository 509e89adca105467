//! Repeats a recorded run on a worker, up to where the record ends.
//!
//! Nothing that the guest repeats is acted on: calls are noted in the ledger and not made, timers are noted and not
//! started. At the end of the record the calls without a reply and the timers that had not expired are taken up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use toolgate_wire::frame::{End, FromWorker, Question, Target};
use toolgate_wire::{CallId, CallState, Code, Start, ToWorker};

use super::describe::describe;
use super::replay::{AfterReplay, Divergence, LineCheck, OpenCall, Replay, StepEvent};
use super::{Digest, DigestKey};
use crate::outbox::FrameKind;
use crate::pump::{Finished, Lost, Pump, as_text};
use crate::socket::{WakeSource, WorkerSocket};

/// What is open in a run that is being repeated.
#[derive(Default)]
struct OpenItems {
    /// Calls without a reply, with when they were made.
    calls: BTreeMap<CallId, RepeatedCall>,
    /// When timers expire, from the beginning of the run.
    timers: BTreeMap<CallId, Duration>,
    /// A question without an answer: the guest is suspended until it has one.
    question: Option<Question>,
    /// When the last step happened.
    last: Duration,
}

struct RepeatedCall {
    target: Target,
    args: Vec<u8>,
    at: Duration,
    read_only: bool,
}

impl Pump {
    /// Repeats a record; returns the end of the run if the record has it.
    pub(crate) fn repeat(&mut self, socket: &mut WorkerSocket, replay: &Replay) -> Result<Option<Finished>, Lost> {
        let mut open = OpenItems::default();
        for step in &replay.steps {
            open.last = step.at;
            match &step.event {
                StepEvent::Delivered { message, state } => self.deliver_again(message, *state, &mut open),
                StepEvent::Said { digest, then, read_only } => {
                    let differs = |now: String| {
                        Lost::Diverged(Box::new(Divergence { step: step.number, then: describe(then), now }))
                    };
                    let frame = match self.next_frame(socket, &replay.start, then)? {
                        Some(frame) => frame,
                        None => return Err(differs("says nothing until its time is up".to_owned())),
                    };
                    if !is_repeated(&frame, then, (&replay.key, *digest), replay.lines) {
                        return Err(timed_out(&frame).unwrap_or_else(|| differs(describe(&frame))));
                    }
                    if let Some(finished) = self.take_again(frame, *read_only, &mut open)? {
                        return Ok(Some(finished));
                    }
                }
            }
        }
        match &replay.then {
            AfterReplay::Stop(failure) => Err(Lost::Stopped(Box::new(failure.clone()))),
            AfterReplay::GoOn(treated) => self.take_up(open, treated).map(|()| None),
        }
    }

    /// Waits for a frame; `None` at the end of the run's time. A question that was answered ahead is answered from
    /// there: one interpreter uses such answers, the other asks.
    fn next_frame(
        &mut self,
        socket: &mut WorkerSocket,
        start: &Start,
        then: &FromWorker,
    ) -> Result<Option<FromWorker>, Lost> {
        let outbox = self.channel().outbox();
        while Instant::now() < self.hard_deadline() {
            // A repetition makes no calls, so that no task needs the pump.
            let Some(frame) = socket.next(self.hard_deadline(), Some(&outbox), WakeSource::Worker)? else {
                continue;
            };
            match answered_ahead(&frame, start).filter(|_| frame != *then) {
                Some(_) if outbox.waiting(FrameKind::Answer) > 0 => {
                    return Err(Lost::Violation("a question before the answer to the previous one"));
                }
                Some(answer) => self.channel().send(&ToWorker::Answer(Some(answer)), None),
                None => return Ok(Some(frame)),
            }
        }
        Ok(None)
    }

    fn deliver_again(&mut self, message: &ToWorker, state: Option<CallState>, open: &mut OpenItems) {
        match message {
            ToWorker::Reply { id, body, .. } => {
                if let Some(call) = open.calls.remove(id) {
                    let took = open.last.saturating_sub(call.at);
                    let state = state.unwrap_or(CallState::Unknown);
                    self.host().repeated(*id, &call.target, &call.args, state);
                    let decision = self.host().decision(*id);
                    self.ledger().repeat_end(*id, took, state, body, decision);
                }
            }
            ToWorker::Fire { id, .. } => {
                open.timers.remove(id);
            }
            ToWorker::Answer(_) => open.question = None,
            ToWorker::Start(_) | ToWorker::Waited { .. } => {}
        }
        self.channel().send(message, state);
    }

    /// Notes what the guest repeated; returns the end of the run when that is what it was.
    fn take_again(
        &mut self,
        frame: FromWorker,
        read_only: bool,
        open: &mut OpenItems,
    ) -> Result<Option<Finished>, Lost> {
        self.channel().record_received(&frame, read_only);
        match frame {
            FromWorker::Call { id, target, args } => {
                let index = self.ledger().begin(id, &target, args.len(), read_only);
                self.note_again(index, &args, open.last);
                open.calls.insert(id, RepeatedCall { target, args, at: open.last, read_only });
            }
            FromWorker::Timer { id, delay } => {
                let delay = Duration::try_from_secs_f64(delay.max(0.0) / 1e3).unwrap_or(Duration::MAX);
                open.timers.insert(id, open.last.saturating_add(delay));
            }
            FromWorker::Cancel { id } => {
                open.timers.remove(&id);
            }
            FromWorker::Log { stream, text } => self.log(stream, text)?,
            FromWorker::Ask(question) => open.question = Some(question),
            FromWorker::Ready { .. } => return Err(Lost::Violation("a frame out of order")),
            FromWorker::Done { end, memory, cpu, dropped } => {
                return Ok(Some(self.finished(end, memory, cpu, dropped)));
            }
        }
        Ok(None)
    }

    /// Goes on where the record ends. Unknown calls are looked for first: with one of them, nothing new is sent.
    fn take_up(&mut self, open: OpenItems, treated: &std::collections::HashMap<CallId, OpenCall>) -> Result<(), Lost> {
        for (id, call) in &open.calls {
            let known = match treated.get(id) {
                Some(OpenCall::Unknown { known }) => known.as_str(),
                None => "nothing is kept of it",
                Some(OpenCall::Answered { .. } | OpenCall::Make) => continue,
            };
            return Err(Lost::UnknownEffect(format!("{} ({known})", call.target)));
        }
        self.channel().begin_recording();
        if let Some(question) = &open.question {
            self.ask(question)?;
        }
        let mut timers: Vec<(Duration, CallId)> = open.timers.iter().map(|(id, due)| (*due, *id)).collect();
        timers.sort_unstable();
        for (due, id) in timers {
            self.arm(id, due.saturating_sub(open.last).as_secs_f64() * 1e3)?;
        }
        for (id, call) in open.calls {
            match treated.get(&id) {
                Some(OpenCall::Answered { state, body }) => self.answer_from_record(id, *state, body.clone()),
                _ => self.make(id, call.target, as_text(call.args)?, call.read_only)?,
            }
        }
        Ok(())
    }
}

/// The answer to this question, if it was sent with the program.
fn answered_ahead(frame: &FromWorker, start: &Start) -> Option<Vec<u8>> {
    let FromWorker::Ask(Question::Global(asked)) = frame else { return None };
    start.named.iter().find(|(name, _)| name == asked).map(|(_, answer)| answer.clone())
}

/// Whether a frame is what the guest said then.
fn is_repeated(frame: &FromWorker, then: &FromWorker, (key, digest): (&DigestKey, Digest), lines: LineCheck) -> bool {
    let is_line = |frame: &FromWorker| matches!(frame, FromWorker::Log { .. });
    if lines == LineCheck::Counted && is_line(frame) && is_line(then) {
        return true;
    }
    key.digest(frame) == digest
}

/// A worker whose own time is up has not behaved differently.
fn timed_out(frame: &FromWorker) -> Option<Lost> {
    let is_late = matches!(frame, FromWorker::Done { end: End::Failed { code: Code::Timeout, .. }, .. });
    is_late.then_some(Lost::Deadline)
}
