//! The text of a reply, sent in pieces and counted until the last one is sent.
//!
//! A piece is handed on when the connection has room for it, so that a client that reads slowly leaves the rest here. Large replies
//! count in the budget of their caller and of the process; a client that reads less than [`MIN_READ_BYTES`] of one in
//! [`READ_INTERVAL`] loses it, so that it cannot hold those bytes for as long as it likes. The time begins when the reply is made, also
//! where events are sent before it.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use toolgate_wire::BytePermit;

use crate::buffer::MAX_UNCOUNTED_BYTES;
use crate::server::server_message::ServerMessage;

/// The most bytes that a connection takes at one time.
const PIECE_BYTES: usize = 64 << 10;
/// How often it is looked whether the client reads.
const READ_INTERVAL: Duration = Duration::from_secs(60);
/// What a client reads of a large reply in that time, or all that is left.
const MIN_READ_BYTES: usize = 4 << 20;

/// The client did not read its reply.
#[derive(Debug, thiserror::Error)]
#[error("the reply is dropped: the client read less than {MIN_READ_BYTES} bytes in {} s", READ_INTERVAL.as_secs())]
pub(super) struct NotRead;

/// A text on its way to a client.
#[derive(Debug)]
pub(super) struct ReplyBody(Arc<Mutex<Unsent>>);

#[derive(Debug)]
struct Unsent {
    /// None once it is sent or dropped.
    text: Option<String>,
    sent: usize,
    length: usize,
    permits: Vec<BytePermit>,
}

impl Unsent {
    fn left(&self) -> usize {
        self.length - self.sent
    }

    /// Frees the text and what counts it.
    fn free(&mut self) {
        self.text = None;
        self.permits.clear();
    }

    fn next_piece(&mut self) -> Option<Result<Bytes, NotRead>> {
        let text = match &self.text {
            Some(text) => text,
            None if self.left() == 0 => return None,
            None => {
                // Said once.
                self.sent = self.length;
                return Some(Err(NotRead));
            }
        };
        let end = self.length.min(self.sent + PIECE_BYTES);
        let piece = Bytes::copy_from_slice(text.as_bytes().get(self.sent..end)?);
        self.sent = end;
        if self.left() == 0 {
            self.free();
        }
        Some(Ok(piece))
    }
}

impl ReplyBody {
    /// A message and what counts it.
    pub(super) fn of(message: ServerMessage) -> Self {
        let (text, permit) = message.framed("", "");
        Self::new(text, permit.into_iter().collect())
    }

    /// A text and what counts it.
    pub(super) fn new(text: String, permits: Vec<BytePermit>) -> Self {
        let length = text.len();
        let unsent = Arc::new(Mutex::new(Unsent { text: Some(text), sent: 0, length, permits }));
        if length > MAX_UNCOUNTED_BYTES {
            tokio::spawn(watch(Arc::downgrade(&unsent)));
        }
        Self(unsent)
    }

    /// The same text between others. Only before the first piece is taken.
    pub(super) fn framed(self, before: &str, after: &str) -> Self {
        let mut unsent = self.0.lock();
        unsent.length += before.len() + after.len();
        if let Some(text) = &mut unsent.text {
            text.insert_str(0, before);
            text.push_str(after);
        }
        drop(unsent);
        self
    }

    /// The next piece; none at the end.
    pub(super) fn next_piece(&self) -> Option<Result<Bytes, NotRead>> {
        self.0.lock().next_piece()
    }
}

impl hyper::body::Body for ReplyBody {
    type Data = Bytes;
    type Error = NotRead;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, NotRead>>> {
        Poll::Ready(self.next_piece().map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.lock().left() as u64)
    }
}

#[cfg(test)]
impl ReplyBody {
    /// One look of the watch.
    pub(super) fn keeps_reading(&self, left: &mut usize) -> bool {
        keeps_reading(&Arc::downgrade(&self.0), left)
    }
}

/// Drops a text that the client does not read.
async fn watch(unsent: Weak<Mutex<Unsent>>) {
    let mut left = usize::MAX;
    while keeps_reading(&unsent, &mut left) {
        tokio::time::sleep(READ_INTERVAL).await;
    }
}

/// Whether there is something to read and the client has read enough of it since `left` bytes were there. Otherwise the text is
/// dropped.
fn keeps_reading(unsent: &Weak<Mutex<Unsent>>, left: &mut usize) -> bool {
    let Some(unsent) = unsent.upgrade() else { return false };
    let mut unsent = unsent.lock();
    let now = unsent.left();
    if now > 0 && left.saturating_sub(now) < MIN_READ_BYTES {
        unsent.free();
        return false;
    }
    *left = now;
    now > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::ByteBudget;

    const LENGTH: usize = 16 << 20;

    fn large(budget: &ByteBudget) -> ReplyBody {
        ReplyBody::new("x".repeat(LENGTH), vec![budget.try_reserve(LENGTH).unwrap()])
    }

    fn read(body: &ReplyBody, bytes: usize) -> usize {
        let mut read = 0;
        while read < bytes
            && let Some(Ok(piece)) = body.next_piece()
        {
            read += piece.len();
        }
        read
    }

    #[tokio::test]
    async fn a_reply_counts_until_its_last_piece_is_sent() {
        let budget = ByteBudget::new("b", 2 * LENGTH);
        let body = large(&budget);
        assert_eq!(read(&body, LENGTH - 1), LENGTH);
        assert_eq!(budget.used(), 0);
        assert!(body.next_piece().is_none());
        let dropped = large(&budget);
        assert_eq!((read(&dropped, 1), budget.used()), (PIECE_BYTES, LENGTH));
        drop(dropped);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_reply() {
        let budget = ByteBudget::new("b", 2 * LENGTH);
        let (unread, slow) = (large(&budget), large(&budget));
        let watched = [&unread, &slow].map(|body| Arc::downgrade(&body.0));
        let mut left = [usize::MAX; 2];
        let mut look = || [0, 1].map(|at| keeps_reading(&watched[at], &mut left[at]));
        assert_eq!(look(), [true, true]);
        for _ in 0..3 {
            assert_eq!(read(&slow, MIN_READ_BYTES), MIN_READ_BYTES);
            assert!(look()[1]);
        }
        assert_eq!(budget.used(), LENGTH, "one that reads slowly keeps it");
        assert!(matches!(unread.next_piece(), Some(Err(NotRead))));
        assert!(unread.next_piece().is_none());
        assert_eq!(read(&slow, LENGTH), LENGTH - 3 * MIN_READ_BYTES);
        assert_eq!(budget.used(), 0);
    }
}
