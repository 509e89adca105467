//! A stream of server-sent events as the body of a response.
//!
//! Dropping it, which is what a lost connection does, cancels the request that it answers. Events have no ids: streams
//! cannot be resumed.

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

use crate::server::server_message::ServerMessage;

/// Interval of comment lines, so that proxies do not close the stream as idle.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Messages of a queue as events.
pub(super) struct EventStream {
    first: Option<ServerMessage>,
    queue: mpsc::Receiver<ServerMessage>,
    keep_alive: Interval,
    /// Cancels the request on drop, unless the queue ended first.
    cancel: Option<DropGuard>,
}

impl EventStream {
    pub(super) fn new(first: Option<ServerMessage>, queue: mpsc::Receiver<ServerMessage>, cancel: DropGuard) -> Self {
        let mut keep_alive = interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first, queue, keep_alive, cancel: Some(cancel) }
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

impl hyper::body::Body for EventStream {
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
        match events.keep_alive.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n"))))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A message is one line of data.
fn event(message: &ServerMessage) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("event: message\ndata: {}\n\n", message.text())))
}
