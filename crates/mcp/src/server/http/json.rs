//! Replies as JSON bodies.
//!
//! Messages are text already; nothing is serialised here.

use crate::protocol::JSON;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::outgoing::OutgoingReply;
use super::reply_body::ReplyBody;
use crate::server::server_message::ServerMessage;

impl IntoResponse for ServerMessage {
    fn into_response(self) -> Response {
        response(ReplyBody::of(self))
    }
}

impl IntoResponse for OutgoingReply {
    fn into_response(self) -> Response {
        response(self.body)
    }
}

/// The replies to a batch.
pub(super) fn list(replies: Vec<ServerMessage>) -> Response {
    let mut list = String::with_capacity(replies.iter().map(|reply| reply.text().len() + 1).sum::<usize>() + 1);
    let mut permits = Vec::new();
    for reply in replies {
        list.push(if list.is_empty() { '[' } else { ',' });
        let (text, permit) = reply.framed("", "");
        list.push_str(&text);
        permits.extend(permit);
    }
    list.push(']');
    response(ReplyBody::new(list, permits))
}

fn response(body: ReplyBody) -> Response {
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
