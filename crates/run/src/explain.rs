//! A failed run in words that teach: what, where, what was done already, what to do next.

use std::fmt::Write as _;

use serde::de::IgnoredAny;
use toolgate_wire::{CallState, Report, Warning};

/// Console lines that are shown with a failure.
const SHOWN_LINES: usize = 50;
/// Calls that are shown with a failure.
const SHOWN_CALLS: usize = 20;

/// The text that an agent gets for a run that failed; empty for one that did not.
pub fn explain(report: &Report, source: &str) -> String {
    let Some(failure) = report.failure() else { return String::new() };
    let mut text = format!("{}: {}\n", failure.code, failure.message);
    // A call in JSON that had to be asked about is run as a program, whose places are not those of the JSON.
    let is_call = || serde_json::from_str::<IgnoredAny>(source).is_ok();
    if let Some(at) = failure.position.filter(|_| !is_call()) {
        let _ = writeln!(text, "at line {}, column {}:\n{}", at.line, at.column, toolgate_plan::caret(source, at));
    }
    if let Some(hint) = failure.hint.as_ref().filter(|hint| !failure.message.contains(hint.as_str())) {
        let _ = writeln!(text, "hint: {hint}");
    }
    put_console(&mut text, report);
    put_calls(&mut text, report);
    let verdict = if report.safe_to_retry() { "yes" } else { "no, something was or may have been changed" };
    let _ = writeln!(text, "safe to retry: {verdict}");
    for warning in report.warnings.iter().filter(|warning| !is_told_by(&failure.message, warning)) {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// Whether a warning about the program says what the failure says already, with the same words.
fn is_told_by(failure: &str, warning: &Warning) -> bool {
    match warning {
        Warning::Finding { message, .. } => failure.contains(message.as_str()),
        Warning::RecordFull { .. } | Warning::Remark(_) => false,
    }
}

fn put_console(text: &mut String, report: &Report) {
    let lines: Vec<&String> = report.logs.stdout.iter().chain(&report.logs.stderr).collect();
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "console:");
    for line in lines.iter().take(SHOWN_LINES) {
        let _ = writeln!(text, "  {line}");
    }
    if lines.len() > SHOWN_LINES {
        let _ = writeln!(text, "  … {} more lines", lines.len() - SHOWN_LINES);
    }
}

fn put_calls(text: &mut String, report: &Report) {
    if report.calls.is_empty() {
        return;
    }
    let _ = writeln!(text, "already called:");
    for call in report.calls.iter().take(SHOWN_CALLS) {
        let state = match call.state {
            CallState::Applied => "applied",
            CallState::Failed => "failed",
            CallState::NotSent => "not sent",
            CallState::Unknown => "unknown",
        };
        let _ = writeln!(text, "  {} ({state})", call.name());
    }
    if report.calls.len() > SHOWN_CALLS {
        let _ = writeln!(text, "  … {} more calls", report.calls.len() - SHOWN_CALLS);
    }
}
