//! Functions that are carried out on the other side of a socket.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolgate_engine::Observer;
use toolgate_engine::host::Target;
use toolgate_wire::frame::Stream;

use crate::body;
use crate::refusal::Refusal;
use toolgate_functions::{ErrorCode, FunctionError};

/// Bytes of one call's arguments, and of one answer.
const MAX_EXCHANGE: usize = 1024 * 1024;

/// What goes out.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A line or a call.
    Text(String),
    /// The last message.
    Last(String),
}

type Answer = Result<Value, FunctionError>;

/// The calls that are out, and the way out. The queue has no bound of its own: what can be in it is bounded by the
/// run's log lines, the bytes of its log and its calls in flight.
pub(super) struct Lent {
    waiting: Mutex<Waiting>,
    out: mpsc::UnboundedSender<Outgoing>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    calls: HashMap<u64, oneshot::Sender<Answer>>,
}

/// What a caller sends while its program runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    call: u64,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

impl Lent {
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        (Arc::new(Lent { waiting: Mutex::default(), out }), outgoing)
    }

    /// Sends the last message.
    pub(super) fn finish(&self, message: String) {
        // A closed queue means that nobody is there to read it.
        let _ = self.out.send(Outgoing::Last(message));
    }

    /// Asks the other side, and waits for its answer as long as the run lets it.
    pub(super) async fn call(self: &Arc<Self>, name: &str, args: Vec<Value>) -> Answer {
        let (answered, answer) = oneshot::channel();
        let call = {
            let mut waiting = self.waiting();
            waiting.last += 1;
            let call = waiting.last;
            waiting.calls.insert(call, answered);
            call
        };
        let _forgotten = Forget { lent: self, call };
        let message = json!({ "call": call, "fn": name, "args": args }).to_string();
        if message.len() > MAX_EXCHANGE {
            let complaint = format!("{name}: the arguments have more than {MAX_EXCHANGE} bytes");
            return Err(FunctionError::new(ErrorCode::TooLarge, complaint));
        }
        let gone = || FunctionError::new(ErrorCode::Aborted, "the caller's socket is closed");
        self.out.send(Outgoing::Text(message)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Takes an answer. One that comes too late is nothing; one to a call that never was is a mistake.
    pub(super) fn answered(&self, text: &str) -> Result<(), Refusal> {
        if text.len() > MAX_EXCHANGE {
            return Err(Refusal::TooLarge(MAX_EXCHANGE));
        }
        let Reply { call, result, error } = body::parse(text.as_bytes())?;
        let answer = match (result, error) {
            (Some(_), Some(_)) => return Err(Refusal::field("/error", "an answer has a result or an error, not both")),
            (_, Some(error)) => Err(failure(error)),
            (result, None) => Ok(result.unwrap_or_default()),
        };
        let mut waiting = self.waiting();
        if call == 0 || call > waiting.last {
            return Err(Refusal::field("/call", format!("there was no call {call}")));
        }
        if let Some(caller) = waiting.calls.remove(&call) {
            // The run may have ended in this moment.
            let _ = caller.send(answer);
        }
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error as the other side says it: a text, or `{code?, message, data?}`.
fn failure(error: Value) -> FunctionError {
    match &error {
        Value::String(message) => FunctionError::failed(message.clone()),
        Value::Object(fields) => {
            let message = fields.get("message").and_then(Value::as_str).unwrap_or("the function failed").to_owned();
            FunctionError::failed(message).with_data(error)
        }
        _ => FunctionError::failed("the function failed").with_data(error),
    }
}

/// Forgets a call that nobody waits for any more.
struct Forget<'a> {
    lent: &'a Lent,
    call: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.lent.waiting().calls.remove(&self.call);
    }
}

impl Observer for Lent {
    fn logged(&self, stream: Stream, line: &str) {
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        // Nobody reads: then nobody misses the line.
        let _ = self.out.send(Outgoing::Text(json!({ "log": line, "stream": stream }).to_string()));
    }

    fn call_began(&self, _: &Target) {}
}
