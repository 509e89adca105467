//! The worker's one socket, frame by frame.
//!
//! Outgoing frames are gathered and leave together when the program has to wait, so a burst of
//! calls or log lines is one system call.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use toolgate_wire::codec::{self, HEADER, MAX_TO_WORKER, Malformed, REPLY_HEAD, ReplyHead};
use toolgate_wire::{FromWorker, ToWorker};

/// Gathered frames leave once they are this many bytes; those that a killed worker still had are lost.
const FLUSH_AT: usize = 16 * 1024;

/// The text of a reply that is longer is not read with the frame, but to where it is needed.
const MAX_READ_AHEAD: usize = 64 * 1024;

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

/// What has arrived.
pub(crate) enum Received {
    Frame(ToWorker),
    /// A reply whose text, of `length` bytes, comes next: [`Channel::read_into`] takes it.
    LongReply {
        head: ReplyHead,
        length: usize,
    },
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
        match self.receive_head(admits)? {
            Received::Frame(frame) => Ok(frame),
            Received::LongReply { head, length } => {
                let mut text = vec![0; length];
                self.read_into(&mut text)?;
                let body = if head.ok { Ok(text) } else { Err(text) };
                Ok(ToWorker::Reply { id: head.id, now: head.now, body })
            }
        }
    }

    /// The same, except that the text of a long reply is left to be read.
    pub(crate) fn receive_head(&self, admits: impl Fn(usize) -> bool) -> Result<Received, Broken> {
        self.flush()?;
        let mut incoming = self.incoming.borrow_mut();
        let header = *incoming.fill(&*self.socket, HEADER)?.first_chunk().ok_or(Malformed::Truncated)?;
        let length = codec::frame_length(header, MAX_TO_WORKER)?;
        if !admits(length) {
            return Err(Broken::NoRoom(length));
        }
        if length > MAX_READ_AHEAD {
            let head = codec::decode_reply_head(&incoming.fill(&*self.socket, HEADER + REPLY_HEAD)?[HEADER..], length)?;
            if let Some(head) = head {
                incoming.consume(HEADER + REPLY_HEAD);
                return Ok(Received::LongReply { head, length: length - REPLY_HEAD });
            }
        }
        let frame = codec::decode_to_worker(&incoming.fill(&*self.socket, HEADER + length)?[HEADER..])?;
        incoming.consume(HEADER + length);
        Ok(Received::Frame(frame))
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use toolgate_wire::CallId;

    use super::*;

    /// A host that has sent these bytes, which arrive a few at a time.
    struct Sent {
        bytes: Vec<u8>,
        at: Cell<usize>,
    }

    impl Socket for Sent {
        fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.bytes[self.at.get()..];
            let count = rest.len().min(buffer.len()).min(1_000);
            buffer[..count].copy_from_slice(&rest[..count]);
            self.at.set(self.at.get() + count);
            Ok(count)
        }

        fn write_all(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
    }

    fn channel(frames: &[ToWorker]) -> Channel {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| codec::encode_to_worker(frame, &mut bytes));
        Channel::new(Box::new(Sent { bytes, at: Cell::new(0) }), ReceiveBuffer::default())
    }

    fn reply(id: u32, length: usize) -> ToWorker {
        let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
        ToWorker::Reply { id: CallId(id), now: 2.0, body: if id.is_multiple_of(2) { Ok(body) } else { Err(body) } }
    }

    #[test]
    fn frames_of_every_length_arrive_whole_and_in_order() {
        let lengths = [0, 1, 16 * 1024, MAX_READ_AHEAD - REPLY_HEAD, MAX_READ_AHEAD, 300_000, 3];
        let mut frames: Vec<ToWorker> = (0..).zip(lengths).map(|(id, length)| reply(id, length)).collect();
        frames.push(ToWorker::Answer(Some(vec![7; 200_000])));
        frames.push(ToWorker::Fire { id: CallId(9), now: 3.0 });
        let channel = channel(&frames);
        for frame in &frames {
            assert_eq!(channel.receive(|_| true).expect("a frame"), *frame);
        }
        assert!(matches!(channel.receive(|_| true), Err(Broken::Closed)));
    }

    #[test]
    fn the_text_of_a_long_reply_is_left_to_be_read() {
        let channel = channel(&[reply(4, 100_000), ToWorker::Fire { id: CallId(9), now: 3.0 }]);
        let Ok(Received::LongReply { head, length }) = channel.receive_head(|_| true) else { panic!("a long reply") };
        assert_eq!((head, length), (ReplyHead { id: CallId(4), now: 2.0, ok: true }, 100_000));
        let mut text = vec![0; length];
        channel.read_into(&mut text).expect("its text");
        assert!(text.iter().enumerate().all(|(at, &byte)| byte == at as u8));
        assert!(matches!(channel.receive_head(|_| true), Ok(Received::Frame(ToWorker::Fire { .. }))));
    }

    #[test]
    fn a_long_reply_that_has_no_room_is_not_read() {
        let channel = channel(&[reply(4, 100_000)]);
        assert!(matches!(channel.receive_head(|length| length < 100_000), Err(Broken::NoRoom(_))));
    }
}
