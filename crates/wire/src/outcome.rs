//! How a run ended.
//!
//! A code is decided by the mechanism that ended the run, never by reading a message, so a guest
//! that throws `new Error("out of memory")` has a `RUNTIME` failure like any other throw.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a run gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The wall clock ran out.
    Timeout,
    /// An allocation went past the memory limit.
    Memory,
    /// The source is not a program.
    Syntax,
    /// The program threw, or its process died.
    Runtime,
    /// The result is longer than its limit.
    OutputTooLarge,
    /// The source is a program that this door does not take.
    InvalidCode,
    /// The data going in, or the value coming out, cannot be represented as JSON.
    InvalidData,
    /// No sandbox could be had: disposed, queue full, confinement missing.
    Unavailable,
    /// The caller cancelled.
    Aborted,
}

impl Code {
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
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place in the text that the user sent: both numbers start at one, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A run that gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub code: Code,
    /// What happened, for a reader.
    pub message: String,
    /// Where in the user's source, when known.
    pub position: Option<Position>,
    /// What to do next, when there is something better than the message to say.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with neither position nor hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), position: None, hint: None }
    }

    /// The same failure with advice.
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
    /// The program gave this JSON text. It is kept as text: a number of any length and a lone
    /// surrogate survive the trip.
    Returned(Box<RawValue>),
    /// The program gave no value.
    Failed(Failure),
}
