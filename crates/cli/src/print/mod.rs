//! The only place that writes to a terminal.
//!
//! Colours and progress only where a person looks: on a terminal, and not with `NO_COLOR` set. Guest text is escaped
//! wherever it goes, so a log file is as safe to show later as a terminal is now.
//!
//! # Layout
//! - `escape`: guest text made harmless
//! - `pretty`: JSON text, indented as text
//! - `excerpt`: a source line and a caret
//! - `console`: a program's console, as it comes
//! - `report`: the end of a run; `ledger`: its calls; `review`: the writes that a dry run did not send

pub(crate) mod console;
pub(crate) mod escape;
pub(crate) mod excerpt;
pub(crate) mod ledger;
pub(crate) mod pretty;
pub(crate) mod report;
pub(crate) mod review;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// Marks parts of a line, or leaves them alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colours: bool,
}

impl Style {
    /// For standard output.
    pub(crate) fn stdout() -> Self {
        Style { colours: io::stdout().is_terminal() && colours_wanted() }
    }

    /// For standard error.
    pub(crate) fn stderr() -> Self {
        Style { colours: io::stderr().is_terminal() && colours_wanted() }
    }

    /// No marks at all.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Style { colours: false }
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.paint("32", text)
    }

    pub(crate) fn warn(self, text: impl Display) -> String {
        self.paint("33", text)
    }

    pub(crate) fn faint(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    pub(crate) fn strong(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: impl Display) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// See no-color.org: any value that is not empty means no colours.
fn colours_wanted() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Whether a line was written to standard output, or should have been.
static HAS_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Whether this process has written to standard output.
pub(crate) fn has_output() -> bool {
    HAS_OUTPUT.load(Ordering::Relaxed)
}

/// Writes a line to standard output. A reader who left early is no failure.
pub(crate) fn out(line: impl Display) -> anyhow::Result<()> {
    HAS_OUTPUT.store(true, Ordering::Relaxed);
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error, if anybody reads it.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A number of things: `1 line`, `2 lines`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// What went wrong, for a person.
pub(crate) fn error(message: &str) {
    note(format_args!("{} {message}", Style::stderr().bad("error:")));
}
