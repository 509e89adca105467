//! The stdio transport: one JSON message per line in each direction.
//!
//! Every request is a task of its own, so that none delays another. All of them write to one bounded queue: a client that
//! does not read delays only its own requests (back-pressure), and memory stays bounded. The end of input means that the
//! client has disconnected, which cancels its requests. Lines that are not JSON are answered, never skipped silently.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate_wire::BytePermit;

use super::change_notices;
use super::client::Client;
use super::dispatcher::{Dispatcher, NotificationSink};
use super::era;
use super::message::{self, Message, Request, RpcError};
use super::server_message::ServerMessage;
use super::service::{RequestScope, Service};
use super::{MAX_CLIENT_BYTES, MAX_MESSAGE_BYTES};
use crate::buffer::{Overflow, process_budget};
use crate::framing::lines::{Line, Lines, id_in};
use crate::json_text::{JsonText, MAX_TREE_FACTOR};

/// Messages queued for writing; further ones wait at the sender.
const MAX_QUEUED_MESSAGES: usize = 64;
/// How long requests may take to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long requests may take to finish after the end of input. Scripts that pipe their requests in and close the pipe still
/// get the replies to short ones.
const INPUT_END_TIMEOUT: Duration = Duration::from_millis(50);

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
    let (queue, server_message) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let mut writing = tokio::spawn(write(writer, server_message));
    let dispatcher = Arc::new(Dispatcher { service, closing: shutdown.clone() });
    let client = Arc::new(Client::over_pipe(Client::next_number()));
    let mut connection = Connection { dispatcher, client, scope, queue, tasks: JoinSet::new(), initialized: false };
    let budget = process_budget().child("one client", MAX_CLIENT_BYTES);
    let read = connection.read(Lines::new(reader, budget, MAX_MESSAGE_BYTES), &shutdown).await;
    connection.finish(if shutdown.is_cancelled() { DRAIN_TIMEOUT } else { INPUT_END_TIMEOUT }).await;
    if timeout(DRAIN_TIMEOUT, &mut writing).await.is_err() {
        writing.abort();
    }
    read
}

struct Connection {
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    scope: RequestScope,
    queue: mpsc::Sender<ServerMessage>,
    tasks: JoinSet<()>,
    /// Whether a legacy client has sent `initialize`.
    initialized: bool,
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
            // Frees the slots of finished tasks.
            while self.tasks.try_join_next().is_some() {}
            match line {
                Line::Whole(text, _) if text.trim_ascii().is_empty() => {}
                Line::Whole(text, permit) => self.handle_text(text, permit).await,
                Line::Discarded { id, reason: Overflow::TooLong } => {
                    self.refuse(id, message::too_large(MAX_MESSAGE_BYTES)).await;
                }
                Line::Discarded { id, reason: Overflow::OverBudget(refused) } => {
                    self.refuse(id, message::over_budget(&refused)).await;
                }
            }
        }
    }

    async fn handle_text(&mut self, text: Vec<u8>, permit: BytePermit) {
        let text = match JsonText::read(text, permit) {
            Ok(text) => text,
            Err((text, error)) => return self.refuse(id_in(&text), message::not_json(&error)).await,
        };
        let id = text.value().member("id").and_then(|id| serde_json::from_str(id.text()).ok());
        match text.into_tree(MAX_MESSAGE_BYTES.saturating_mul(MAX_TREE_FACTOR)) {
            Ok((message, permit)) => self.handle(message, Arc::new(permit)).await,
            Err(error) => self.refuse(id, message::no_tree(&error)).await,
        }
    }

    async fn refuse(&self, id: Option<Value>, error: RpcError) {
        let id = id.filter(message::is_id).unwrap_or_default();
        tokio::select! {
            _ = self.queue.send(ServerMessage::reply(&id, Err(error))) => {}
            // A client that does not read must not block the shutdown.
            () = self.dispatcher.closing.cancelled() => {}
        }
    }

    /// Handles a message. The messages of a batch are answered one by one, each reply on a line of its own.
    async fn handle(&mut self, message: Value, permit: Arc<BytePermit>) {
        match message {
            Value::Array(batch) if !batch.is_empty() => {
                for message in batch {
                    self.handle_one(message, Arc::clone(&permit)).await;
                }
            }
            message => self.handle_one(message, permit).await,
        }
    }

    async fn handle_one(&mut self, message: Value, permit: Arc<BytePermit>) {
        match Message::read(message) {
            Message::Request(request) => self.serve(request, permit).await,
            Message::Malformed { id, error } => self.refuse(Some(id), error).await,
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                self.client.cancel(&params);
            }
            Message::Notification { .. } => {}
            Message::Reply { id, result } => self.client.questions.answer(&id, result),
        }
    }

    /// Serves a request, whose bytes are counted until it is answered.
    async fn serve(&mut self, request: Request, permit: Arc<BytePermit>) {
        let id = request.id.clone();
        let era = era::of(&request, self.initialized);
        let (era, mut in_flight) = match era.and_then(|era| Ok((era, self.client.register(&id, self.scope.clone())?))) {
            Ok(accepted) => accepted,
            Err(error) => return self.refuse(Some(id), error).await,
        };
        in_flight.permit = Some(permit);
        self.client.note_revision(&request);
        if era::is_initialize(&request) {
            self.initialize();
        }
        let (dispatcher, queue) = (Arc::clone(&self.dispatcher), self.queue.clone());
        self.tasks.spawn(async move {
            let sink = NotificationSink::to(queue.clone());
            if let Some(reply) = dispatcher.reply(request, era, &in_flight, sink).await {
                let _ = queue.send(reply).await;
            }
        });
    }

    /// Starts the change notifications of a legacy client, which needs no subscription for lists.
    fn initialize(&mut self) {
        if std::mem::replace(&mut self.initialized, true) {
            return;
        }
        let (dispatcher, client, scope) = (Arc::clone(&self.dispatcher), Arc::clone(&self.client), self.scope.clone());
        let sink = NotificationSink::to(self.queue.clone());
        let mut changes = dispatcher.service.changes();
        self.tasks.spawn(async move {
            tokio::select! {
                () = client.disconnected() => {}
                () = dispatcher.closing.cancelled() => {}
                () = change_notices::forward_changes(&dispatcher, &client, &scope, &mut changes, &sink) => {}
            }
        });
    }

    /// Waits up to `grace` for requests to finish, then cancels the rest.
    async fn finish(mut self, grace: Duration) {
        let client = Arc::clone(&self.client);
        let _ = timeout(grace, async {
            while client.is_busy() && !self.queue.is_closed() && self.tasks.join_next().await.is_some() {}
        })
        .await;
        self.client.disconnect();
        let _ = timeout(DRAIN_TIMEOUT, async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

/// Writes messages, one per line, until the queue is closed or the client no longer reads.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut server_message: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = server_message.recv().await {
        // Counted until it is written.
        let (line, _permit) = message.framed("", "\n");
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}
