//! Functions that the caller implements on the other side of a WebSocket.
//!
//! Matches replies to calls; also forwards log lines. Reading and writing is up to `session`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use toolgate_engine::Observer;
use toolgate_engine::host::Target;
use toolgate_wire::frame::Stream;
use toolgate_wire::{ByteBudget, BytePermit, CallErrorCode};

use crate::body::{self, Share};
use crate::measured_json::MeasuredJson;
use crate::refusal::Refusal;
use toolgate_functions::{ErrorCode, FailedEffect, FunctionAnswer, FunctionError, counted_bytes, is_json};
use toolgate_run::PausedRun;

/// The most bytes of one call with its arguments, and of one reply.
const MAX_CALL_BYTES: usize = 1024 * 1024;
/// The most bytes of an error that is passed on.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// A message to the caller.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A log line or a pause.
    Text(String),
    /// A call, and what counts it until it is sent.
    Call(Utf8Bytes, BytePermit),
    /// The last message, and what counts it until it is sent.
    Last(Utf8Bytes, Share),
}

/// A call as the caller sees it.
#[derive(Serialize)]
struct CallMessage<'a> {
    call: u64,
    #[serde(rename = "fn")]
    name: &'a str,
    args: &'a [Value],
}

type Answer = Result<FunctionAnswer, FunctionError>;

/// The pending calls, and the queue of outgoing messages. The queue has no bound of its own: the run's limits bound its log
/// lines, and its calls count in the bytes that the run may have in flight.
pub(super) struct RemoteFunctions {
    waiting: Mutex<Waiting>,
    out: mpsc::UnboundedSender<Outgoing>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    calls: HashMap<u64, Caller>,
    /// Whether no more replies can be read.
    unreadable: bool,
}

/// Where the answer of a call goes, and what counts it.
struct Caller {
    answered: oneshot::Sender<Answer>,
    budget: ByteBudget,
}

/// The caller's reply to a call. Its result stays text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    call: u64,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
}

/// Which call a reply belongs to; the rest of it is not read.
#[derive(Debug, Deserialize)]
struct ReplyHead {
    call: u64,
}

impl RemoteFunctions {
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        (Arc::new(RemoteFunctions { waiting: Mutex::default(), out }), outgoing)
    }

    /// Queues a message that the run waits for decisions.
    pub(super) fn paused(&self, paused: &PausedRun) {
        // Fails if the caller has disconnected; the run waits all the same.
        let _ = self.out.send(Outgoing::Text(json!({ "paused": paused }).to_string()));
    }

    /// Queues the last message.
    pub(super) fn finish(&self, message: Utf8Bytes, share: Share) {
        // A closed queue means that the caller has disconnected.
        let _ = self.out.send(Outgoing::Last(message, share));
    }

    /// Sends a call and waits for its reply; the run's limits end the wait.
    pub(super) async fn call(self: &Arc<Self>, name: &str, args: Vec<Value>, budget: ByteBudget) -> Answer {
        let (answered, answer) = oneshot::channel();
        let call = {
            let mut waiting = self.waiting.lock();
            if waiting.unreadable {
                let error = FunctionError::new(ErrorCode::Unavailable, "no more replies can be read");
                return Err(error.with_effect(FailedEffect::NotSent));
            }
            waiting.last += 1;
            let call = waiting.last;
            waiting.calls.insert(call, Caller { answered, budget: budget.clone() });
            call
        };
        let _pending = PendingCall { remote_functions: self, call };
        let message = call_message(&CallMessage { call, name, args: &args }, &budget);
        let (message, permit) = message.map_err(|error| error.with_effect(FailedEffect::NotSent))?;
        drop(args);
        let gone = || FunctionError::new(ErrorCode::Aborted, "the caller closed the WebSocket");
        self.out.send(Outgoing::Call(message, permit)).map_err(|_| gone().with_effect(FailedEffect::NotSent))?;
        answer.await.map_err(|_| gone())?
    }

    /// Handles a reply. Ignores one whose call has ended; refuses one to a call that was never made, or whose call cannot be
    /// read. A reply that is too large or invalid fails its call.
    pub(super) fn handle_reply(&self, text: &str) -> Result<(), Refusal> {
        if text.len() > MAX_CALL_BYTES {
            let ReplyHead { call } = body::parse(text.as_bytes())?;
            return self.settle(call, |_| Err(too_large()));
        }
        let reply = body::parse(text.as_bytes()).and_then(|reply: Reply| match reply {
            Reply { result: Some(_), error: Some(_), .. } => {
                Err(Refusal::field("/error", "a reply has a result or an error, not both"))
            }
            reply => Ok(reply),
        });
        match reply {
            Ok(Reply { call, error: Some(error), .. }) => self.settle(call, |_| Err(failure(&error))),
            Ok(Reply { call, result: Some(result), .. }) => self.settle(call, |budget| counted(&result, budget)),
            Ok(Reply { call, .. }) => self.settle(call, |_| Ok(Value::Null.into())),
            Err(refusal) => {
                let ReplyHead { call } = body::parse(text.as_bytes()).map_err(|_| refusal.clone())?;
                self.settle(call, |_| Err(FunctionError::failed(format!("the reply is invalid: {refusal}"))))
            }
        }
    }

    /// Fails all pending calls after a message that the WebSocket cannot take, and refuses further ones: the rest of the
    /// message cannot be skipped.
    pub(super) fn stop_reading(&self) {
        let pending = {
            let mut waiting = self.waiting.lock();
            waiting.unreadable = true;
            std::mem::take(&mut waiting.calls)
        };
        for caller in pending.into_values() {
            // Fails if the run has just ended.
            let _ = caller.answered.send(Err(too_large()));
        }
    }

    fn settle(&self, call: u64, answer: impl FnOnce(&ByteBudget) -> Answer) -> Result<(), Refusal> {
        let caller = {
            let mut waiting = self.waiting.lock();
            if call == 0 || call > waiting.last {
                return Err(Refusal::field("/call", format!("no such call: {call}")));
            }
            waiting.calls.remove(&call)
        };
        if let Some(Caller { answered, budget }) = caller {
            // Fails if the run has just ended.
            let _ = answered.send(answer(&budget));
        }
        Ok(())
    }
}

/// The text of a call, counted until it is sent: a caller that does not read would have the service keep it.
fn call_message(message: &CallMessage<'_>, budget: &ByteBudget) -> Result<(Utf8Bytes, BytePermit), FunctionError> {
    let unwritable = || FunctionError::failed(format!("{}: the call cannot be written", message.name));
    let measured = MeasuredJson::of(message).map_err(|_| unwritable())?;
    if measured.bytes() > MAX_CALL_BYTES {
        let complaint = format!("{}: the arguments are larger than {MAX_CALL_BYTES} bytes", message.name);
        return Err(FunctionError::new(ErrorCode::TooLarge, complaint));
    }
    let permit = budget.try_reserve(measured.bytes());
    let permit = permit.map_err(|refused| FunctionError::new(ErrorCode::OverBudget, format!("the call: {refused}")))?;
    let text = measured.write(message).map_err(|_| unwritable())?;
    Ok((Utf8Bytes::try_from(text).map_err(|_| unwritable())?, permit))
}

fn too_large() -> FunctionError {
    FunctionError::new(ErrorCode::TooLarge, format!("the reply is larger than {MAX_CALL_BYTES} bytes"))
}

/// The result of a reply, counted until the program has it.
fn counted(result: &RawValue, budget: &ByteBudget) -> Answer {
    if !is_json(result.get(), 0) {
        return Err(FunctionError::new(ErrorCode::TooLarge, "the reply is nested too deep"));
    }
    let permit = budget.try_reserve(counted_bytes(result.get().len()));
    let permit =
        permit.map_err(|refused| FunctionError::new(ErrorCode::OverBudget, format!("the reply: {refused}")))?;
    Ok(FunctionAnswer::of_text(result.get().to_owned(), permit))
}

/// The error of a reply: a text, or `{code?, message, data?}`. The program sees the code as that of its error.
fn failure(error: &RawValue) -> FunctionError {
    let size = error.get().len();
    if size > MAX_ERROR_BYTES {
        return FunctionError::failed(format!(
            "the function failed with an error of {size} bytes, which is not passed on"
        ));
    }
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    match &error {
        Value::String(message) => FunctionError::failed(message.clone()),
        Value::Object(fields) => {
            let message = fields.get("message").and_then(Value::as_str).unwrap_or("the function failed").to_owned();
            let code = fields.get("code").and_then(Value::as_str).unwrap_or_default();
            let code = if CallErrorCode::named(code).is_reserved() { "" } else { code };
            FunctionError::failed(message).with_custom_code(code).with_data(error)
        }
        _ => FunctionError::failed("the function failed").with_data(error),
    }
}

/// Removes a call from the pending ones on drop.
struct PendingCall<'a> {
    remote_functions: &'a RemoteFunctions,
    call: u64,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.remote_functions.waiting.lock().calls.remove(&self.call);
    }
}

impl Observer for RemoteFunctions {
    fn logged(&self, stream: Stream, line: &str) {
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        // Fails if the caller has disconnected; the line is dropped.
        let _ = self.out.send(Outgoing::Text(json!({ "log": line, "stream": stream }).to_string()));
    }

    fn call_began(&self, _: &Target) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How calls end whose replies are these, while the answers before are kept.
    async fn ends(budget: &ByteBudget, replies: &[String]) -> Vec<String> {
        let (functions, _outgoing) = RemoteFunctions::new();
        let (mut kept, mut ends) = (Vec::new(), Vec::new());
        for (reply, number) in replies.iter().zip(1..) {
            let answer = functions.call("f", Vec::new(), budget.clone());
            let settled =
                async { functions.handle_reply(&format!(r#"{{"call":{number},{reply}}}"#)).expect("a reply") };
            let (answer, ()) = tokio::join!(answer, settled);
            ends.push(match answer {
                Ok(answer) => {
                    let (text, permit) = answer.into_text();
                    kept.push(permit);
                    text.len().to_string()
                }
                Err(error) => error.code_text().to_owned(),
            });
        }
        ends
    }

    #[tokio::test]
    async fn a_function_of_a_caller_names_no_code_that_toolgate_acts_on() {
        let budget = ByteBudget::new("this run", 100_000);
        let replies = ["E7", "TIMEOUT", "STAGED", "DENIED", "NEEDS_LOGIN"];
        let replies = replies.map(|code| format!(r#""error":{{"code":"{code}","message":"no","line":1}}"#));
        assert_eq!(ends(&budget, &replies).await, ["E7", "TIMEOUT", "FAILED", "FAILED", "FAILED"]);
    }

    #[tokio::test]
    async fn replies_count_in_the_bytes_of_their_run() {
        // Two long replies, and the messages of the calls, which are not sent here.
        let budget = ByteBudget::new("this run", 201_000);
        let long = || format!(r#""result":"{}""#, "x".repeat(99_998));
        let small = r#""result":[1]"#.to_owned();
        let found = ends(&budget, &[long(), small, long(), long(), r#""result":null"#.to_owned()]).await;
        assert_eq!(found, ["100000", "3", "100000", "OVER_BUDGET", "4"]);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn calls_that_the_caller_does_not_read_count_in_the_bytes_of_their_run() {
        let budget = ByteBudget::new("this run", 200_000);
        let (functions, mut outgoing) = RemoteFunctions::new();
        let args = || vec![Value::String("x".repeat(90_000))];
        let mut calls: Vec<_> = (0..2).map(|_| Box::pin(functions.call("f", args(), budget.clone()))).collect();
        for call in &mut calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        let refused = functions.call("f", args(), budget.clone()).await.map(|_| ()).expect_err("no room");
        assert_eq!((refused.code_text(), refused.effect), ("OVER_BUDGET", FailedEffect::NotSent));
        // What is sent makes room.
        let Some(Outgoing::Call(text, permit)) = outgoing.recv().await else { panic!("a call") };
        assert!(text.starts_with(r#"{"call":1,"fn":"f","args":["xxx"#) && permit.bytes() == text.len());
        drop(permit);
        assert!(futures_util::poll!(Box::pin(functions.call("f", args(), budget.clone()))).is_pending());
        drop((calls, outgoing));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn an_invalid_reply_fails_its_call_if_it_names_one() {
        let replies = [r#""result":1,"extra":2"#, r#""result":1,"error":"no""#, r#""outcome":1"#].map(str::to_owned);
        assert_eq!(ends(&ByteBudget::unlimited(), &replies).await, ["FAILED"; 3]);
        let (functions, _outgoing) = RemoteFunctions::new();
        for text in ["{", "[1]", "null", r#"{"result":1}"#, r#"{"call":"1"}"#, r#"{"call":1,"result":1}"#] {
            assert!(functions.handle_reply(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_reply_that_no_program_can_take_fails_its_call() {
        let deep = format!(r#""result":{}1{}"#, "[".repeat(5_000), "]".repeat(5_000));
        let error = format!(r#""error":{{"code":"E1","message":"{}"}}"#, "x".repeat(100_000));
        let coded = r#""error":{"code":"E2","message":"no"}"#.to_owned();
        assert_eq!(ends(&ByteBudget::unlimited(), &[deep, error, coded]).await, ["TOO_LARGE", "FAILED", "E2"]);
    }
}
