//! What is on its way to a worker, from the pump or from the async runtime. Never blocks.
//!
//! A worker that does not read may not make its host hoard: frames that the socket has not taken
//! are counted by kind, and the pump holds the counts against what an honest worker can have open.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use toolgate_wire::ToWorker;

/// The kinds of frame whose number is bounded while they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The program.
    Start,
    /// The answer to a call.
    Reply,
    /// A timer that went off.
    Fire,
    /// The answer to a question.
    Answer,
    /// The data that follows the program.
    Data,
}

impl Kind {
    pub(crate) fn of(frame: &ToWorker) -> Self {
        match frame {
            ToWorker::Start(_) => Kind::Start,
            ToWorker::Reply { .. } => Kind::Reply,
            ToWorker::Fire { .. } => Kind::Fire,
            ToWorker::Answer(_) => Kind::Answer,
        }
    }
}

/// Frames that leave in one system call.
const AT_ONCE: usize = 64;

/// Where frames to a worker are written.
pub(crate) struct Outbox {
    stream: UnixStream,
    backlog: Mutex<Backlog>,
    wake: OwnedFd,
}

/// What the socket has not taken, in order.
#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(Kind, Arc<Vec<u8>>)>,
    /// Bytes of the first that are sent already.
    sent: usize,
    counts: [usize; 5],
    /// Whether frames are gathered, to leave together.
    held: bool,
}

impl Backlog {
    fn push(&mut self, kind: Kind, bytes: Arc<Vec<u8>>) {
        self.waiting.push_back((kind, bytes));
        self.counts[kind as usize] += 1;
    }

    /// The next bytes to send, as many frames as one system call takes.
    fn unsent(&self) -> Vec<IoSlice<'_>> {
        let skipped = std::iter::once(self.sent).chain(std::iter::repeat(0));
        let frames = self.waiting.iter().zip(skipped).take(AT_ONCE);
        frames.map(|((_, bytes), sent)| IoSlice::new(bytes.get(sent..).unwrap_or_default())).collect()
    }

    fn took(&mut self, count: usize) {
        self.sent += count;
        while let Some((kind, bytes)) = self.waiting.front()
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
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Outbox { stream: stream.try_clone()?, backlog: Mutex::default(), wake })
    }

    /// Sends a frame's bytes, or keeps for the pump what the socket does not take at once.
    pub(crate) fn put(&self, kind: Kind, bytes: Arc<Vec<u8>>) {
        if bytes.is_empty() {
            return;
        }
        let mut backlog = self.lock();
        let idle = backlog.waiting.is_empty() && !backlog.held;
        backlog.push(kind, bytes);
        if idle && self.write(&mut backlog) {
            self.ring();
        }
    }

    /// Gathers frames until [`Outbox::push_backlog`]: for a pump that has more to answer before it waits.
    pub(crate) fn hold(&self) {
        self.lock().held = true;
    }

    /// Wakes whoever waits with this outbox.
    pub(crate) fn ring(&self) {
        // Full counter or not: the pump is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Writes what it can; whether something is left.
    pub(crate) fn push_backlog(&self) -> bool {
        let mut backlog = self.lock();
        backlog.held = false;
        self.write(&mut backlog)
    }

    /// How many frames of a kind the socket has not taken whole.
    pub(crate) fn waiting(&self, kind: Kind) -> usize {
        self.lock().counts[kind as usize]
    }

    /// What wakes the pump when there is a backlog.
    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Takes note of a wake-up.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    fn write(&self, backlog: &mut Backlog) -> bool {
        while !backlog.waiting.is_empty() {
            let nothing_else = &mut SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::sendmsg(&self.stream, &backlog.unsent(), nothing_else, flags) {
                Ok(count) => backlog.took(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                // The worker is gone: the pump reads the end of the stream and says so.
                Err(_) => backlog.clear(),
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
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
        outbox.put(Kind::of(frame), Arc::new(bytes));
    }

    #[test]
    fn a_frame_counts_until_the_socket_took_all_of_it() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let outbox = Outbox::new(&ours).expect("outbox");
        send(&outbox, &answer(4 * 1024 * 1024));
        send(&outbox, &ToWorker::Fire { id: CallId(1), now: 0.0 });
        assert_eq!((outbox.waiting(Kind::Answer), outbox.waiting(Kind::Fire)), (1, 1));
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("read");
            all.len()
        });
        while outbox.push_backlog() {
            std::thread::yield_now();
        }
        assert_eq!((outbox.waiting(Kind::Answer), outbox.waiting(Kind::Fire)), (0, 0));
        drop((outbox, ours));
        assert_eq!(reader.join().expect("reader"), 4 + 1 + 1 + 4 + 4 * 1024 * 1024 + 4 + 1 + 4 + 8);
    }

    #[test]
    fn held_frames_leave_together_and_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        theirs.set_nonblocking(true).expect("socket");
        let outbox = Outbox::new(&ours).expect("outbox");
        let frames: Vec<u8> = (0..3 * AT_ONCE as u32)
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
        assert!(!outbox.push_backlog());
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
        assert!(!outbox.push_backlog());
        assert_eq!(outbox.waiting(Kind::Answer), 0);
    }
}
