//! Text of programs, servers and clients, made fit for a message, a log line, a comment or a terminal.
//!
//! Such text is bounded, and no character of it can end a line, move a cursor, colour a terminal, turn the direction of
//! what stands beside it, or hide. Every place that shows foreign text uses these functions.

use std::borrow::Cow;

/// What stands where a character was that must not be shown.
pub const REPLACEMENT: char = '\u{fffd}';
/// Ends a text that was cut.
pub const CUT: char = '…';

/// Whether a character must not be shown as it is: controls (C0, DEL, C1), line and paragraph separators, marks that
/// change the direction of text, invisible characters and tags.
pub fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of at most `max` characters: white space that breaks lines becomes a space, every other hazard is replaced,
/// and a text that was cut ends in `…`.
pub fn one_line(text: &str, max: usize) -> String {
    clipped(text, max).chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { harmless(c) }).collect()
}

/// The same with line breaks and tabs kept, and without a bound: for text whose length is bounded already.
pub fn lines(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !is_hazard(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| *c != '\r').map(|c| if is_kept(c) { c } else { REPLACEMENT }).collect())
}

/// The first `max` characters, followed by `…` if there are more.
pub fn clipped(text: &str, max: usize) -> Cow<'_, str> {
    let head = head(text, max);
    if head.len() < text.len() { Cow::Owned(format!("{head}{CUT}")) } else { Cow::Borrowed(text) }
}

/// The first `max` characters, with no sign that there are more: for what is compared, counted or read on.
pub fn head(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// The whole characters of the first `max` bytes.
pub fn head_bytes(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// The first `max` characters, followed by `…` and the length of the whole if there are more.
pub fn clipped_with_length(text: &str, max: usize) -> Cow<'_, str> {
    match clipped(text, max) {
        Cow::Owned(head) => Cow::Owned(format!("{head} ({} bytes)", text.len())),
        whole => whole,
    }
}

/// One line of at most `max` characters in which quotes, backslashes and hazards are escaped, for a text inside quotes.
pub fn escaped(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(max));
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index >= max => {
                line.push(CUT);
                break;
            }
            c if is_hazard(c) && !c.is_control() => line.extend(c.escape_unicode()),
            c => line.extend(c.escape_debug()),
        }
    }
    line
}

/// The text without hazards; line breaks and tabs stay. For what is searched or compared afterwards, where a replaced
/// character would hide a match.
pub fn stripped(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_hazard(*c)).collect()
}

fn harmless(c: char) -> char {
    if is_hazard(c) { REPLACEMENT } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m\tc", 100), "a b\u{fffd}[31m c");
        assert_eq!(one_line("x\u{202e}y\u{200b}z\u{2028}", 100), "x\u{fffd}y\u{fffd}z\u{fffd}");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(one_line("äöü", 2), "äö…");
        assert_eq!(clipped("äöü", 3), "äöü");
        assert_eq!(clipped("", 0), "");
        assert_eq!(clipped("a", 0), "…");
        assert_eq!((head("äöü", 2), head("äöü", 3), head("", 1)), ("äö", "äöü", ""));
        assert_eq!((head_bytes("äöü", 3), head_bytes("äöü", 6), head_bytes("ä", 1)), ("ä", "äöü", ""));
    }

    #[test]
    fn a_cut_text_can_tell_its_length() {
        assert_eq!(clipped_with_length("äöü", 2), "äö… (6 bytes)");
        assert_eq!(clipped_with_length("äöü", 3), "äöü");
    }

    #[test]
    fn an_escaped_text_stays_inside_its_quotes() {
        assert_eq!(escaped("a\"b\\c\n\u{1b}\u{202e}ä", 100), r#"a\"b\\c\n\u{1b}\u{202e}ä"#);
        assert_eq!(escaped("abc", 2), "ab…");
        assert_eq!(escaped("ab", 2), "ab");
    }

    #[test]
    fn a_stripped_text_has_no_hazards() {
        assert_eq!(stripped("to\u{7}k\u{200b}en\r\n\tx"), "token\n\tx");
    }

    #[test]
    fn lines_keep_their_breaks() {
        assert!(matches!(lines("a\n\tb"), Cow::Borrowed(_)));
        assert_eq!(lines("a\r\nb\u{7}\u{2066}"), "a\nb\u{fffd}\u{fffd}");
    }
}
