//! The review of a dry run: the writes that it did not send, in order, and what would be filled in where.

use toolgate_run::durable::PendingView;
use toolgate_run::stage::Substitution;

use super::{Style, escape, note, out};

/// Prints the lines of a review to standard output.
pub(crate) fn print(lines: &[PendingView]) -> anyhow::Result<()> {
    if lines.is_empty() {
        note("the program sends no write");
    }
    lines.iter().try_for_each(|line| out(shown(line)))?;
    if let Some(value) = commit_point(lines) {
        note(format!("what follows depends on {}, which is not there before", escape::line(value)));
    }
    Ok(())
}

/// Whether the program did not come to its end.
pub(crate) fn ended_early(lines: &[PendingView]) -> bool {
    commit_point(lines).is_some()
}

fn commit_point(lines: &[PendingView]) -> Option<&str> {
    lines.last()?.staged.as_ref()?.commit_point.as_deref()
}

fn shown(line: &PendingView) -> String {
    let style = Style::stdout();
    let name = line.backend.as_ref().map_or_else(|| line.tool.clone(), |backend| format!("{backend}.{}", line.tool));
    let head = style.strong(format_args!("{} {}", line.call_id, escape::line(&name)));
    let mut text = format!("{head}  {}", escape::json(line.arguments.0.get()));
    for filled in line.staged.iter().flat_map(|staged| &staged.substitutions) {
        text.push_str(&format!("\n  {}", style.faint(escape::line(&filled_in(filled)))));
    }
    text
}

/// What is filled in where, once an earlier line is sent.
pub(crate) fn filled_in(filled: &Substitution) -> String {
    let value = if filled.value.is_empty() { "the answer" } else { &filled.value };
    format!("{} is filled in with {value} of line {}", filled.at, filled.line)
}
