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
//! A reply that is invalid fails its call. After a message that belongs to no call the run is aborted, and its report says why.
//!
//! # Layout
//! - `handshake`: the first message
//! - `remote_functions`: functions that the caller implements
//! - `session`: reading and writing while the program runs
//! - `unfinished`: the connection, which counts messages that are not finished

mod handshake;
mod remote_functions;
mod session;
mod unfinished;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use self::unfinished::{CountedConnection, READ_BYTES, UnfinishedBytes};
use super::body::NO_MEMORY;
use super::refusal::Refusal;
use super::{Caller, HttpService, trace};
use toolgate_mcp::RequestOrigin;

/// The largest message, in bytes. Above the limit of a function's reply, so that replies can be read after one that is over
/// that limit. After a larger message no reply can be read.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

/// A WebSocket, and what it holds of unfinished messages.
struct CountedWebSocket {
    stream: WebSocketStream<CountedConnection>,
    unfinished: UnfinishedBytes,
}

/// Upgrades the connection. Not by `axum`, whose WebSockets count no bytes.
pub(super) async fn upgrade(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let upgrading = hyper::upgrade::on(&mut request);
    let request = request.map(drop);
    let response = create_response(&request).map_err(|_| Refusal::UpgradeRequired)?;
    let busy = || Refusal::unavailable("too many WebSockets are open");
    let permit = service.websocket_permit(&caller).ok_or_else(busy)?;
    let origin = trace::origin(request.headers());
    tokio::spawn(async move {
        let _permit = permit;
        // An error means that the caller has disconnected already.
        let Ok(connection) = upgrading.await else { return };
        let unfinished = UnfinishedBytes::new(service.budget(&caller).share());
        let connection = CountedConnection::new(connection, unfinished.clone());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let stream = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        serve(service, caller, origin, CountedWebSocket { stream, unfinished }).await;
    });
    Ok(response.map(|()| Body::empty()))
}

/// Serves one WebSocket.
async fn serve(service: HttpService, caller: Caller, origin: RequestOrigin, mut websocket: CountedWebSocket) {
    let opened = tokio::select! {
        opened = tokio::time::timeout(service.limits().handshake_time, first_message(&mut websocket)) => opened,
        () = service.shutdown().begin.cancelled() => return close(&mut websocket, CloseCode::Away, "shutting down").await,
    };
    let first = match opened {
        Ok(Some(first)) => first,
        Ok(None) => return,
        Err(_) => return close(&mut websocket, CloseCode::Policy, "no first message was received in time").await,
    };
    let run = first.and_then(|text| {
        let handshake = handshake::parse(text.as_bytes())?;
        websocket.unfinished.release(&Message::Text(text));
        handshake.admit(&service, &caller, origin)
    });
    match run {
        Ok(run) => session::run(&service, &caller, websocket, run).await,
        Err(refusal) => {
            let message = json!(refusal.to_reply()).to_string();
            if websocket.stream.send(Message::text(message)).await.is_ok() {
                close(&mut websocket, CloseCode::Policy, "the run was refused").await;
            }
        }
    }
}

/// The first text message, after any pings, or why another one is refused; none if the WebSocket closes.
async fn first_message(websocket: &mut CountedWebSocket) -> Option<Result<Utf8Bytes, Refusal>> {
    loop {
        match websocket.stream.next().await? {
            Ok(Message::Text(text)) => return Some(Ok(text)),
            Ok(Message::Binary(_)) => return Some(Err(Refusal::BadRequest("messages must be text"))),
            Ok(message @ (Message::Ping(_) | Message::Pong(_))) => websocket.unfinished.release(&message),
            Err(_) if websocket.unfinished.is_refused() => return Some(Err(Refusal::unavailable(NO_MEMORY))),
            Ok(Message::Close(_) | Message::Frame(_)) | Err(_) => return None,
        }
    }
}

async fn close(websocket: &mut CountedWebSocket, code: CloseCode, reason: &'static str) {
    // An error means that the caller has disconnected already.
    let _ = websocket.stream.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
