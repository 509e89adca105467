//! `GET /v1/run/ws`: a run with functions that the caller implements, and with its log lines while it runs.
//!
//! Every message is JSON text. The first one is the body of `/v1/run`, except that `functions` describes the functions that
//! the caller implements (and `builtins` may list which of the service's own are wanted):
//! ```json
//! {"code": "return addNumbers(1, 2)", "context": {}, "functions": {"addNumbers": {"params": {"a": "number", "b": "number"}}}}
//! ```
//! The service then sends `{"log": "…", "stream": "stdout"}` for each line as it is printed, and `{"call": 1, "fn": "addNumbers",
//! "args": [1, 2]}` for each call, which the caller answers with `{"call": 1, "result": 3}` or `{"call": 1, "error": "…"}`, in any
//! order. Where calls wait for a person it sends `{"paused": {"runId": "…", "pending": […]}}`, and goes on once they are decided, such as
//! by `POST /v1/runs/{runId}/decisions`. The last message is `{"report": {…}}`, the reply of `/v1/run`, or `{"error": {…}}` if there
//! was no run. Closing the WebSocket aborts the run at once; after its first pause the run goes on by itself instead. A WebSocket carries
//! one run.
//!
//! # Layout
//! - `handshake`: the first message
//! - `remote_functions`: functions that the caller implements
//! - `session`: reading and writing while the program runs

mod handshake;
mod remote_functions;
mod session;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;

use super::refusal::Refusal;
use super::{Caller, HttpService, trace};
use toolgate_mcp::RequestOrigin;

/// The largest message, in bytes. Above the limit of a function's reply, so that replies can be read after one that is over
/// that limit. After a larger message no reply can be read.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

pub(super) async fn upgrade(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    websocket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let websocket = websocket.map_err(|_| Refusal::UpgradeRequired)?;
    let permit = service.websocket_permit().ok_or_else(|| Refusal::unavailable("too many WebSockets are open"))?;
    let origin = trace::origin(&headers);
    let websocket = websocket.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    Ok(websocket.on_upgrade(async move |websocket| {
        let _permit = permit;
        serve(service, caller, origin, websocket).await;
    }))
}

/// Serves one WebSocket.
async fn serve(service: HttpService, caller: Caller, origin: RequestOrigin, mut websocket: WebSocket) {
    let opened = tokio::select! {
        opened = tokio::time::timeout(service.limits().handshake_time, first_message(&mut websocket)) => opened,
        () = service.shutdown().begin.cancelled() => return close(&mut websocket, close_code::AWAY, "shutting down").await,
    };
    let text = match opened {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(_) => return close(&mut websocket, close_code::POLICY, "no first message was received in time").await,
    };
    let run = handshake::parse(text.as_bytes()).and_then(|handshake| handshake.admit(&service, &caller, origin));
    match run {
        Ok(run) => session::run(&service, websocket, run).await,
        Err(refusal) => {
            let message = json!(refusal.to_reply()).to_string();
            if websocket.send(Message::text(message)).await.is_ok() {
                close(&mut websocket, close_code::POLICY, "the run was refused").await;
            }
        }
    }
}

/// The first text message, after any pings; none if the WebSocket closes or sends another type.
async fn first_message(websocket: &mut WebSocket) -> Option<axum::extract::ws::Utf8Bytes> {
    loop {
        match websocket.recv().await {
            Some(Ok(Message::Text(text))) => return Some(text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return None,
        }
    }
}

async fn close(websocket: &mut WebSocket, code: u16, reason: &'static str) {
    // An error means that the caller has disconnected already.
    let _ = websocket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
