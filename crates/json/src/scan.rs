//! Strict scanner (RFC 8259): finds the ends of tokens and values by byte offset.
//!
//! The guest scans a whole text before any of it becomes a value, so that invalid JSON is one error at the beginning and
//! not an exception in the middle of a run. No recursion, no allocation. [`check`](fn@super::check) uses the same token
//! functions.

/// Maximum nesting depth. Deeper text is [`Fault::Depth`].
pub const MAX_DEPTH: u32 = 1_000;
/// Maximum nesting depth of a text that becomes a tree of values: what serde_json reads.
pub const MAX_TREE_DEPTH: usize = 127;

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Invalid JSON at this byte.
    Syntax(usize),
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
}

/// The offset after the scanned text.
type Scanned = Result<usize, Fault>;

/// The first byte at or after `at` that is not white space.
#[inline]
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The end of the string whose opening quote is at `at`, and whether it has escapes.
#[inline]
pub fn skip_string(text: &[u8], at: usize) -> Result<(usize, bool), Fault> {
    let start = at + 1;
    // Most strings end within two words: these are compared here, without a call and without a loop.
    let Some([first, second]) = text.get(start..).and_then(two_words) else { return skip_long_string(text, start) };
    let place = match (first_special(first), first_special(second)) {
        (Some(place), _) => place,
        (None, Some(place)) => 8 + place,
        (None, None) => return skip_long_string(text, start + 16),
    };
    match text.get(start + place) {
        Some(b'"') => Ok((start + place + 1, false)),
        _ => skip_long_string(text, start + place),
    }
}

#[inline(always)]
fn two_words(text: &[u8]) -> Option<[u64; 2]> {
    let (&[first, second], _) = text.first_chunk::<16>()?.as_chunks::<8>().0.split_first_chunk::<2>()?;
    Some([u64::from_le_bytes(first), u64::from_le_bytes(second)])
}

/// The end of a string that goes on at `at`, and whether it has escapes from there on.
#[inline(never)]
fn skip_long_string(text: &[u8], at: usize) -> Result<(usize, bool), Fault> {
    let mut at = at;
    let mut escaped = false;
    loop {
        at = plain_run(text, at);
        match text.get(at) {
            Some(b'"') => return Ok((at + 1, escaped)),
            Some(b'\\') => {
                at = skip_escape(text, at)?;
                escaped = true;
            }
            _ => return Err(Fault::Syntax(at)),
        }
    }
}

/// Length from which on a string is compared in blocks. Most strings are shorter, and a block costs as much as two words.
const LONG: usize = 32;

/// The offset of the next quote, backslash or control character. Compares eight bytes at a time, and more in long strings.
#[inline]
fn plain_run(text: &[u8], at: usize) -> usize {
    let long = at.saturating_add(LONG).min(text.len());
    let found = plain_words(&text[..long], at);
    if found < long { found } else { plain_words(text, plain_blocks(text, found)) }
}

/// The offset of the first block with such a character, or where no whole block is left. The compiler compares a block with
/// vector instructions.
fn plain_blocks(text: &[u8], at: usize) -> usize {
    let (blocks, _) = text.get(at..).unwrap_or_default().as_chunks::<32>();
    let is_plain = |block: &&[u8; 32]| !block.iter().fold(false, |found, &byte| found | ends_plain_run(byte));
    at + 32 * blocks.iter().take_while(is_plain).count()
}

#[inline]
fn ends_plain_run(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Where the first quote, backslash or control character is among eight bytes.
#[inline(always)]
fn first_special(word: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_if_quote = word ^ (ONES * b'"' as u64);
    let zero_if_slash = word ^ (ONES * b'\\' as u64);
    let found = (zero_if_quote.wrapping_sub(ONES) & !zero_if_quote)
        | (zero_if_slash.wrapping_sub(ONES) & !zero_if_slash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    let found = found & HIGH;
    // A borrow can produce false hits only above the first hit, and only the first is used.
    if found == 0 { None } else { Some((found.trailing_zeros() / 8) as usize) }
}

#[inline]
fn plain_words(text: &[u8], mut at: usize) -> usize {
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        if let Some(place) = first_special(u64::from_le_bytes(*word)) {
            return at + place;
        }
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if ends_plain_run(byte) {
            break;
        }
        at += 1;
    }
    at
}

fn skip_escape(text: &[u8], at: usize) -> Scanned {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let digits = text.get(at + 2..at + 6).ok_or(Fault::Syntax(at))?;
            if digits.iter().all(u8::is_ascii_hexdigit) { Ok(at + 6) } else { Err(Fault::Syntax(at)) }
        }
        _ => Err(Fault::Syntax(at)),
    }
}

/// The end of the number that starts at `start`.
#[inline(always)]
pub fn skip_number(text: &[u8], start: usize) -> Scanned {
    let first = start + usize::from(text.get(start) == Some(&b'-'));
    let end = match text.get(first) {
        Some(b'0') => first + 1,
        Some(b'1'..=b'9') => skip_digits(text, first + 1),
        _ => return Err(Fault::Syntax(start)),
    };
    match text.get(end) {
        Some(b'.' | b'e' | b'E') => skip_fraction(text, end),
        _ => Ok(end),
    }
}

/// The end of the number whose integer part ends at `at`.
fn skip_fraction(text: &[u8], mut at: usize) -> Scanned {
    if text.get(at) == Some(&b'.') {
        at = some_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = some_digits(text, at)?;
    }
    Ok(at)
}

#[inline]
fn skip_digits(text: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    at
}

fn some_digits(text: &[u8], at: usize) -> Scanned {
    let end = skip_digits(text, at);
    if end == at { Err(Fault::Syntax(at)) } else { Ok(end) }
}

#[inline]
pub(super) fn skip_word<const N: usize>(text: &[u8], at: usize, word: &[u8; N]) -> Scanned {
    let found = text.get(at..).and_then(|rest| rest.first_chunk::<N>());
    if found == Some(word) { Ok(at + N) } else { Err(Fault::Syntax(at)) }
}

/// The end of the value that starts at `at`, inside `depth` containers.
#[inline(always)]
pub fn skip_value(text: &[u8], at: usize, depth: u32) -> Scanned {
    match text.get(at) {
        Some(b'"') => skip_string(text, at).map(|(end, _)| end),
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        Some(b't') => skip_word(text, at, b"true"),
        Some(b'f') => skip_word(text, at, b"false"),
        Some(b'n') => skip_word(text, at, b"null"),
        Some(b'[') if depth < MAX_DEPTH => match skip_list(text, at) {
            Some(end) => Ok(end),
            None => skip_container(text, at, depth),
        },
        Some(b'{' | b'[') => skip_container(text, at, depth),
        _ => Err(Fault::Syntax(at)),
    }
}

/// The end of an array of strings and numbers, which most arrays in records are; `None` for any other array and for
/// invalid JSON.
fn skip_list(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        at = skip_space(text, at + 1);
        let end = match text.get(at)? {
            b'"' => skip_string(text, at).ok()?.0,
            b'-' | b'0'..=b'9' => skip_number(text, at).ok()?,
            _ => return None,
        };
        at = skip_space(text, end);
        match text.get(at)? {
            b',' => {}
            b']' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The open containers, one bit each: whether it is an object.
struct Open {
    bits: [u64; MAX_DEPTH as usize / 64 + 1],
    count: u32,
}

impl Open {
    fn push(&mut self, object: bool, around: u32) -> Result<(), Fault> {
        if around + self.count >= MAX_DEPTH {
            return Err(Fault::Depth);
        }
        let (word, bit) = (self.count as usize / 64, self.count % 64);
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(object) << bit;
        self.count += 1;
        Ok(())
    }

    fn innermost_is_object(&self) -> bool {
        let at = self.count.saturating_sub(1);
        self.bits[at as usize / 64] >> (at % 64) & 1 == 1
    }
}

// A function of its own, so that only deep values pay for its stack frame.
#[inline(never)]
fn skip_container(text: &[u8], at: usize, depth: u32) -> Scanned {
    let mut open = Open { bits: [0; MAX_DEPTH as usize / 64 + 1], count: 0 };
    let mut at = at;
    loop {
        // A value is expected here.
        at = match text.get(at) {
            Some(b'{') => {
                open.push(true, depth)?;
                at = skip_space(text, at + 1);
                if text.get(at) == Some(&b'}') {
                    at
                } else {
                    at = skip_key(text, at)?;
                    continue;
                }
            }
            Some(b'[') => {
                open.push(false, depth)?;
                at = skip_space(text, at + 1);
                if text.get(at) == Some(&b']') {
                    at
                } else {
                    continue;
                }
            }
            _ => skip_value(text, at, 0)?,
        };
        // A value, or the inside of an empty container, ended here.
        loop {
            at = skip_space(text, at);
            match (text.get(at), open.innermost_is_object()) {
                (Some(b','), true) => {
                    at = skip_key(text, skip_space(text, at + 1))?;
                    break;
                }
                (Some(b','), false) => {
                    at = skip_space(text, at + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    at += 1;
                    open.count -= 1;
                    if open.count == 0 {
                        return Ok(at);
                    }
                }
                _ => return Err(Fault::Syntax(at)),
            }
        }
    }
}

/// The start of the value of the key whose opening quote is at `at`.
#[inline]
fn skip_key(text: &[u8], at: usize) -> Scanned {
    if text.get(at) != Some(&b'"') {
        return Err(Fault::Syntax(at));
    }
    let (end, _) = skip_string(text, at)?;
    let colon = skip_space(text, end);
    if text.get(colon) != Some(&b':') {
        return Err(Fault::Syntax(colon));
    }
    Ok(skip_space(text, colon + 1))
}

/// Checks that only white space follows.
#[inline]
pub fn expect_end(text: &[u8], at: usize) -> Result<(), Fault> {
    let at = skip_space(text, at);
    if at == text.len() { Ok(()) } else { Err(Fault::Syntax(at)) }
}

/// A member of an object, as byte offsets.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The opening quote of the key.
    pub key: usize,
    /// After the closing quote of the key.
    pub key_end: usize,
    /// Whether the key has escapes.
    pub escaped: bool,
    /// The first byte of the value.
    pub value: usize,
    /// After the value.
    pub end: usize,
}

impl Member {
    /// The key between its quotes, with its escapes.
    #[inline]
    pub fn key_text<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        text.get(self.key + 1..self.key_end.saturating_sub(1)).unwrap_or_default()
    }
}

/// Visits the members of the object at `at` in order; returns the end of the object.
pub fn members(text: &[u8], at: usize, depth: u32, mut visit: impl FnMut(Member)) -> Scanned {
    if text.get(at) != Some(&b'{') {
        return Err(Fault::Syntax(at));
    }
    if depth >= MAX_DEPTH {
        return Err(Fault::Depth);
    }
    let mut at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        let key = at;
        if text.get(key) != Some(&b'"') {
            return Err(Fault::Syntax(key));
        }
        let (key_end, escaped) = skip_string(text, key)?;
        let colon = skip_space(text, key_end);
        if text.get(colon) != Some(&b':') {
            return Err(Fault::Syntax(colon));
        }
        let value = skip_space(text, colon + 1);
        let end = skip_value(text, value, depth + 1)?;
        visit(Member { key, key_end, escaped, value, end });
        at = skip_space(text, end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(Fault::Syntax(at)),
        }
    }
}

/// The array index that a key is, if any. JavaScript orders these before other keys.
#[inline]
pub fn array_index(key: &[u8]) -> Option<u32> {
    match key {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 10 && rest.iter().all(u8::is_ascii_digit) => {
            let value = key.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
            u32::try_from(value).ok().filter(|&index| index != u32::MAX)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_at_its_quote_whatever_its_length() {
        for length in 0..200 {
            let text = format!("\"{}\"", "é".repeat(length));
            assert_eq!(skip_string(text.as_bytes(), 0), Ok((text.len(), false)), "{length}");
            let open = &text[..text.len() - 1];
            assert_eq!(skip_string(open.as_bytes(), 0), Err(Fault::Syntax(open.len())), "{length}");
        }
    }

    #[test]
    fn a_string_is_the_same_with_and_without_text_behind_it() {
        for length in 0..40 {
            for inside in ["", "\\n", "\\\"", "\\u00e9", "\\u00e", "\u{1}", "\u{1f}", "é", "\u{7f}", "!#[]~"] {
                let short = format!("\"{}{inside}{}\"", "x".repeat(length), "y".repeat(length % 3));
                let alone = skip_string(short.as_bytes(), 0);
                let followed = format!("{short}, \"next\": \"\\n and more text than two words\"");
                assert_eq!(skip_string(followed.as_bytes(), 0), alone, "{short}");
                assert_eq!(alone.is_ok(), serde_json::from_str::<String>(&short).is_ok(), "{short}");
            }
        }
    }

    #[test]
    fn an_escape_and_a_control_character_are_found_at_every_place() {
        for place in 0..200 {
            let around = |inside: &str| format!("\"{}{inside}{}\"", "x".repeat(place), "y".repeat(100));
            let escaped = around("\\n");
            assert_eq!(skip_string(escaped.as_bytes(), 0), Ok((escaped.len(), true)), "{place}");
            let control = around("\u{1f}");
            assert_eq!(skip_string(control.as_bytes(), 0), Err(Fault::Syntax(place + 1)), "{place}");
        }
    }
}
