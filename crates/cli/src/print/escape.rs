//! Guest text made harmless: no character of it can move a cursor, colour a line or turn its direction.

use std::borrow::Cow;

use toolgate_wire::foreign_text::is_hazard;

/// Text for a person: line breaks and tabs stay, other controls show as `\u{1b}`.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && c != '\t' && is_hazard(c), |c, out| out.extend(c.escape_unicode()))
}

/// A message behind a label such as `error:`, for a person. Each further line has a mark before it, so that no line of a foreign
/// text reads as one of ours.
pub(crate) fn message(message: &str) -> Cow<'_, str> {
    match text(message) {
        lines if lines.contains('\n') => Cow::Owned(lines.split('\n').collect::<Vec<_>>().join("\n  | ")),
        line => line,
    }
}

/// One line for a person: nothing breaks it.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\t' && is_hazard(c), |c, out| out.extend(c.escape_unicode()))
}

/// JSON text: the same value, written with escapes. Hazards can only stand inside strings, since nothing else in
/// JSON but line breaks and tabs is a control character.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t' | '\r') && is_hazard(c), json_escape)
}

fn json_escape(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

fn escaped(text: &str, hazard: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.chars().any(&hazard) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hazard(c) { escape(c, &mut out) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_show_as_text() {
        assert_eq!(text("\x1b[2J\u{9b}31m\x07\u{7f}"), r"\u{1b}[2J\u{9b}31m\u{7}\u{7f}");
    }

    #[test]
    fn line_breaks_and_tabs_stay_but_not_carriage_returns() {
        assert_eq!(text("a\tb\nc\rd"), "a\tb\nc\\u{d}d");
        assert_eq!(line("a\tb\nc"), "a\tb\\u{a}c");
    }

    #[test]
    fn further_lines_of_a_message_are_marked() {
        assert_eq!(
            message("boom\nerror[MEMORY]: forged\r\n2 calls"),
            "boom\n  | error[MEMORY]: forged\\u{d}\n  | 2 calls"
        );
        assert!(matches!(message("one line"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_cannot_be_turned_around_or_hidden() {
        assert_eq!(text("\u{202e}evil\u{e0041}"), r"\u{202e}evil\u{e0041}");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(text("grün 漢字 🎉"), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let original = serde_json::json!({ "a\u{7f}": "\u{9b}x\u{202e}\u{e0041}\u{1b}" });
        let escaped = json(&original.to_string()).into_owned();
        assert!(escaped.chars().all(|c| !is_hazard(c)), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), original);
    }
}
