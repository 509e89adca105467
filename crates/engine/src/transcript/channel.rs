//! Sends messages to a run's worker and records them: in memory while the run may migrate, and with the run's recorder.
//!
//! Messages from the worker are only compared, so the memory keeps a digest of them.

use std::cell::OnceCell;
use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_wire::{CallState, FromWorker, Start, ToWorker, codec};

use super::digest::{Digest, DigestKey};
use super::recorder::{Delivery, Recorder};
use crate::outbox::{FrameKind, Outbox};

/// Bytes of messages that are kept; a run with more cannot migrate.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Messages that are kept.
const MAX_ENTRIES: usize = 200_000;

/// One message.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// To the worker.
    Sent(FrameKind, Arc<Vec<u8>>),
    /// The digest of a message from the worker.
    Received(Digest),
}

/// All messages of a run, in the order in which the host saw them.
#[derive(Debug, Default)]
struct Transcript {
    entries: Vec<Entry>,
    bytes: usize,
    /// Made with the first message of the worker: a run without one needs no key.
    key: OnceCell<DigestKey>,
}

impl Transcript {
    fn digest(&self, frame: &FromWorker) -> Digest {
        self.key.get_or_init(DigestKey::random).digest(frame)
    }

    fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES
    }
}

/// Sends messages to the run's current worker and records them.
pub(crate) struct Channel(Mutex<State>);

struct State {
    outbox: Arc<Outbox>,
    transcript: Option<Transcript>,
    /// The outbox of the worker that repeats the transcript; it is woken when the transcript grows.
    follower: Option<Arc<Outbox>>,
    recorder: Option<Arc<dyn Recorder>>,
    /// Whether the recorder has all messages so far already.
    is_repeating: bool,
}

/// What a channel records.
pub(crate) struct ChannelOptions {
    /// Whether the run may migrate.
    pub(crate) may_migrate: bool,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Whether the run begins with messages that are recorded already.
    pub(crate) is_repeating: bool,
}

impl Channel {
    pub(crate) fn new(outbox: Arc<Outbox>, options: ChannelOptions) -> Self {
        let ChannelOptions { may_migrate, recorder, is_repeating } = options;
        let transcript = may_migrate.then(Transcript::default);
        Channel(Mutex::new(State { outbox, transcript, follower: None, recorder, is_repeating }))
    }

    /// From now on messages are new to the recorder.
    pub(crate) fn begin_recording(&self) {
        self.0.lock().is_repeating = false;
    }

    /// The run's recorder.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.0.lock().recorder.clone()
    }

    /// The outbox of the run's current worker.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        self.0.lock().outbox.clone()
    }

    /// Sends the program, and the data that it announces without copying it.
    pub(crate) fn send_start(&self, start: Start, data: Option<String>) {
        let message = ToWorker::Start(Box::new(start));
        self.deliver(Delivery { message: &message, data: data.as_deref(), state: None });
        if let Some(data) = data {
            self.0.lock().put(FrameKind::Data, data.into_bytes());
        }
    }

    /// Sends a message; a reply with what is known about the effect of its call.
    pub(crate) fn send(&self, message: &ToWorker, state: Option<CallState>) {
        self.deliver(Delivery { message, data: None, state });
    }

    fn deliver(&self, delivery: Delivery<'_>) {
        let mut bytes = Vec::new();
        codec::encode_to_worker(delivery.message, &mut bytes);
        let mut state = self.0.lock();
        if let Some(recorder) = state.recorder.as_ref().filter(|_| !state.is_repeating) {
            recorder.delivered(delivery);
        }
        state.put(FrameKind::of(delivery.message), bytes);
    }

    /// Records a message of the worker. Must be called before the message is acted on. Console lines are not part of
    /// a transcript in memory, which a migration counts and does not compare.
    pub(crate) fn record_received(&self, frame: &FromWorker, read_only: bool) {
        let mut state = self.0.lock();
        if let Some(recorder) = state.recorder.as_ref().filter(|_| !state.is_repeating) {
            recorder.said(frame, read_only);
        }
        if matches!(frame, FromWorker::Log { .. } | FromWorker::Done { .. }) {
            return;
        }
        if let Some(digest) = state.transcript.as_ref().map(|transcript| transcript.digest(frame)) {
            state.record(|| (Entry::Received(digest), 0));
        }
    }

    /// Whether the transcript is complete, so that the run can migrate.
    pub(crate) fn can_migrate(&self) -> bool {
        self.0.lock().transcript.is_some()
    }

    /// The entry at an index; `None` beyond the end.
    pub(crate) fn entry(&self, index: usize) -> Option<Entry> {
        self.0.lock().transcript.as_ref()?.entries.get(index).cloned()
    }

    /// Whether a frame has this digest.
    pub(crate) fn has_digest(&self, frame: &FromWorker, digest: Digest) -> bool {
        self.0.lock().transcript.as_ref().is_some_and(|transcript| transcript.digest(frame) == digest)
    }

    /// From now on `follower` is woken when the transcript grows.
    pub(crate) fn follow(&self, follower: &Arc<Outbox>) {
        self.0.lock().follower = Some(follower.clone());
    }

    /// Makes the follower the run's worker: it gets the entries from `index` on and all later messages.
    pub(crate) fn switch_to_follower(&self, index: usize) {
        let mut state = self.0.lock();
        let (Some(follower), Some(transcript)) = (state.follower.take(), state.transcript.take()) else { return };
        for entry in transcript.entries.into_iter().skip(index) {
            if let Entry::Sent(kind, bytes) = entry {
                follower.put(kind, bytes);
            }
        }
        state.outbox = follower;
    }

    /// Drops the transcript: the run stays with its worker.
    pub(crate) fn stop_recording(&self) {
        let mut state = self.0.lock();
        state.follower = None;
        state.transcript = None;
    }
}

impl State {
    fn put(&mut self, kind: FrameKind, bytes: Vec<u8>) {
        let bytes = Arc::new(bytes);
        self.record(|| (Entry::Sent(kind, bytes.clone()), if kind == FrameKind::Data { 0 } else { bytes.len() }));
        self.outbox.put(kind, bytes);
        if let Some(follower) = &self.follower {
            follower.wake_pump();
        }
    }

    fn record(&mut self, entry: impl FnOnce() -> (Entry, usize)) {
        let Some(transcript) = &mut self.transcript else { return };
        let (entry, bytes) = entry();
        transcript.entries.push(entry);
        transcript.bytes += bytes;
        // A transcript that a follower is repeating is kept until that ends.
        if transcript.is_full() && self.follower.is_none() {
            self.transcript = None;
        }
    }
}
