//! The connection of a WebSocket, whose unfinished messages count in the memory of bodies.
//!
//! A message is held until its last byte is there, which a caller may never send. The first bytes are free, so that short
//! messages are read whatever others hold; beyond them, nothing is read that the caller has no share for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

use crate::body::{NO_MEMORY, Share};

/// Bytes of one WebSocket that need no share, with those that are read next.
const FREE_BYTES: usize = 32 * 1024;
/// Bytes that are read at one time.
pub(super) const READ_BYTES: usize = 16 * 1024;
/// Bytes of a frame of a client besides its content, if that is short.
const SHORT_FRAME_HEADER: usize = 6;

/// What a WebSocket holds of messages that are not finished. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct UnfinishedBytes(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    bytes: usize,
    share: Share,
    is_refused: bool,
}

impl UnfinishedBytes {
    pub(super) fn new(share: Share) -> Self {
        UnfinishedBytes(Arc::new(Mutex::new(State { bytes: 0, share, is_refused: false })))
    }

    /// Whether bytes were not read because there was no memory for them.
    pub(super) fn is_refused(&self) -> bool {
        self.0.lock().is_refused
    }

    /// Counts a message no longer.
    pub(super) fn release(&self, message: &Message) {
        let mut state = self.0.lock();
        state.bytes = match message {
            // What was read beyond the message is less than is read at one time.
            Message::Text(_) | Message::Binary(_) => 0,
            // It may come between the parts of another message.
            Message::Ping(content) | Message::Pong(content) => {
                state.bytes.saturating_sub(content.len() + SHORT_FRAME_HEADER)
            }
            Message::Close(_) | Message::Frame(_) => return,
        };
        let covered = if state.bytes > FREE_BYTES { state.bytes } else { 0 };
        state.share.shrink_to(covered);
    }

    /// Whether this many bytes more may be read.
    fn may_read(&self, more: usize) -> bool {
        let mut state = self.0.lock();
        let bytes = state.bytes.saturating_add(more);
        let may = bytes <= FREE_BYTES || state.share.cover(bytes);
        state.is_refused |= !may;
        may
    }

    fn add(&self, bytes: usize) {
        let mut state = self.0.lock();
        state.bytes = state.bytes.saturating_add(bytes);
    }
}

/// A connection that reads what there is memory for.
pub(super) struct CountedConnection {
    inner: TokioIo<Upgraded>,
    unfinished: UnfinishedBytes,
}

impl CountedConnection {
    pub(super) fn new(connection: Upgraded, unfinished: UnfinishedBytes) -> Self {
        CountedConnection { inner: TokioIo::new(connection), unfinished }
    }
}

impl AsyncRead for CountedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.unfinished.may_read(buffer.remaining()) {
            return Poll::Ready(Err(io::Error::other(NO_MEMORY)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.unfinished.add(buffer.filled().len().saturating_sub(before));
        read
    }
}

impl AsyncWrite for CountedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Budget;
    use crate::caller_permits::CallerPermits;

    #[test]
    fn what_is_not_finished_is_counted_until_it_is() {
        let all = CallerPermits::new(256 << 10);
        let budget = Budget::new(all.clone(), "");
        let unfinished = UnfinishedBytes::new(budget.share());
        let read = |times: usize| {
            (0..times).all(|_| {
                let may = unfinished.may_read(READ_BYTES);
                unfinished.add(if may { READ_BYTES } else { 0 });
                may
            })
        };
        assert!(read(2) && all.used() == 0, "the first bytes are free");
        assert!(read(1));
        assert_eq!(all.used(), 3 * READ_BYTES);
        // A ping between the parts of a message is no end of the message.
        unfinished.release(&Message::Ping(vec![0; 100].into()));
        assert_eq!(all.used(), 3 * READ_BYTES);
        assert!(read(13) && !unfinished.is_refused());
        assert!(!read(1) && unfinished.is_refused(), "no memory is left");
        unfinished.release(&Message::text("the end"));
        assert_eq!(all.used(), 0);
        drop(unfinished);
    }
}
