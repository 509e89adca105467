//! `GET /v1/run/ws`: a run whose caller lends it functions and hears of it while it goes on.
//!
//! Text messages, JSON each. The caller opens with what `/v1/run` takes, except that `functions` describes what it
//! lends (and `builtins` may list which of the service's own are wanted):
//! ```json
//! {"code": "return addNumbers(1, 2)", "context": {}, "functions": {"addNumbers": {"params": {"a": "number", "b": "number"}}}}
//! ```
//! Then it hears `{"log": "…", "stream": "stdout"}` for each line as it is printed, and `{"call": 1, "fn": "addNumbers",
//! "args": [1, 2]}` for each call, which it answers with `{"call": 1, "result": 3}` or `{"call": 1, "error": "…"}`, in any
//! order. The last message is `{"report": {…}}`, as `/v1/run` answers, or `{"error": {…}}` if there was no run. Closing
//! the socket aborts the run at once.
//!
//! # Layout
//! - `opening`: what the caller sends first
//! - `lent`: functions that are carried out on the other side
//! - `talk`: the two directions while the program runs

mod lent;
mod opening;
mod talk;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use serde_json::json;

use super::refusal::Refusal;
use super::{Caller, Service};

/// Larger than any answer, so that one that is too large can be told so; a larger program or context is for `/v1/run`.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

pub(super) async fn upgrade(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let socket = socket.map_err(|_| Refusal::UpgradeRequired)?;
    let place = service.socket_place().ok_or_else(|| Refusal::unavailable("too many sockets are open"))?;
    let socket = socket.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    Ok(socket.on_upgrade(async move |socket| {
        let _place = place;
        serve(service, caller, socket).await;
    }))
}

/// One socket, one run.
async fn serve(service: Service, caller: Caller, mut socket: WebSocket) {
    let opened = tokio::select! {
        opened = tokio::time::timeout(service.limits().opening_time, first_message(&mut socket)) => opened,
        () = service.ending().begin.cancelled() => return close(&mut socket, close_code::AWAY, "shutting down").await,
    };
    let text = match opened {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(_) => return close(&mut socket, close_code::POLICY, "the first message did not come").await,
    };
    let run = opening::parse(text.as_bytes()).and_then(|opening| opening.admit(&service, &caller));
    match run {
        Ok(run) => talk::talk(&service, socket, run).await,
        Err(refusal) => {
            let message = json!(refusal.to_reply()).to_string();
            if socket.send(Message::text(message)).await.is_ok() {
                close(&mut socket, close_code::POLICY, "no run").await;
            }
        }
    }
}

/// The first text, past pings; nothing if the socket closes or sends something else.
async fn first_message(socket: &mut WebSocket) -> Option<axum::extract::ws::Utf8Bytes> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => return Some(text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return None,
        }
    }
}

async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    // Whether the other side still listens is its own affair.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
