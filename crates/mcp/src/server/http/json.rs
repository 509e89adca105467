//! Answers that are JSON.

use crate::protocol::JSON;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::server::outgoing::Outgoing;

impl IntoResponse for Outgoing {
    fn into_response(self) -> Response {
        json(self.into_text())
    }
}

/// The answers to a batch.
pub(super) fn list(replies: &[Outgoing]) -> Response {
    let texts: Vec<_> = replies.iter().map(Outgoing::text).collect();
    json(format!("[{}]", texts.join(",")))
}

fn json(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
