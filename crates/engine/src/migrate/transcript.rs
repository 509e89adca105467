//! The messages of a run so far, and the channel that records them.
//!
//! A worker's behaviour is determined by the messages that it gets. A second worker that gets the messages of a run
//! again therefore repeats what the first one did. Messages from the worker are only compared, so a digest is kept.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_wire::{FromWorker, ToWorker, codec};

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
    Received(u64),
}

/// All messages of a run, in the order in which the host saw them.
#[derive(Debug, Default)]
struct Transcript {
    entries: Vec<Entry>,
    bytes: usize,
    key: RandomState,
}

impl Transcript {
    fn digest(&self, frame: &FromWorker) -> u64 {
        let mut bytes = Vec::new();
        codec::encode_from_worker(frame, &mut bytes);
        self.key.hash_one(bytes)
    }

    fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES
    }
}

/// Sends messages to the run's current worker and records them while the run may migrate.
pub(crate) struct Channel(Mutex<State>);

struct State {
    outbox: Arc<Outbox>,
    transcript: Option<Transcript>,
    /// The outbox of the worker that repeats the transcript; it is woken when the transcript grows.
    follower: Option<Arc<Outbox>>,
}

impl Channel {
    /// `record`: whether the run may migrate.
    pub(crate) fn new(outbox: Arc<Outbox>, record: bool) -> Self {
        let transcript = record.then(Transcript::default);
        Channel(Mutex::new(State { outbox, transcript, follower: None }))
    }

    /// The outbox of the run's current worker.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        self.lock().outbox.clone()
    }

    /// Sends a frame.
    pub(crate) fn send(&self, frame: &ToWorker) {
        let mut bytes = Vec::new();
        codec::encode_to_worker(frame, &mut bytes);
        self.put(FrameKind::of(frame), bytes);
    }

    /// Sends the data that the start frame announced, without copying it.
    pub(crate) fn send_data(&self, data: Vec<u8>) {
        self.put(FrameKind::Data, data);
    }

    fn put(&self, kind: FrameKind, bytes: Vec<u8>) {
        let bytes = Arc::new(bytes);
        let mut state = self.lock();
        state.record(|| (Entry::Sent(kind, bytes.clone()), if kind == FrameKind::Data { 0 } else { bytes.len() }));
        state.outbox.put(kind, bytes);
        if let Some(follower) = &state.follower {
            follower.wake_pump();
        }
    }

    /// Records a message of the worker. Must be called before the message is acted on.
    pub(crate) fn record_received(&self, frame: &FromWorker) {
        let mut state = self.lock();
        if let Some(digest) = state.transcript.as_ref().map(|transcript| transcript.digest(frame)) {
            state.record(|| (Entry::Received(digest), 0));
        }
    }

    /// Whether the transcript is complete, so that the run can migrate.
    pub(crate) fn can_migrate(&self) -> bool {
        self.lock().transcript.is_some()
    }

    /// The entry at an index; `None` beyond the end.
    pub(crate) fn entry(&self, index: usize) -> Option<Entry> {
        self.lock().transcript.as_ref()?.entries.get(index).cloned()
    }

    /// Whether a frame has this digest.
    pub(crate) fn has_digest(&self, frame: &FromWorker, digest: u64) -> bool {
        self.lock().transcript.as_ref().is_some_and(|transcript| transcript.digest(frame) == digest)
    }

    /// From now on `follower` is woken when the transcript grows.
    pub(crate) fn follow(&self, follower: &Arc<Outbox>) {
        self.lock().follower = Some(follower.clone());
    }

    /// Makes the follower the run's worker: it gets the entries from `index` on and all later messages.
    pub(crate) fn switch_to_follower(&self, index: usize) {
        let mut state = self.lock();
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
        let mut state = self.lock();
        state.follower = None;
        state.transcript = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
