//! Reads JSON text in place, and writes JSON exactly as JavaScript does.
//!
//! A value arrives as text and leaves as text, often after most of it was removed. So nothing here builds a tree: a
//! [`Value`] is a slice of validated text, its entries are found by skipping bytes, and numbers keep their spelling. No
//! function over text recurses, so that deeply nested input needs no stack.
//!
//! # Layout
//! - [`scan`]: strict scanner over bytes, used by the guest and by `check`
//! - `check`: validates a text of any depth
//! - `stream`: finds one member in text that arrives in pieces
//! - this file: [`Value`] and [`Entries`], the walk over validated text
//! - [`unescape`], `strings`: decode strings, to bytes for the guest and to Rust strings
//! - `pretty`: indents or minifies text
//! - [`write`](mod@write), `stringify`: write tokens and values as `JSON.stringify` does
//!
//! `tests/agreement.rs` holds the implementations to the same results. Deliberately absent: I/O, limits of size, and any
//! knowledge of what a text means.

#![forbid(unsafe_code)]

mod check;
mod pretty;
#[cfg(test)]
mod samples;
pub mod scan;
mod stream;
mod stringify;
mod strings;
pub mod unescape;
pub mod write;

pub use check::{TextFacts, check};
pub use pretty::{LineWindow, Measure, Window, minified, minified_head, pretty, pretty_levels};
pub use stream::MemberScan;
pub use stringify::{stringify, stringify_exact};
pub use strings::{escape_boundary, replace_lone_surrogates, unquote};

use memchr::memchr2;
use scan::skip_space;

/// A JSON value inside text that [`check()`] accepted, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(&'a str);

/// The kind of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{…}`.
    Object,
    /// `[…]`.
    Array,
    /// `"…"`.
    String,
    /// A number, `true`, `false` or `null`.
    Plain,
}

/// An element of an array or a member of an object.
#[derive(Clone, Copy, Debug)]
pub struct JsonEntry<'a> {
    /// The offset of the entry in its container, directly after the bracket or comma.
    pub lead: usize,
    /// The offset of the value in its container.
    pub start: usize,
    /// The offset after the value in its container.
    pub end: usize,
    /// The member's name as written, with quotes.
    pub key: Option<&'a str>,
    /// Its value.
    pub value: Value<'a>,
}

impl<'a> Value<'a> {
    /// The value in a valid text.
    pub fn of(checked: &'a str) -> Self {
        Self(checked.trim_matches(is_space))
    }

    /// Its text.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// The length of its text in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a JSON value has at least one byte")]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Its kind.
    pub fn shape(self) -> Shape {
        match self.0.as_bytes().first() {
            Some(b'{') => Shape::Object,
            Some(b'[') => Shape::Array,
            Some(b'"') => Shape::String,
            _ => Shape::Plain,
        }
    }

    /// Whether it is an object or an array.
    pub fn is_container(self) -> bool {
        matches!(self.shape(), Shape::Object | Shape::Array)
    }

    /// Its elements or members in order; none for a scalar.
    pub fn entries(self) -> Entries<'a> {
        Entries {
            text: self.0,
            at: if self.is_container() { 1 } else { self.0.len() },
            keyed: self.shape() == Shape::Object,
        }
    }

    /// The member of that name; the last one if there are several, as in JavaScript.
    pub fn member(self, name: &str) -> Option<Value<'a>> {
        let named = |entry: &JsonEntry<'a>| entry.key.is_some_and(|key| unquote(key) == name);
        self.entries().filter(named).last().map(|entry| entry.value)
    }

    /// The element of an array at that index.
    pub fn element(self, index: usize) -> Option<Value<'a>> {
        if self.shape() != Shape::Array {
            return None;
        }
        self.entries().nth(index).map(|entry| entry.value)
    }
}

/// Iterator over the entries of one container.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    text: &'a str,
    at: usize,
    keyed: bool,
}

impl<'a> Iterator for Entries<'a> {
    type Item = JsonEntry<'a>;

    fn next(&mut self) -> Option<JsonEntry<'a>> {
        let bytes = self.text.as_bytes();
        let lead = self.at;
        let mut start = skip_space(bytes, lead);
        if matches!(bytes.get(start), None | Some(b']' | b'}')) {
            return None;
        }
        let mut key = None;
        if self.keyed {
            let end = string_end(bytes, start);
            key = Some(self.text.get(start..end)?);
            let colon = skip_space(bytes, end);
            start = skip_space(bytes, colon + 1);
        }
        let end = value_end(bytes, start);
        let value = Value(self.text.get(start..end)?);
        let next = skip_space(bytes, end);
        self.at = if bytes.get(next) == Some(&b',') { next + 1 } else { bytes.len() };
        Some(JsonEntry { lead, start, end, key, value })
    }
}

/// Whether the character is white space in JSON.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The end of the string whose opening quote is at `at`, in validated text.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        // Test the next byte first: `memchr` is slow on strings of mostly escapes.
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)).unwrap_or(bytes.len()),
        }
    }
}

fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while !matches!(bytes.get(at), None | Some(b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

fn container_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => container_end(bytes, at),
        _ => plain_end(bytes, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &[(&str, &str)]) {
        let found: Vec<_> =
            Value::of(json).entries().map(|entry| (entry.key.unwrap_or("-"), entry.value.text())).collect();
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn entries_come_in_the_order_written() {
        check("[]", &[]);
        check("{ }", &[]);
        check("7", &[]);
        check(
            r#" [1, "a,]" ,[2,[3]], {"k":"]"} ] "#,
            &[("-", "1"), ("-", r#""a,]""#), ("-", "[2,[3]]"), ("-", r#"{"k":"]"}"#)],
        );
        check(r#"{"b" : 1e21,"a\"":{}, "b":null}"#, &[(r#""b""#, "1e21"), (r#""a\"""#, "{}"), (r#""b""#, "null")]);
    }

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let value = Value::of(r#"{"a":1,"\u0061":2}"#);
        assert_eq!(value.member("a").map(Value::text), Some("2"));
        assert_eq!(value.member("b"), None);
    }

    #[test]
    fn an_object_has_no_elements() {
        assert_eq!(Value::of(r#"{"a":1}"#).element(0), None);
        assert_eq!(Value::of("[4,5]").element(1).map(Value::text), Some("5"));
    }
}
