//! Who is told of every message of a run, and may hold back a call until it is durable.
//!
//! Unlike an observer, a recorder can change a run: a call that may have an effect is not made before its intent is
//! kept, and refused when it cannot be. Calls that only read wait for nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use toolgate_wire::{CallErrorCode, CallId, CallState, FromWorker, ToWorker};

use crate::call_replies::RunSoFar;
use crate::host::{Host, HostCall, HostError, HostFuture};

/// One message on its way to the guest.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The message.
    pub message: &'a ToWorker,
    /// The data that follows a start.
    pub data: Option<&'a str>,
    /// What is known about the effect of the call that a reply answers.
    pub state: Option<CallState>,
}

/// Completes when something is durable, or cannot be made so.
pub type Durable = Pin<Box<dyn Future<Output = Result<(), NotDurable>> + Send>>;

/// Why something was not made durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotDurable(pub String);

/// Keeps the messages of a run.
///
/// [`Recorder::delivered`] and [`Recorder::said`] are called in the total order of the run's messages, one at a time;
/// they must return quickly. What they are told need not be durable until the next call of the other two returns.
pub trait Recorder: Send + Sync + 'static {
    /// A message goes to the guest, whose answer to it is told later.
    fn delivered(&self, delivery: Delivery<'_>);

    /// The guest said this; it was not acted on yet. `read_only`: for a call, whether it is known to change nothing.
    fn said(&self, frame: &FromWorker, read_only: bool);

    /// A call that may have an effect is about to be made. It is made when the future completes, and refused as not
    /// sent when the future fails.
    fn before_effect(&self, id: CallId) -> Durable;

    /// Such a call was answered with this body. The guest gets the reply when the future completes, also when it
    /// fails: a call whose answer was lost in a crash is unknown, which is safe.
    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable;

    /// Whether a call that is open was not sent: a person is asked about it.
    fn is_unsent(&self, id: CallId) -> bool {
        let _ = id;
        false
    }

    /// How long the run has waited for people while its worker was kept. That is no wall time of the program.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// The engine is about to execute the run; `run` knows of it from now on.
    fn begins(&self, run: RunSoFar) {
        let _ = run;
    }
}

/// A call that is made when its intent is durable, and answered when its reply is.
pub(crate) fn hold_back(recorder: Arc<dyn Recorder>, host: Arc<dyn Host>, id: CallId, call: HostCall) -> HostFuture {
    Box::pin(async move {
        recorder.before_effect(id).await.map_err(|error| {
            let message = format!("{} was not called, because it could not be made durable: {error}", call.target);
            HostError::not_sent(CallErrorCode::NotDurable, message)
        })?;
        let target = call.target.clone();
        let answer = host.call(call).await;
        let durable = match &answer {
            Ok(json) => recorder.before_reply(id, CallState::Applied, Ok(json)),
            Err(error) => recorder.before_reply(id, error.state, Err(&error.to_json(&target))),
        };
        // The entries stay with the recorder, and the next write that succeeds has them.
        let _ = durable.await;
        answer
    })
}
