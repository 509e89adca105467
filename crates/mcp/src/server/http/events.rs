//! A stream of server-sent events as the body of a response.
//!
//! Dropping it, which is what a lost connection does, cancels the request that it answers. Events have no ids: streams
//! cannot be resumed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::protocol::EVENT_STREAM;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use hyper::body::Frame;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::DropGuard;

use super::outgoing::{Outgoing, OutgoingMessage};
use super::reply_body::{NotRead, ReplyBody};

/// Interval of comment lines, so that proxies do not close the stream as idle.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Messages on their way to a client, as events.
pub(super) struct EventStream {
    /// The event that is being sent.
    current: Option<ReplyBody>,
    outgoing: Outgoing,
    keep_alive: Interval,
    /// Cancels the request on drop, unless the messages ended first.
    cancel: Option<DropGuard>,
}

impl EventStream {
    pub(super) fn new(first: Option<OutgoingMessage>, outgoing: Outgoing, cancel: DropGuard) -> Self {
        let mut keep_alive = interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { current: first.map(event), outgoing, keep_alive, cancel: Some(cancel) }
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
    type Error = NotRead;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, NotRead>>> {
        let events = self.get_mut();
        if let Some(piece) = events.current.as_ref().and_then(ReplyBody::next_piece) {
            return Poll::Ready(Some(piece.map(Frame::data)));
        }
        match events.outgoing.poll_next(context) {
            Poll::Ready(Some(message)) => {
                let piece = events.current.insert(event(message)).next_piece();
                return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
            }
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
fn event(message: OutgoingMessage) -> ReplyBody {
    message.into_body().framed("event: message\ndata: ", "\n\n")
}
