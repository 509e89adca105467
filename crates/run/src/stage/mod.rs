//! Staged runs: a program's writes are reviewed together before any of them is sent.
//!
//! A staged program is executed twice. In the *rehearsal* reads are made, and a write is answered with a placeholder; the
//! writes are the lines of a review. After the review the program is executed again, the *commit*: reads are answered as in
//! the rehearsal, and a write is sent if it equals a line that a person approved, with real values in place of [`marks`]. Any other
//! write is asked about alone. So everything that is sent was approved, whatever the rehearsal missed.
//!
//! # Layout
//! - `placeholder`: the shape of an answer, for the guest
//! - `rehearsal`, `commit`: the two executions, each a host in front of the real one

mod commit;
mod placeholder;
mod rehearsal;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_bridge::marks;
use toolgate_engine::{HostCall, HostError};
use toolgate_mcp::{TreeError, bounded_tree};
use toolgate_wire::{CallErrorCode, CallState, Target};

pub use commit::{Commit, LineDecision, LineVerdict};
pub(crate) use commit::{CommitApprover, CommitHost};
pub use rehearsal::Rehearsal;
pub(crate) use rehearsal::{COMMIT_POINT, RehearsalHost};
pub use toolgate_bridge::marks::Substitution;

/// Whether the writes of a run are reviewed before they are sent, and which of its two executions this is.
#[derive(Clone, Default)]
pub enum Staging {
    /// They are sent as the program makes them.
    #[default]
    No,
    /// They are to be reviewed.
    Wanted,
    /// The execution that finds out which writes there are.
    Rehearsal(Arc<Rehearsal>),
    /// The execution that sends what was approved.
    Commit(Arc<Commit>),
}

impl Staging {
    /// Whether the program is executed to its end without being sent anywhere, or after a review.
    pub fn is_on(&self) -> bool {
        !matches!(self, Staging::No)
    }
}

/// A write that a rehearsal did not send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagedLine {
    /// Its place in the review, from 1.
    pub number: u32,
    /// The number that the program gave the call in the rehearsal.
    pub call: u32,
    /// The backend; absent where a host function is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The tool, or the function.
    pub tool: String,
    /// JSON text of the arguments, with marks.
    pub arguments: String,
    /// Why a person is asked.
    pub reason: String,
    /// The rule that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What that rule is about: its name is a place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_key: Option<String>,
    /// Who may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// How long the question stands.
    pub expires: Duration,
}

impl StagedLine {
    /// What is called.
    pub fn target(&self) -> Target {
        match self.backend.clone() {
            Some(backend) => Target::Tool { backend, tool: self.tool.clone() },
            None => Target::Function(self.tool.clone()),
        }
    }

    /// What is filled in once the calls before it are made.
    pub fn substitutions(&self) -> Vec<Substitution> {
        serde_json::from_str(&self.arguments).map(|tree| marks::substitutions(&tree)).unwrap_or_default()
    }
}

/// A read that a rehearsal made, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StagedRead {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    tool: String,
    arguments: String,
    answer: ReadAnswer,
}

impl StagedRead {
    fn called(&self) -> Called {
        let target = match self.backend.clone() {
            Some(backend) => Target::Tool { backend, tool: self.tool.clone() },
            None => Target::Function(self.tool.clone()),
        };
        (target, self.arguments.clone())
    }
}

/// The memory that the values of the arguments of a staged call take.
const MAX_TREE_BYTES: usize = 32 << 20;

/// The arguments of a call; `None` where they are no JSON, which the real host says.
fn arguments_of(call: &HostCall) -> Result<Option<Value>, HostError> {
    match bounded_tree(&call.args, MAX_TREE_BYTES) {
        Ok(arguments) => Ok(Some(arguments)),
        Err(TreeError::NotJson(_)) => Ok(None),
        Err(error) => Err(HostError::not_sent(CallErrorCode::TooLarge, error.to_string())),
    }
}

/// What a call invokes, by the names that the program used, and the JSON text of its arguments.
type Called = (Target, String);

/// The answer to a read, as it can be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadAnswer {
    Value(String),
    Error { code: CallErrorCode, message: String, data: Option<Value>, state: CallState },
}

impl From<&Result<String, HostError>> for ReadAnswer {
    fn from(answer: &Result<String, HostError>) -> Self {
        match answer {
            Ok(value) => ReadAnswer::Value(value.clone()),
            Err(HostError { code, message, data, state }) => {
                ReadAnswer::Error { code: code.clone(), message: message.clone(), data: data.clone(), state: *state }
            }
        }
    }
}

impl From<ReadAnswer> for Result<String, HostError> {
    fn from(answer: ReadAnswer) -> Self {
        match answer {
            ReadAnswer::Value(value) => Ok(value),
            ReadAnswer::Error { code, message, data, state } => Err(HostError { code, message, data, state }),
        }
    }
}

/// What a rehearsal found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// The writes, in the order in which the program made them.
    pub lines: Vec<StagedLine>,
    /// The value that the program depends on, where the rehearsal ended before the program did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_point: Option<String>,
    /// When it was found, in milliseconds since 1970.
    pub at: u64,
    /// The reads with their answers.
    reads: Vec<StagedRead>,
}
