//! Converts between the JSON spelling of strings and Rust strings.

use std::borrow::Cow;

use memchr::memchr;

/// The text of a JSON string with quotes. A lone surrogate becomes U+FFFD, because a Rust string cannot contain it.
pub fn unquote(raw: &str) -> Cow<'_, str> {
    let inner = raw.strip_prefix('"').unwrap_or(raw);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = split_at_escape(rest) {
        text.push_str(plain);
        let (character, length) = escaped(escape.as_bytes());
        text.push(character);
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    Cow::Owned(text)
}

fn split_at_escape(text: &str) -> Option<(&str, &str)> {
    // Test the next byte first: `memchr` is slow on runs of escapes.
    let at = if text.starts_with('\\') { 0 } else { memchr(b'\\', text.as_bytes())? };
    text.split_at_checked(at)
}

/// The character of an escape, and the length of the escape.
fn escaped(bytes: &[u8]) -> (char, usize) {
    let short = match bytes.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode(bytes),
        Some(&other) if other.is_ascii() => char::from(other),
        _ => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (short, 2)
}

fn unicode(bytes: &[u8]) -> (char, usize) {
    let Some(unit) = hex4(bytes, 2) else { return (char::REPLACEMENT_CHARACTER, 2) };
    if let (0xD800..0xDC00, Some(b"\\u"), Some(low @ 0xDC00..0xE000)) = (unit, bytes.get(6..8), hex4(bytes, 8)) {
        let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// The four hexadecimal digits at `at`.
fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

/// Replaces every lone surrogate by `\ufffd`, so that strict parsers accept the text. Keeps the length.
pub fn replace_lone_surrogates(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((plain, escape)) = split_at_escape(rest) {
        text.push_str(plain);
        let (character, length) = escaped(escape.as_bytes());
        let (written, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        text.push_str(if character == char::REPLACEMENT_CHARACTER && length == 6 { "\\ufffd" } else { written });
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The first offset at or after `at` in a JSON string that is inside neither a character nor an escape.
pub fn escape_boundary(raw: &str, at: usize) -> usize {
    let at = raw.ceil_char_boundary(at);
    let bytes = raw.as_bytes();
    let begun = (at.saturating_sub(5)..at)
        .find(|&start| begins_escape(bytes, start) && start + escape_length(bytes, start) > at);
    begun.map_or(at, |start| (start + escape_length(bytes, start)).min(raw.len()))
}

/// Whether `at` is a backslash that is not itself escaped.
fn begins_escape(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    bytes.get(at) == Some(&b'\\') && before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0
}

fn escape_length(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lone_surrogate_reads_as_the_replacement_character() {
        assert_eq!(unquote(r#""a\ud800b""#), "a\u{fffd}b");
        assert_eq!(unquote(r#""\ud83d\ude00\u00e9\n\/""#), "😀é\n/");
    }

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let json = r#"["\ud800","\ud83d\ude00","\\ud800","\u00e9\udfff"]"#;
        assert_eq!(replace_lone_surrogates(json), r#"["\ufffd","\ud83d\ude00","\\ud800","\u00e9\ufffd"]"#);
    }

    #[test]
    fn no_cut_falls_into_an_escape() {
        let cuts: Vec<_> = (0..=12).map(|at| escape_boundary(r"a\u00e9\\\nb", at)).collect();
        assert_eq!(cuts, [0, 1, 7, 7, 7, 7, 7, 7, 9, 9, 11, 11, 12]);
    }

    proptest! {
        #[test]
        fn unquoting_undoes_quoting(text in "[a\u{0}\"\\\\/\u{e9}\u{1f600}\n]{0,20}") {
            let quoted = serde_json::to_string(&text).expect("a string");
            prop_assert_eq!(unquote(&quoted), text);
        }
    }
}
