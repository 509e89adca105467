//! Records one run in memory, up to a bound.
//!
//! [`Recording`] is the common part of every recorder: it turns messages into entries and collects them until they are
//! taken. [`MemoryRecorder`] keeps them to the end of the run, for cassettes; a durable run writes them to a store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_engine::transcript::{Delivery, DigestKey, Durable, Recorder};
use toolgate_wire::{CallId, CallState, FromWorker, Profile, ToWorker, Warning};

use crate::entry::{AllowedBy, Entry, Event, Header, Reply, ReplyBody};
use crate::start::StartMessage;
use crate::text::{Blobs, Text};

/// Bytes of texts that are recorded of one run. A text counts as often as it is recorded, although a store keeps it once:
/// a replay holds it as often.
pub const MAX_RECORD_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes that an entry counts for beside its texts.
const ENTRY_BYTES: u64 = 100;

/// What was recorded: entries in their order, and the long texts that they name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Their long texts.
    pub blobs: Blobs,
}

impl Record {
    /// The header.
    pub fn header(&self) -> Option<&Header> {
        match &self.entries.first()?.event {
            Event::Header(header) => Some(header),
            _ => None,
        }
    }

    /// The JSON text of the report, if the run has ended.
    pub fn report(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| match &entry.event {
            Event::Report { report } => self.blobs.text(report).ok(),
            _ => None,
        })
    }

    /// The JSON text of what the rehearsal of a staged program found.
    pub fn staged(&self) -> Option<&str> {
        self.entries.iter().find_map(|entry| match &entry.event {
            Event::Staged { review } => self.blobs.text(review).ok(),
            _ => None,
        })
    }

    /// Whether a program was started.
    pub fn has_start(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.event, Event::Start(_)))
    }

    /// What the policy let its calls through by, of those that were replied to.
    pub fn allowed(&self) -> HashMap<CallId, AllowedBy> {
        let replies = self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Reply(reply) | Event::Answered(reply) => Some((CallId(reply.id), reply.allowed.clone()?)),
            _ => None,
        });
        replies.collect()
    }

    /// Adds what was recorded later.
    pub fn extend(&mut self, later: Record) {
        self.entries.extend(later.entries);
        self.blobs.extend(later.blobs);
    }

    /// Puts what was recorded earlier before it.
    pub(crate) fn prepend(&mut self, mut earlier: Record) {
        earlier.extend(std::mem::take(self));
        *self = earlier;
    }
}

/// Who runs what: the facts of a header.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run's id.
    pub run: String,
    /// The kind of run.
    pub profile: Profile,
    /// The program as its author wrote it.
    pub code: String,
    /// The name of the caller's key.
    pub caller: String,
    /// JSON text of what else was asked for, where it is needed to run the program.
    pub request: Option<String>,
}

/// The entries of a run that have not been taken yet.
pub struct Recording {
    key: DigestKey,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    record: Record,
    bytes: u64,
    /// Of these, bytes that were not taken yet.
    untaken: u64,
    is_full: bool,
    clock: RunningTime,
    /// What open calls were let through by: their replies have it.
    allowed: HashMap<u32, AllowedBy>,
}

impl State {
    /// Adds to a reply what its call was let through by.
    fn note_allowed(&mut self, event: &mut Event) {
        match event {
            Event::Answered(reply) => reply.allowed = self.allowed.get(&reply.id).cloned(),
            Event::Reply(reply) => reply.allowed = self.allowed.remove(&reply.id),
            _ => {}
        }
    }
}

/// How long the program has been running, over all processes. Waiting for a turn, for backends or for the repetition of a record
/// does not count: the clock goes from the first message of the program on.
#[derive(Default)]
struct RunningTime {
    /// At the last entry.
    so_far: Duration,
    /// When that was, in this process.
    since: Option<Instant>,
}

impl RunningTime {
    /// In milliseconds. The clock goes from now on.
    fn advance(&mut self) -> f64 {
        let now = Instant::now();
        self.so_far += self.since.map_or(Duration::ZERO, |since| now.duration_since(since));
        self.since = Some(now);
        self.so_far_now()
    }

    /// At the last entry, in milliseconds.
    fn so_far_now(&mut self) -> f64 {
        self.so_far.as_secs_f64() * 1e3
    }

    /// The time since the last entry does not count.
    fn skip(&mut self) {
        self.since = self.since.map(|_| Instant::now());
    }
}

impl Recording {
    /// A new run, with its header as the first entry.
    pub fn new(facts: RunFacts) -> Self {
        Recording::bounded(facts, MAX_RECORD_BYTES)
    }

    /// The same with another bound.
    pub fn bounded(facts: RunFacts, max_bytes: u64) -> Self {
        let recording = Recording { key: DigestKey::random(), max_bytes, state: Mutex::default() };
        recording.push_at(RunningTime::so_far_now, |recording, blobs| {
            let bytes = facts.code.len() + facts.request.as_ref().map_or(0, String::len);
            let header = Header::new(facts, &recording.key, blobs);
            Some((Event::Header(Box::new(header)), bytes))
        });
        recording
    }

    /// Goes on with a run that was recorded so far by another process.
    pub fn resumed(so_far: &Record, key: DigestKey, max_bytes: u64) -> Self {
        let last = so_far.entries.last().map_or(0.0, |entry| entry.at);
        let bytes = so_far.entries.iter().map(|entry| ENTRY_BYTES + text_bytes(&entry.event)).sum();
        let is_full = so_far.entries.iter().any(|entry| matches!(entry.event, Event::Truncated { .. }));
        let before = Duration::try_from_secs_f64(last / 1e3).unwrap_or_default();
        let clock = RunningTime { so_far: before, since: None };
        Recording { key, max_bytes, state: Mutex::new(State { bytes, is_full, clock, ..State::default() }) }
    }

    /// The time since the last entry does not count as running time.
    pub fn skip_time(&self) {
        self.state.lock().clock.skip();
    }

    /// The program does not run until its next entry: its worker died, and another one begins with it.
    pub fn stop_clock(&self) {
        self.state.lock().clock.since = None;
    }

    /// Adds an entry of the program.
    fn push(&self, event: impl FnOnce(&Self, &mut Blobs) -> Option<(Event, usize)>) {
        self.push_at(RunningTime::advance, event);
    }

    fn push_at(
        &self,
        time: impl FnOnce(&mut RunningTime) -> f64,
        event: impl FnOnce(&Self, &mut Blobs) -> Option<(Event, usize)>,
    ) {
        let mut state = self.state.lock();
        if state.is_full {
            return;
        }
        let Some((mut event, bytes)) = event(self, &mut state.record.blobs) else { return };
        state.note_allowed(&mut event);
        let bytes = bytes as u64 + ENTRY_BYTES;
        state.bytes += bytes;
        state.untaken += bytes;
        let at = time(&mut state.clock);
        state.record.entries.push(Entry { at, event });
        if state.bytes > self.max_bytes {
            state.is_full = true;
            let bytes = state.bytes;
            state.record.entries.push(Entry { at, event: Event::Truncated { bytes } });
        }
    }

    /// Records a message to the guest.
    pub fn delivered(&self, delivery: Delivery<'_>) {
        self.push(|_, blobs| {
            Some(match delivery.message {
                ToWorker::Start(start) => {
                    let (message, bytes) = StartMessage::of(start, delivery.data, blobs);
                    (Event::Start(Box::new(message)), bytes)
                }
                ToWorker::Reply { id, now, body } => {
                    let state = delivery.state.unwrap_or(CallState::Unknown);
                    let body = body.as_ref().map_err(Vec::as_slice).map(Vec::as_slice);
                    let (reply, bytes) = reply(*id, Some(*now), state, body, blobs);
                    (Event::Reply(reply), bytes)
                }
                ToWorker::Fire { id, now } => (Event::Fire { id: id.0, now: *now }, 0),
                ToWorker::Answer(None) => (Event::Answer { body: None }, 0),
                ToWorker::Answer(Some(body)) => {
                    let (text, bytes) = blobs.keep(&String::from_utf8_lossy(body));
                    (Event::Answer { body: Some(text) }, bytes)
                }
                ToWorker::Waited { .. } => return None,
            })
        });
    }

    /// Records what the guest said.
    pub fn said(&self, frame: &FromWorker, read_only: bool) {
        self.push(|recording, blobs| Event::said(frame, read_only, &recording.key, blobs));
    }

    /// Records a call, with a hash of the schemas of its tool.
    pub fn said_with_schema(&self, frame: &FromWorker, read_only: bool, hash: String) {
        self.push(|recording, blobs| {
            let (mut event, bytes) = Event::said(frame, read_only, &recording.key, blobs)?;
            if let Event::Call(call) = &mut event {
                call.schema = Some(hash);
            }
            Some((event, bytes))
        });
    }

    /// Records that a call is about to be sent.
    pub fn intends(&self, id: CallId) {
        self.push(|_, _| Some((Event::Intent { id: id.0, sent: crate::unix_ms() }, 0)));
    }

    /// What the policy let a call through by is recorded with its reply.
    pub fn allows(&self, id: CallId, by: AllowedBy) {
        self.state.lock().allowed.insert(id.0, by);
    }

    /// Records that a person is asked about a call, which is not sent before that; or about something that its server asks, which
    /// has had it.
    pub fn asks(&self, id: CallId, by_server: bool) {
        self.push(|_, _| Some((Event::Asked { id: id.0, by_server }, 0)));
    }

    /// Records what the rehearsal of the program found, as JSON text.
    pub fn staged(&self, review: &str) {
        self.push_at(RunningTime::so_far_now, |_, blobs| {
            let (review, bytes) = blobs.keep(review);
            Some((Event::Staged { review }, bytes))
        });
    }

    /// Records the answer of a call before it is delivered; the body is that of the reply.
    pub fn answered(&self, id: CallId, state: CallState, body: Result<&[u8], &[u8]>) {
        self.push(|_, blobs| {
            let (reply, bytes) = reply(id, None, state, body, blobs);
            Some((Event::Answered(reply), bytes))
        });
    }

    /// Records the report. It is kept also when the record is full.
    pub fn finish(&self, report: &str) {
        let mut state = self.state.lock();
        let (report, _) = state.record.blobs.keep(report);
        let at = state.clock.advance();
        state.record.entries.push(Entry { at, event: Event::Report { report } });
    }

    /// Takes what was recorded since the last time.
    pub fn take(&self) -> Record {
        let mut state = self.state.lock();
        state.untaken = 0;
        std::mem::take(&mut state.record)
    }

    /// Puts back what was taken and could not be kept.
    pub(crate) fn put_back(&self, taken: Record) {
        self.state.lock().record.prepend(taken);
    }

    /// Bytes that were recorded so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Bytes that were recorded since [`Recording::take`].
    pub(crate) fn untaken(&self) -> u64 {
        self.state.lock().untaken
    }

    /// Whether the record reached its bound.
    pub fn is_full(&self) -> bool {
        self.state.lock().is_full
    }

    /// What the report of the run has to say about its record.
    pub fn remark(&self) -> Option<Warning> {
        self.is_full().then_some(Warning::RecordFull { megabytes: self.max_bytes / (1024 * 1024) })
    }
}

/// Bytes of the texts of an entry.
pub(crate) fn text_bytes(event: &Event) -> u64 {
    event.texts().into_iter().map(Text::bytes).sum()
}

fn reply(
    id: CallId,
    now: Option<f64>,
    state: CallState,
    body: Result<&[u8], &[u8]>,
    blobs: &mut Blobs,
) -> (Reply, usize) {
    let (text, bytes) = blobs.keep(&String::from_utf8_lossy(body.unwrap_or_else(|error| error)));
    let body = if body.is_ok() { ReplyBody::Value(text) } else { ReplyBody::Error(text) };
    (Reply { id: id.0, now, state, allowed: None, body }, bytes)
}

/// Keeps the whole record in memory. Nothing waits for it.
pub struct MemoryRecorder(Recording);

impl MemoryRecorder {
    /// The recorder of a new run.
    pub fn new(facts: RunFacts) -> Arc<Self> {
        Arc::new(MemoryRecorder(Recording::new(facts)))
    }

    /// Ends the record with the report and takes it.
    pub fn finish(&self, report: &str) -> Record {
        self.0.finish(report);
        self.0.take()
    }

    /// See [`Recording::remark`].
    pub fn remark(&self) -> Option<Warning> {
        self.0.remark()
    }
}

impl Recorder for MemoryRecorder {
    fn delivered(&self, delivery: Delivery<'_>) {
        self.0.delivered(delivery);
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        self.0.said(frame, read_only);
    }

    fn before_effect(&self, _: CallId) -> Durable {
        Box::pin(std::future::ready(Ok(())))
    }

    fn before_reply(&self, _: CallId, _: CallState, _: Result<&str, &str>) -> Durable {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn facts() -> RunFacts {
        RunFacts {
            run: "run_1".into(),
            profile: Profile::Chain,
            code: "return 1".into(),
            caller: String::new(),
            request: None,
        }
    }

    fn line(text: &str) -> FromWorker {
        FromWorker::Log { stream: toolgate_wire::frame::Stream::Stdout, text: text.into() }
    }

    #[test]
    fn a_record_ends_at_its_bound_and_says_so() {
        let recording = Recording::bounded(facts(), 1024 * 1024);
        assert_eq!(recording.remark(), None);
        for _ in 0..20 {
            recording.said(&line(&"x".repeat(200_000)), false);
            recording.said(&line(&"y".repeat(60_000)), false);
        }
        recording.finish("{}");
        assert_eq!(recording.remark(), Some(Warning::RecordFull { megabytes: 1 }));
        let record = recording.take();
        let kinds: Vec<_> = record.entries.iter().rev().take(2).map(|entry| &entry.event).collect();
        assert!(matches!(kinds[..], [Event::Report { .. }, Event::Truncated { .. }]), "{kinds:?}");
        assert_eq!(record.report(), Some("{}"));
    }

    #[test]
    fn a_text_counts_as_often_as_it_is_recorded() {
        let recording = Recording::bounded(facts(), 1024 * 1024);
        for _ in 0..20 {
            recording.said(&line(&"x".repeat(200_000)), false);
        }
        assert!(recording.is_full());
        let record = recording.take();
        assert_eq!(record.entries.iter().filter(|entry| matches!(entry.event, Event::Line { .. })).count(), 6);
        assert_eq!(record.blobs.iter().count(), 1);
    }

    #[test]
    fn a_record_that_goes_on_elsewhere_counts_what_it_has() {
        let recording = Recording::new(facts());
        for _ in 0..3 {
            recording.said(&line(&"x".repeat(200_000)), false);
            recording.said(&line(&"y".repeat(60_000)), false);
        }
        let bytes = recording.state.lock().bytes;
        let resumed = Recording::resumed(&recording.take(), DigestKey::random(), MAX_RECORD_BYTES);
        assert_eq!(resumed.state.lock().bytes, bytes);
    }

    #[test]
    fn a_reply_has_what_its_call_was_let_through_by() {
        let recording = Recording::new(facts());
        let allowed = AllowedBy { rule: Some("policy[1]".into()), remembered: false };
        recording.allows(CallId(1), allowed.clone());
        recording.answered(CallId(1), CallState::Applied, Ok(b"1"));
        recording.answered(CallId(2), CallState::Applied, Ok(b"2"));
        for id in [1, 2] {
            let message = ToWorker::Reply { id: CallId(id), now: 0.0, body: Ok(b"1".to_vec()) };
            recording.delivered(Delivery { message: &message, data: None, state: Some(CallState::Applied) });
        }
        assert!(recording.state.lock().allowed.is_empty(), "a call that was replied to needs it no more");
        let text: Vec<String> =
            recording.take().entries.iter().map(|entry| serde_json::to_string(entry).expect("JSON")).collect();
        let entries = text.iter().map(|text| serde_json::from_str(text).expect("an entry")).collect();
        let record = Record { entries, blobs: Blobs::default() };
        assert_eq!(record.allowed(), HashMap::from([(CallId(1), allowed)]), "{text:?}");
    }

    #[test]
    fn only_the_time_of_the_program_counts() {
        let last = |recording: &Recording| recording.take().entries.last().map_or(0.0, |entry| entry.at);
        let wait = || std::thread::sleep(Duration::from_millis(30));
        let recording = Recording::new(facts());
        wait();
        recording.said(&line("one"), false);
        assert_eq!(last(&recording), 0.0, "it waited for its turn");
        wait();
        recording.said(&line("two"), false);
        let mut record = recording.take();
        let ran = record.entries.last().map_or(0.0, |entry| entry.at);
        assert!(ran >= 30.0, "{ran}");

        let resumed = Recording::resumed(&record, DigestKey::random(), MAX_RECORD_BYTES);
        wait();
        resumed.intends(CallId(1));
        record.extend(resumed.take());
        assert_eq!(record.entries.last().map(|entry| entry.at), Some(ran), "nor does the time before it goes on count");
        wait();
        let since = Instant::now();
        resumed.skip_time();
        resumed.asks(CallId(1), false);
        let counted = last(&resumed) - ran;
        let most = since.elapsed().as_secs_f64() * 1e3;
        assert!((0.0..=most).contains(&counted), "what is skipped does not count: {counted} of {most}");
    }

    #[test]
    fn the_time_without_a_worker_does_not_count() {
        let recording = Recording::new(facts());
        recording.said(&line("one"), false);
        recording.stop_clock();
        std::thread::sleep(Duration::from_millis(30));
        recording.said(&line("two"), false);
        let record = recording.take();
        assert_eq!(record.entries.last().map(|entry| entry.at), Some(0.0), "another worker began with it then");
    }

    #[test]
    fn what_is_put_back_comes_first_again() {
        let recording = Recording::new(facts());
        recording.said(&line("one"), false);
        let taken = recording.take();
        recording.said(&line("two"), false);
        recording.put_back(taken.clone());
        let all = recording.take();
        assert_eq!(all.entries[..2], taken.entries[..]);
        assert_eq!(all.entries.len(), 3);
        assert!(all.header().is_some());
    }
}
