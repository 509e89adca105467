//! A stream of events as the body of a response.
//!
//! Dropping it, which is what a lost connection does, cancels what it belongs to.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::protocol::EVENT_STREAM;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::DropGuard;

use crate::server::outgoing::Outgoing;

/// A line without meaning is sent that often, so that no one on the way takes the stream for dead.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Messages as they come.
pub(super) struct Events {
    first: Option<Outgoing>,
    queue: mpsc::Receiver<Outgoing>,
    alive: Interval,
    /// Cancels on drop, unless the stream came to its own end.
    cancel: Option<DropGuard>,
}

impl Events {
    pub(super) fn new(first: Option<Outgoing>, queue: mpsc::Receiver<Outgoing>, cancel: DropGuard) -> Self {
        let mut alive = interval_at(Instant::now() + SIGN_OF_LIFE, SIGN_OF_LIFE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first, queue, alive, cancel: Some(cancel) }
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = Response::new(Body::new(self));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let events = self.get_mut();
        if let Some(first) = events.first.take() {
            return Poll::Ready(Some(Ok(event(&first))));
        }
        match events.queue.poll_recv(context) {
            Poll::Ready(Some(message)) => return Poll::Ready(Some(Ok(event(&message)))),
            Poll::Ready(None) => {
                events.cancel.take().map(DropGuard::disarm);
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        match events.alive.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n"))))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A message is one line of data.
fn event(message: &Outgoing) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("event: message\ndata: {}\n\n", message.text())))
}
