//! Writes JSON tokens byte for byte as `JSON.stringify` does.
//!
//! The guest's serialiser and [`stringify`](fn@super::stringify) both write their strings and numbers here.

use std::io::Write as _;

/// Where text goes, byte by byte: a vector, or memory that its owner counts.
pub trait ByteSink {
    /// Appends one byte.
    fn push(&mut self, byte: u8);
    /// Appends several bytes.
    fn extend_from_slice(&mut self, bytes: &[u8]);
    /// How many bytes there are.
    fn written(&self) -> usize;
    /// Takes back everything after the first `length` bytes.
    fn cut_to(&mut self, length: usize);
}

impl ByteSink for Vec<u8> {
    #[inline]
    fn push(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn written(&self) -> usize {
        self.len()
    }

    fn cut_to(&mut self, length: usize) {
        self.truncate(length);
    }
}

/// The escape of each byte of a string: 0 for none, `u` for `\u00xx`, `s` for a possible lone surrogate, otherwise the
/// letter after the backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 0x20 {
        table[at] = b'u';
        at += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[0xed] = b's';
    table
};

/// Appends a quoted string. The input is WTF-8: UTF-8 in which lone surrogates may be encoded as three bytes.
#[inline]
pub fn quote(out: &mut impl ByteSink, text: &[u8]) {
    out.push(b'"');
    let mut plain = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escape = ESCAPES[byte as usize];
        if escape == 0 {
            at += 1;
            continue;
        }
        if escape == b's' {
            at += escape_surrogate(out, text, &mut plain, at);
            continue;
        }
        out.extend_from_slice(&text[plain..at]);
        match escape {
            b'u' => hex_escape(out, u16::from(byte)),
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        at += 1;
        plain = at;
    }
    out.extend_from_slice(&text[plain..]);
    out.push(b'"');
}

/// Appends a quoted string if it has at most `room` bytes; otherwise appends nothing and returns false.
#[inline]
pub fn quote_within(out: &mut impl ByteSink, text: &[u8], room: usize) -> bool {
    // Only a text near the bound is measured: escapes make a text at most six times as long.
    let fits = text.len() < room && (text.len() < room / 8 || quoted_length(text) <= room);
    if fits {
        quote(out, text);
    }
    fits
}

fn quoted_length(text: &[u8]) -> usize {
    let escaped = |(at, byte): (usize, &u8)| match ESCAPES[*byte as usize] {
        0 => 1,
        b'u' => 6,
        // Three bytes become six, of which the second and third byte count one each.
        b's' if text.get(at + 1).is_some_and(|second| *second >= 0xa0) => 4,
        b's' => 1,
        _ => 2,
    };
    2 + text.iter().enumerate().map(escaped).sum::<usize>()
}

/// Handles the character that starts with 0xED at `at`; returns its length. U+D000 to U+D7FF need no escape.
fn escape_surrogate(out: &mut impl ByteSink, text: &[u8], plain: &mut usize, at: usize) -> usize {
    let (Some(&second), Some(&third)) = (text.get(at + 1), text.get(at + 2)) else { return 1 };
    if second < 0xa0 {
        return 3;
    }
    out.extend_from_slice(&text[*plain..at]);
    hex_escape(out, 0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
    *plain = at + 3;
    3
}

fn hex_escape(out: &mut impl ByteSink, unit: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(unit >> shift & 0xf)]);
    }
}

/// Appends an integer.
#[inline]
pub fn integer(out: &mut impl ByteSink, value: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number as JavaScript prints it: the shortest digits that parse to the same number. NaN and infinities are
/// null.
#[inline]
pub fn number(out: &mut impl ByteSink, value: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        return out.extend_from_slice(b"null");
    }
    if value.trunc() == value && value.abs() <= EXACT {
        return integer(out, value as i64); // -0 becomes 0 here
    }
    let mut shortest = Stack::default();
    // 32 bytes suffice for every f64 in `{:e}` form, so this cannot fail.
    let _ = write!(shortest, "{value:e}");
    scientific(out, shortest.bytes());
}

/// Converts Rust's `-d.ddde-x` to JavaScript's decimal or exponential form.
fn scientific(out: &mut impl ByteSink, text: &[u8]) {
    let mut digits = [0_u8; 24];
    let mut count = 0;
    let mut exponent = 0_i32;
    let mut parts = text.splitn(2, |&byte| byte == b'e');
    for &byte in parts.next().unwrap_or_default() {
        match byte {
            b'-' => out.push(b'-'),
            b'0'..=b'9' if count < digits.len() => {
                digits[count] = byte;
                count += 1;
            }
            _ => {}
        }
    }
    if let Some(part) = parts.next().and_then(|part| std::str::from_utf8(part).ok()) {
        exponent = part.parse().unwrap_or(0);
    }
    place_point(out, &digits[..count], exponent + 1);
}

/// Appends `digits` with the decimal point after `point` of them (ECMA-262, Number::toString).
fn place_point(out: &mut impl ByteSink, digits: &[u8], point: i32) {
    let count = digits.len() as i32;
    if (count..=21).contains(&point) {
        out.extend_from_slice(digits);
        (count..point).for_each(|_| out.push(b'0'));
    } else if (1..=21).contains(&point) {
        out.extend_from_slice(&digits[..point as usize]);
        out.push(b'.');
        out.extend_from_slice(&digits[point as usize..]);
    } else if (-5..=0).contains(&point) {
        out.extend_from_slice(b"0.");
        (point..0).for_each(|_| out.push(b'0'));
        out.extend_from_slice(digits);
    } else {
        out.extend_from_slice(&digits[..1]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if point > 0 { b"e+" } else { b"e-" });
        integer(out, i64::from((point - 1).abs()));
    }
}

/// A buffer on the stack to print a number into.
#[derive(Default)]
struct Stack {
    bytes: [u8; 32],
    len: usize,
}

impl Stack {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl std::io::Write for Stack {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let room = self.bytes.len() - self.len;
        let taken = text.len().min(room);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text[..taken]);
        self.len += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
