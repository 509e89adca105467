//! A client at the other end of two pipes: one JSON message per line, each way.
//!
//! Every request is a task of its own, so none holds up another. All write through one bounded
//! queue: a client that does not read holds up its own requests, and memory stays where it is.
//! When the input ends the client is gone, and what it asked for is cancelled.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::LARGEST_MESSAGE;
use super::desk::{Desk, Outlet};
use super::era;
use super::message::{self, Message, Request, RpcError};
use super::news;
use super::outgoing::Outgoing;
use super::party::Party;
use super::service::{RequestScope, Service};
use crate::framing::lines::{Line, Lines};
use crate::framing::scan::IdScan;

/// Messages that may wait to be written; more waits at the sender.
const QUEUE: usize = 64;
/// How long requests may take to finish when we are asked to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// How long after the end of input answers may still come: enough for what was all but done, for scripts that
/// write their questions and close the pipe.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// Serves one client until its input ends, its output breaks, or `shutdown` is cancelled.
pub async fn serve_stdio<R, W>(
    service: Arc<dyn Service>,
    scope: RequestScope,
    reader: R,
    writer: W,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let mut writing = tokio::spawn(write(writer, outgoing));
    let desk = Arc::new(Desk { service, closing: shutdown.clone() });
    let party = Arc::new(Party::new(Party::number()));
    let mut connection = Connection { desk, party, scope, queue, tasks: JoinSet::new(), greeted: false };
    let read = connection.read(Lines::new(reader, LARGEST_MESSAGE), &shutdown).await;
    connection.finish(if shutdown.is_cancelled() { DRAIN } else { LAST_WORDS }).await;
    if timeout(DRAIN, &mut writing).await.is_err() {
        writing.abort();
    }
    read
}

struct Connection {
    desk: Arc<Desk>,
    party: Arc<Party>,
    scope: RequestScope,
    queue: mpsc::Sender<Outgoing>,
    tasks: JoinSet<()>,
    /// Whether a legacy client has introduced itself.
    greeted: bool,
}

impl Connection {
    async fn read<R: AsyncRead + Unpin>(
        &mut self,
        mut lines: Lines<R>,
        shutdown: &CancellationToken,
    ) -> io::Result<()> {
        loop {
            let line = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = self.queue.closed() => return Ok(()),
                line = lines.next() => line?,
            };
            let Some(line) = line else { return Ok(()) };
            // Whoever writes faster than it reads waits here, and with it all that it would still ask.
            while self.tasks.try_join_next().is_some() {}
            match line {
                Line::Whole(text) if text.trim_ascii().is_empty() => {}
                Line::Whole(text) => match serde_json::from_slice(text) {
                    Ok(message) => self.take(message).await,
                    Err(error) => {
                        let id = IdScan::of(text);
                        self.refuse(id, message::not_json(&error)).await;
                    }
                },
                Line::TooLong { id } => self.refuse(id, message::too_large(LARGEST_MESSAGE)).await,
            }
        }
    }

    async fn refuse(&self, id: Option<Value>, error: RpcError) {
        tokio::select! {
            _ = self.queue.send(Outgoing::reply(&id.unwrap_or_default(), Err(error))) => {}
            // A client that does not read must not keep us from stopping.
            () = self.desk.closing.cancelled() => {}
        }
    }

    /// Serves a message. Those of a batch are served each for itself: same answers, only not in one line.
    async fn take(&mut self, message: Value) {
        match message {
            Value::Array(batch) if !batch.is_empty() => {
                for message in batch {
                    self.take_one(message).await;
                }
            }
            message => self.take_one(message).await,
        }
    }

    async fn take_one(&mut self, message: Value) {
        match Message::read(message) {
            Message::Request(request) => self.serve(request).await,
            Message::Malformed { id, error } => self.refuse(Some(id), error).await,
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                self.party.cancel(&params);
            }
            Message::Notification { .. } | Message::Reply => {}
        }
    }

    async fn serve(&mut self, request: Request) {
        let id = request.id.clone();
        let era = era::of(&request, self.greeted);
        let (era, flight) = match era.and_then(|era| Ok((era, self.party.board(&id, self.scope.clone())?))) {
            Ok(accepted) => accepted,
            Err(error) => return self.refuse(Some(id), error).await,
        };
        if era::is_greeting(&request) {
            self.greet();
        }
        let (desk, queue) = (Arc::clone(&self.desk), self.queue.clone());
        self.tasks.spawn(async move {
            let outlet = Outlet::to(queue.clone());
            if let Some(reply) = desk.reply(request, era, &flight, outlet).await {
                let _ = queue.send(reply).await;
            }
        });
    }

    /// A legacy client hears of changes without asking.
    fn greet(&mut self) {
        if std::mem::replace(&mut self.greeted, true) {
            return;
        }
        let (desk, party, scope) = (Arc::clone(&self.desk), Arc::clone(&self.party), self.scope.clone());
        let outlet = Outlet::to(self.queue.clone());
        let mut changes = desk.service.changes();
        self.tasks.spawn(async move {
            tokio::select! {
                () = party.left() => {}
                () = desk.closing.cancelled() => {}
                () = news::relay(&desk, &party, &scope, &mut changes, &outlet) => {}
            }
        });
    }

    /// Lets requests finish for a while, then ends them.
    async fn finish(mut self, patience: Duration) {
        let party = Arc::clone(&self.party);
        let _ = timeout(patience, async {
            while party.is_busy() && !self.queue.is_closed() && self.tasks.join_next().await.is_some() {}
        })
        .await;
        self.party.leave();
        let _ = timeout(DRAIN, async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

/// Writes messages as they come, one to a line; ends when nobody sends or nobody reads any more.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(message) = outgoing.recv().await {
        let mut line = message.into_text();
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}
