//! The host's end of a worker's socket: reads bytes and decodes frames.
//!
//! A worker may run hostile native code. The buffer grows with the bytes that have arrived, never with the length that
//! a frame announces, and the first malformed frame ends the run.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use toolgate_wire::FromWorker;
use toolgate_wire::codec::{self, HEADER, MAX_FROM_WORKER};
use toolgate_wire::frame::Layers;

use crate::outbox::Outbox;
use crate::pump::Lost;

/// Free space in the buffer before each read.
const MIN_READ: usize = 16 * 1024;
/// How long a read may block in which nothing but the worker can wake the pump.
const READ_TIMEOUT: Duration = Duration::from_millis(10);
/// Time until the next wake-up of a pump from which on it may block in a read. The kernel rounds [`READ_TIMEOUT`] up to its
/// timer ticks, of which each may be 10 ms.
const MIN_TIME_FOR_READ: Duration = Duration::from_millis(40);

/// What can wake a pump that waits for its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeSource {
    /// The worker alone: every call was answered in place, so that no task can fill the socket.
    Worker,
    /// The worker, and the outbox.
    WorkerAndOutbox,
}

/// The fields of a worker's first frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) pid: u32,
    pub(crate) layers: Layers,
}

/// The host's end of a worker's socket.
pub(crate) struct WorkerSocket {
    stream: UnixStream,
    outbox: Arc<Outbox>,
    /// Bytes that have arrived: `buffer[start..end]`. The rest is free space, zeroed once and reused.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read got less than it asked for, so the socket is empty until `poll` says otherwise.
    drained: bool,
}

impl WorkerSocket {
    /// Allocates everything that a run needs, before the run. The worker may have sent its first frame already.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let outbox = Arc::new(Outbox::new(&stream)?);
        Ok(WorkerSocket { stream, outbox, buffer: vec![0; 2 * MIN_READ], start: 0, end: 0, drained: false })
    }

    /// Whether there is something to read: a frame, a part of one, or the end of the stream.
    pub(crate) fn has_input(&mut self) -> bool {
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.stream, PollFlags::IN)];
        self.start < self.end || matches!(poll(&mut watched, Some(&no_wait)), Ok(1..))
    }

    /// Waits for the worker's first frame.
    pub(crate) fn hello(&mut self, deadline: Instant) -> Result<Hello, Lost> {
        loop {
            match self.next(deadline, None, WakeSource::WorkerAndOutbox)? {
                Some(FromWorker::Ready { pid, layers }) => return Ok(Hello { pid, layers }),
                Some(_) => return Err(Lost::Violation("a frame before it was ready")),
                None if Instant::now() >= deadline => return Err(Lost::Deadline),
                None => {}
            }
        }
    }

    /// The next frame; `None` at `until`, or when the outbox was woken.
    pub(crate) fn next(
        &mut self,
        until: Instant,
        outbox: Option<&Outbox>,
        wake: WakeSource,
    ) -> Result<Option<FromWorker>, Lost> {
        let ready = if self.drained { self.decode()? } else { self.arrived()? };
        if ready.is_some() {
            return Ok(ready);
        }
        let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(None) };
        let backlog = outbox.is_some_and(Outbox::flush);
        // One system call instead of two: the read itself waits.
        if wake == WakeSource::Worker && !backlog && left >= MIN_TIME_FOR_READ {
            if !self.read_once(RecvFlags::empty())? {
                return Ok(None);
            }
        } else {
            self.wait(left, outbox, backlog);
        }
        self.arrived()
    }

    /// Whether the buffer holds a complete frame.
    pub(crate) fn has_frame(&self) -> bool {
        matches!(self.payload(), Ok(Some(_)))
    }

    /// The next frame, if it has arrived completely.
    pub(crate) fn arrived(&mut self) -> Result<Option<FromWorker>, Lost> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            if !self.read_once(RecvFlags::DONTWAIT)? {
                return Ok(None);
            }
        }
    }

    /// Reads once; `false` when nothing has arrived, in [`READ_TIMEOUT`] or, with `DONTWAIT`, yet.
    fn read_once(&mut self, flags: RecvFlags) -> Result<bool, Lost> {
        match self.read(flags) {
            Ok(0) => Err(Lost::Closed { started: true }),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(Lost::Closed { started: true }),
        }
    }

    /// Waits until this or the other worker has sent something, until one of their outboxes was woken, or for `left`.
    pub(crate) fn wait_with(&self, other: &WorkerSocket, left: Duration) {
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let outboxes = [&self.outbox, &other.outbox];
        let interests =
            outboxes.map(|outbox| if outbox.flush() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN });
        let mut watched = [
            PollFd::new(&self.stream, interests[0]),
            PollFd::new(&other.stream, interests[1]),
            PollFd::new(self.outbox.wake(), PollFlags::IN),
            PollFd::new(other.outbox.wake(), PollFlags::IN),
        ];
        // As in `wait`.
        let _ = poll(&mut watched, Some(&timeout));
        for (outbox, wake) in outboxes.into_iter().zip(&watched[2..]) {
            if !wake.revents().is_empty() {
                outbox.clear_wake();
            }
        }
    }

    /// The outbox for frames to this worker.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        self.outbox.clone()
    }

    /// Whether neither side has anything left to read, and nothing else can send on this socket any more.
    ///
    /// The worker must be stopped, or it could send afterwards.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_silent(&mut self) -> bool {
        // A task of the last run that still has the outbox could send a reply to the next one.
        Arc::strong_count(&self.outbox) == 1
            && self.outbox.is_empty()
            && !self.has_input()
            && toolgate_rewind::unread_by_peer(&self.stream).is_ok_and(|bytes| bytes == 0)
    }

    /// The payload of the next frame, if it has arrived completely.
    fn payload(&self) -> Result<Option<&[u8]>, Lost> {
        let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let length = codec::frame_length(*header, MAX_FROM_WORKER).map_err(|_| Lost::Violation("a frame too long"))?;
        Ok(waiting.get(HEADER..HEADER + length))
    }

    fn decode(&mut self) -> Result<Option<FromWorker>, Lost> {
        let Some(payload) = self.payload()? else { return Ok(None) };
        let length = payload.len();
        let frame = codec::decode_from_worker(payload).map_err(|_| Lost::Violation("a malformed frame"))?;
        self.start += HEADER + length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Ok(Some(frame))
    }

    /// Reads once. The buffer doubles when it is nearly full of bytes that have arrived.
    fn read(&mut self, flags: RecvFlags) -> Result<usize, Errno> {
        if self.buffer.len() - self.end < MIN_READ {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize((2 * self.end).max(2 * MIN_READ), 0);
        }
        let free = &mut self.buffer[self.end..];
        let (_, got) = recv(&self.stream, &mut *free, flags)?;
        self.drained = got < free.len();
        self.end += got;
        Ok(got)
    }

    fn wait(&self, left: Duration, outbox: Option<&Outbox>, backlog: bool) {
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let interest = if backlog { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let wake = outbox.map_or(&self.stream as &dyn AsFd, |outbox| outbox.wake());
        let mut watched = [PollFd::new(&self.stream, interest), PollFd::new(&wake, PollFlags::IN)];
        // The caller checks again after an interrupted wait; every other error shows at the next read.
        let _ = poll(&mut watched, Some(&timeout));
        let woken = !watched[1].revents().is_empty();
        if let Some(outbox) = outbox.filter(|_| woken) {
            outbox.clear_wake();
        }
    }
}
