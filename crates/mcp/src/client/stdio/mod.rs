//! A connection to a child process: one JSON message per line, each way.
//!
//! Three tasks serve it: one writes, one reads, and one watches the process and tidies up. A
//! request is a line out and a place in the table of pending answers; dropping it gives up the
//! place and tells the server that nobody waits any more. The `child` is a process group, and a
//! `warden` ends it should we be killed.

mod child;
mod stderr;
#[cfg(unix)]
mod warden;

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

use self::child::{Family, Launched};
use crate::client::inbox::Inbox;
use crate::framing::lines::{Line, Lines};
use crate::framing::scan::IdScan;
use crate::rpc::{self, Closing, Incoming, LinkError, Outgoing, Pending};

pub use self::child::Launch;
pub use self::stderr::StderrTail;

/// Lines that may wait to be written; more waits at the sender.
const OUTBOX: usize = 1024;
/// How long the last words of a dead child are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A connection to a running child.
#[derive(Debug)]
pub struct StdioLink {
    outbox: mpsc::Sender<Vec<u8>>,
    reception: Arc<Reception>,
    closed: watch::Receiver<Option<Arc<Closing>>>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
    pid: Option<u32>,
}

/// Where lines from the child go.
#[derive(Debug)]
struct Reception {
    pending: Pending,
    inbox: Arc<Inbox>,
    /// Weak, so that a reader does not keep the child's input open.
    answers: mpsc::WeakSender<Vec<u8>>,
    limit: usize,
}

impl StdioLink {
    /// Starts the child.
    pub fn start(launch: &Launch, inbox: Arc<Inbox>, tail: Arc<StderrTail>, limit: usize) -> std::io::Result<Self> {
        let Launched { family, stdin, stdout, stderr } = launch.start()?;
        tail.clear();
        let pid = family.pid();
        let (outbox, lines) = mpsc::channel(OUTBOX);
        let answers = outbox.downgrade();
        let reception = Arc::new(Reception { pending: Pending::default(), inbox, answers, limit });
        let stop = CancellationToken::new();
        let (announce, closed) = watch::channel(None);
        let watcher = Watcher {
            family,
            writer: tokio::spawn(write(stdin, lines)),
            reader: tokio::spawn(read(stdout, Arc::clone(&reception))),
            listener: tokio::spawn({
                let tail = Arc::clone(&tail);
                async move { tail.follow(stderr).await }
            }),
            tail,
            reception: Arc::clone(&reception),
            announce,
        };
        tokio::spawn(watcher.watch(stop.clone()));
        let _stop_when_dropped = stop.clone().drop_guard();
        Ok(Self { outbox, reception, closed, stop, _stop_when_dropped, pid })
    }

    /// Sends a request and waits for its result.
    pub async fn request(&self, request: &Outgoing) -> Result<Value, LinkError> {
        let answer = self.reception.pending.open(request.id)?;
        let mut place = Place { link: self, id: request.id, owes_cancel: false };
        let mut line = request.encode();
        line.push(b'\n');
        // A failed send means that the watcher is about to say why; the answer carries it.
        if self.outbox.send(line).await.is_ok() {
            place.owes_cancel = request.is_cancellable();
        }
        let outcome = answer.await.unwrap_or_else(|_| Err(LinkError::Protocol("the answer was lost".to_owned())));
        place.owes_cancel = false;
        outcome
    }

    /// Sends a notification, unless the child has stopped reading.
    pub fn notify(&self, notification: &Value) {
        let _ = self.outbox.try_send(line_of(notification));
    }

    /// Waits until the child is gone.
    pub async fn closed(&self) -> Arc<Closing> {
        let mut closed = self.closed.clone();
        let gone = Closing { reason: "the process is gone".to_owned(), stderr: String::new(), is_formal: false };
        let closing = closed.wait_for(Option::is_some).await.ok().and_then(|closing| closing.clone());
        closing.unwrap_or_else(|| Arc::new(gone))
    }

    /// Ends the child and all it started, and waits until that is done.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.closed().await;
    }

    /// Whether the connection is of no more use.
    pub fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// The child process, while it is running.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// A place in the table of pending answers.
#[derive(Debug)]
struct Place<'a> {
    link: &'a StdioLink,
    id: u64,
    owes_cancel: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.link.reception.pending.forget(self.id);
        if self.owes_cancel {
            self.link.notify(&rpc::cancelled(self.id));
        }
    }
}

fn line_of(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read(stdout: ChildStdout, reception: Arc<Reception>) {
    let mut lines = Lines::new(stdout, reception.limit);
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Whole(text) => reception.take_line(text),
            Line::TooLong { id } => reception.refuse(id.as_ref().and_then(rpc::number)),
        }
    }
}

impl Reception {
    fn take_line(&self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice(text) {
            Ok(Value::Array(batch)) => batch.into_iter().for_each(|message| self.take(message)),
            Ok(message) => self.take(message),
            Err(error) => self.take_garbage(text, &error),
        }
    }

    fn take(&self, message: Value) {
        match rpc::sort(message) {
            Incoming::Reply { id, outcome } => self.deliver(id, outcome.map_err(LinkError::Rejected)),
            Incoming::Request { id, method } => {
                self.inbox.touch();
                let answer = line_of(&self.inbox.answer(&id, &method));
                if let Some(answers) = self.answers.upgrade() {
                    let _ = answers.try_send(answer);
                }
            }
            Incoming::Notification { method, params } => {
                self.inbox.touch();
                self.inbox.notice(&method, &params);
            }
            Incoming::Nonsense => count(&self.inbox.garbage),
        }
    }

    fn deliver(&self, id: Option<u64>, outcome: Result<Value, LinkError>) {
        self.inbox.touch();
        let taken = match id {
            Some(id) => self.pending.settle(id, outcome),
            None => outcome.is_err() && self.pending.settle_the_only_one(outcome),
        };
        if !taken {
            count(&self.inbox.stray);
        }
    }

    /// A print statement left in a server is common and harmless; a reply we can't read is not.
    fn take_garbage(&self, text: &[u8], error: &serde_json::Error) {
        count(&self.inbox.garbage);
        if let Some(id) = IdScan::of(text).as_ref().and_then(rpc::number) {
            let reason = format!("an answer is not readable JSON: {error}");
            self.pending.settle(id, Err(LinkError::Protocol(reason)));
        }
    }

    fn refuse(&self, id: Option<u64>) {
        self.inbox.touch();
        let error = LinkError::TooLarge { limit: self.limit };
        match id {
            Some(id) => drop(self.pending.settle(id, Err(error))),
            // It answered one of them, and none of them may hang for it.
            None => self.pending.fail_all(&error),
        }
    }
}

fn count(counter: &std::sync::atomic::AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Watches the process to its end, then fails what waits for it.
struct Watcher {
    family: Family,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    listener: JoinHandle<()>,
    tail: Arc<StderrTail>,
    reception: Arc<Reception>,
    announce: watch::Sender<Option<Arc<Closing>>>,
}

impl Watcher {
    async fn watch(mut self, stop: CancellationToken) {
        let reason = tokio::select! {
            biased;
            () = stop.cancelled() => {
                // Aborting the writer closes the child's input.
                self.writer.abort();
                self.family.end().await;
                "stopped by us".to_owned()
            }
            reason = self.family.ended() => reason,
            _ = &mut self.reader => self.deaf("closed its output").await,
            _ = &mut self.writer => self.deaf("closed its input").await,
        };
        // Before anything else: what it started must not outlive it.
        self.family.kill().await;
        last_words(&mut self.reader).await;
        last_words(&mut self.listener).await;
        self.writer.abort();
        let closing = Arc::new(Closing { reason, stderr: self.tail.shown(), is_formal: false });
        // In this order: a caller that sees its call fail must not find the connection open.
        self.announce.send_replace(Some(Arc::clone(&closing)));
        self.reception.pending.close(&closing);
    }

    /// A pipe ended: mostly because the process is about to exit, which tells more.
    async fn deaf(&mut self, otherwise: &str) -> String {
        timeout(LAST_WORDS, self.family.ended()).await.unwrap_or_else(|_| otherwise.to_owned())
    }
}

/// Lets a task read what is still in the pipe of a dead process.
async fn last_words(task: &mut JoinHandle<()>) {
    if !task.is_finished() && timeout(LAST_WORDS, &mut *task).await.is_err() {
        task.abort();
    }
}
