//! A response body that marks its connection as busy until it is sent.
//!
//! Passes the bytes through unchanged.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::connections::BusyMark;

/// A response body with its busy mark.
pub(super) struct BusyBody {
    pub(super) body: Body,
    pub(super) _busy: BusyMark,
}

impl HttpBody for BusyBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
