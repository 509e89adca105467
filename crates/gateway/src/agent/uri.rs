//! Names inside URIs and inside messages.

use toolgate_wire::foreign_text::one_line;

/// Longest name repeated in a message.
const MAX_SHOWN: usize = 120;

/// A name from outside, fit for a message: bounded, on one line.
pub(super) fn shown(name: &str) -> String {
    one_line(name, MAX_SHOWN)
}

/// A name as a segment of a URI.
pub(super) fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// The name that a segment stands for. What is not an escape stands for itself.
pub(super) fn decode(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(hex);
        name.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&name).into_owned()
}

fn hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|it| it.is_ascii_hexdigit()))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_the_way_through_a_uri() {
        for name in ["exa", "my search/ü", "100%", "a%2", "%", "", "🙂", "\"];evil//"] {
            assert_eq!(decode(&encode(name)), name);
        }
    }

    #[test]
    fn a_name_written_plainly_is_understood_too() {
        assert_eq!(decode("my search"), "my search");
        assert_eq!(decode("100%"), "100%");
    }

    #[test]
    fn a_shown_name_is_short_and_on_one_line() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a b\u{fffd}[31m");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), MAX_SHOWN + 1);
    }
}
