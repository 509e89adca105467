//! Walks over JSON text without making anything of it.
//!
//! Strict on purpose: a text is scanned as a whole before any of it becomes a
//! value, so that a broken text is one clean error and never a surprise in
//! the middle of a run. No recursion, no allocation.

use toolgate_wire::limits::MAX_JSON_DEPTH;

/// What is wrong with a text, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax(usize),
    Depth,
}

type Scanned = Result<usize, Fault>;

/// The first byte at or after `at` that is not white space.
#[inline]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// Where a string ends whose opening quote is at `at`, and whether it holds escapes.
#[inline]
pub(crate) fn skip_string(text: &[u8], at: usize) -> Result<(usize, bool), Fault> {
    let mut at = at + 1;
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

/// The next quote, backslash or control character, eight bytes at a time.
#[inline]
fn plain_run(text: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let zero_if_quote = word ^ (ONES * b'"' as u64);
        let zero_if_slash = word ^ (ONES * b'\\' as u64);
        let found = (zero_if_quote.wrapping_sub(ONES) & !zero_if_quote)
            | (zero_if_slash.wrapping_sub(ONES) & !zero_if_slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let found = found & HIGH;
        if found != 0 {
            // A borrow can only spoil bytes above the first hit, and the first is the one that counts.
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
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

/// Where a number ends that starts at `at`.
#[inline(always)]
pub(crate) fn skip_number(text: &[u8], start: usize) -> Scanned {
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

/// Where a number ends whose whole part ends at `at`.
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
fn skip_word<const N: usize>(text: &[u8], at: usize, word: &[u8; N]) -> Scanned {
    let found = text.get(at..).and_then(|rest| rest.first_chunk::<N>());
    if found == Some(word) { Ok(at + N) } else { Err(Fault::Syntax(at)) }
}

/// Where the value ends that starts at `at`; `depth` containers are open around it.
#[inline(always)]
pub(crate) fn skip_value(text: &[u8], at: usize, depth: u32) -> Scanned {
    match text.get(at) {
        Some(b'"') => skip_string(text, at).map(|(end, _)| end),
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        Some(b't') => skip_word(text, at, b"true"),
        Some(b'f') => skip_word(text, at, b"false"),
        Some(b'n') => skip_word(text, at, b"null"),
        Some(b'[') if depth < MAX_JSON_DEPTH => match skip_list(text, at) {
            Some(end) => Ok(end),
            None => skip_container(text, at, depth),
        },
        Some(b'{' | b'[') => skip_container(text, at, depth),
        _ => Err(Fault::Syntax(at)),
    }
}

/// Where an array of strings and numbers ends: most arrays in records are short lists of those. Nothing, if it holds
/// anything else or is at fault.
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

/// Which of the open containers are objects: one bit each.
struct Open {
    bits: [u64; MAX_JSON_DEPTH as usize / 64 + 1],
    count: u32,
}

impl Open {
    fn push(&mut self, object: bool, around: u32) -> Result<(), Fault> {
        if around + self.count >= MAX_JSON_DEPTH {
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
    let mut open = Open { bits: [0; MAX_JSON_DEPTH as usize / 64 + 1], count: 0 };
    let mut at = at;
    loop {
        // Here a value is due.
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
        // Here a value, or an empty container's inside, has ended.
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

/// From a key's opening quote to the start of its value.
#[inline]
pub(crate) fn skip_key(text: &[u8], at: usize) -> Scanned {
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

/// Checks that nothing but white space follows.
pub(crate) fn expect_end(text: &[u8], at: usize) -> Result<(), Fault> {
    let at = skip_space(text, at);
    if at == text.len() { Ok(()) } else { Err(Fault::Syntax(at)) }
}

/// One member of an object, as offsets into the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// The key's opening quote.
    pub(crate) key: usize,
    /// One past the key's closing quote.
    pub(crate) key_end: usize,
    /// Whether the key holds escapes.
    pub(crate) escaped: bool,
    /// The first byte of the value.
    pub(crate) value: usize,
    /// One past the value.
    pub(crate) end: usize,
}

impl Member {
    /// The key between its quotes, escapes and all.
    pub(crate) fn key_text<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        text.get(self.key + 1..self.key_end.saturating_sub(1)).unwrap_or_default()
    }
}

/// Visits the members of the object at `at` in their written order; gives where the object ends.
pub(crate) fn members(text: &[u8], at: usize, depth: u32, mut visit: impl FnMut(Member)) -> Scanned {
    if text.get(at) != Some(&b'{') {
        return Err(Fault::Syntax(at));
    }
    if depth >= MAX_JSON_DEPTH {
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

/// Whether a key is an array index, which JavaScript orders before other keys.
pub(crate) fn array_index(key: &[u8]) -> Option<u32> {
    match key {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 10 && rest.iter().all(u8::is_ascii_digit) => {
            let value = key.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
            u32::try_from(value).ok().filter(|&index| index != u32::MAX)
        }
        _ => None,
    }
}
