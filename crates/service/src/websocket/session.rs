//! Reads from and writes to a WebSocket while its program runs.
//!
//! A disconnect, silence or an invalid message aborts the run. A reply that is too large fails its call.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_tungstenite::tungstenite;

use super::handshake::Admitted;
use super::remote_functions::{Outgoing, RemoteFunctions};
use crate::HttpService;
use crate::refusal::Refusal;

/// How long the caller may take to close the WebSocket after the last message.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why reading stopped.
enum Stopped {
    /// The WebSocket is closed, or was silent for too long.
    Gone,
    /// The caller sent an invalid message.
    Invalid(Refusal),
}

/// Runs the program, and aborts it if the caller disconnects.
pub(super) async fn run(service: &HttpService, websocket: WebSocket, run: Admitted) {
    let Admitted { request, output, remote_functions, outgoing } = run;
    let silence = service.limits().silence;
    let (sink, stream) = websocket.split();
    let mut writing = std::pin::pin!(write(sink, outgoing, silence / 3));
    let mut reading = std::pin::pin!(read(stream, &remote_functions, silence));
    // Dropping the run kills its worker, so every early return aborts it.
    {
        let mut running = std::pin::pin!(service.perform(request, output));
        let last = tokio::select! {
            ended = &mut running => match ended {
                Ok(reply) => json!({ "report": reply }),
                Err(refusal) => json!(refusal.to_reply()),
            },
            stopped = &mut reading => match stopped {
                Stopped::Gone => return,
                Stopped::Invalid(refusal) => {
                    remote_functions.finish(json!(refusal.to_reply()).to_string());
                    // Send the error; nothing more is read.
                    let _ = tokio::time::timeout(CLOSE_TIMEOUT, writing).await;
                    return;
                }
            },
            _ = &mut writing => return,
        };
        remote_functions.finish(last.to_string());
    }
    tokio::select! {
        () = &mut writing => {}
        _ = &mut reading => return,
    }
    // The close frame is sent; the caller's close frame ends the reading.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, reading).await;
}

/// Sends queued messages in order, and pings at an interval; ends after the last message, or when the caller has
/// disconnected.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut outgoing: UnboundedReceiver<Outgoing>, every: Duration) {
    let mut pings = tokio::time::interval(every);
    pings.reset();
    loop {
        let next = tokio::select! {
            next = outgoing.recv() => next,
            _ = pings.tick() => {
                if sink.send(Message::Ping(Default::default())).await.is_err() {
                    return;
                }
                continue;
            }
        };
        match next {
            Some(Outgoing::Text(text)) => {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            Some(Outgoing::Last(text)) => {
                let close = CloseFrame { code: close_code::NORMAL, reason: "".into() };
                if sink.feed(Message::text(text)).await.is_ok() {
                    // An error means that the WebSocket is closed already.
                    let _ = sink.send(Message::Close(Some(close))).await;
                }
                return;
            }
            None => return,
        }
    }
}

/// Handles replies until the WebSocket closes, is silent for too long, or sends an invalid message.
async fn read(mut stream: SplitStream<WebSocket>, remote_functions: &RemoteFunctions, silence: Duration) -> Stopped {
    loop {
        match tokio::time::timeout(silence, stream.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => {
                if let Err(refusal) = remote_functions.handle_reply(&text) {
                    return Stopped::Invalid(refusal);
                }
            }
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(Message::Binary(_)))) => {
                return Stopped::Invalid(Refusal::BadRequest("messages must be text"));
            }
            Ok(Some(Err(error))) if is_too_large(&error) => {
                remote_functions.stop_reading();
                // The run goes on without replies; a disconnect is noticed when a ping cannot be sent.
                std::future::pending::<()>().await;
            }
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return Stopped::Gone,
        }
    }
}

/// Whether a message was refused for its size.
fn is_too_large(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    matches!(source.and_then(|source| source.downcast_ref()), Some(tungstenite::Error::Capacity(_)))
}
