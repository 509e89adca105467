//! The messages of one request on their way to a client: those that precede its reply, then the reply.
//!
//! Messages before the reply wait in a short queue, and further ones at their sender. The reply does not: it may be large, so it is watched
//! for a client that does not read from the moment it is made, whatever waits before it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use super::reply_body::ReplyBody;
use crate::server::client::InFlight;
use crate::server::server_message::ServerMessage;

/// Messages queued for a client that reads slowly; further ones wait at the sender. Each is small: what it repeats of a client's
/// request or of a backend's report is bounded.
const MAX_QUEUED_MESSAGES: usize = 16;

/// A reply that is watched until the client has read it.
pub(super) struct OutgoingReply {
    pub(super) body: ReplyBody,
    /// The code, if it is an error.
    pub(super) code: Option<i64>,
    /// The request counts among those of its client until the reply is sent.
    _in_flight: InFlight,
}

/// A message in the order in which a client reads it.
pub(super) enum OutgoingMessage {
    /// One that precedes the reply.
    Preceding(ServerMessage),
    Reply(OutgoingReply),
}

impl OutgoingMessage {
    pub(super) fn into_body(self) -> ReplyBody {
        match self {
            OutgoingMessage::Preceding(message) => ReplyBody::of(message),
            OutgoingMessage::Reply(reply) => reply.body,
        }
    }
}

/// Sends the reply of a request.
pub(super) struct ReplySender(oneshot::Sender<OutgoingReply>);

impl ReplySender {
    /// Hands the reply over, without waiting for what is sent before it.
    pub(super) fn send(self, reply: ServerMessage, in_flight: InFlight) {
        let code = reply.code();
        let reply = OutgoingReply { body: ReplyBody::of(reply), code, _in_flight: in_flight };
        // Fails if the client is gone.
        let _ = self.0.send(reply);
    }
}

/// What is on its way.
pub(super) struct Outgoing {
    queue: mpsc::Receiver<ServerMessage>,
    reply: Option<oneshot::Receiver<OutgoingReply>>,
    /// A reply that was handed over while messages before it waited.
    held: Option<OutgoingReply>,
    /// Nothing follows a reply, also where something could still send notifications.
    is_over: bool,
}

impl Outgoing {
    /// The way of one request: for messages before its reply, and for the reply.
    pub(super) fn of_request() -> (mpsc::Sender<ServerMessage>, ReplySender, Self) {
        let (queue, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (sender, reply) = oneshot::channel();
        (queue, ReplySender(sender), Outgoing { queue: messages, reply: Some(reply), held: None, is_over: false })
    }

    /// The way of a stream that has no reply.
    pub(super) fn without_reply() -> (mpsc::Sender<ServerMessage>, Self) {
        let (queue, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
        (queue, Outgoing { queue: messages, reply: None, held: None, is_over: false })
    }

    pub(super) async fn next(&mut self) -> Option<OutgoingMessage> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next message; none at the end.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<OutgoingMessage>> {
        // Looked at before the queue: what precedes the reply was queued before the reply was made.
        self.take_reply(context);
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(reply) = self.held.take() {
            // Not polled: a task that has used up its turn would be told that the queue is empty.
            return Poll::Ready(Some(match self.queue.try_recv() {
                Ok(message) => {
                    self.held = Some(reply);
                    OutgoingMessage::Preceding(message)
                }
                Err(_) => {
                    self.is_over = true;
                    OutgoingMessage::Reply(reply)
                }
            }));
        }
        match self.queue.poll_recv(context) {
            Poll::Ready(Some(message)) => Poll::Ready(Some(OutgoingMessage::Preceding(message))),
            Poll::Ready(None) if self.reply.is_none() => Poll::Ready(None),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Takes the reply, if it was handed over.
    fn take_reply(&mut self, context: &mut Context<'_>) {
        let Some(reply) = &mut self.reply else { return };
        if let Poll::Ready(handed) = Pin::new(reply).poll(context) {
            self.held = handed.ok();
            self.reply = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::client::Client;
    use crate::server::server_message::Answer;
    use crate::server::service::RequestScope;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use toolgate_wire::ByteBudget;

    const LENGTH: usize = 8 << 20;

    fn event(number: usize) -> ServerMessage {
        ServerMessage::notification("notifications/progress", json!({ "progress": number }))
    }

    fn large_reply(budget: &ByteBudget) -> ServerMessage {
        let permit = budget.try_reserve(LENGTH).unwrap();
        ServerMessage::reply(&json!(1), Ok(Answer::Value(Value::String("x".repeat(LENGTH))))).counted_by(permit)
    }

    fn in_flight() -> InFlight {
        Arc::new(Client::new(1)).register(&json!(1), RequestScope::default()).unwrap()
    }

    #[tokio::test]
    async fn a_reply_behind_queued_events_is_watched_from_the_moment_it_is_made() {
        let budget = ByteBudget::new("b", 2 * LENGTH);
        let (queue, reply, mut outgoing) = Outgoing::of_request();
        for number in 0..MAX_QUEUED_MESSAGES {
            queue.try_send(event(number)).unwrap();
        }
        assert!(queue.try_send(event(99)).is_err(), "the queue is full");
        reply.send(large_reply(&budget), in_flight());
        assert_eq!(budget.used(), LENGTH);
        // The client reads none of it: two looks, as the watch makes them, drop the reply where it waits.
        let watched =
            outgoing.reply.as_mut().and_then(|reply| reply.try_recv().ok()).expect("it does not wait for the queue");
        let mut left = usize::MAX;
        assert!(watched.body.keeps_reading(&mut left));
        assert!(!watched.body.keeps_reading(&mut left));
        assert_eq!(budget.used(), 0);
        assert!(matches!(watched.body.next_piece(), Some(Err(_))), "the stream ends with an error");
    }

    #[tokio::test]
    async fn what_precedes_a_reply_is_sent_before_it_and_the_end_follows() {
        let budget = ByteBudget::new("b", 2 * LENGTH);
        let (queue, reply, mut outgoing) = Outgoing::of_request();
        for number in 0..3 {
            queue.try_send(event(number)).unwrap();
        }
        reply.send(large_reply(&budget), in_flight());
        for _ in 0..3 {
            assert!(matches!(outgoing.next().await, Some(OutgoingMessage::Preceding(_))));
        }
        // A sink that lives on, such as that of a task, does not hold the reply up.
        assert!(matches!(outgoing.next().await, Some(OutgoingMessage::Reply(_))));
        assert_eq!(budget.used(), 0, "dropped unsent");
        assert!(outgoing.next().await.is_none());
        drop(queue);
    }

    #[tokio::test]
    async fn a_request_without_a_reply_ends_its_messages() {
        let (queue, reply, mut outgoing) = Outgoing::of_request();
        drop((queue, reply));
        assert!(outgoing.next().await.is_none());
    }
}
