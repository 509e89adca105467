//! The two directions of a socket while its program runs.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::lent::{Lent, Outgoing};
use super::opening::Admitted;
use crate::Service;
use crate::refusal::Refusal;
use crate::run::Output;

/// How long the other side may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// Why nothing more is read.
enum Stopped {
    /// The socket is closed, or silent for too long.
    Gone,
    /// It sent what makes no sense.
    Confused(Refusal),
}

/// Runs the program, and ends it if the other side goes.
pub(super) async fn talk(service: &Service, socket: WebSocket, run: Admitted) {
    let Admitted { request, lent, outgoing } = run;
    let silence = service.limits().silence;
    let (sink, stream) = socket.split();
    let mut writing = std::pin::pin!(write(sink, outgoing, silence / 3));
    let mut reading = std::pin::pin!(read(stream, &lent, silence));
    // Dropping the run kills its worker, so each way out of here before its end is an abort.
    {
        let mut running = std::pin::pin!(service.perform(request, Output::default()));
        let last = tokio::select! {
            ended = &mut running => match ended {
                Ok(reply) => json!({ "report": reply }),
                Err(refusal) => json!(refusal.to_reply()),
            },
            stopped = &mut reading => match stopped {
                Stopped::Gone => return,
                Stopped::Confused(refusal) => {
                    lent.finish(json!(refusal.to_reply()).to_string());
                    // Nothing is read any more: the answer is sent, and that is all.
                    let _ = tokio::time::timeout(GOODBYE, writing).await;
                    return;
                }
            },
            _ = &mut writing => return,
        };
        lent.finish(last.to_string());
    }
    tokio::select! {
        () = &mut writing => {}
        _ = &mut reading => return,
    }
    // The close was sent; the other side's ends the reading.
    let _ = tokio::time::timeout(GOODBYE, reading).await;
}

/// Sends what there is to send, in order, with a sign of life now and then; ends after the last message, or when the
/// socket takes no more.
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
                    // A socket that is closed by now needs no goodbye.
                    let _ = sink.send(Message::Close(Some(close))).await;
                }
                return;
            }
            None => return,
        }
    }
}

/// Takes answers until the socket closes, falls silent or makes no sense.
async fn read(mut stream: SplitStream<WebSocket>, lent: &Lent, silence: Duration) -> Stopped {
    loop {
        match tokio::time::timeout(silence, stream.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => {
                if let Err(refusal) = lent.answered(&text) {
                    return Stopped::Confused(refusal);
                }
            }
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(Message::Binary(_)))) => {
                return Stopped::Confused(Refusal::BadRequest("messages are text"));
            }
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return Stopped::Gone,
        }
    }
}
