//! Lines of text within a size limit.

use std::borrow::Cow;

use super::super::size::Kb;
use toolgate_json::{escape_boundary, unquote};

/// Maximum length of a key that a path contains in full.
const MAX_KEY: usize = 80;

/// Collects lines; rejects a line that does not fit.
pub(super) struct Page {
    text: String,
    limit: usize,
}

impl Page {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    /// Bytes left.
    pub(super) fn room(&self) -> usize {
        self.limit - self.text.len()
    }

    /// Adds a line, if it fits.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let separator = usize::from(!self.text.is_empty());
        let fits = line.len() + separator <= self.room();
        if fits {
            self.text.push_str(if separator == 1 { "\n" } else { "" });
            self.text.push_str(line);
        }
        fits
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Appends a step to a path.
pub(super) fn join(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path} > {step}") }
}

/// A key as a step of a path: unquoted if that is unambiguous, otherwise as a JSON string in brackets.
pub(super) fn step(key: &str) -> Cow<'_, str> {
    let name = unquote(key);
    let clear = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '/' | '@' | '#');
    if !name.is_empty() && name.len() <= MAX_KEY && name.trim().len() == name.len() && name.chars().all(clear) {
        return name;
    }
    Cow::Owned(format!("[{}]", clipped(key, MAX_KEY)))
}

/// A JSON string in about `room` bytes: in full, or its head and tail.
pub(super) fn clipped(raw: &str, room: usize) -> Cow<'_, str> {
    if raw.len() <= room {
        return Cow::Borrowed(raw);
    }
    let marker = format!("… [{} omitted] …", Kb(raw.len().saturating_sub(room)));
    let left = room.saturating_sub(marker.len());
    let head_end = left / 5 * 3;
    // Moving a cut to the next boundary adds a few bytes; `Page` enforces the limit.
    let head_end = escape_boundary(raw, head_end);
    let tail_start = escape_boundary(raw, raw.len() - (left - left / 5 * 3).min(raw.len())).max(head_end);
    let (head, tail) = (raw.get(..head_end).unwrap_or_default(), raw.get(tail_start..).unwrap_or_default());
    Cow::Owned(format!("{head}{marker}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kept, Kind, Reading, ResultStore};
    use proptest::prelude::*;

    #[test]
    fn a_line_that_does_not_fit_is_not_taken() {
        let mut page = Page::new(6);
        assert_eq!([page.line("abc"), page.line("abc"), page.line("ab"), page.line("")], [true, false, true, false]);
        assert_eq!(page.into_text(), "abc\nab");
    }

    #[test]
    fn unclear_keys_are_quoted() {
        let steps: Vec<_> = [r#""a""#, r#""my-key 2""#, r#""a.b""#, r#""""#, r#""é\n""#].map(step).into();
        assert_eq!(steps, ["a", "my-key 2", r#"["a.b"]"#, r#"[""]"#, r#"["é\n"]"#]);
    }

    proptest! {
        #[test]
        fn every_step_can_be_read(outer in ".{0,12}", inner in "[a-c$ .>'\"\\[\\]0-9\\\\-]{0,6}") {
            let json = serde_json::json!({ &outer: { &inner: [7] } }).to_string();
            let quoted = |key: &str| serde_json::to_string(key).expect("a string");
            let path = join(&join(&step(&quoted(&outer)), &step(&quoted(&inner))), "[0]");
            let store = ResultStore::new(Default::default());
            let id = store.keep(Kept { kind: Kind::Json, text: json.into() }).expect("it fits");
            let path = path.parse().map_err(|error| TestCaseError::fail(format!("{path}: {error}")))?;
            let reading = Reading { path: Some(path), ..Reading::default() };
            prop_assert_eq!(store.read(id.as_str(), &reading), Ok("7".to_owned()));
        }
    }

    #[test]
    fn a_long_string_shows_head_and_tail() {
        let raw = format!("\"{}{}\"", "a".repeat(500), r"\u00e9".repeat(100));
        assert_eq!(clipped(&raw, 60), format!("\"{}… [1.0KB omitted] …{}\"", "a".repeat(20), r"\u00e9".repeat(2)));
    }
}
