//! Sends messages to a run's worker and records them: in memory while the run may migrate, and with the run's recorder.
//!
//! Messages from the worker are only compared, so the memory keeps a digest of them.

use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use toolgate_wire::codec::{self, HEADER, REPLY_HEAD, ReplyHead};
use toolgate_wire::{ByteBudget, BytePermit, CallState, FromWorker, Start, ToWorker};

use super::digest::{Digest, DigestKey};
use super::recorder::{Delivery, Recorder};
use crate::host::HeldBytes;
use crate::outbox::{FrameKind, Outbox};

/// Bytes of messages that are kept; a run with more cannot migrate.
pub(crate) const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the messages that are kept of all runs of the process, with their data; a run for which there is no room cannot
/// migrate.
const MAX_BYTES_OF_ALL: usize = 128 * 1024 * 1024;
/// Bytes that are counted at once. A shorter transcript is not counted, so that most runs do not share a lock.
const COUNTED_STEP: usize = 64 * 1024;
/// Bytes of a reply from which on its text is sent from where it is: below, one copy costs less than a second buffer.
const LONG_REPLY: usize = 64 * 1024;
/// Messages that are kept.
const MAX_ENTRIES: usize = 200_000;

/// Counts the transcripts of all runs.
static OF_ALL: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new("transcripts", MAX_BYTES_OF_ALL));

/// One message.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// To the worker.
    Sent(FrameKind, Arc<Vec<u8>>),
    /// The digest of a message from the worker.
    Received(Digest),
}

impl Entry {
    fn held_bytes(&self) -> usize {
        let text = match self {
            Entry::Sent(_, bytes) => bytes.len(),
            Entry::Received(_) => 0,
        };
        size_of::<Entry>() + text
    }
}

/// All messages of a run, in the order in which the host saw them.
#[derive(Debug)]
struct Transcript {
    entries: Vec<Entry>,
    /// Bytes of messages, without data.
    bytes: usize,
    /// Bytes that it has in memory, and what counts them.
    held: usize,
    permit: BytePermit,
    /// Whether there was no room for all of it.
    is_over_budget: bool,
    /// Made with the first message of the worker: a run without one needs no key.
    key: OnceCell<DigestKey>,
}

impl Transcript {
    fn new(all: &ByteBudget) -> Self {
        Transcript {
            entries: Vec::new(),
            bytes: 0,
            held: 0,
            permit: all.empty_permit(),
            is_over_budget: false,
            key: OnceCell::new(),
        }
    }

    fn push(&mut self, entry: Entry, bytes: usize) {
        self.held += entry.held_bytes();
        self.entries.push(entry);
        self.bytes += bytes;
        let missing = self.held.saturating_sub(self.permit.bytes());
        if self.held > COUNTED_STEP && missing > 0 {
            self.is_over_budget |= self.permit.try_grow(missing.max(COUNTED_STEP)).is_err();
        }
    }

    fn digest(&self, frame: &FromWorker) -> Digest {
        self.key.get_or_init(DigestKey::random).digest(frame)
    }

    fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES || self.is_over_budget
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
    /// How long the run has waited for people, as far as its worker knows.
    told_waited: Duration,
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
        let transcript = may_migrate.then(|| Transcript::new(&OF_ALL));
        Channel(Mutex::new(State {
            outbox,
            transcript,
            follower: None,
            recorder,
            is_repeating,
            told_waited: Duration::ZERO,
        }))
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
        self.deliver(Delivery { message: &message, data: data.as_deref(), state: None }, None);
        if let Some(data) = data {
            self.0.lock().put(FrameKind::Data, data.into_bytes(), None);
        }
    }

    /// Sends a message; a reply with what is known about the effect of its call.
    pub(crate) fn send(&self, message: &ToWorker, state: Option<CallState>) {
        self.deliver(Delivery { message, data: None, state }, None);
    }

    /// Sends a reply; `held` is dropped when the worker has taken it. The text of a long one is not copied.
    pub(crate) fn send_held(&self, reply: ToWorker, state: CallState, held: Option<HeldBytes>) {
        let delivery = Delivery { message: &reply, data: None, state: Some(state) };
        match reply {
            ToWorker::Reply { body: Ok(ref text), .. } if text.len() >= LONG_REPLY => {
                let mut state = self.0.lock();
                state.tell_waited();
                state.record_delivery(delivery);
                state.put_long_reply(reply, held);
            }
            _ => self.deliver(delivery, held),
        }
    }

    fn deliver(&self, delivery: Delivery<'_>, held: Option<HeldBytes>) {
        let mut bytes = Vec::new();
        codec::encode_to_worker(delivery.message, &mut bytes);
        let mut state = self.0.lock();
        state.tell_waited();
        state.put(FrameKind::of(delivery.message), bytes, held);
        // Under the same lock, so before anything that the worker says to it; after the send, so that the worker goes on meanwhile.
        state.record_delivery(delivery);
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

    /// Whether a follower must stop repeating: the transcript has reached its bound.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().transcript.as_ref().is_some_and(Transcript::is_full)
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
        // The old worker is killed, so its outbox is never flushed again.
        follower.take_over(&state.outbox);
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
    /// Tells the recorder of a message to the worker.
    fn record_delivery(&self, delivery: Delivery<'_>) {
        if let Some(recorder) = self.recorder.as_ref().filter(|_| !self.is_repeating) {
            recorder.delivered(delivery);
        }
    }

    /// Tells the worker how long the run waited for a person since it was last told. A repetition has its own time.
    fn tell_waited(&mut self) {
        let waited = self.recorder.as_ref().map_or(Duration::ZERO, |recorder| recorder.waited());
        let new = waited.saturating_sub(self.told_waited);
        if let Ok(ms @ 1..) = u64::try_from(new.as_millis()) {
            self.told_waited += Duration::from_millis(ms);
            let (message, mut bytes) = (ToWorker::Waited { ms }, Vec::new());
            codec::encode_to_worker(&message, &mut bytes);
            self.outbox.put(FrameKind::of(&message), Arc::new(bytes));
        }
    }

    fn put(&mut self, kind: FrameKind, bytes: Vec<u8>, held: Option<HeldBytes>) {
        let bytes = Arc::new(bytes);
        self.record(|| (Entry::Sent(kind, bytes.clone()), if kind == FrameKind::Data { 0 } else { bytes.len() }));
        self.outbox.put_held(kind, bytes, held);
        if let Some(follower) = &self.follower {
            follower.wake_pump();
        }
    }

    /// Sends a reply as two entries, its head and its text.
    fn put_long_reply(&mut self, reply: ToWorker, held: Option<HeldBytes>) {
        let ToWorker::Reply { id, now, body: Ok(text) } = reply else { return };
        let mut head = Vec::with_capacity(HEADER + REPLY_HEAD);
        codec::encode_reply_head(&ReplyHead { id, now, ok: true }, text.len(), &mut head);
        let (head, text) = (Arc::new(head), Arc::new(text));
        self.record(|| (Entry::Sent(FrameKind::ReplyHead, head.clone()), head.len()));
        self.record(|| (Entry::Sent(FrameKind::Reply, text.clone()), text.len()));
        self.outbox.put_long_reply(head, text, held);
        if let Some(follower) = &self.follower {
            follower.wake_pump();
        }
    }

    fn record(&mut self, entry: impl FnOnce() -> (Entry, usize)) {
        let Some(transcript) = &mut self.transcript else { return };
        let (entry, bytes) = entry();
        transcript.push(entry, bytes);
        // A transcript that a follower is repeating is kept until that ends: a race ends when it is full, and while the
        // source is stopped it grows by the replies to calls in progress alone.
        if transcript.is_full() && self.follower.is_none() {
            self.transcript = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use toolgate_wire::CallId;

    use super::*;

    #[test]
    fn transcripts_of_all_runs_share_one_bound() {
        let all = ByteBudget::new("transcripts", 1 << 20);
        let fill = |transcript: &mut Transcript, bytes: usize| {
            for _ in 0..bytes / 10_000 {
                transcript.push(Entry::Sent(FrameKind::Reply, Arc::new(vec![0; 10_000])), 10_000);
            }
            transcript.is_full()
        };
        let [mut small, mut one, mut two] = [(); 3].map(|()| Transcript::new(&all));
        assert!(!fill(&mut small, 50_000) && all.used() == 0);
        assert!(!fill(&mut one, 700_000) && all.used() >= 700_000);
        assert!(fill(&mut two, 700_000) && all.used() <= 1 << 20);
        drop(two);
        assert!(!fill(&mut small, 200_000) && !one.is_full());
        drop((one, small));
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn data_counts_in_the_bound_of_all_runs_and_not_in_that_of_one() {
        let all = ByteBudget::new("transcripts", 100 << 20);
        let mut transcript = Transcript::new(&all);
        transcript.push(Entry::Sent(FrameKind::Data, Arc::new(vec![0; 1 << 20])), 0);
        assert!(transcript.bytes == 0 && all.used() > 1 << 20);
    }

    #[test]
    fn what_counts_a_reply_goes_with_the_run_to_its_new_worker() {
        let (to_source, _source) = UnixStream::pair().expect("pair");
        let (to_target, mut target) = UnixStream::pair().expect("pair");
        let (source_outbox, target_outbox) =
            [to_source, to_target].map(|stream| Arc::new(Outbox::new(&stream).expect("outbox"))).into();
        let options = ChannelOptions { may_migrate: true, recorder: None, is_repeating: false };
        let channel = Channel::new(source_outbox.clone(), options);
        let counted = [Arc::new(()), Arc::new(())];
        let reply = |id: u32, bytes: usize| {
            let message = ToWorker::Reply { id: CallId(id), now: 0.0, body: Ok(vec![b'x'; bytes]) };
            channel.send_held(message, CallState::Applied, Some(Box::new(counted[id as usize].clone())));
        };
        let counts = || counted.each_ref().map(|counted| Arc::strong_count(counted) - 1);
        // The source is stopped: its socket is full of this, and the replies wait.
        source_outbox.put(FrameKind::Data, Arc::new(vec![0; 8 * 1024 * 1024]));
        channel.follow(&target_outbox);
        reply(0, 1);
        reply(1, 8 * 1024 * 1024);
        assert_eq!(counts(), [1, 1]);
        channel.switch_to_follower(0);
        // The target's socket has accepted the short reply, and not all of the long one.
        assert_eq!(counts(), [0, 1]);
        assert!(source_outbox.is_empty());
        let reader = std::thread::spawn(move || target.read_to_end(&mut Vec::new()));
        while target_outbox.flush() {
            std::thread::yield_now();
        }
        assert_eq!(counts(), [0, 0]);
        drop((channel, target_outbox));
        reader.join().expect("reader").expect("read");
    }
}
