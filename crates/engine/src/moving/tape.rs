//! What was said between a host and its worker, and the line on which it is said.
//!
//! A worker computes the same from the same messages, so whoever gets a run's messages again does
//! again what the first worker did. What a worker said is kept as a digest: it is only compared.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_wire::{FromWorker, ToWorker, codec};

use crate::outbox::{Kind, Outbox};

/// Bytes of messages that are kept for a move; a run that was told more stays where it is.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Messages that are kept.
const MAX_ENTRIES: usize = 200_000;

/// One message.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// To the worker.
    Told(Kind, Arc<Vec<u8>>),
    /// From the worker: its digest.
    Said(u64),
}

/// All messages of a run so far, in the order in which the host saw them.
#[derive(Debug, Default)]
struct Tape {
    entries: Vec<Entry>,
    bytes: usize,
    key: RandomState,
}

impl Tape {
    fn digest(&self, frame: &FromWorker) -> u64 {
        let mut bytes = Vec::new();
        codec::encode_from_worker(frame, &mut bytes);
        self.key.hash_one(bytes)
    }

    fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES
    }
}

/// The way to a run's worker, whichever that is at the moment.
pub(crate) struct Line(Mutex<Ends>);

struct Ends {
    outbox: Arc<Outbox>,
    tape: Option<Tape>,
    /// Who repeats the tape, and has to know when it grows.
    follower: Option<Arc<Outbox>>,
}

impl Line {
    /// `keep`: whether the run may move, so that what is said is kept.
    pub(crate) fn new(outbox: Arc<Outbox>, keep: bool) -> Self {
        let tape = keep.then(Tape::default);
        Line(Mutex::new(Ends { outbox, tape, follower: None }))
    }

    /// The worker's outbox at this moment.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        self.lock().outbox.clone()
    }

    /// Sends a frame.
    pub(crate) fn tell(&self, frame: &ToWorker) {
        let mut bytes = Vec::new();
        codec::encode_to_worker(frame, &mut bytes);
        self.put(Kind::of(frame), bytes);
    }

    /// Sends the bytes that the program's frame announced, without a copy of them.
    pub(crate) fn tell_data(&self, data: Vec<u8>) {
        self.put(Kind::Data, data);
    }

    fn put(&self, kind: Kind, bytes: Vec<u8>) {
        let bytes = Arc::new(bytes);
        let mut ends = self.lock();
        ends.keep(|| (Entry::Told(kind, bytes.clone()), if kind == Kind::Data { 0 } else { bytes.len() }));
        ends.outbox.put(kind, bytes);
        if let Some(follower) = &ends.follower {
            follower.ring();
        }
    }

    /// Takes note of what the worker said, before anything is done about it.
    pub(crate) fn heard(&self, frame: &FromWorker) {
        let mut ends = self.lock();
        if let Some(digest) = ends.tape.as_ref().map(|tape| tape.digest(frame)) {
            ends.keep(|| (Entry::Said(digest), 0));
        }
    }

    /// Whether everything said so far was kept.
    pub(crate) fn can_move(&self) -> bool {
        self.lock().tape.is_some()
    }

    /// What was said at a place; nothing when that is yet to come.
    pub(crate) fn entry(&self, at: usize) -> Option<Entry> {
        self.lock().tape.as_ref()?.entries.get(at).cloned()
    }

    /// Whether this is what was said.
    pub(crate) fn is(&self, frame: &FromWorker, said: u64) -> bool {
        self.lock().tape.as_ref().is_some_and(|tape| tape.digest(frame) == said)
    }

    /// From now on the follower is woken when something is said.
    pub(crate) fn follow(&self, follower: &Arc<Outbox>) {
        self.lock().follower = Some(follower.clone());
    }

    /// The follower is the worker now: it gets what it has not got yet, and all that comes.
    pub(crate) fn hand_over(&self, from: usize) {
        let mut ends = self.lock();
        let (Some(follower), Some(tape)) = (ends.follower.take(), ends.tape.take()) else { return };
        for entry in tape.entries.into_iter().skip(from) {
            if let Entry::Told(kind, bytes) = entry {
                follower.put(kind, bytes);
            }
        }
        ends.outbox = follower;
    }

    /// The run stays with its worker for good.
    pub(crate) fn stay(&self) {
        let mut ends = self.lock();
        ends.follower = None;
        ends.tape = None;
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    fn keep(&mut self, entry: impl FnOnce() -> (Entry, usize)) {
        let Some(tape) = &mut self.tape else { return };
        let (entry, bytes) = entry();
        tape.entries.push(entry);
        tape.bytes += bytes;
        // A run that is being repeated keeps its tape to the end of that.
        if tape.is_full() && self.follower.is_none() {
            self.tape = None;
        }
    }
}
