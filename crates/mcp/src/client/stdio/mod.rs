//! A connection to a child process: one JSON message per line in each direction.
//!
//! Three tasks serve it: one writes, one reads, one waits for the process and cleans up. A request is a written line and an
//! entry in the table of pending replies; dropping it removes the entry and cancels the request at the server. The `child`
//! is a process group; a `reaper` kills it if this process is killed. A child that exits is not restarted here.

mod child;
#[cfg(unix)]
mod reaper;
mod sandbox;
mod stderr;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_wire::ByteBudget;

use self::child::{Launched, ProcessGroup};
use crate::buffer::{Overflow, process_budget};
use crate::client::inbox::Inbox;
use crate::framing::lines::{Line, Lines, id_in};
use crate::json_text::{JsonText, NotJson, range_in};
use crate::rpc::{self, Closing, Incoming, LinkError, OutgoingRequest, OutgoingText, PendingReplies};

pub use self::child::{InheritedEnv, Launch};
pub use self::sandbox::{SandboxSupport, StdioSandbox};
pub use self::stderr::StderrTail;

/// Lines queued for writing; further ones wait at the sender.
const MAX_QUEUED_LINES: usize = 1024;
/// The size of a pipe; a longer message is written in several parts anyway.
const PIPE_BYTES: usize = 64 << 10;
/// A backend may have this multiple of its largest message in flight: one that is read, and one that waits for the budget of
/// its request.
const MESSAGES_IN_FLIGHT: usize = 2;
/// How long to read what an exited child left in its pipes.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to a running child.
#[derive(Debug)]
pub struct StdioLink {
    outbox: mpsc::Sender<OutgoingText>,
    router: Arc<MessageRouter>,
    closed: watch::Receiver<Option<Arc<Closing>>>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
    pid: Option<u32>,
}

/// Routes lines from the child to pending requests and the inbox.
#[derive(Debug)]
struct MessageRouter {
    pending: PendingReplies,
    inbox: Arc<Inbox>,
    /// Weak, so that the reader does not keep the child's input open.
    answers: mpsc::WeakSender<OutgoingText>,
    limit: usize,
    /// Counts replies that are read and not yet taken.
    budget: ByteBudget,
}

impl StdioLink {
    /// Starts the child.
    pub fn start(launch: &Launch, inbox: Arc<Inbox>, tail: Arc<StderrTail>, limit: usize) -> std::io::Result<Self> {
        let Launched { group, stdin, stdout, stderr } = launch.start()?;
        tail.begin(launch.redactor.clone());
        let pid = group.pid();
        let (outbox, lines) = mpsc::channel(MAX_QUEUED_LINES);
        let answers = outbox.downgrade();
        let budget = process_budget().child("one backend", limit.saturating_mul(MESSAGES_IN_FLIGHT));
        let router = Arc::new(MessageRouter { pending: PendingReplies::default(), inbox, answers, limit, budget });
        let stop = CancellationToken::new();
        let (announce, closed) = watch::channel(None);
        let watcher = Watcher {
            group,
            writer: tokio::spawn(write(stdin, lines)),
            reader: tokio::spawn(read(stdout, Arc::clone(&router))),
            listener: tokio::spawn({
                let tail = Arc::clone(&tail);
                async move { tail.follow(stderr).await }
            }),
            tail,
            router: Arc::clone(&router),
            announce,
        };
        tokio::spawn(watcher.watch(stop.clone()));
        let _stop_when_dropped = stop.clone().drop_guard();
        Ok(Self { outbox, router, closed, stop, _stop_when_dropped, pid })
    }

    /// Sends a request and waits for its result.
    pub(crate) async fn request(&self, mut request: OutgoingRequest) -> Result<JsonText, LinkError> {
        let line = request.encode().await?;
        let answer = self.router.pending.open(request.id)?;
        let mut pending = PendingRequest { link: self, id: request.id, cancel_on_drop: false };
        // A failed send means that the child is exiting; the watcher then fails the reply with the reason.
        if self.outbox.send(line).await.is_ok() {
            pending.cancel_on_drop = request.is_cancellable();
        }
        let outcome = answer.await.unwrap_or_else(|_| Err(LinkError::Protocol("the reply was lost".to_owned())));
        pending.cancel_on_drop = false;
        // The bytes count for the backend until the budget of the request has room for them.
        outcome?.move_to(&request.budget).await.map_err(|refused| LinkError::OverBudget { refused, sent: true })
    }

    /// Sends a notification; drops it if the queue is full because the child does not read.
    pub(crate) fn notify(&self, notification: &Value) {
        let _ = self.outbox.try_send(OutgoingText::of(notification));
    }

    /// Waits until the child has exited.
    pub(crate) async fn closed(&self) -> Arc<Closing> {
        let mut closed = self.closed.clone();
        let gone = Closing { reason: "the process has exited".to_owned(), stderr: String::new(), is_expected: false };
        let closing = closed.wait_for(Option::is_some).await.ok().and_then(|closing| closing.clone());
        closing.unwrap_or_else(|| Arc::new(gone))
    }

    /// Ends the process group, and waits until that is done.
    pub(crate) async fn shut_down(&self) {
        self.stop.cancel();
        self.closed().await;
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// The process id of the child.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// An entry in the table of pending replies; dropping it before the reply cancels the request.
#[derive(Debug)]
struct PendingRequest<'a> {
    link: &'a StdioLink,
    id: u64,
    cancel_on_drop: bool,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.link.router.pending.forget(self.id);
        if self.cancel_on_drop {
            self.link.notify(&rpc::cancelled(self.id));
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<OutgoingText>) {
    while let Some(OutgoingText { bytes, permit }) = lines.recv().await {
        // A message and its end in one write where a pipe takes both: some servers read what is there, not lines.
        let written = if bytes.len() < PIPE_BYTES {
            stdin.write_all(&[&bytes[..], b"\n"].concat()).await
        } else {
            match stdin.write_all(&bytes).await {
                Ok(()) => stdin.write_all(b"\n").await,
                failed => failed,
            }
        };
        drop((bytes, permit));
        if written.is_err() {
            return;
        }
    }
}

async fn read(stdout: ChildStdout, router: Arc<MessageRouter>) {
    let mut lines = Lines::new(stdout, router.budget.clone(), router.limit);
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Whole(text, _) if text.trim_ascii().is_empty() => {}
            Line::Whole(text, permit) => match JsonText::read(text, permit) {
                Ok(text) => router.handle_text(text),
                Err((text, error)) => router.handle_malformed(&text, &error),
            },
            Line::Discarded { id, reason } => router.refuse(id.as_ref().and_then(rpc::request_id), reason),
        }
    }
}

impl MessageRouter {
    fn handle_text(&self, text: JsonText) {
        let reply = match rpc::classify(text.value()) {
            Incoming::Reply { id, outcome: Ok(result) } => (id, range_in(text.as_str(), result)),
            Incoming::Malformed => return rpc::messages(&text).for_each(|message| self.handle(rpc::classify(message))),
            other => return self.handle(other),
        };
        self.deliver(reply.0, Ok(text.cut(reply.1)));
    }

    fn handle(&self, message: Incoming<'_>) {
        match message {
            // Of a batch: several replies share a buffer, so each is copied.
            Incoming::Reply { id, outcome: Ok(result) } => {
                let copy = JsonText::copied(result, &self.budget);
                self.deliver(id, copy.map_err(|refused| LinkError::OverBudget { refused, sent: true }));
            }
            Incoming::Reply { id, outcome: Err(error) } => self.deliver(id, Err(LinkError::Rejected(error))),
            Incoming::Request { id, method, params } => {
                self.inbox.touch();
                let answer = OutgoingText::of(&self.inbox.answer_request(None, &id, &method, params));
                if let Some(answers) = self.answers.upgrade() {
                    let _ = answers.try_send(answer);
                }
            }
            Incoming::Notification { method, params } => {
                self.inbox.touch();
                self.inbox.handle_notification(&method, &params);
            }
            Incoming::Malformed => count(&self.inbox.malformed),
        }
    }

    fn deliver(&self, id: Option<u64>, outcome: Result<JsonText, LinkError>) {
        self.inbox.touch();
        if let Some(id) = id {
            self.inbox.open_calls.replied(id);
        }
        let taken = match id {
            Some(id) => self.pending.settle(id, outcome),
            None => outcome.is_err() && self.pending.settle_only_open(outcome),
        };
        if !taken {
            count(&self.inbox.unmatched_replies);
        }
    }

    /// A line of debug output is common and harmless; a reply that cannot be parsed must fail its request.
    fn handle_malformed(&self, text: &[u8], error: &NotJson) {
        count(&self.inbox.malformed);
        if let Some(id) = id_in(text).as_ref().and_then(rpc::request_id) {
            let reason = format!("a reply is not valid JSON: {error}");
            self.pending.settle(id, Err(LinkError::Protocol(reason)));
        }
    }

    fn refuse(&self, id: Option<u64>, reason: Overflow) {
        self.inbox.touch();
        let error = LinkError::of_reply(reason, self.limit);
        match id {
            Some(id) => drop(self.pending.settle(id, Err(error))),
            // It answers one of the pending requests, unknown which: fail all of them, so that none waits for ever.
            None => self.pending.fail_all(&error),
        }
    }
}

fn count(counter: &std::sync::atomic::AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Waits for the process to end, then fails the pending requests.
struct Watcher {
    group: ProcessGroup,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    listener: JoinHandle<()>,
    tail: Arc<StderrTail>,
    router: Arc<MessageRouter>,
    announce: watch::Sender<Option<Arc<Closing>>>,
}

impl Watcher {
    async fn watch(mut self, stop: CancellationToken) {
        let reason = tokio::select! {
            biased;
            () = stop.cancelled() => {
                // Aborting the writer closes the child's input.
                self.writer.abort();
                self.group.end().await;
                "stopped by toolgate".to_owned()
            }
            reason = self.group.ended() => reason,
            _ = &mut self.reader => self.pipe_closed("closed its output").await,
            _ = &mut self.writer => self.pipe_closed("closed its input").await,
        };
        // First: processes that it started must not outlive it.
        self.group.kill().await;
        drain_pipe(&mut self.reader).await;
        drain_pipe(&mut self.listener).await;
        self.writer.abort();
        let closing = Arc::new(Closing { reason, stderr: self.tail.shown(), is_expected: false });
        // In this order: when a request fails, the connection must already be marked as closed.
        self.announce.send_replace(Some(Arc::clone(&closing)));
        self.router.pending.close(&closing);
    }

    /// A pipe was closed, usually because the process is exiting; its exit status then is the better reason.
    async fn pipe_closed(&mut self, otherwise: &str) -> String {
        timeout(PIPE_DRAIN_TIMEOUT, self.group.ended()).await.unwrap_or_else(|_| otherwise.to_owned())
    }
}

/// Lets a task read what an exited process left in its pipe.
async fn drain_pipe(task: &mut JoinHandle<()>) {
    if !task.is_finished() && timeout(PIPE_DRAIN_TIMEOUT, &mut *task).await.is_err() {
        task.abort();
    }
}
