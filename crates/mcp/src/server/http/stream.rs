//! From one request to one response: JSON if it is quick and alone, else a stream of events.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::ErrorCode;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::events::Events;
use super::guard::Accepts;
use crate::server::desk::{Desk, Outlet};
use crate::server::era::Era;
use crate::server::message::{Request, error};
use crate::server::outgoing::Outgoing;
use crate::server::party::Flight;

/// Messages that may wait for a slow reader; more waits at the sender.
const QUEUE: usize = 16;
/// An answer that takes longer comes as a stream, so that everybody on the way sees that it is still coming.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves a request. A client that goes away cancels it.
pub(super) async fn respond(
    desk: &Arc<Desk>,
    request: Request,
    era: Era,
    flight: Flight,
    accepts: Accepts,
) -> Response {
    let id = request.id.clone();
    let cancel = flight.cancel.clone().drop_guard();
    let (queue, mut messages) = mpsc::channel(QUEUE);
    let outlet = if accepts.events { Outlet::to(queue.clone()) } else { Outlet::none() };
    let desk = Arc::clone(desk);
    tokio::spawn(async move {
        if let Some(reply) = desk.reply(request, era, &flight, outlet).await {
            let _ = queue.send(reply).await;
        }
    });
    let first = match accepts {
        Accepts { json: true, events: true } => timeout(PATIENCE, messages.recv()).await.ok(),
        Accepts { events: true, .. } => None,
        _ => Some(messages.recv().await),
    };
    match first {
        Some(Some(message)) if !message.is_notification() => {
            cancel.disarm();
            (status(&message, era), message).into_response()
        }
        Some(None) if !accepts.events => {
            Outgoing::reply(&id, Err(error(ErrorCode::INTERNAL_ERROR, "cancelled"))).into_response()
        }
        first => Events::new(first.flatten(), messages, cancel).into_response(),
    }
}

/// Modern clients learn some errors from the status already; legacy ones always from the body.
fn status(reply: &Outgoing, era: Era) -> StatusCode {
    let Some(code) = reply.code().filter(|_| era == Era::Modern) else { return StatusCode::OK };
    let is = |named: ErrorCode| code == named.0;
    if is(ErrorCode::METHOD_NOT_FOUND) {
        return StatusCode::NOT_FOUND;
    }
    let is_bad = is(ErrorCode::HEADER_MISMATCH)
        || is(ErrorCode::MISSING_CLIENT_CAPABILITY)
        || is(ErrorCode::UNSUPPORTED_VERSION);
    if is_bad { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}
