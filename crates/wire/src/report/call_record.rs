//! One host call in a report: what was called, what is known about its effect, what the policy decided.
//!
//! Names, arguments and errors come from programs and servers, so each is cut to a bound here.

use serde::{Deserialize, Serialize};

use super::CallErrorCode;
use crate::foreign_text::clipped;
use crate::frame::Target;

/// What is known about the effect of one host call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It succeeded.
    Applied,
    /// It was answered with a failure.
    Failed,
    /// It was refused before anything was sent.
    NotSent,
    /// It was sent, and no answer came.
    Unknown,
}

impl CallState {
    /// No wildcard arm: a new state must choose.
    pub(super) fn may_have_had_effect(self) -> bool {
        match self {
            CallState::Applied | CallState::Failed | CallState::Unknown => true,
            CallState::NotSent => false,
        }
    }
}

/// One host call of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallRecord {
    /// What was called. JSON shows it as `name` (`backend.tool`, or a host function's name) and, for a tool, as
    /// `backend` and `tool`.
    #[serde(flatten, serialize_with = "Target::serialize_fields")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::frame::TargetFields<'static>"))]
    pub target: Target,
    /// What is known about its effect.
    pub state: CallState,
    /// Milliseconds from the call to its answer.
    pub ms: f64,
    /// Bytes of the arguments' JSON text.
    pub request_bytes: u64,
    /// Bytes of the answer's JSON text.
    pub reply_bytes: u64,
    /// Whether the tool declares that it changes nothing.
    pub read_only: bool,
    /// The error, for calls that did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its code, such as `NOT_READY`: what a program sees as the `code` of its `ToolError`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub error_code: Option<CallErrorCode>,
    /// What the policy decided about it, where it has a rule for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<DecisionRecord>>,
}

/// What the policy decided about a call, and what a person did where one was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
// Its name in the OpenAPI document stays.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CallDecision"))]
pub struct DecisionRecord {
    /// What the policy says: `allow`, `ask` or `deny`.
    #[serde(rename = "do")]
    pub action: &'static str,
    /// The rule that decided, such as `policy[2]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What came of the question: `approved`, `edited`, `denied`, `stopped`, `expired`, or `remembered` where an earlier
    /// answer stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// Who answered the question: the name of a caller, or `local` for the user of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
    /// JSON text of the arguments that the program gave, where others were sent. Cut to a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_arguments: Option<String>,
    /// JSON text of the arguments that were sent instead. Cut to a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_arguments: Option<String>,
}

impl DecisionRecord {
    /// Notes that other arguments were sent than the program gave. Both are cut to a bound.
    pub fn edited(&mut self, asked: &str, sent: &str) {
        self.asked_arguments = Some(clipped(asked, MAX_RECORD_ARGUMENTS).into_owned());
        self.sent_arguments = Some(clipped(sent, MAX_RECORD_ARGUMENTS).into_owned());
    }
}

/// Characters of a name in a record. Names come from programs, and a report keeps one for every call.
const MAX_RECORD_NAME: usize = 200;
/// Characters of arguments in a record.
const MAX_RECORD_ARGUMENTS: usize = 2_000;
/// Characters of an error in a record.
const MAX_RECORD_ERROR: usize = 500;

impl CallRecord {
    /// The record of a call that is about to be made. Its names are cut to a bound.
    pub fn begin(target: &Target, request_bytes: usize, read_only: bool) -> Self {
        let target = match target {
            Target::Tool { backend, tool } => Target::Tool {
                backend: clipped(backend, MAX_RECORD_NAME).into_owned(),
                tool: clipped(tool, MAX_RECORD_NAME).into_owned(),
            },
            Target::Function(name) => Target::Function(clipped(name, MAX_RECORD_NAME).into_owned()),
        };
        let (state, request_bytes) = (CallState::Unknown, request_bytes as u64);
        CallRecord {
            target,
            state,
            ms: 0.0,
            request_bytes,
            reply_bytes: 0,
            read_only,
            error: None,
            error_code: None,
            decision: None,
        }
    }

    /// The call was carried out and answered with this many bytes.
    pub fn applied(&mut self, reply_bytes: usize) {
        self.state = CallState::Applied;
        self.reply_bytes = reply_bytes as u64;
    }

    /// The call gave no value. A foreign code and the message are cut to a bound.
    pub fn failed(&mut self, state: CallState, code: &CallErrorCode, message: &str) {
        self.state = state;
        self.error = Some(clipped(message, MAX_RECORD_ERROR).into_owned());
        self.error_code = Some(code.clipped(MAX_RECORD_NAME));
    }

    /// `backend.tool`, or a host function's name. For people: a decision looks at [`CallRecord::target`].
    pub fn name(&self) -> String {
        self.target.to_string()
    }
}
