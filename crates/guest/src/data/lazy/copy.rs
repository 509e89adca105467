//! JSON text to JSON text, in exactly the form in which the serialiser writes values.
//!
//! Most text already has that form, so most of it is copied in runs. What
//! would need reordering (duplicate keys, array indices as keys) or is nested
//! deeply is left to the serialiser's walk.

use toolgate_json::write::{ByteSink, integer, number, quote};

use super::scan::{Fault, array_index, skip_number, skip_space, skip_string};
use super::template::Template;
use super::unescape::unescape_wtf8;

/// Objects with more keys are left to the walk: telling duplicates apart would cost more than it saves.
const MAX_KEYS: usize = 32;
/// Deeper text is left to the walk, so that this may recurse.
const MAX_NESTING: u32 = 16;

/// The text was not copied: the walk over the value has to do it, and finds the reason if that is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToWalk;

impl From<Fault> for ToWalk {
    fn from(_: Fault) -> Self {
        Self
    }
}

type Copied = Result<usize, ToWalk>;

/// Copies values from `text` to `out`, which may grow to `max_bytes`.
pub(crate) struct Copier<'a, S> {
    pub(crate) text: &'a [u8],
    pub(crate) out: &'a mut S,
    pub(crate) max_bytes: usize,
    /// How many containers may be nested.
    pub(crate) max_depth: u32,
}

impl<S: ByteSink> Copier<'_, S> {
    /// Copies the object at `at`; what was written is taken back if it must be left.
    pub(crate) fn record(mut self, at: usize, template: Option<&Template>) -> Result<(), ToWalk> {
        let before = self.out.written();
        let depth = self.max_depth.min(MAX_NESTING);
        let copied = match template {
            Some(template) => self.fitted(at, template, depth),
            None => self.object(at, depth),
        };
        if copied.is_err() {
            self.out.cut_to(before);
        }
        copied.map(|_| ())
    }

    fn fitted(&mut self, start: usize, template: &Template, depth: u32) -> Copied {
        let depth = depth.checked_sub(1).ok_or(ToWalk)?;
        let mut end = start;
        for field in 0..template.keys().len() {
            let at = template.after(end, field).ok_or(ToWalk)?;
            self.out.extend_from_slice(template.lead(field).ok_or(ToWalk)?);
            end = self.value(at, depth)?;
        }
        self.out.push(b'}');
        Ok(end)
    }

    fn value(&mut self, at: usize, depth: u32) -> Copied {
        if self.out.written() > self.max_bytes {
            return Err(ToWalk);
        }
        match self.text.get(at) {
            Some(b'"') => self.string(at),
            Some(b'{') => self.object(at, depth),
            Some(b'[') => self.array(at, depth),
            Some(b'-' | b'0'..=b'9') => self.number(at),
            Some(b't' | b'n') => self.verbatim(at, at + 4),
            Some(b'f') => self.verbatim(at, at + 5),
            _ => Err(ToWalk),
        }
    }

    fn verbatim(&mut self, at: usize, end: usize) -> Copied {
        self.out.extend_from_slice(self.text.get(at..end).ok_or(ToWalk)?);
        Ok(end)
    }

    fn string(&mut self, at: usize) -> Copied {
        let (end, escaped) = skip_string(self.text, at)?;
        if !escaped {
            return self.verbatim(at, end);
        }
        quote(self.out, &unescape_wtf8(self.text.get(at + 1..end - 1).ok_or(ToWalk)?));
        Ok(end)
    }

    fn number(&mut self, at: usize) -> Copied {
        let end = skip_number(self.text, at)?;
        let digits = self.text.get(at..end).ok_or(ToWalk)?;
        match parse_number(digits) {
            Number::Int(value) => integer(self.out, value),
            Number::Float(value) => number(self.out, value),
        }
        Ok(end)
    }

    fn array(&mut self, at: usize, depth: u32) -> Copied {
        let depth = depth.checked_sub(1).ok_or(ToWalk)?;
        self.out.push(b'[');
        let mut at = skip_space(self.text, at + 1);
        if self.text.get(at) == Some(&b']') {
            self.out.push(b']');
            return Ok(at + 1);
        }
        loop {
            at = skip_space(self.text, self.value(at, depth)?);
            match self.text.get(at) {
                Some(b',') => self.out.push(b','),
                Some(b']') => {
                    self.out.push(b']');
                    return Ok(at + 1);
                }
                _ => return Err(ToWalk),
            }
            at = skip_space(self.text, at + 1);
        }
    }

    fn object(&mut self, at: usize, depth: u32) -> Copied {
        let depth = depth.checked_sub(1).ok_or(ToWalk)?;
        let mut seen = Seen { keys: [&[]; MAX_KEYS], count: 0 };
        self.out.push(b'{');
        let mut at = skip_space(self.text, at + 1);
        if self.text.get(at) == Some(&b'}') {
            self.out.push(b'}');
            return Ok(at + 1);
        }
        loop {
            let (end, escaped) = skip_string(self.text, at)?;
            let text = self.text;
            if escaped || !seen.is_new(text.get(at + 1..end - 1).ok_or(ToWalk)?) {
                return Err(ToWalk);
            }
            self.verbatim(at, end)?;
            self.out.push(b':');
            at = skip_space(self.text, skip_space(self.text, end) + 1);
            at = skip_space(self.text, self.value(at, depth)?);
            match self.text.get(at) {
                Some(b',') => self.out.push(b','),
                Some(b'}') => {
                    self.out.push(b'}');
                    return Ok(at + 1);
                }
                _ => return Err(ToWalk),
            }
            at = skip_space(self.text, at + 1);
        }
    }
}

/// The keys of one object so far.
struct Seen<'t> {
    keys: [&'t [u8]; MAX_KEYS],
    count: usize,
}

impl<'t> Seen<'t> {
    /// False for a key that came before, that is an array index, or that is one too many.
    fn is_new(&mut self, key: &'t [u8]) -> bool {
        let Some(free) = self.keys.get_mut(self.count) else { return false };
        *free = key;
        let known = &self.keys[..self.count];
        self.count += 1;
        array_index(key).is_none() && !known.contains(&key)
    }
}

/// A JSON number as JavaScript holds it.
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

/// Reads the text of a number that has been scanned before.
pub(crate) fn parse_number(digits: &[u8]) -> Number {
    let (negative, magnitude) = match digits {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, digits),
    };
    // Fifteen digits are exact in an f64 too, so both forms agree.
    if magnitude.len() <= 15 && magnitude.iter().all(u8::is_ascii_digit) {
        let value = magnitude.iter().fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
        return match (negative, value) {
            (true, 0) => Number::Float(-0.0),
            (true, _) => Number::Int(-value),
            (false, _) => Number::Int(value),
        };
    }
    let value = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    Number::Float(value.unwrap_or(f64::NAN))
}
