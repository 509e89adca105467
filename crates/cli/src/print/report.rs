//! The end of a run: the result on standard output, everything else on standard error.

use toolgate_run::RunReport;
use toolgate_wire::Failure;

use super::{Style, escape, excerpt, note, out, pretty};
use crate::args::programs::Output;
use crate::commands::Exit;

/// What was run, to point into.
pub(crate) struct Origin {
    /// Its name in messages.
    pub(crate) name: String,
    /// Its text.
    pub(crate) code: String,
}

/// A report with what it is about.
pub(crate) struct Shown {
    pub(crate) run: RunReport,
    pub(crate) origin: Origin,
}

impl Shown {
    /// Prints it in the form asked for, and says how the command ends.
    pub(crate) fn print(&self, output: Output) -> anyhow::Result<Exit> {
        if output.json {
            out(escape::json(&serde_json::to_string(&self.run)?))?;
        } else {
            self.print_for_a_person()?;
        }
        Ok(if self.run.report.value().is_ok() { Exit::Done } else { Exit::Failed })
    }

    fn print_for_a_person(&self) -> anyhow::Result<()> {
        self.warn();
        match self.run.report.value() {
            Ok(value) => out(escape::json(&pretty::pretty(value.get()))),
            Err(failure) => {
                note(describe(failure, &self.origin, Style::stderr()));
                Ok(())
            }
        }
    }

    /// What a person should know besides the result.
    pub(crate) fn warn(&self) {
        let style = Style::stderr();
        if self.run.report.logs.dropped > 0 {
            note(style.faint(format_args!("({} more console lines were not kept)", self.run.report.logs.dropped)));
        }
        for warning in &self.run.report.warnings {
            note(format_args!("{} {}", style.warn("warning:"), escape::message(&warning.to_string())));
        }
    }
}

/// Code, message, place, source line with a caret, hint.
fn describe(failure: &Failure, origin: &Origin, style: Style) -> String {
    let code = style.bad(format_args!("error[{}]:", failure.code));
    let mut text = format!("{code} {}", escape::message(&failure.message));
    if let Some(at) = failure.position {
        text += &format!("\n  {} {}:{}:{}", style.faint("-->"), origin.name, at.line, at.column);
        if let Some(lines) = excerpt::excerpt(&origin.code, at) {
            text += &format!("\n{lines}");
        }
    }
    if let Some(hint) = &failure.hint {
        text += &format!("\n{} {}", style.strong("hint:"), escape::message(hint));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::{Code, Position};

    #[test]
    fn a_failure_shows_where_and_what_next() {
        let failure = Failure {
            position: Some(Position { line: 2, column: 8 }),
            ..Failure::new(Code::Runtime, "\x1b[31mfetch is not defined").with_hint("use a tool")
        };
        let origin = Origin { name: "a.ts".into(), code: "let a;\nreturn fetch(a)".into() };
        insta::assert_snapshot!(describe(&failure, &origin, Style::plain()), @r"
        error[RUNTIME]: \u{1b}[31mfetch is not defined
          --> a.ts:2:8
           |
         2 | return fetch(a)
           |        ^
        hint: use a tool
        ");
    }
}
