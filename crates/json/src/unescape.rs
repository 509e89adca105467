//! Decodes the escapes of JSON strings to UTF-8, UTF-16 or WTF-8.

/// A decoded string: UTF-8, or UTF-16 if it has a lone surrogate.
pub enum Unescaped {
    /// Valid UTF-8.
    Utf8(Vec<u8>),
    /// UTF-16 with at least one lone surrogate.
    Utf16(Vec<u16>),
}

/// Decodes the text between two quotes. The text must have been scanned before: malformed escapes give arbitrary text.
#[inline]
pub fn unescape(inside: &[u8]) -> Unescaped {
    match utf8(inside) {
        Some(bytes) => Unescaped::Utf8(bytes),
        None => Unescaped::Utf16(utf16(inside)),
    }
}

/// As [`unescape`], encoded as WTF-8.
#[inline]
pub fn unescape_wtf8(inside: &[u8]) -> Vec<u8> {
    match unescape(inside) {
        Unescaped::Utf8(bytes) => bytes,
        Unescaped::Utf16(units) => wtf8(&units),
    }
}

/// `None` for a lone surrogate.
fn utf8(inside: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inside.len());
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let (unit, after) = escape(inside, at);
        at = after;
        let character = match unit {
            0xd800..=0xdbff if inside.get(at) == Some(&b'\\') => {
                let (low, after) = escape(inside, at);
                at = after;
                char::decode_utf16([unit, low]).next()?.ok()?
            }
            _ => char::from_u32(u32::from(unit))?,
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(out)
}

fn utf16(inside: &[u8]) -> Vec<u16> {
    let mut out = Vec::with_capacity(inside.len());
    let mut at = 0;
    while at < inside.len() {
        if inside[at] == b'\\' {
            let (unit, after) = escape(inside, at);
            out.push(unit);
            at = after;
            continue;
        }
        let end = inside[at..].iter().position(|&byte| byte == b'\\').map_or(inside.len(), |run| at + run);
        out.extend(String::from_utf8_lossy(&inside[at..end]).encode_utf16());
        at = end;
    }
    out
}

/// The UTF-16 code unit of the escape at `at`, and the end of the escape.
pub(super) fn escape(inside: &[u8], at: usize) -> (u16, usize) {
    let unit = match inside.get(at + 1) {
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => 0x0a,
        Some(b'r') => 0x0d,
        Some(b't') => 0x09,
        Some(b'u') => {
            let digits = inside.get(at + 2..at + 6).unwrap_or_default();
            let unit = digits.iter().fold(0, |unit, digit| unit << 4 | hex(*digit));
            return (unit, at + 6);
        }
        Some(&byte) => u16::from(byte),
        None => 0xfffd,
    };
    (unit, at + 2)
}

fn hex(digit: u8) -> u16 {
    u16::from(match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10) & 0xf,
    })
}

fn wtf8(units: &[u16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(units.len() * 3);
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let unit = lone.unpaired_surrogate();
                out.extend_from_slice(&[0xed, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]);
            }
        }
    }
    out
}
