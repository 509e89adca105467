//! Repeats a recorded run on a worker, up to where the record ends.
//!
//! Nothing that the guest repeats is acted on: calls are noted in the ledger and not made, timers are noted and not
//! started. At the end of the record the calls without a reply and the timers that had not expired are taken up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use toolgate_wire::frame::{End, FromWorker, Question, Target};
use toolgate_wire::{CallId, CallState, Code, Start, ToWorker};

use super::describe::describe;
use super::replay::{AfterReplay, Divergence, LineCheck, OpenCall, Replay, Step, StepEvent};
use super::{Digest, DigestKey};
use crate::host::RepeatedCall;
use crate::outbox::FrameKind;
use crate::pump::{Finished, Lost, Pump, as_text, wall_clock};
use crate::socket::{WakeSource, WorkerSocket};

/// Messages that are sent before the guest has said what the record has in front of them, and their bytes. Each wait for the guest
/// costs two switches between processes. When a guest gets a message changes nothing: it takes one, does all that follows from it,
/// and only then takes the next.
const MAX_FRAMES_AHEAD: usize = 64;
const MAX_BYTES_AHEAD: usize = 128 * 1024;

/// What is open in a run that is being repeated.
#[derive(Default)]
struct OpenItems {
    /// Calls without a reply, with when they were made.
    calls: BTreeMap<CallId, OpenedCall>,
    /// When timers expire, from the beginning of the run.
    timers: BTreeMap<CallId, Duration>,
    /// A question without an answer: the guest is suspended until it has one.
    question: Option<Question>,
    /// When the last step happened.
    last: Duration,
}

struct OpenedCall {
    target: Target,
    args: Vec<u8>,
    at: Duration,
    read_only: bool,
}

impl Pump {
    /// Repeats a record; returns the end of the run if the record has it.
    pub(crate) fn repeat(&mut self, socket: &mut WorkerSocket, replay: &Replay) -> Result<Option<Finished>, Lost> {
        let mut open = OpenItems::default();
        // Messages before this step were sent.
        let mut sent = 0;
        for (index, step) in replay.steps.iter().enumerate() {
            open.last = step.at;
            match &step.event {
                StepEvent::Delivered { message, state } => {
                    self.note_delivery(message, *state, &mut open);
                    if index >= sent {
                        self.channel().send(message, *state);
                    }
                }
                StepEvent::Said { digest, then, read_only } => {
                    if index >= sent {
                        sent = self.send_ahead(&replay.steps, index + 1);
                    }
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

    /// Sends the messages that follow, before the guest has said what the record has between them; gives the step up to which they
    /// are sent. They leave together when the pump waits.
    fn send_ahead(&mut self, steps: &[Step], from: usize) -> usize {
        let until = until_ahead(steps, from);
        self.channel().outbox().hold();
        for step in steps.get(from..until).unwrap_or_default() {
            if let StepEvent::Delivered { message, state } = &step.event {
                self.channel().send(message, *state);
            }
        }
        until
    }

    /// Notes that a message was delivered, at its place in the record.
    fn note_delivery(&mut self, message: &ToWorker, state: Option<CallState>, open: &mut OpenItems) {
        match message {
            ToWorker::Reply { id, body, .. } => {
                if let Some(call) = open.calls.remove(id) {
                    let took = open.last.saturating_sub(call.at);
                    let state = state.unwrap_or(CallState::Unknown);
                    self.note_reply(*id, &call, took, state, body);
                }
            }
            ToWorker::Fire { id, .. } => {
                open.timers.remove(id);
            }
            ToWorker::Answer(_) => open.question = None,
            ToWorker::Start(_) | ToWorker::Waited { .. } => {}
        }
    }

    /// Notes the recorded reply to a call in the ledger, and tells the host of the call, which was made and counts.
    fn note_reply(
        &mut self,
        id: CallId,
        call: &OpenedCall,
        took: Duration,
        state: CallState,
        body: &Result<Vec<u8>, Vec<u8>>,
    ) {
        let OpenedCall { target, args, .. } = call;
        let reply = body.as_deref().map_err(Vec::as_slice);
        self.host().repeated(RepeatedCall { id, target, args, state, body: reply });
        let decision = self.host().decision(id);
        self.ledger().repeat_end(id, took, state, body, decision);
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
                open.calls.insert(id, OpenedCall { target, args, at: open.last, read_only });
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
        // What was made counts before anything is made: a limit of the run is for both.
        for (id, call) in &open.calls {
            if let Some(OpenCall::Answered { state, body }) = treated.get(id) {
                self.note_reply(*id, call, Duration::ZERO, *state, body);
            }
        }
        for (id, call) in open.calls {
            match treated.get(&id) {
                Some(OpenCall::Answered { state, body }) => {
                    let reply = ToWorker::Reply { id, now: wall_clock(), body: body.clone() };
                    self.channel().send(&reply, Some(*state));
                }
                _ => self.make(id, call.target, as_text(call.args)?, call.read_only)?,
            }
        }
        Ok(())
    }
}

/// The step up to which messages may be sent ahead: at most so many and so many bytes. An answer is sent after its question: a guest
/// that asks something else must not take it.
fn until_ahead(steps: &[Step], from: usize) -> usize {
    let (mut frames, mut bytes) = (0, 0);
    let mut fits = |step: &Step| {
        let length = match &step.event {
            StepEvent::Said { .. } => return true,
            StepEvent::Delivered { message: ToWorker::Reply { body: Ok(text) | Err(text), .. }, .. } => text.len(),
            StepEvent::Delivered { message: ToWorker::Fire { .. }, .. } => 0,
            StepEvent::Delivered { .. } => return false,
        };
        (frames, bytes) = (frames + 1, bytes + length);
        frames <= MAX_FRAMES_AHEAD && bytes <= MAX_BYTES_AHEAD
    };
    from + steps.iter().skip(from).take_while(|step| fits(step)).count()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(event: StepEvent) -> Step {
        Step { number: 0, at: Duration::ZERO, event }
    }

    fn said() -> Step {
        let then = FromWorker::Cancel { id: CallId(1) };
        let digest = DigestKey::new([1; 32]).digest(&then);
        step(StepEvent::Said { digest, then, read_only: false })
    }

    fn delivered(message: ToWorker) -> Step {
        step(StepEvent::Delivered { message, state: None })
    }

    fn reply(bytes: usize) -> Step {
        delivered(ToWorker::Reply { id: CallId(1), now: 0.0, body: Ok(vec![b'x'; bytes]) })
    }

    fn fire() -> Step {
        delivered(ToWorker::Fire { id: CallId(1), now: 0.0 })
    }

    #[test]
    fn messages_are_sent_ahead_up_to_an_answer() {
        let answer = delivered(ToWorker::Answer(None));
        let steps = [said(), reply(1), said(), fire(), said(), answer, reply(1)];
        assert_eq!(until_ahead(&steps, 1), 5);
        assert_eq!(until_ahead(&steps, 5), 5);
        assert_eq!(until_ahead(&steps, 6), 7);
        assert_eq!(until_ahead(&steps, 7), 7);
    }

    #[test]
    fn what_is_sent_ahead_is_bounded_in_number_and_bytes() {
        let calls: Vec<Step> = (0..1_000).flat_map(|_| [said(), reply(1)]).collect();
        assert_eq!(until_ahead(&calls, 1), 2 * MAX_FRAMES_AHEAD + 1);
        let long: Vec<Step> = (0..10).flat_map(|_| [said(), reply(MAX_BYTES_AHEAD / 2)]).collect();
        assert_eq!(until_ahead(&long, 1), 5);
        assert_eq!(until_ahead(&[reply(MAX_BYTES_AHEAD + 1)], 0), 0, "it is sent at its place");
    }
}
