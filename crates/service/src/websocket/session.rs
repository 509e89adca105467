//! Reads from and writes to a WebSocket while its program runs.
//!
//! A disconnect or silence aborts the run. So does a message that belongs to no call, and the report of the run says so: what
//! the run did is not lost. A reply that is too large or invalid fails its call. A run that waits for a person
//! is followed to its end; after its first pause it no longer depends on the WebSocket.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use toolgate_run::durable::{PendingView, RunStatus, RunView};
use toolgate_run::{PausedRun, RunReport, RunRequest};
use toolgate_wire::Warning;

use super::CountedWebSocket;
use super::handshake::Admitted;
use super::remote_functions::{Outgoing, RemoteFunctions};
use super::unfinished::{CountedConnection, UnfinishedBytes};
use crate::body::{Budget, NO_MEMORY, Share};
use crate::measured_json::counted_json;
use crate::refusal::Refusal;
use crate::run::Output;
use crate::{Caller, HttpService};

/// How long the caller may take to close the WebSocket after the last message.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a run may take to end after an invalid message.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the store is asked about a run that waits, whose end this process may not see.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How often the last message is in memory while it is sent: as it was written, and in the buffer of the WebSocket.
const LAST_COPIES: usize = 2;

/// The last message, and what counts it.
type LastMessage = (Utf8Bytes, Share);

/// Why reading stopped.
enum Stopped {
    /// The WebSocket is closed, or was silent for too long.
    Gone,
    /// The caller sent an invalid message.
    Invalid(Refusal),
}

/// What ends a run before its time.
#[derive(Default)]
struct Abort {
    /// A run that is kept goes on when it is dropped: this ends it.
    withdrawn: CancellationToken,
    /// Ends every other one, which is waited for.
    cancel: CancellationToken,
    /// Why it is ended, if the caller is to know.
    invalid: OnceLock<Refusal>,
}

/// Runs the program, and aborts it if the caller disconnects or sends an invalid message.
pub(super) async fn run(service: &HttpService, caller: &Caller, websocket: CountedWebSocket, run: Admitted) {
    let Admitted { request, output, remote_functions, outgoing } = run;
    let (abort, budget, silence) = (Abort::default(), service.budget(caller), service.limits().silence);
    let CountedWebSocket { stream, unfinished } = websocket;
    let (sink, stream) = stream.split();
    let mut writing = std::pin::pin!(write(sink, outgoing, silence / 3));
    let mut reading = std::pin::pin!(read(stream, &unfinished, &remote_functions, silence));
    // Dropping the run aborts it, and withdrawing it ends one that is kept, so every early return ends it.
    {
        let followed = FollowedRun { service, budget: &budget, remote_functions: &remote_functions, abort: &abort };
        let mut running = std::pin::pin!(followed.to_its_end(request, output));
        let ended = tokio::select! {
            ended = &mut running => Some(ended),
            stopped = &mut reading => {
                let is_invalid = matches!(stopped, Stopped::Invalid(_));
                if let Stopped::Invalid(refusal) = stopped {
                    let _ = abort.invalid.set(refusal);
                    abort.cancel.cancel();
                }
                abort.withdrawn.cancel();
                tokio::select! {
                    ended = tokio::time::timeout(ABORT_TIMEOUT, &mut running), if is_invalid => ended.ok(),
                    _ = &mut writing, if is_invalid => None,
                    else => None,
                }
            }
            _ = &mut writing => {
                abort.withdrawn.cancel();
                None
            }
        };
        let (last, share) = match ended {
            Some(Ok(last)) => last,
            Some(Err(refusal)) => refused(&budget, &refusal),
            None => return,
        };
        remote_functions.finish(last, share);
    }
    let is_reading = abort.invalid.get().is_none();
    let sent = async {
        tokio::select! {
            () = &mut writing => true,
            _ = &mut reading, if is_reading => false,
        }
    };
    // A caller that only sends would have the service keep the last message.
    if !tokio::time::timeout(silence, sent).await.unwrap_or(false) || !is_reading {
        return;
    }
    // The close frame is sent; the caller's close frame ends the reading.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, reading).await;
}

/// A run whose caller is at a WebSocket.
struct FollowedRun<'a> {
    service: &'a HttpService,
    budget: &'a Budget,
    remote_functions: &'a RemoteFunctions,
    abort: &'a Abort,
}

impl FollowedRun<'_> {
    /// Runs the program to its end, and tells the caller whenever the run waits for a person. Gives the last message.
    async fn to_its_end(&self, request: RunRequest, output: Output) -> Result<LastMessage, Refusal> {
        let FollowedRun { service, budget, remote_functions, abort } = self;
        let (caller, engine) = (request.caller.clone(), request.engine);
        let (withdrawn, cancel) = (Some(abort.withdrawn.clone()), abort.cancel.clone());
        let mut run = service.run(RunRequest { withdrawn, cancel, ..request }).await;
        let mut told = HashSet::new();
        while let Some(paused) = run.paused.clone() {
            if !paused.pending.is_empty() {
                remote_functions.paused(&paused);
                told.extend(paused.pending.iter().map(question_key));
            }
            let next = tokio::select! {
                next = after_pause(service, &paused.run_id, &caller.name, &told) => next?,
                // The run waits in its store, for another process.
                () = service.shutdown().begin.cancelled() => break,
                // It goes on without the WebSocket.
                () = abort.cancel.cancelled() => break,
            };
            match next {
                Next::Report(report) => run = *report,
                Next::Stored(report) => return kept_reply(budget, &paused.run_id, &report),
                Next::Unreadable => return Err(Refusal::NoSuchResult(unreadable(&paused.run_id))),
            }
        }
        let invalid = abort.invalid.get();
        run.report.warnings.extend(
            invalid.map(|refusal| {
                Warning::Remark(format!("the WebSocket was given up after an invalid message: {refusal}"))
            }),
        );
        let reply = service.reply(run, &caller, engine, &output)?;
        last_message(budget, &reply)
    }
}

/// `{"report": …}`.
fn last_message(budget: &Budget, report: &impl Serialize) -> Result<LastMessage, Refusal> {
    #[derive(Serialize)]
    struct Last<'a, R> {
        report: &'a R,
    }
    let (text, share) = counted_json(budget, &Last { report }, LAST_COPIES)?;
    Ok((Utf8Bytes::try_from(text).map_err(|_| Refusal::Internal)?, share))
}

/// `{"error": …}`, which is short.
fn refused(budget: &Budget, refusal: &Refusal) -> LastMessage {
    (json!(refusal.to_reply()).to_string().into(), budget.share())
}

/// What becomes of a run that waited.
enum Next {
    /// It has ended here, or waits again.
    Report(Box<RunReport>),
    /// It has ended elsewhere, or between two looks.
    Stored(Box<RawValue>),
    /// The same, and the store has no report of it.
    Unreadable,
}

/// A report that another process kept, with the fields of a reply that are not kept: the run's id, its path and `result`.
fn kept_reply(budget: &Budget, run: &str, report: &RawValue) -> Result<LastMessage, Refusal> {
    let mut reply: BTreeMap<String, &RawValue> = serde_json::from_str(report.get()).unwrap_or_default();
    let text = |text: &str| to_raw_value(text).map_err(|_| Refusal::Internal);
    let (id, path, value) = (text(run)?, text("script")?, reply.get("value").copied());
    for (name, value) in [("executionId", Some(&*id)), ("path", Some(&*path)), ("result", value)] {
        if let Some(value) = value {
            reply.entry(name.to_owned()).or_insert(value);
        }
    }
    last_message(budget, &reply)
}

fn unreadable(run: &str) -> String {
    format!("the run {run} has ended, and its report cannot be read")
}

/// Names a question: a server may ask several times about one call.
type QuestionKey = (u32, u64);

fn question_key(question: &PendingView) -> QuestionKey {
    (question.call_id, question.asked_at)
}

/// Waits until a run has ended, or waits for something else than the questions that the caller has been told.
async fn after_pause(
    service: &HttpService,
    run: &str,
    caller: &str,
    told: &HashSet<QuestionKey>,
) -> Result<Next, Refusal> {
    let runs = service.runs().await?;
    loop {
        if let Some(report) = runs.next_end(run, LOOK_INTERVAL).await {
            return Ok(Next::Report(Box::new(report)));
        }
        let RunView { summary, report, pending } = runs.view(run, Some(caller)).await?;
        match summary.status {
            RunStatus::Done => return Ok(report.map_or(Next::Unreadable, Next::Stored)),
            // Another process has paused it, or this one between two looks.
            RunStatus::Paused if pending.iter().any(|question| !told.contains(&question_key(question))) => {
                let paused = PausedRun { run_id: run.to_owned(), pending };
                return Ok(Next::Report(Box::new(RunReport::waiting(paused))));
            }
            RunStatus::Paused | RunStatus::Running => {}
        }
    }
}

/// Sends queued messages in order, and pings at an interval; ends after the last message, or when the caller has
/// disconnected.
async fn write(
    mut sink: SplitSink<WebSocketStream<CountedConnection>, Message>,
    mut outgoing: UnboundedReceiver<Outgoing>,
    every: Duration,
) {
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
            Some(Outgoing::Call(text, _permit)) => {
                if sink.send(Message::Text(text)).await.is_err() {
                    return;
                }
            }
            Some(Outgoing::Last(text, _share)) => {
                let close = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
                if sink.feed(Message::Text(text)).await.is_ok() {
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
async fn read(
    mut stream: SplitStream<WebSocketStream<CountedConnection>>,
    unfinished: &UnfinishedBytes,
    remote_functions: &RemoteFunctions,
    silence: Duration,
) -> Stopped {
    loop {
        match tokio::time::timeout(silence, stream.next()).await {
            Ok(Some(Ok(message))) => {
                match &message {
                    Message::Text(text) => {
                        if let Err(refusal) = remote_functions.handle_reply(text) {
                            return Stopped::Invalid(refusal);
                        }
                    }
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Binary(_) => return Stopped::Invalid(Refusal::BadRequest("messages must be text")),
                    Message::Close(_) | Message::Frame(_) => return Stopped::Gone,
                }
                unfinished.release(&message);
            }
            Ok(Some(Err(tungstenite::Error::Capacity(_)))) => {
                remote_functions.stop_reading();
                // The run goes on without replies; a disconnect is noticed when a ping cannot be sent.
                std::future::pending::<()>().await;
            }
            Ok(Some(Err(_))) if unfinished.is_refused() => {
                return Stopped::Invalid(Refusal::unavailable(NO_MEMORY));
            }
            Ok(Some(Err(_)) | None) | Err(_) => return Stopped::Gone,
        }
    }
}
