//! What a check before a run says: the calls that it saw, and what is wrong with them.

use crate::literal::Arguments;
use toolgate_wire::position::Position;

/// What is known about a program's calls without running it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preflight {
    /// The tool calls in the program, in the order of its text.
    pub calls: Vec<PlannedCall>,
    /// What certainly fails: the run must not start.
    pub errors: Vec<Finding>,
    /// What probably fails.
    pub warnings: Vec<Finding>,
}

/// A call that the program would make.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    /// Original name of the backend.
    pub backend: String,
    /// Original name of the tool.
    pub tool: String,
    /// The position of the call; `None` if the text is JSON and not a program.
    pub position: Option<Position>,
    /// Its arguments, as far as they are known.
    pub arguments: Arguments,
}

/// An error or a warning about a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub code: FindingCode,
    /// What is wrong: one sentence.
    pub message: String,
    /// The position.
    pub position: Position,
    /// What to do instead.
    pub suggestion: Option<String>,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingCode {
    /// The backend has no such tool.
    UnknownTool,
    /// There is no such backend.
    UnknownBackend,
    /// The backend's tools are not known yet.
    NotReady,
    /// Arguments do not fit the tool's input schema.
    InvalidArguments,
    /// The policy denies the call.
    Denied,
    /// A person is asked about the call.
    Asked,
    /// A call's promise is dropped.
    NotAwaited,
    /// A promise is used as if it were its value.
    MissingAwait,
    /// A variable hides a backend.
    ShadowedBackend,
    /// The program ends without a result.
    NoResult,
    /// A loop waits for the clock, which stands still.
    BusyWait,
    /// An integer has more digits than JavaScript's numbers hold.
    RoundedNumber,
    /// A value has no such property.
    UnknownProperty,
}

impl FindingCode {
    /// The name of the kind in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::UnknownBackend => "unknown_backend",
            Self::NotReady => "not_ready",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::Asked => "asked",
            Self::NotAwaited => "not_awaited",
            Self::MissingAwait => "missing_await",
            Self::ShadowedBackend => "shadowed_backend",
            Self::NoResult => "no_result",
            Self::BusyWait => "busy_wait",
            Self::RoundedNumber => "rounded_number",
            Self::UnknownProperty => "unknown_property",
        }
    }
}
