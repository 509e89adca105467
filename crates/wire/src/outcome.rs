//! How a run ended.
//!
//! The mechanism that ended the run decides its code; no message is read for that. A guest that throws
//! `new Error("out of memory")` gets `RUNTIME`, like every other throw.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Position;

/// Why a run returned no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The wall clock ran out.
    Timeout,
    /// An allocation went past the memory limit.
    Memory,
    /// The source cannot be parsed.
    Syntax,
    /// The program threw, or its process died.
    Runtime,
    /// The result is longer than its limit.
    OutputTooLarge,
    /// The source can be parsed, but this kind of run does not accept it.
    InvalidCode,
    /// The data going in, or the value coming out, cannot be represented as JSON.
    InvalidData,
    /// No sandbox is available: the engine was disposed of, the queue is full, or isolation is missing.
    Unavailable,
    /// The caller cancelled.
    Aborted,
    /// A repeated run did not do what is recorded of it.
    Diverged,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 10] = [
        Code::Timeout,
        Code::Memory,
        Code::Syntax,
        Code::Runtime,
        Code::OutputTooLarge,
        Code::InvalidCode,
        Code::InvalidData,
        Code::Unavailable,
        Code::Aborted,
        Code::Diverged,
    ];

    /// The name as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Code::Timeout => "TIMEOUT",
            Code::Memory => "MEMORY",
            Code::Syntax => "SYNTAX",
            Code::Runtime => "RUNTIME",
            Code::OutputTooLarge => "OUTPUT_TOO_LARGE",
            Code::InvalidCode => "INVALID_CODE",
            Code::InvalidData => "INVALID_DATA",
            Code::Unavailable => "UNAVAILABLE",
            Code::Aborted => "ABORTED",
            Code::Diverged => "DIVERGED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The class of an error that a program threw, as far as advice depends on it. The guest takes it from the error's prototype,
/// never from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// `ReferenceError`: a name is not defined.
    Reference,
    /// `TypeError`.
    Type,
    /// Every other error, those of tools and of the program's own classes among them.
    Other,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [ErrorClass; 3] = [ErrorClass::Reference, ErrorClass::Type, ErrorClass::Other];

    /// The name that the guest's JavaScript uses.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Reference => "reference",
            ErrorClass::Type => "type",
            ErrorClass::Other => "other",
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// A run that returned no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// What happened, for people.
    pub message: String,
    /// Where in the user's source, when known.
    pub position: Option<Position>,
    /// What to do next, when it is known.
    pub hint: Option<String>,
    /// What the program threw; `None` where it threw no error, or where that is not known.
    pub class: Option<ErrorClass>,
}

impl Failure {
    /// A failure with neither position nor hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), position: None, hint: None, class: None }
    }

    /// The same failure with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Failure { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// How a run ended: exactly one of these.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The program returned this JSON text. It stays text, so that long numbers and lone surrogates are not changed.
    Returned(Box<RawValue>),
    /// The program returned no value.
    Failed(Failure),
}
