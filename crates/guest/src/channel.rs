//! The worker's one socket, frame by frame.
//!
//! Outgoing frames are gathered and leave together when the program has to wait, so a burst of
//! calls or log lines is one system call.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use toolgate_wire::codec::{self, HEADER, MAX_TO_WORKER, Malformed};
use toolgate_wire::{FromWorker, ToWorker};

/// Gathered frames leave once they are this many bytes; those that a killed worker still had are lost.
const FLUSH_AT: usize = 16 * 1024;

/// Why no frame can be sent or received any more. The worker ends.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The host is gone.
    #[error("the host closed the socket")]
    Closed,
    /// The system refused.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    /// The host sent more than the run may hold.
    #[error("no room for a frame of {0} bytes")]
    NoRoom(usize),
    /// The host sent something that is no frame.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A byte stream that both ends read and write.
pub trait Socket {
    /// As [`Read::read`], on a shared reference.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As [`Write::write_all`], on a shared reference.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;
}

impl Socket for std::fs::File {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut { self }, buffer)
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(&mut { self }, bytes)
    }
}

/// Both directions of the socket.
pub(crate) struct Channel {
    socket: Box<dyn Socket>,
    outgoing: RefCell<Vec<u8>>,
    incoming: RefCell<Incoming>,
}

/// The buffer that frames are read into. Allocated before the fork, so that it is zeroed once and each worker copies only
/// the pages that it writes.
pub(crate) struct ReceiveBuffer(Vec<u8>);

impl Default for ReceiveBuffer {
    fn default() -> Self {
        ReceiveBuffer(vec![0; 16 * 1024])
    }
}

/// Bytes that arrived: `buffer[start..end]`. The rest is free, zeroed once and used again.
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub(crate) fn new(socket: Box<dyn Socket>, buffer: ReceiveBuffer) -> Self {
        let incoming = Incoming { buffer: buffer.0, start: 0, end: 0 };
        Channel { socket, outgoing: RefCell::default(), incoming: RefCell::new(incoming) }
    }

    /// Puts a frame in the queue.
    pub(crate) fn send(&self, frame: &FromWorker) -> Result<(), Broken> {
        let mut outgoing = self.outgoing.borrow_mut();
        codec::encode_from_worker(frame, &mut outgoing);
        if outgoing.len() >= FLUSH_AT { self.write_out(&mut outgoing) } else { Ok(()) }
    }

    /// Sends what is in the queue.
    pub(crate) fn flush(&self) -> Result<(), Broken> {
        self.write_out(&mut self.outgoing.borrow_mut())
    }

    fn write_out(&self, outgoing: &mut Vec<u8>) -> Result<(), Broken> {
        if !outgoing.is_empty() {
            self.socket.write_all(outgoing)?;
            outgoing.clear();
        }
        Ok(())
    }

    /// Fills `target` with bytes that follow a frame.
    pub(crate) fn read_into(&self, target: &mut [u8]) -> Result<(), Broken> {
        self.incoming.borrow_mut().read_into(&*self.socket, target)
    }

    /// Waits for the next frame, after sending what is in the queue. A frame that `admits` has no room for is not read.
    pub(crate) fn receive(&self, admits: impl Fn(usize) -> bool) -> Result<ToWorker, Broken> {
        self.flush()?;
        let mut incoming = self.incoming.borrow_mut();
        let header = *incoming.fill(&*self.socket, HEADER)?.first_chunk().ok_or(Malformed::Truncated)?;
        let length = codec::frame_length(header, MAX_TO_WORKER)?;
        if !admits(length) {
            return Err(Broken::NoRoom(length));
        }
        let frame = codec::decode_to_worker(&incoming.fill(&*self.socket, HEADER + length)?[HEADER..])?;
        incoming.consume(HEADER + length);
        Ok(frame)
    }
}

impl Incoming {
    /// The next `length` bytes, read as far as they are missing.
    fn fill(&mut self, socket: &dyn Socket, length: usize) -> Result<&[u8], Broken> {
        if self.buffer.len() < self.start + length {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize(self.buffer.len().max(length), 0);
        }
        while self.end - self.start < length {
            self.end += read_some(socket, &mut self.buffer[self.end..])?;
        }
        Ok(&self.buffer[self.start..self.start + length])
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Fills `target` with the next bytes, past the buffer as far as they are not in it.
    fn read_into(&mut self, socket: &dyn Socket, target: &mut [u8]) -> Result<(), Broken> {
        let ready = target.len().min(self.end - self.start);
        let (front, mut rest) = target.split_at_mut(ready);
        front.copy_from_slice(&self.buffer[self.start..self.start + ready]);
        self.consume(ready);
        while !rest.is_empty() {
            let got = read_some(socket, rest)?;
            rest = &mut rest[got..];
        }
        Ok(())
    }
}

fn read_some(socket: &dyn Socket, target: &mut [u8]) -> Result<usize, Broken> {
    loop {
        match socket.read(target) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(Broken::Closed),
            Ok(got) => return Ok(got),
        }
    }
}
