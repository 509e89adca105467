//! Syntax errors: what is wrong, where, and what to do.

use oxc::diagnostics::OxcDiagnostic;
use serde::Serialize;
use toolgate_wire::position::Position;

/// Why a text cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxFault {
    /// What is wrong: one sentence.
    pub message: String,
    /// The position in the text as the user sent it.
    pub position: Option<Position>,
    /// What to do instead, when it is known.
    pub hint: Option<String>,
}

impl SyntaxFault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), position: None, hint: None }
    }

    pub(crate) fn at(mut self, source: &str, offset: usize) -> Self {
        self.position = Some(Position::of_offset(source, offset));
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A diagnostic of the parser. `base` is the offset of the parsed code in `source`.
    pub(crate) fn of_diagnostic(diagnostic: &OxcDiagnostic, source: &str, base: usize) -> Self {
        let offset = diagnostic.labels.iter().map(|label| label.offset()).next();
        let mut fault = Self::new(sentence(&diagnostic.message));
        if let Some(offset) = offset {
            fault = fault.at(source, base + offset as usize);
        }
        fault.hint = diagnostic.help.as_ref().map(|help| sentence(help)).or_else(|| hint_for(&diagnostic.message));
        fault
    }
}

/// The parser's message with `EOF` in plain words.
fn sentence(message: &str) -> String {
    message.replace("`EOF`", "the end of the code")
}

fn hint_for(message: &str) -> Option<String> {
    let hint = match message {
        m if m.contains("`EOF`") => "The code stops too early: a bracket, a string or a template is still open.",
        m if m.contains("`await`") => "Mark the function that contains this `await` as async.",
        _ => return None,
    };
    Some(hint.to_owned())
}
