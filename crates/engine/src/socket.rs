//! The host's end of a worker's socket: where its bytes become frames.
//!
//! A worker is hostile native code: the buffer grows with what has arrived, never with what was
//! announced, and the first frame that is no frame is a breach.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_wire::FromWorker;
use toolgate_wire::codec::{self, HEADER, MAX_FROM_WORKER};
use toolgate_wire::frame::Layers;

use crate::outbox::Outbox;
use crate::pump::Lost;

/// The least room that a read finds.
const ROOM: usize = 16 * 1024;

/// A worker's first words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) pid: u32,
    pub(crate) layers: Layers,
}

/// The host's end of a worker's socket.
pub(crate) struct Wire {
    stream: UnixStream,
    outbox: Arc<Outbox>,
    /// Bytes that arrived: `buffer[start..end]`. What lies beyond is room, cleared once and used again.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read took all there was, so the next one is for when there is more.
    drained: bool,
}

impl Wire {
    /// All that a run needs is made here, ahead of it. A worker may have said its first words already.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let outbox = Arc::new(Outbox::new(&stream)?);
        Ok(Wire { stream, outbox, buffer: vec![0; 2 * ROOM], start: 0, end: 0, drained: false })
    }

    /// Whether there is something to read: a frame, a part of one, or the end.
    pub(crate) fn has_input(&mut self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.stream, PollFlags::IN)];
        self.start < self.end || matches!(poll(&mut watched, Some(&at_once)), Ok(1..))
    }

    /// The worker's first frame.
    pub(crate) fn hello(&mut self, deadline: Instant) -> Result<Hello, Lost> {
        loop {
            match self.next(deadline, None)? {
                Some(FromWorker::Ready { pid, layers }) => return Ok(Hello { pid, layers }),
                Some(_) => return Err(Lost::Breach("a worker spoke before it was ready")),
                None if Instant::now() >= deadline => return Err(Lost::Deadline),
                None => {}
            }
        }
    }

    /// The next frame, or nothing: at `until`, or when something woke this side up.
    pub(crate) fn next(&mut self, until: Instant, outbox: Option<&Outbox>) -> Result<Option<FromWorker>, Lost> {
        let ready = if self.drained { self.decode()? } else { self.arrived()? };
        if ready.is_some() {
            return Ok(ready);
        }
        let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(None) };
        self.wait(left, outbox);
        self.arrived()
    }

    /// Whether a whole frame is here already.
    pub(crate) fn has_frame(&self) -> bool {
        matches!(self.payload(), Ok(Some(_)))
    }

    /// The next frame, if all of it is there.
    pub(crate) fn arrived(&mut self) -> Result<Option<FromWorker>, Lost> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            match self.read() {
                Ok(0) => return Err(Lost::Closed { started: true }),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Lost::Closed { started: true }),
            }
        }
    }

    /// Where frames to this worker are written.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        self.outbox.clone()
    }

    /// What the next frame carries, if all of it is there.
    fn payload(&self) -> Result<Option<&[u8]>, Lost> {
        let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let length = codec::frame_length(*header, MAX_FROM_WORKER).map_err(|_| Lost::Breach("a frame too long"))?;
        Ok(waiting.get(HEADER..HEADER + length))
    }

    fn decode(&mut self) -> Result<Option<FromWorker>, Lost> {
        let Some(payload) = self.payload()? else { return Ok(None) };
        let length = payload.len();
        let frame = codec::decode_from_worker(payload).map_err(|_| Lost::Breach("a frame that means nothing"))?;
        self.start += HEADER + length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Ok(Some(frame))
    }

    /// Reads what is there. The buffer grows with what has arrived, never with what was announced.
    fn read(&mut self) -> io::Result<usize> {
        if self.buffer.len() - self.end < ROOM {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize((2 * self.end).max(2 * ROOM), 0);
        }
        let room = &mut self.buffer[self.end..];
        let got = (&self.stream).read(room)?;
        self.drained = got < room.len();
        self.end += got;
        Ok(got)
    }

    fn wait(&self, left: Duration, outbox: Option<&Outbox>) {
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let backlog = outbox.is_some_and(Outbox::push_backlog);
        let interest = if backlog { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let wake = outbox.map_or(&self.stream as &dyn AsFd, |outbox| outbox.wake());
        let mut watched = [PollFd::new(&self.stream, interest), PollFd::new(&wake, PollFlags::IN)];
        // An interrupted wait looks again; any other error shows at the next read.
        let _ = poll(&mut watched, Some(&timeout));
        let woken = !watched[1].revents().is_empty();
        if let Some(outbox) = outbox.filter(|_| woken) {
            outbox.hush();
        }
    }
}
