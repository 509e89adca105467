//! A socket whose reader must keep a pace.
//!
//! An answer that nobody takes would be held for ever. So while bytes wait, a certain number must be taken in each
//! span of time; what is never full is never timed.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::places::Place;

/// See the module.
pub(super) struct Paced {
    stream: TcpStream,
    place: Arc<Place>,
    span: Duration,
    least: usize,
    /// Runs while bytes wait.
    watch: Option<Pin<Box<Sleep>>>,
    taken: usize,
}

impl Paced {
    pub(super) fn new(stream: TcpStream, place: Arc<Place>, span: Duration, least: usize) -> Self {
        Paced { stream, place, span, least, watch: None, taken: 0 }
    }

    fn written(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                self.taken = self.taken.saturating_add(bytes);
                self.place.engage(true);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.waits(cx),
        }
    }

    /// Bytes wait: is it time to give up?
    fn waits(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.place.engage(true);
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                self.taken = 0;
                none.insert(Box::pin(tokio::time::sleep(self.span)))
            }
        };
        ready!(watch.as_mut().poll(cx));
        if self.taken < self.least {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader is too slow")));
        }
        self.taken = 0;
        watch.as_mut().reset(Instant::now() + self.span);
        // The new span must be polled once, or nothing would wake this task at its end.
        match watch.as_mut().poll(cx) {
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when nothing is left to be written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.watch = None;
            self.place.engage(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
