//! What stands behind a backend's name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_engine::HostError;

use super::{Access, RunCalls};
use crate::approvals::{Approver, KeptQuestion};
use toolgate_backends::ReplyMode;
use toolgate_mcp::result::{ToolFault, ToolResult, Wrapping};
use toolgate_mcp::{JsonText, Progress, TraceContext};
use toolgate_wire::{ByteBudget, BytePermit, CallErrorCode, CallId, CallRate, CallState, CallerScope, Profile};

/// The most memory that an answer takes where it becomes a tree.
const MAX_TREE_BYTES: usize = 128 << 20;

/// An answer on its way.
pub type ProviderFuture = Pin<Box<dyn Future<Output = Result<Answer, HostError>> + Send>>;

/// A backend on its way up.
pub type ComingUp = Pin<Box<dyn Future<Output = Result<(), HostError>> + Send>>;

/// Carries out the calls of one backend.
pub trait Provider: Send + Sync + 'static {
    /// Calls a tool by its own name with arguments that were checked.
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture;

    /// Waits until the backend is up and the catalog shows its tools: a call asks for one that is not known. Starts it again if its last
    /// start failed. An error is why it is not up in the time of the call.
    fn come_up(&self, _asked: &RequestContext) -> ComingUp {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether the backend lists more tools than are kept, so that an unknown one may be one of the others.
    fn has_more_tools(&self) -> bool {
        false
    }
}

/// What calls may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowedEffects {
    /// Anything.
    #[default]
    Any,
    /// Only what is known to change nothing.
    ReadOnly,
}

/// On whose behalf a tool is called, how long the call may take, and in which form it is answered.
#[derive(Debug, Clone, Default)]
pub struct RequestContext {
    /// The caller's name, by which rules of the policy know it; empty for the local user.
    pub name: String,
    /// The kind of run; `None` for a call without one.
    pub profile: Option<Profile>,
    /// The name of the run, where it has one from the start.
    pub run_id: Option<String>,
    /// Number of the call in its run.
    pub call_id: u64,
    /// What the policy keeps of the run.
    pub run: Option<Arc<RunCalls>>,
    /// Which backends the caller may use.
    pub access: Access,
    /// Which of their tools: patterns over `backend.tool`.
    pub tools: Access,
    /// How many tool calls the caller may make, counted under this name.
    pub rate: Option<(String, CallRate)>,
    /// What the call may do.
    pub effects: AllowedEffects,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// Where the call's progress goes.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// The caller's number, so that one caller cannot crowd out another.
    pub caller: u64,
    /// The call's own time; the backend's default when absent.
    pub timeout: Option<Duration>,
    /// Asks a person about calls that the policy does not let through by itself.
    pub approver: Option<Arc<dyn Approver>>,
    /// When the run around it ends.
    pub deadline: Option<Instant>,
    /// The form of the answer.
    pub reply: ReplyMode,
    /// Counts the bytes of the call and of its answer: the budget of the run, or of the caller.
    pub budget: Option<ByteBudget>,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
}

impl RequestContext {
    /// Ends the run of this call for a person. Completes when the run is over: a program that saw an error could catch it, and return
    /// or make its next call before its end reaches it. A call without a run goes on at once.
    pub async fn stop_run(&self, reason: &str) {
        if let Some(run) = &self.run {
            run.stop(reason);
            self.cancel.cancelled().await;
        }
    }

    /// The context of a call on behalf of this caller.
    pub fn of(caller: &CallerScope) -> Self {
        RequestContext {
            name: caller.name.clone(),
            access: caller.backends.clone(),
            tools: caller.tools.clone(),
            rate: caller.rate.map(|rate| (caller.name.clone(), rate)),
            caller: caller.fairness.unwrap_or_default(),
            ..RequestContext::default()
        }
    }

    /// The approver of the run, with the number of this call in it.
    pub(super) fn approver_of_call(&self) -> Option<(&dyn Approver, CallId)> {
        let call = u32::try_from(self.call_id).map(CallId).ok()?;
        Some((self.approver.as_deref()?, call))
    }

    /// The question about this call that is kept with its run.
    pub(super) fn kept_question(&self) -> Option<KeptQuestion> {
        let (approver, call) = self.approver_of_call()?;
        approver.kept_question(call)
    }

    /// Notes in the run that the call is about to be sent. `false` where it must not be any more, because the run begins again.
    pub(super) fn sends(&self, changes_nothing: bool) -> bool {
        self.run.as_ref().and_then(|run| run.watch()).is_none_or(|watch| watch.sends(self.call_id, changes_nothing))
    }

    /// What notices the end of a call that was sent, in a run that may begin again.
    pub(super) fn ends(&self, changes_nothing: bool) -> Option<SentCall> {
        let run = self.run.clone().filter(|run| !changes_nothing && run.watch().is_some())?;
        Some(SentCall { run, call_id: self.call_id })
    }

    /// Whether the run can begin again if the call has to wait for a person.
    pub(super) fn may_begin_again(&self) -> bool {
        self.run.as_ref().and_then(|run| run.watch()).is_some_and(|watch| watch.may_begin_again(self.call_id))
    }
}

/// A call that may change something, sent in a run that begins again if it did not.
pub(super) struct SentCall {
    run: Arc<RunCalls>,
    call_id: u64,
}

impl SentCall {
    /// Notes the end of the call.
    pub(super) fn ended(&self, state: CallState) {
        if let Some(watch) = self.run.watch() {
            watch.ended(self.call_id, state);
        }
    }
}

/// What a tool gave, in the form that [`RequestContext::reply`] asks for.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// The value for a program, as the text in which it came.
    Text(JsonText),
    /// The value for a program.
    Value(Value),
    /// The result object as the backend sent it.
    Raw(ToolResult),
}

impl Answer {
    /// The bytes of its text.
    pub fn text_len(&self) -> usize {
        match self {
            Answer::Text(text) => text.as_str().len(),
            Answer::Raw(raw) => raw.len(),
            Answer::Value(value) => value.to_string().len(),
        }
    }

    /// The failure that the tool reported, where the result came as the backend sent it.
    pub fn fault(&self) -> Option<ToolFault> {
        match self {
            Answer::Raw(raw) => raw.fault(),
            Answer::Text(_) | Answer::Value(_) => None,
        }
    }

    /// The value for a program, as JSON text.
    pub fn into_text(self) -> String {
        match self {
            Answer::Text(text) => text.into_parts().0,
            Answer::Value(value) => value.to_string(),
            Answer::Raw(raw) => raw.into_value(Wrapping::Plain).into_parts().0,
        }
    }

    /// The same with the permit that counts the text, where it came counted.
    pub(crate) fn into_counted_text(self) -> (String, Option<BytePermit>) {
        match self {
            Answer::Text(text) => {
                let (text, permit) = text.into_parts();
                (text, Some(permit))
            }
            Answer::Raw(raw) => Answer::Text(raw.into_value(Wrapping::Plain)).into_counted_text(),
            Answer::Value(_) => (self.into_text(), None),
        }
    }

    /// The value for a program, as a tree.
    ///
    /// # Errors
    /// If the tree would take too much memory; the call took effect then.
    pub fn into_value(self) -> Result<Value, HostError> {
        match self {
            Answer::Text(text) => match text.into_tree(MAX_TREE_BYTES) {
                Ok((tree, _)) => Ok(tree),
                Err(error) => {
                    Err(HostError::new(CallErrorCode::TooLarge, format!("the answer can't be read: {error}")))
                }
            },
            Answer::Value(value) => Ok(value),
            Answer::Raw(raw) => Answer::Text(raw.into_value(Wrapping::Plain)).into_value(),
        }
    }
}
