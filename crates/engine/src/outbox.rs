//! Frames on their way to a worker, from the pump or from a task of the async runtime. Sending never blocks.
//!
//! A worker that does not read must not make the host buffer without bound: frames that the socket has not accepted
//! are counted by kind, and the pump ends a run with more of them than a well-behaved worker can cause.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::net::SendAncillaryBuffer;
use toolgate_wire::ToWorker;

use crate::host::HeldBytes;
use crate::wake::{SEND_FLAGS, WakeSignal};

/// The kinds of frame that are counted while they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The program.
    Start,
    /// The result of a call.
    Reply,
    /// An expired timer.
    Fire,
    /// The answer to a question.
    Answer,
    /// The data that follows the program.
    Data,
    /// That the run waited for a person.
    Waited,
    /// What precedes the text of a long reply, which is sent from where it is. The text counts as the reply.
    ReplyHead,
}

impl FrameKind {
    pub(crate) fn of(frame: &ToWorker) -> Self {
        match frame {
            ToWorker::Start(_) => FrameKind::Start,
            ToWorker::Reply { .. } => FrameKind::Reply,
            ToWorker::Fire { .. } => FrameKind::Fire,
            ToWorker::Answer(_) => FrameKind::Answer,
            ToWorker::Waited { .. } => FrameKind::Waited,
        }
    }
}

/// Frames that one system call sends.
const MAX_FRAMES_PER_SEND: usize = 64;

/// Sends frames to one worker.
pub(crate) struct Outbox {
    stream: UnixStream,
    backlog: Mutex<Backlog>,
    wake: WakeSignal,
}

/// A frame that the socket has not accepted completely.
struct Frame {
    kind: FrameKind,
    bytes: Arc<Vec<u8>>,
    /// Counts the bytes until they are accepted.
    held: Option<HeldBytes>,
}

/// Frames that the socket has not accepted, in order.
#[derive(Default)]
struct Backlog {
    waiting: VecDeque<Frame>,
    /// Bytes of the first frame that are sent already.
    sent: usize,
    counts: [usize; 7],
    /// Whether frames are collected until the next flush.
    held: bool,
}

impl Backlog {
    fn push(&mut self, frame: Frame) {
        self.counts[frame.kind as usize] += 1;
        self.waiting.push_back(frame);
    }

    /// The next bytes to send: as many frames as one system call sends.
    fn unsent(&self) -> Vec<IoSlice<'_>> {
        let skipped = std::iter::once(self.sent).chain(std::iter::repeat(0));
        let frames = self.waiting.iter().zip(skipped).take(MAX_FRAMES_PER_SEND);
        frames.map(|(frame, sent)| IoSlice::new(frame.bytes.get(sent..).unwrap_or_default())).collect()
    }

    /// Removes `count` bytes that the socket accepted.
    fn accepted(&mut self, count: usize) {
        self.sent += count;
        while let Some(Frame { kind, bytes, .. }) = self.waiting.front()
            && bytes.len() <= self.sent
        {
            self.sent -= bytes.len();
            self.counts[*kind as usize] -= 1;
            self.waiting.pop_front();
        }
    }

    fn clear(&mut self) {
        *self = Backlog::default();
    }
}

impl Outbox {
    pub(crate) fn new(stream: &UnixStream) -> io::Result<Self> {
        Ok(Outbox { stream: stream.try_clone()?, backlog: Mutex::default(), wake: WakeSignal::new()? })
    }

    /// Sends a frame's bytes. What the socket does not accept at once stays for the pump.
    pub(crate) fn put(&self, kind: FrameKind, bytes: Arc<Vec<u8>>) {
        self.put_held(kind, bytes, None);
    }

    /// The same; `held` is dropped when the socket has accepted the frame.
    pub(crate) fn put_held(&self, kind: FrameKind, bytes: Arc<Vec<u8>>, held: Option<HeldBytes>) {
        if !bytes.is_empty() {
            self.put_frames([Frame { kind, bytes, held }]);
        }
    }

    /// Sends a long reply as its head and its text, which is not copied, with one system call.
    pub(crate) fn put_long_reply(&self, head: Arc<Vec<u8>>, text: Arc<Vec<u8>>, held: Option<HeldBytes>) {
        let head = Frame { kind: FrameKind::ReplyHead, bytes: head, held: None };
        self.put_frames([head, Frame { kind: FrameKind::Reply, bytes: text, held }]);
    }

    fn put_frames<const N: usize>(&self, frames: [Frame; N]) {
        let mut backlog = self.backlog.lock();
        let idle = backlog.waiting.is_empty() && !backlog.held;
        frames.into_iter().for_each(|frame| backlog.push(frame));
        if idle && self.send(&mut backlog) {
            self.wake_pump();
        }
    }

    /// Collects frames until [`Outbox::flush`], for a pump that has more frames to handle before it waits.
    pub(crate) fn hold(&self) {
        self.backlog.lock().held = true;
    }

    /// Drops the frames that wait in `other`, whose worker gets nothing more. What counts the bytes of such a frame goes on
    /// counting them while the same bytes wait here.
    pub(crate) fn take_over(&self, other: &Outbox) {
        let dropped = std::mem::take(&mut *other.backlog.lock());
        let mut backlog = self.backlog.lock();
        for frame in dropped.waiting.into_iter().filter(|frame| frame.held.is_some()) {
            if let Some(same) = backlog.waiting.iter_mut().find(|same| Arc::ptr_eq(&same.bytes, &frame.bytes)) {
                same.held = frame.held;
            }
        }
    }

    /// Wakes the pump that waits with this outbox.
    pub(crate) fn wake_pump(&self) {
        self.wake.set();
    }

    /// Sends what the socket accepts; returns whether something is left.
    pub(crate) fn flush(&self) -> bool {
        let mut backlog = self.backlog.lock();
        backlog.held = false;
        self.send(&mut backlog)
    }

    /// Whether the socket has accepted every frame. Then none is held any more.
    pub(crate) fn is_empty(&self) -> bool {
        let mut backlog = self.backlog.lock();
        let is_empty = backlog.waiting.is_empty();
        backlog.held &= !is_empty;
        is_empty
    }

    /// Frames of a kind that the socket has not accepted completely.
    pub(crate) fn waiting(&self, kind: FrameKind) -> usize {
        self.backlog.lock().counts[kind as usize]
    }

    /// The descriptor that becomes readable when the pump must wake.
    pub(crate) fn wake(&self) -> &OwnedFd {
        self.wake.descriptor()
    }

    /// Resets the wake-up descriptor.
    pub(crate) fn clear_wake(&self) {
        self.wake.clear();
    }

    fn send(&self, backlog: &mut Backlog) -> bool {
        while !backlog.waiting.is_empty() {
            let no_descriptors = &mut SendAncillaryBuffer::default();
            match rustix::net::sendmsg(&self.stream, &backlog.unsent(), no_descriptors, SEND_FLAGS) {
                Ok(count) => backlog.accepted(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                // The worker is gone. The pump notices when it reads the end of the stream.
                Err(_) => backlog.clear(),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use toolgate_wire::{CallId, codec};

    use super::*;

    fn answer(bytes: usize) -> ToWorker {
        ToWorker::Answer(Some(vec![b'x'; bytes]))
    }

    fn send(outbox: &Outbox, frame: &ToWorker) {
        let mut bytes = Vec::new();
        codec::encode_to_worker(frame, &mut bytes);
        outbox.put(FrameKind::of(frame), Arc::new(bytes));
    }

    #[test]
    fn a_frame_counts_until_the_socket_accepted_all_of_it() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let outbox = Outbox::new(&ours).expect("outbox");
        send(&outbox, &answer(4 * 1024 * 1024));
        send(&outbox, &ToWorker::Fire { id: CallId(1), now: 0.0 });
        assert_eq!((outbox.waiting(FrameKind::Answer), outbox.waiting(FrameKind::Fire)), (1, 1));
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("read");
            all.len()
        });
        while outbox.flush() {
            std::thread::yield_now();
        }
        assert_eq!((outbox.waiting(FrameKind::Answer), outbox.waiting(FrameKind::Fire)), (0, 0));
        drop((outbox, ours));
        assert_eq!(reader.join().expect("reader"), 4 + 1 + 1 + 4 + 4 * 1024 * 1024 + 4 + 1 + 4 + 8);
    }

    #[test]
    fn what_counts_a_frame_is_dropped_when_the_socket_has_accepted_it() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let outbox = Outbox::new(&ours).expect("outbox");
        let counted = Arc::new(());
        let put = |bytes: usize| {
            outbox.put_held(FrameKind::Reply, Arc::new(vec![b'x'; bytes]), Some(Box::new(Arc::clone(&counted))));
        };
        put(1);
        assert_eq!(Arc::strong_count(&counted), 1, "accepted at once");
        put(4 * 1024 * 1024);
        put(1);
        assert_eq!(Arc::strong_count(&counted), 3);
        let reader = std::thread::spawn(move || theirs.read_to_end(&mut Vec::new()));
        while outbox.flush() {
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&counted), 1);
        drop((outbox, ours));
        reader.join().expect("reader").expect("read");
    }

    #[test]
    fn held_frames_leave_together_and_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        theirs.set_nonblocking(true).expect("socket");
        let outbox = Outbox::new(&ours).expect("outbox");
        let frames: Vec<u8> = (0..3 * MAX_FRAMES_PER_SEND as u32)
            .flat_map(|id| {
                let frame = ToWorker::Fire { id: CallId(id), now: 0.0 };
                outbox.hold();
                send(&outbox, &frame);
                let mut bytes = Vec::new();
                codec::encode_to_worker(&frame, &mut bytes);
                bytes
            })
            .collect();
        let mut got = vec![0; frames.len() + 1];
        assert_eq!(theirs.read(&mut got).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        assert!(!outbox.flush());
        let length = theirs.read(&mut got).expect("frames");
        assert_eq!(got[..length], frames);
        send(&outbox, &answer(1));
        assert!(theirs.read(&mut got).expect("what comes later is not held") > 0);
    }

    #[test]
    fn a_worker_that_is_gone_leaves_no_backlog() {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        let outbox = Outbox::new(&ours).expect("outbox");
        drop(theirs);
        send(&outbox, &answer(10));
        assert!(!outbox.flush());
        assert_eq!(outbox.waiting(FrameKind::Answer), 0);
    }
}
