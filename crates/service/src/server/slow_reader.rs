//! Disconnects clients that read too slowly.
//!
//! A reply that the client does not read would be buffered for ever. So while bytes wait to be sent, the client must read a
//! minimum number of bytes in each interval. Connections whose send buffer never fills are not timed.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::ConnectionSlot;

/// A stream with a minimum read rate for its peer.
pub(super) struct SlowReaderGuard<S> {
    stream: S,
    slot: Arc<ConnectionSlot>,
    interval: Duration,
    min_bytes: usize,
    /// Runs while bytes wait to be sent.
    timer: Option<Pin<Box<Sleep>>>,
    sent: usize,
}

impl<S> SlowReaderGuard<S> {
    pub(super) fn new(stream: S, slot: Arc<ConnectionSlot>, interval: Duration, min_bytes: usize) -> Self {
        SlowReaderGuard { stream, slot, interval, min_bytes, timer: None, sent: 0 }
    }

    fn after_write(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                self.sent = self.sent.saturating_add(bytes);
                self.slot.set_sending(true);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.check_rate(cx),
        }
    }

    /// The send buffer is full: fails once an interval ends with too few bytes sent.
    fn check_rate(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.slot.set_sending(true);
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => {
                self.sent = 0;
                none.insert(Box::pin(tokio::time::sleep(self.interval)))
            }
        };
        ready!(timer.as_mut().poll(cx));
        if self.sent < self.min_bytes {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")));
        }
        self.sent = 0;
        timer.as_mut().reset(Instant::now() + self.interval);
        // Poll the new interval once, or nothing would wake this task at its end.
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowReaderGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowReaderGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.after_write(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.after_write(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.timer = None;
            self.slot.set_sending(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
