//! One call: what the caller may ask for and every way in which it can end.
//!
//! Variants hold values; whether a call took effect is decided by [`CallError::effect`]
//! and never by matching text.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::state::BackendState;
use toolgate_mcp::client::auth::AuthError;
use toolgate_mcp::result::{ToolFault, ToolResult, Wrapping};
use toolgate_mcp::{InteractiveClient, JsonText, Progress, TraceContext};
use toolgate_wire::{ByteBudget, OverBudget};

/// What a caller may ask of one call.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// How long the backend may take; its configured timeout if absent.
    pub timeout: Option<Duration>,
    /// Ends the call from outside.
    pub cancel: CancellationToken,
    /// Where progress goes; a full channel loses news rather than slow the backend down.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Who calls: callers that wait for one backend take turns, so that one can't starve the others.
    pub caller: u64,
    /// What to do when the backend isn't up yet.
    pub unready: WhenUnready,
    /// The form of the reply.
    pub reply: ReplyMode,
    /// Counts the bytes of the call and of its answer; the budget of this process if absent.
    pub budget: Option<ByteBudget>,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
}

/// The form in which the reply of a call is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ReplyMode {
    /// The value, or an error to catch: for programs.
    #[default]
    Value,
    /// The result object as the backend sent it, a failure too: for clients.
    Raw,
    /// The same for a client that may be asked something before there is a result.
    Interactive(InteractiveClient),
    /// The value for a program whose user may be asked something: [`CallError::InputRequired`] says what.
    Asking(InteractiveClient),
}

impl ReplyMode {
    /// The client that may be asked, if there is one.
    pub(super) fn interactive(&self) -> Option<&InteractiveClient> {
        match self {
            Self::Interactive(client) | Self::Asking(client) => Some(client),
            Self::Value | Self::Raw => None,
        }
    }
}

/// What to do with a call to a backend that isn't up yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenUnready {
    /// Wait for it as long as the call may take.
    #[default]
    Wait,
    /// Say so at once.
    Fail,
}

/// What a tool gave back.
#[derive(Debug, PartialEq)]
pub struct CallReply {
    result: ToolResult,
    wrapping: Wrapping,
}

impl CallReply {
    pub(crate) fn new(result: ToolResult, wrapping: Wrapping) -> Self {
        Self { result, wrapping }
    }

    /// The text of the value for programs, which takes no more memory than the answer itself.
    pub fn into_text(self) -> JsonText {
        self.result.into_value(self.wrapping)
    }

    /// The result object as the backend sent it.
    pub fn into_result(self) -> ToolResult {
        self.result
    }
}

/// What is known about the effect of a call that gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The backend never had it: trying again is safe.
    NotSent,
    /// The backend had it and said that it failed.
    Failed,
    /// The backend had it, and what it did is unknown.
    Unknown,
}

/// Why a call needs a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginReason {
    /// No login exists, or the login does not cover the call and the server names the missing scopes.
    Missing,
    /// It does not cover the call, and the server does not say which scopes are missing.
    UnnamedScopes {
        /// The setting that has the scopes of the login.
        setting: String,
        /// Whether the command asks for scopes that the login does not have.
        asks_for_more: bool,
    },
}

impl LoginReason {
    /// What happened, and what a person does about it.
    pub(super) fn sentence(&self, command: &str, scopes: &[String]) -> String {
        let unnamed = "the server wants more rights than the login has, and does not say which";
        match self {
            Self::Missing => format!("a login is needed: run `{command}`"),
            Self::UnnamedScopes { setting, asks_for_more: true } => format!(
                "{unnamed}: run `{command}`, which asks for {}; if that is not enough, add the scopes that the server's \
                 documentation names to `{setting}` of the server and run it again",
                scopes.join(", ")
            ),
            Self::UnnamedScopes { setting, asks_for_more: false } => format!(
                "{unnamed}: add the scopes that the server's documentation names to `{setting}` of the server, then run \
                 `{command}`"
            ),
        }
    }
}

/// Why a call produced no value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// No such tool, or none for us.
    #[error("{backend} has no tool named {tool}")]
    Unknown {
        /// The backend asked.
        backend: Arc<str>,
        /// The name asked for.
        tool: String,
    },
    /// The tool ran and reported a failure.
    #[error("{}", .0.message)]
    Tool(Box<ToolFault>),
    /// The backend answered with a protocol error instead of a result.
    #[error("{message} (code {code})")]
    Rejected {
        /// The JSON-RPC code.
        code: i64,
        /// Its explanation.
        message: String,
        /// What came with it.
        data: Option<Value>,
    },
    /// The tool wants to ask a person something, and the caller can't be asked.
    #[error(
        "the tool needs input from a person, and this call cannot wait for one: programs of call_tool_chain and POST /v1/run can, \
         from their start where this server has asked before. Run the rest of the program again"
    )]
    InputRequired {
        /// The questions, as sent.
        requests: Value,
        /// What the server wants back with the answers.
        state: Option<String>,
    },
    /// The arguments cannot be sent to this backend, so it never had the call.
    #[error("the arguments cannot be sent: {reason}")]
    InvalidArguments {
        /// What is wrong with them.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer within {} ms", .after.as_millis())]
    Timeout {
        /// The time it had.
        after: Duration,
    },
    /// The backend died while it had the call.
    #[error("the backend was lost during the call: {reason}")]
    Crashed {
        /// How it ended.
        reason: String,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// The backend is not up.
    #[error("{backend} is {state}")]
    NotReady {
        /// The backend asked.
        backend: Arc<str>,
        /// Where it is in its life.
        state: BackendState,
    },
    /// The backend could not be reached, so it never had the call.
    #[error("the backend can't be reached: {reason}")]
    Unreachable {
        /// What stood in the way.
        reason: String,
    },
    /// The caller ended the call.
    #[error("the call was cancelled")]
    Cancelled {
        /// Whether the backend had it by then.
        sent: bool,
    },
    /// The answer was not what the protocol says.
    #[error("the backend broke the protocol: {reason}")]
    Protocol {
        /// In which way.
        reason: String,
    },
    /// The server refused at the HTTP level.
    #[error("HTTP {status}: {message}")]
    Http {
        /// The status code.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// The answer was larger than the backend may send.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The bound it broke.
        limit: usize,
    },
    /// The call or its answer does not fit into a byte budget.
    #[error("{refused}")]
    OverBudget {
        /// Which budget.
        refused: OverBudget,
        /// Whether the backend had the call.
        sent: bool,
    },
    /// The answer has more values than are read into memory.
    #[error("the values of the answer take more than {limit} bytes of memory: ask for less data")]
    TooManyValues {
        /// The bound in bytes of memory.
        limit: usize,
    },
    /// A person has to log in, or to log in again for more; the server did not execute the call.
    #[error("{}", .reason.sentence(.command, .scopes))]
    NeedsLogin {
        /// The command that does it.
        command: String,
        /// The scopes to ask for.
        scopes: Vec<String>,
        /// Why it is needed.
        reason: LoginReason,
    },
    /// There is no token for the server; it did not execute the call.
    #[error("{0}")]
    Auth(AuthError),
    /// Too many calls wait for this backend already.
    #[error("{queued} calls wait for {backend} already")]
    Overloaded {
        /// The backend asked.
        backend: Arc<str>,
        /// How many wait.
        queued: usize,
    },
}

impl CallError {
    /// What is known about the call's effect. No wildcard arm on purpose: a new variant must choose.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unknown { .. } | Self::NotReady { .. } | Self::Unreachable { .. } | Self::Overloaded { .. } => {
                Effect::NotSent
            }
            Self::Cancelled { sent: false } | Self::OverBudget { sent: false, .. } => Effect::NotSent,
            Self::NeedsLogin { .. } | Self::Auth(_) | Self::InvalidArguments { .. } => Effect::NotSent,
            // An HTTP API that failed while it had the request may have carried it out.
            Self::Tool(fault) if http_status(fault).is_some_and(|status| status >= 500) => Effect::Unknown,
            Self::Tool(_) | Self::Rejected { .. } | Self::InputRequired { .. } => Effect::Failed,
            Self::Http { status, .. } if *status < 500 => Effect::Failed,
            Self::Http { .. }
            | Self::Timeout { .. }
            | Self::Crashed { .. }
            | Self::Cancelled { .. }
            | Self::Protocol { .. }
            | Self::OverBudget { .. }
            | Self::TooManyValues { .. }
            | Self::TooLarge { .. } => Effect::Unknown,
        }
    }
}

/// The status of a fault that an HTTP API answered with.
pub(super) fn http_status(fault: &ToolFault) -> Option<u64> {
    fault.meta.as_ref()?.get(toolgate_openapi::META_KEY)?.get("status")?.as_u64()
}
