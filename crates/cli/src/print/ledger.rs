//! The calls of a run as a small table.

use toolgate_wire::{CallRecord, CallState};

use super::{Style, counted, escape};
use toolgate_wire::foreign_text;

/// Calls that are listed.
const MAX_SHOWN: usize = 100;
/// Characters of a name or an error that are shown.
const WIDTH: usize = 60;

/// One line a call: what, what became of it, how long it took, bytes there and back.
pub(crate) fn table(calls: &[CallRecord], style: Style) -> String {
    if calls.is_empty() {
        return style.faint("no calls");
    }
    let names: Vec<String> = calls.iter().take(MAX_SHOWN).map(|call| clipped(&call.name())).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut lines = vec![style.strong(counted(calls.len(), "call"))];
    lines.extend(calls.iter().zip(&names).map(|(call, name)| row(call, name, width, style)));
    if calls.len() > MAX_SHOWN {
        lines.push(style.faint(format_args!("  … {} more", calls.len() - MAX_SHOWN)));
    }
    lines.join("\n")
}

fn row(call: &CallRecord, name: &str, width: usize, style: Style) -> String {
    let state = match call.state {
        CallState::Applied => style.good("applied "),
        CallState::Failed => style.bad("failed  "),
        CallState::NotSent => style.warn("not sent"),
        CallState::Unknown => style.warn("unknown "),
    };
    let error = call.error.as_ref().map(|error| format!("  {}", clipped(error))).unwrap_or_default();
    let CallRecord { ms, request_bytes, reply_bytes, .. } = call;
    format!("  {name:<width$}  {state}  {ms:>8.1} ms  {request_bytes:>6} B -> {reply_bytes} B{error}")
}

fn clipped(text: &str) -> String {
    escape::line(&foreign_text::clipped(text, WIDTH)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::Target;

    #[test]
    fn a_row_says_what_became_of_a_call() {
        let call = |(backend, tool): (&str, &str), state, error: Option<&str>| CallRecord {
            target: Target::Tool { backend: backend.into(), tool: tool.into() },
            state,
            ms: 12.34,
            request_bytes: 15,
            reply_bytes: 200,
            read_only: false,
            error: error.map(Into::into),
            error_code: None,
            decision: None,
        };
        let calls = [
            call(("shop", "find"), CallState::Applied, None),
            call(("b", "t\x1b[2J"), CallState::Failed, Some("no\nway")),
        ];
        insta::assert_snapshot!(table(&calls, Style::plain()), @r"
        2 calls
          shop.find     applied       12.3 ms      15 B -> 200 B
          b.t\u{1b}[2J  failed        12.3 ms      15 B -> 200 B  no\u{a}way
        ");
    }
}
