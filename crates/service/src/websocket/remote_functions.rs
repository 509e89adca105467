//! Functions that the caller implements on the other side of a WebSocket.
//!
//! Matches replies to calls; also forwards log lines. Reading and writing is up to `session`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolgate_engine::Observer;
use toolgate_engine::host::Target;
use toolgate_wire::frame::Stream;

use crate::body;
use crate::refusal::Refusal;
use toolgate_functions::{ErrorCode, FailedEffect, FunctionError};

/// The most bytes of one call with its arguments, and of one reply.
const MAX_CALL_BYTES: usize = 1024 * 1024;

/// A message to the caller.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A log line or a call.
    Text(String),
    /// The last message.
    Last(String),
}

type Answer = Result<Value, FunctionError>;

/// The pending calls, and the queue of outgoing messages. The queue has no bound of its own: its content is bounded by the
/// run's limits on log lines, log bytes and concurrent calls.
pub(super) struct RemoteFunctions {
    waiting: Mutex<Waiting>,
    out: mpsc::UnboundedSender<Outgoing>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    calls: HashMap<u64, oneshot::Sender<Answer>>,
    /// Whether no more replies can be read.
    unreadable: bool,
}

/// The caller's reply to a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    call: u64,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
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

    /// Queues the last message.
    pub(super) fn finish(&self, message: String) {
        // A closed queue means that the caller has disconnected.
        let _ = self.out.send(Outgoing::Last(message));
    }

    /// Sends a call and waits for its reply; the run's limits end the wait.
    pub(super) async fn call(self: &Arc<Self>, name: &str, args: Vec<Value>) -> Answer {
        let (answered, answer) = oneshot::channel();
        let call = {
            let mut waiting = self.waiting.lock();
            if waiting.unreadable {
                let error = FunctionError::new(ErrorCode::Unavailable, "no more replies can be read");
                return Err(error.with_effect(FailedEffect::NotSent));
            }
            waiting.last += 1;
            let call = waiting.last;
            waiting.calls.insert(call, answered);
            call
        };
        let _pending = PendingCall { remote_functions: self, call };
        let message = json!({ "call": call, "fn": name, "args": args }).to_string();
        if message.len() > MAX_CALL_BYTES {
            let message = format!("{name}: the arguments are larger than {MAX_CALL_BYTES} bytes");
            return Err(FunctionError::new(ErrorCode::TooLarge, message).with_effect(FailedEffect::NotSent));
        }
        let gone = || FunctionError::new(ErrorCode::Aborted, "the caller closed the WebSocket");
        self.out.send(Outgoing::Text(message)).map_err(|_| gone().with_effect(FailedEffect::NotSent))?;
        answer.await.map_err(|_| gone())?
    }

    /// Handles a reply. Ignores one whose call has ended; refuses one to a call that was never made. A reply that is too
    /// large fails its call.
    pub(super) fn handle_reply(&self, text: &str) -> Result<(), Refusal> {
        if text.len() > MAX_CALL_BYTES {
            let ReplyHead { call } = body::parse(text.as_bytes())?;
            return self.settle(call, Err(too_large()));
        }
        let Reply { call, result, error } = body::parse(text.as_bytes())?;
        let answer = match (result, error) {
            (Some(_), Some(_)) => return Err(Refusal::field("/error", "a reply has a result or an error, not both")),
            (_, Some(error)) => Err(failure(error)),
            (result, None) => Ok(result.unwrap_or_default()),
        };
        self.settle(call, answer)
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
            let _ = caller.send(Err(too_large()));
        }
    }

    fn settle(&self, call: u64, answer: Answer) -> Result<(), Refusal> {
        let mut waiting = self.waiting.lock();
        if call == 0 || call > waiting.last {
            return Err(Refusal::field("/call", format!("no such call: {call}")));
        }
        if let Some(caller) = waiting.calls.remove(&call) {
            // Fails if the run has just ended.
            let _ = caller.send(answer);
        }
        Ok(())
    }
}

fn too_large() -> FunctionError {
    FunctionError::new(ErrorCode::TooLarge, format!("the reply is larger than {MAX_CALL_BYTES} bytes"))
}

/// The error of a reply: a text, or `{code?, message, data?}`. The program sees the code as that of its error.
fn failure(error: Value) -> FunctionError {
    match &error {
        Value::String(message) => FunctionError::failed(message.clone()),
        Value::Object(fields) => {
            let message = fields.get("message").and_then(Value::as_str).unwrap_or("the function failed").to_owned();
            let code = fields.get("code").and_then(Value::as_str).unwrap_or_default();
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
