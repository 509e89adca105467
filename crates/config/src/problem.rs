//! What is wrong with a configuration, in words for the person who wrote it.
//!
//! A problem says where, what, and what to do. It never quotes a value that may be a secret.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Whether the configuration can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It can't.
    Error,
    /// It can; something in it has no effect or may surprise.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file it is in.
    pub file: PathBuf,
    /// Where in the file; none if the file as a whole is meant.
    pub position: Option<Position>,
    /// The setting, such as `mcpServers.github.env.TOKEN`; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// How bad it is.
    pub severity: Severity,
}

impl Problem {
    /// An error about a file as a whole.
    pub(crate) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        let message = printable(&message.into());
        let severity = Severity::Error;
        Self { file: file.to_owned(), position: None, path: String::new(), message, help: None, severity }
    }

    pub(crate) fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    pub(crate) fn on(mut self, path: &str) -> Self {
        self.path = printable(path);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(printable(&help.into()));
        self
    }

    pub(crate) fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {severity}: ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// Keys and names come from files that others may have written: no control character reaches a terminal,
/// and a very long name does not drown the rest.
fn printable(text: &str) -> String {
    const LONGEST: usize = 400;
    let mut shown: String = text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
