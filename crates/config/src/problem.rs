//! Errors and warnings about a configuration file.
//!
//! A problem has a position, a message and often a suggested fix. It never quotes a value, which may be a secret.

use std::fmt;
use std::path::{Path, PathBuf};
use toolgate_wire::foreign_text::one_line;

/// A position in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Whether the configuration can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemSeverity {
    /// The configuration is rejected.
    Error,
    /// The configuration is accepted; a setting has no effect or may be a mistake.
    Warning,
}

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file it is in.
    pub file: PathBuf,
    /// The position in the file; `None` for a problem of the whole file.
    pub position: Option<FilePosition>,
    /// The setting, such as `mcpServers.github.env.TOKEN`; empty for the whole file.
    pub path: String,
    /// The description of the problem.
    pub message: String,
    /// A suggested fix.
    pub help: Option<String>,
    /// Error or warning.
    pub severity: ProblemSeverity,
    /// The variable or secret that is not set, if that is the problem.
    pub unset: Option<Unset>,
}

/// What is not set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unset {
    /// An environment variable.
    Variable(String),
    /// A secret of `${keyring:NAME}`.
    Secret(String),
}

impl Unset {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Variable(name) | Self::Secret(name) => name,
        }
    }

    /// What it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Variable(_) => "variable",
            Self::Secret(_) => "secret",
        }
    }
}

impl Problem {
    /// An error about the whole file.
    pub(crate) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        let message = printable(&message.into());
        let severity = ProblemSeverity::Error;
        Self { file: file.to_owned(), position: None, path: String::new(), message, help: None, severity, unset: None }
    }

    pub(crate) fn at(mut self, position: FilePosition) -> Self {
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
        self.severity = ProblemSeverity::Warning;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(FilePosition { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        let severity = match self.severity {
            ProblemSeverity::Error => "error",
            ProblemSeverity::Warning => "warning",
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

/// On one line and truncated: keys and names come from files of other programs and are printed to a
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 400;
    one_line(text, MAX_CHARS)
}
