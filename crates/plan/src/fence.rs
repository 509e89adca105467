//! Removes a byte order mark, markdown fences and surrounding white space from what a model sends.
//!
//! Only what cannot be code is removed. Prose around a fence stays: the parser reports its position, and the sender knows
//! what was meant.

/// The byte offsets of the start and end of the code in `source`.
pub(crate) fn code_range(source: &str) -> (usize, usize) {
    let from_start = source.trim_start_matches(is_unknown);
    let start = source.len() - from_start.len();
    let text = from_start.trim_end_matches(is_unknown);
    let (from, to) = unfence(text).unwrap_or((0, text.len()));
    (start + from, start + to)
}

fn is_unknown(c: char) -> bool {
    c == '\u{feff}' || c.is_whitespace()
}

fn unfence(text: &str) -> Option<(usize, usize)> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    if length < 3 {
        return None;
    }
    let Some(line) = text.find(['\n', '\r']) else { return unfence_line(text, mark, length) };
    let closing = text.len() - text.trim_end_matches(mark).len();
    let closed =
        closing >= length && text.get(..text.len() - closing)?.trim_end_matches([' ', '\t']).ends_with(['\n', '\r']);
    let end = if closed { text.len() - closing } else { text.len() };
    (line <= end).then_some((line, end))
}

/// A fence with the code on the same line, which has no language name.
fn unfence_line(text: &str, mark: char, length: usize) -> Option<(usize, usize)> {
    let inner = text.get(length..)?.trim_end_matches(mark);
    let end = length + inner.len();
    (text.len() - end >= length && !inner.is_empty()).then_some((length, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, code: &str) {
        let (start, end) = code_range(source);
        assert_eq!(source[start..end].trim(), code);
    }

    #[test]
    fn fences_of_any_kind_are_taken_off() {
        check("```ts\nreturn 1\n```", "return 1");
        check("\n  ```typescript\r\nreturn 1\r\n```\n\n", "return 1");
        check("~~~~js\nreturn 1\n~~~~", "return 1");
        check("```\nreturn `a`\n  ```", "return `a`");
        check("```return 1```", "return 1");
    }

    #[test]
    fn a_fence_without_end_is_taken_off_too() {
        check("```ts\nreturn 1", "return 1");
        check("````ts\nreturn 1\n```", "return 1\n```");
    }

    #[test]
    fn code_without_a_fence_stays_as_it_is() {
        check("return `a`", "return `a`");
        check("``", "``");
        check("Here:\n```\n1\n```", "Here:\n```\n1\n```");
    }

    #[test]
    fn byte_order_mark_and_white_space_go() {
        check("\u{feff}  return 1 \n", "return 1");
        check("", "");
        check(" \n\u{feff}", "");
        check("```\n```", "");
        check("```", "```");
    }
}
