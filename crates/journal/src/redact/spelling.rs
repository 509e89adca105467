//! The text that the escapes of JSON stand for.
//!
//! A server may write any character of a JSON string as an escape: `\/`, `\u002B`, `\u00e9`. A secret is searched for in what the
//! escapes stand for, and its stand-in is written with the same escapes, so that a text keeps its length and everything else in it
//! keeps its bytes. The text need not be JSON: a console line or a part of a document has escapes too. What is no escape of JSON
//! stands for itself.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::substitution::Hit;

/// What stands for a half of a surrogate pair, which is no character.
const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;

/// An escape in a text.
struct Escape {
    at: usize,
    bytes: usize,
    stands_for: char,
}

impl Escape {
    fn end(&self) -> usize {
        self.at + self.bytes
    }

    fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.at..self.end()]
    }
}

/// The escapes of a text, in their order.
struct Escapes<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Escapes<'t> {
    fn of(text: &'t str) -> Self {
        Escapes { text, at: 0 }
    }
}

impl Iterator for Escapes<'_> {
    type Item = Escape;

    fn next(&mut self) -> Option<Escape> {
        loop {
            let at = self.at + self.text[self.at..].find('\\')?;
            match escape(&self.text.as_bytes()[at..]) {
                Some((stands_for, bytes)) => {
                    self.at = at + bytes;
                    return Some(Escape { at, bytes, stands_for });
                }
                None => self.at = at + 1,
            }
        }
    }
}

/// The escape at the beginning of a text that begins with a backslash, with its length.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let stands_for = match text.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(text),
        _ => return None,
    };
    Some((stands_for, 2))
}

fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let pair = match text.get(6..).and_then(code_unit) {
        Some(second @ 0xdc00..=0xdfff) if first < 0xdc00 => {
            char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
        }
        _ => None,
    };
    Some(pair.map_or((NO_CHARACTER, 6), |character| (character, 12)))
}

/// The number of `\uXXXX`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

/// What a text stands for; `None` where it has no escapes.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut escapes = Escapes::of(text).peekable();
    escapes.peek()?;
    let (mut decoded, mut from) = (String::with_capacity(text.len()), 0);
    for escape in escapes {
        decoded.push_str(&text[from..escape.at]);
        decoded.push(escape.stands_for);
        from = escape.end();
    }
    decoded.push_str(&text[from..]);
    Some(decoded)
}

/// The text, and what it stands for when it is read as JSON once, twice and so on, at most so many times.
pub(super) fn for_each_reading(text: &str, max_readings: usize, mut look: impl FnMut(&str)) {
    look(text);
    let mut next = decoded(text);
    for _ in 0..max_readings {
        let Some(text) = next else { break };
        look(&text);
        next = decoded(&text);
    }
}

/// What was found in the text that this one stands for, as it is spelled in this one. The hits are in their order.
pub(super) fn spelled<'s>(text: &str, hits: Vec<Hit<'s>>) -> Vec<Hit<'s>> {
    let mut escapes = Escapes::of(text).peekable();
    let mut longer = 0;
    let mut offset = |decoded: usize| {
        while let Some(escape) = escapes.next_if(|escape| escape.at - longer < decoded) {
            longer += escape.bytes - escape.stands_for.len_utf8();
        }
        decoded + longer
    };
    let hits = hits.into_iter().map(|hit| {
        let (start, end) = (offset(hit.start), offset(hit.end));
        Hit { start, end, stand_in: spelled_like(&text[start..end], hit.stand_in) }
    });
    hits.collect()
}

/// A stand-in with the escapes of its secret. Both have as many characters, and those that only an escape of two bytes can write
/// are the same in both.
fn spelled_like<'s>(secret: &str, stand_in: Cow<'s, str>) -> Cow<'s, str> {
    let mut escapes = Escapes::of(secret).peekable();
    if escapes.peek().is_none() {
        return stand_in;
    }
    let (mut spelled, mut from) = (String::with_capacity(secret.len()), 0);
    let mut characters = stand_in.chars();
    for escape in escapes {
        let plain = secret[from..escape.at].chars().count();
        spelled.extend(characters.by_ref().take(plain));
        match characters.next() {
            Some(other) if other != escape.stands_for && escape.bytes > 2 => {
                write_escape(other, escape.text(secret), &mut spelled);
            }
            _ => spelled.push_str(escape.text(secret)),
        }
        from = escape.end();
    }
    spelled.extend(characters);
    Cow::Owned(spelled)
}

/// Writes a character as `\uXXXX`, with capitals where the other escape has some.
fn write_escape(character: char, like: &str, out: &mut String) {
    let has_capitals = like.contains(|c: char| c.is_ascii_uppercase());
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = if has_capitals { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
    }
}

/// The text with halves of surrogate pairs replaced: programs write them, and a strict reader refuses the whole document.
pub(super) fn with_characters_only(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let (mut whole, mut from) = (String::with_capacity(text.len()), 0);
    for escape in Escapes::of(text).filter(|escape| escape.stands_for == NO_CHARACTER) {
        whole.push_str(&text[from..escape.at]);
        whole.push_str("\\ufffd");
        from = escape.end();
    }
    whole.push_str(&text[from..]);
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_for_what_json_reads() {
        let check = |text: &str, expected: &str| assert_eq!(decoded(text).as_deref(), Some(expected), "{text}");
        for text in [r"a\/b", r"\u002B\u00e9\u00E9", r#"\"\\\b\f\n\r\t"#, r"\ud83d\ude00!", r"\\u0041"] {
            check(text, &serde_json::from_str::<String>(&format!("\"{text}\"")).expect("JSON"));
        }
        // What JSON does not have, and halves of pairs.
        check(r"C:\x\/\u12", r"C:\x/\u12");
        check(r"\ud83d\u0041\ude00\", "\u{fffd}A\u{fffd}\\");
        assert_eq!(decoded(r"C:\x \u00g0 \"), None);
    }

    #[test]
    fn a_stand_in_has_the_escapes_of_its_secret() {
        let check = |text: &str, secret: &str, stand_in: &'static str, expected: &str| {
            let read = decoded(text).expect("escapes");
            let start = read.find(secret).expect("it is there");
            let hit = Hit { start, end: start + secret.len(), stand_in: Cow::Borrowed(stand_in) };
            let hit = spelled(text, vec![hit]).remove(0);
            let after = [&text[..hit.start], &hit.stand_in, &text[hit.end..]].concat();
            assert_eq!(after, expected);
        };
        check(r"\/ab\/c\/", "ab/c", "xy/z", r"\/xy\/z\/");
        check(r"\né=\u006A\u006bé\/1", "jké/1", "opд/2", r"\né=\u006F\u0070д\/2");
        check(r"\ud83d\ude00-\ud840\udc00a", "𠀀a", "𠀁b", r"\ud83d\ude00-\ud840\udc01b");
    }
}
