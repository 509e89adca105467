//! Replies as JSON bodies.
//!
//! Messages are text already; nothing is serialised here.

use crate::protocol::JSON;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::server::server_message::ServerMessage;

impl IntoResponse for ServerMessage {
    fn into_response(self) -> Response {
        json(self.into_text())
    }
}

/// The replies to a batch.
pub(super) fn list(replies: &[ServerMessage]) -> Response {
    let texts: Vec<_> = replies.iter().map(ServerMessage::text).collect();
    json(format!("[{}]", texts.join(",")))
}

fn json(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
