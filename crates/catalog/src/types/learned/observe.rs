//! Reads a result into a shape in one pass of the JSON parser, without building the value: any text, deep or damaged. Most
//! texts are read by `scan` instead, which is quicker.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::MAX_DEPTH;
use super::shape::{Format, Shape};

/// Counts the value of a JSON text into `shape`.
pub(super) fn observe(json: &str, shape: &mut Shape) -> Result<(), serde_json::Error> {
    let mut text = serde_json::Deserializer::from_str(json);
    Place { shape, depth: 0 }.deserialize(&mut text)?;
    text.end()
}

/// A place in the result, where the next value is counted.
struct Place<'s> {
    shape: &'s mut Shape,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.depth > MAX_DEPTH {
            *self.shape = Shape::any();
            return IgnoredAny::deserialize(from).map(drop);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.shape.nulls += 1;
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.shape.booleans += 1;
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.shape.integers += 1;
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.shape.integers += 1;
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.shape.fractions += 1;
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.shape.strings += 1;
        if let Some(format) = Format::of(text) {
            *self.shape.formats.entry(format).or_default() += 1;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.shape.arrays += 1;
        let mut shape = self.shape.items.take().unwrap_or_default();
        while items.next_element_seed(Place { shape: &mut shape, depth: self.depth + 1 })?.is_some() {}
        // An array without items says nothing about items.
        self.shape.items = Some(shape).filter(|shape| **shape != Shape::default());
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.shape.objects += 1;
        let mut before = None;
        while let Some(Key(key)) = entries.next_key()? {
            let (shape, position) = self.shape.enter(&key, before);
            before = position;
            entries.next_value_seed(Place { shape, depth: self.depth + 1 })?;
        }
        Ok(())
    }
}

/// A key, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

impl Format {
    /// The format of a string, recognised by its characters alone.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        match bytes.first()? {
            b'0'..=b'9' if is_date(bytes) => return Some(Self::Date),
            b'0'..=b'9' if is_date_time(bytes) => return Some(Self::DateTime),
            b'h' if text.starts_with("http://") || text.starts_with("https://") => return Some(Self::Uri),
            _ => {}
        }
        if is_uuid(bytes) {
            return Some(Self::Uuid);
        }
        is_email(text).then_some(Self::Email)
    }
}

/// Whether each byte fits its place of a pattern: `0` a digit, `f` a hex digit, others themselves.
fn has_pattern(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(|(byte, expected)| match expected {
            b'0' => byte.is_ascii_digit(),
            b'f' => byte.is_ascii_hexdigit(),
            other => byte == other,
        })
}

fn is_date(bytes: &[u8]) -> bool {
    has_pattern(bytes, b"0000-00-00")
}

fn is_date_time(bytes: &[u8]) -> bool {
    let Some((begin, zone)) = bytes.split_at_checked(19) else { return false };
    let is_zone = |zone: &[u8]| zone == b"Z" || zone.len() == 6 && matches!(zone.first(), Some(b'+' | b'-'));
    let fraction = zone.strip_prefix(b".").map_or(0, |rest| 1 + rest.iter().take_while(|b| b.is_ascii_digit()).count());
    has_pattern(begin, b"0000-00-00T00:00:00") && zone.get(fraction..).is_some_and(is_zone)
}

fn is_uuid(bytes: &[u8]) -> bool {
    has_pattern(bytes, b"ffffffff-ffff-ffff-ffff-ffffffffffff")
}

fn is_email(text: &str) -> bool {
    // Most strings have no `@`, which is quick to see.
    let Some((name, host)) = text.split_once('@') else { return false };
    let whole = !name.is_empty() && host.contains('.') && !host.starts_with('.') && !host.ends_with('.');
    whole && !host.contains('@') && text.len() <= 254 && !text.contains(char::is_whitespace)
}
