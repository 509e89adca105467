//! Key paths: `results.items[3]`, `["odd.key"]`, and the form of outlines, `results > items > [0-4]`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::read::ReadError;
use toolgate_json::{Shape, Value, check, unquote};
use toolgate_wire::foreign_text::one_line;

/// Maximum number of keys listed in an error.
const MAX_LISTED_KEYS: usize = 20;

/// A path from the root of a JSON value to a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    Range(usize, usize),
}

/// The text is not a key path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a key path at byte {at}: write results.items[3], results.items[0-4] or [\"odd.key\"]")]
pub struct BadPath {
    at: usize,
}

impl FromStr for KeyPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').filter(|after| after.is_empty() || after.starts_with(['.', '['])).unwrap_or(rest);
        while !rest.is_empty() {
            let bad = BadPath { at: text.trim_end().len() - rest.len() };
            let unsigned = rest.trim_start_matches([' ', '.', '>']);
            let (step, after) =
                if unsigned.starts_with('[') { bracketed(unsigned) } else { bare(unsigned) }.ok_or(bad)?;
            steps.push(step);
            rest = after.trim_start();
        }
        Ok(Self(steps))
    }
}

fn bare(text: &str) -> Option<(Step, &str)> {
    let end = text.find(['.', '[', '>']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = name.trim();
    (!name.is_empty()).then(|| (Step::Key(name.to_owned()), rest))
}

fn bracketed(text: &str) -> Option<(Step, &str)> {
    let inner = text.strip_prefix('[')?;
    if inner.starts_with('"') {
        let end = closing_quote(inner)?;
        let (quoted, rest) = inner.split_at(end);
        check(quoted)?;
        return Some((Step::Key(unquote(quoted).into_owned()), rest.strip_prefix(']')?));
    }
    if let Some(single) = inner.strip_prefix('\'') {
        let (name, rest) = single.split_once("']")?;
        return Some((Step::Key(name.to_owned()), rest));
    }
    let (numbers, rest) = inner.split_once(']')?;
    let step = match numbers.split_once('-') {
        Some((first, last)) => Step::Range(first.trim().parse().ok()?, last.trim().parse().ok()?),
        None => Step::Index(numbers.trim().parse().ok()?),
    };
    Some((step, rest))
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = true;
    text.bytes()
        .position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })
        .map(|end| end + 1)
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the result");
        }
        self.0.iter().enumerate().try_for_each(|(place, step)| match step {
            Step::Key(name)
                if name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) && !name.is_empty() =>
            {
                write!(f, "{}{name}", if place > 0 { "." } else { "" })
            }
            Step::Key(name) => write!(f, "[{name:?}]"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Range(first, last) => write!(f, "[{first}-{last}]"),
        })
    }
}

impl KeyPath {
    /// The JSON text at the end of the path.
    pub(super) fn find<'a>(&self, root: Value<'a>) -> Result<Cow<'a, str>, ReadError> {
        let mut value = root;
        for (place, step) in self.0.iter().enumerate() {
            let next = match step {
                Step::Key(name) => value.member(name).or_else(|| value.element(name.parse().ok()?)),
                Step::Index(index) => value.element(*index),
                Step::Range(first, last) if place + 1 == self.0.len() => {
                    return range(value, *first, *last).map(Cow::Owned).ok_or_else(|| self.lost(place, value));
                }
                Step::Range(..) => None,
            };
            value = next.ok_or_else(|| self.lost(place, value))?;
        }
        Ok(Cow::Borrowed(value.text()))
    }

    /// The error for a path that ends before step `place`, at `value`.
    fn lost(&self, place: usize, value: Value<'_>) -> ReadError {
        let reached = Self(self.0.iter().take(place).cloned().collect());
        ReadError::NoSuchPath { asked: self.clone(), reached, there: there(value) }
    }
}

fn range(array: Value<'_>, first: usize, last: usize) -> Option<String> {
    array.element(first).filter(|_| first <= last)?;
    let items: Vec<_> = array.entries().skip(first).take(last - first + 1).map(|entry| entry.value.text()).collect();
    Some(format!("[{}]", items.join(",")))
}

/// Describes the value at which a path ended.
fn there(value: Value<'_>) -> String {
    let count = value.entries().count();
    match value.shape() {
        Shape::Array if count == 0 => "is an empty array".to_owned(),
        Shape::Array => format!("has the items [0] to [{}]", count - 1),
        Shape::Object if count == 0 => "is an empty object".to_owned(),
        Shape::Object => {
            let names = value.entries().take(MAX_LISTED_KEYS).filter_map(|entry| entry.key);
            let names: Vec<_> = names.map(|key| clip(&unquote(key))).collect();
            let more =
                if count > MAX_LISTED_KEYS { format!(" and {} more", count - MAX_LISTED_KEYS) } else { String::new() };
            format!("has the keys {}{more}", names.join(", "))
        }
        Shape::String => "is a string".to_owned(),
        Shape::Plain => format!("is {}", clip(value.text())),
    }
}

/// Most characters of a value or a path in a message.
const MAX_SHOWN_CHARS: usize = 60;

fn clip(text: &str) -> String {
    one_line(text, MAX_SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"results":{"items":[10,{"odd.key":"x"},"two"]},"a":{"é]":1},"":0,"my key":5}"#;

    fn check(path: &str, expected: &str) {
        let found = path.parse::<KeyPath>().map_err(|error| error.to_string());
        let found = found.and_then(|path| path.find(Value::of(JSON)).map_err(|error| error.to_string()));
        assert_eq!(found.as_deref().unwrap_or_else(|error| error), expected, "{path}");
    }

    #[test]
    fn paths_are_written_as_in_javascript_or_as_in_an_outline() {
        check("results.items[0]", "10");
        check("results > items > [0]", "10");
        check("$.results.items.2", r#""two""#);
        check(r#"results["items"][1]["odd.key"]"#, r#""x""#);
        check("results['items'][0]", "10");
        check(r#"a["\u00e9]"]"#, "1");
        check(r#"[""]"#, "0");
        check("my key", "5");
        check("results.items[1-2]", r#"[{"odd.key":"x"},"two"]"#);
        check("results.items[2-99]", r#"["two"]"#);
        check("", JSON);
    }

    #[test]
    fn a_path_that_ends_early_says_where_and_what_is_there() {
        check("results.itemz[3]", "no results.itemz[3]: results has the keys items");
        check("results.items[3].x", "no results.items[3].x: results.items has the items [0] to [2]");
        check("nope", "no nope: the result has the keys results, a, , my key");
        check("results.items[0].x", "no results.items[0].x: results.items[0] is 10");
        check("results.items[3-5]", "no results.items[3-5]: results.items has the items [0] to [2]");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["a[", "a[x]", "a..", "[\"a]", "a[1", "[99999999999999999999999]", ">"] {
            assert!(path.parse::<KeyPath>().is_err(), "{path}");
        }
    }
}
