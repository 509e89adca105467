//! From one request to one HTTP response: JSON if the reply is ready soon and nothing precedes it, else an event stream.
//!
//! Dropping the response, which is what a lost connection does, cancels the request.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::ErrorCode;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::events::EventStream;
use super::negotiation::Accepts;
use super::outgoing::{Outgoing, OutgoingMessage, OutgoingReply};
use crate::server::client::InFlight;
use crate::server::dispatcher::{Dispatcher, NotificationSink};
use crate::server::era::Era;
use crate::server::message::{Request, error};
use crate::server::server_message::ServerMessage;

/// A reply that takes longer is sent as an event stream, whose keep-alive lines stop proxies from closing the connection.
const JSON_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a request.
pub(super) async fn respond(
    dispatcher: &Arc<Dispatcher>,
    request: Request,
    era: Era,
    in_flight: InFlight,
    accepts: Accepts,
) -> Response {
    let id = request.id.clone();
    let cancel = in_flight.cancel.clone().drop_guard();
    let (queue, sender, mut outgoing) = Outgoing::of_request();
    let sink = if accepts.events {
        NotificationSink::to(queue)
    } else {
        drop(queue);
        NotificationSink::none()
    };
    let dispatcher = Arc::clone(dispatcher);
    tokio::spawn(async move {
        if let Some(reply) = dispatcher.reply(request, era, &in_flight, sink).await {
            sender.send(reply, in_flight);
        }
    });
    let first = match accepts {
        Accepts { json: true, events: true } => timeout(JSON_ANSWER_TIMEOUT, outgoing.next()).await.ok(),
        Accepts { events: true, .. } => None,
        _ => Some(outgoing.next().await),
    };
    match first {
        Some(Some(OutgoingMessage::Reply(reply))) => {
            cancel.disarm();
            (status(&reply, era), reply).into_response()
        }
        Some(None) if !accepts.events => {
            ServerMessage::reply(&id, Err(error(ErrorCode::INTERNAL_ERROR, "cancelled"))).into_response()
        }
        first => EventStream::new(first.flatten(), outgoing, cancel).into_response(),
    }
}

/// In the modern era some errors have an HTTP status of their own; in the legacy era every reply is a 200.
fn status(reply: &OutgoingReply, era: Era) -> StatusCode {
    let Some(code) = reply.code.filter(|_| era == Era::Modern) else { return StatusCode::OK };
    let is = |named: ErrorCode| code == named.0;
    if is(ErrorCode::METHOD_NOT_FOUND) {
        return StatusCode::NOT_FOUND;
    }
    let is_bad = is(ErrorCode::HEADER_MISMATCH)
        || is(ErrorCode::MISSING_CLIENT_CAPABILITY)
        || is(ErrorCode::UNSUPPORTED_VERSION);
    if is_bad { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}
