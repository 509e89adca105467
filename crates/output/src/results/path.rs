//! Key paths: `results.items[3]`, `["odd.key"]`, and the form of outlines, `results > items > [0-4]`.
//!
//! A path is followed in one pass over the text, whatever the depth of the value and the length of the path.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::read::ReadError;
use super::tokens::{Token, TokenKind, Tokens};
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

/// Maximum length of the text of a path, in bytes.
const MAX_PATH_BYTES: usize = 64 * 1024;

/// Maximum number of digits of an index that is written as a key.
const MAX_INDEX_DIGITS: usize = 20;

/// The text is not a key path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadPath {
    /// It is not written as one.
    #[error("not a key path at byte {at}: write results.items[3], results.items[0-4] or [\"odd.key\"]")]
    Syntax {
        /// Where it is wrong.
        at: usize,
    },
    /// It is too long.
    #[error("a key path has at most {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl FromStr for KeyPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        if text.len() > MAX_PATH_BYTES {
            return Err(BadPath::TooLong);
        }
        let mut steps = Vec::new();
        let mut rest = text.trim();
        let end = text.trim_end().len();
        rest = rest.strip_prefix('$').filter(|after| after.is_empty() || after.starts_with(['.', '['])).unwrap_or(rest);
        while !rest.is_empty() {
            let bad = BadPath::Syntax { at: end - rest.len() };
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
        Some((first, last)) => {
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // Backwards is the same range.
            Step::Range(first.min(last), first.max(last))
        }
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
    /// The path for a message, which repeats what the caller sent.
    pub(super) fn shown(&self) -> String {
        one_line(&self.to_string(), MAX_SHOWN_PATH)
    }

    /// The JSON text at the end of the path.
    pub(super) fn find<'a>(&self, root: Value<'a>) -> Result<Cow<'a, str>, ReadError> {
        let text = root.text();
        let reached = Follow::new(&self.0).through(text);
        // The whole value is reached by no step.
        let place = reached.len().saturating_sub(1);
        let found = reached.last().and_then(|part| text.get(part.clone())).unwrap_or(text);
        match self.0.last() {
            _ if place < self.0.len() => Err(self.lost(place, Value::of(found))),
            Some(Step::Range(..)) => Ok(Cow::Owned(format!("[{found}]"))),
            _ => Ok(Cow::Borrowed(found)),
        }
    }

    /// The error for a path that ends before step `place`, at `value`.
    fn lost(&self, place: usize, value: Value<'_>) -> ReadError {
        let reached = Self(self.0.iter().take(place).cloned().collect());
        ReadError::NoSuchPath { asked: self.clone(), reached, there: there(value) }
    }
}

/// Follows the steps of a path over the tokens of a text.
///
/// Of two members with one name the last counts, as in JavaScript, so what the first one led to is dropped when the second
/// one begins.
struct Follow<'p> {
    steps: &'p [Step],
    /// The open containers that steps lead to: the first by no step, the next by one.
    open: Vec<OnPath>,
    /// How many of them are objects, in which a name may come again.
    open_objects: usize,
    /// Where the values are that no step, one step and so on lead to.
    reached: Vec<Range<usize>>,
}

/// An open container that the path leads to.
struct OnPath {
    is_object: bool,
    next_index: usize,
}

/// What a value is to the path.
enum Relation {
    /// The next step leads to it, or it is the root.
    Reached,
    /// One of the items of a range.
    InRange,
    /// The path leads elsewhere.
    Elsewhere,
}

impl<'p> Follow<'p> {
    fn new(steps: &'p [Step]) -> Self {
        Self { steps, open: Vec::new(), open_objects: 0, reached: Vec::new() }
    }

    /// Where the values are that the first steps lead to, as far as there are such values.
    fn through(mut self, text: &str) -> Vec<Range<usize>> {
        let mut key = None;
        // Inside a value that the path does not look into: how many containers of it are open, and whether it is in a range.
        let (mut inside, mut in_range) = (0_usize, false);
        for token in Tokens::of(text) {
            match token.kind {
                TokenKind::Key if inside == 0 => key = Some(token.text),
                TokenKind::Key => {}
                TokenKind::Close if inside == 0 => self.close(token.end),
                TokenKind::Close => {
                    inside -= 1;
                    if inside == 0 && in_range {
                        self.end(token.end);
                    }
                }
                TokenKind::Scalar if inside > 0 => {}
                TokenKind::OpenObject | TokenKind::OpenArray if inside > 0 => inside += 1,
                TokenKind::Scalar | TokenKind::OpenObject | TokenKind::OpenArray => {
                    let relation = self.begin(key.take(), &token);
                    in_range = matches!(relation, Relation::InRange);
                    match (relation, token.kind) {
                        (Relation::Reached | Relation::InRange, TokenKind::Scalar) => self.end(token.end),
                        (Relation::Elsewhere, TokenKind::Scalar) => {}
                        (Relation::Reached, kind) => self.enter(kind == TokenKind::OpenObject),
                        (Relation::InRange | Relation::Elsewhere, _) => inside = 1,
                    }
                }
            }
            if self.is_done() {
                break;
            }
        }
        self.reached
    }

    /// Notes where a value begins that is reached.
    fn begin(&mut self, key: Option<&str>, token: &Token<'_>) -> Relation {
        let level = self.open.len();
        let mut starts = true;
        let mut relation = Relation::Reached;
        if let Some(innermost) = self.open.last_mut() {
            let index = innermost.next_index;
            innermost.next_index += 1;
            relation = match (self.steps.get(level - 1), key) {
                (Some(Step::Key(name)), Some(key)) if unquote(key) == name.as_str() => Relation::Reached,
                (Some(Step::Key(name)), None) if is_index(name, index) => Relation::Reached,
                (Some(Step::Index(asked)), None) if *asked == index => Relation::Reached,
                (Some(Step::Range(first, last)), None)
                    if level == self.steps.len() && *first <= index && index <= *last =>
                {
                    starts = index == *first;
                    Relation::InRange
                }
                _ => Relation::Elsewhere,
            };
        }
        if starts && !matches!(relation, Relation::Elsewhere) {
            self.reached.truncate(level);
            self.reached.push(token.start..token.end);
        }
        relation
    }

    fn enter(&mut self, is_object: bool) {
        self.open_objects += usize::from(is_object);
        self.open.push(OnPath { is_object, next_index: 0 });
    }

    /// The innermost container ends.
    fn close(&mut self, at: usize) {
        if let Some(closed) = self.open.pop() {
            self.open_objects -= usize::from(closed.is_object);
        }
        self.end(at);
    }

    /// The value that begun last in the innermost open container ends.
    fn end(&mut self, at: usize) {
        if let Some(part) = self.reached.get_mut(self.open.len()) {
            part.end = at;
        }
    }

    /// Whether the value is found and its name cannot come again.
    fn is_done(&self) -> bool {
        let is_range = matches!(self.steps.last(), Some(Step::Range(..)));
        self.open_objects == 0
            && !is_range
            && self.reached.len() > self.steps.len()
            && self.open.len() <= self.steps.len()
    }
}

/// Whether a key is an index, as in `items.2`. The bound keeps the cost of an item independent of the length of the path.
fn is_index(key: &str, index: usize) -> bool {
    key.len() <= MAX_INDEX_DIGITS && key.parse() == Ok(index)
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

/// Most characters of a value or a key in a message.
const MAX_SHOWN_CHARS: usize = 60;

/// Most characters of a path in a message.
const MAX_SHOWN_PATH: usize = 200;

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
        check("results.items[2-1]", r#"[{"odd.key":"x"},"two"]"#);
        check("results.items[1-18446744073709551615]", r#"[{"odd.key":"x"},"two"]"#);
        check("results.items[0-18446744073709551615]", r#"[10,{"odd.key":"x"},"two"]"#);
        check("", JSON);
    }

    #[test]
    fn of_two_members_with_one_name_the_last_is_followed() {
        let found = |json: &'static str, path: &str| {
            let found = path.parse::<KeyPath>().expect("a path").find(Value::of(json));
            found.map_or_else(|error| error.to_string(), Cow::into_owned)
        };
        assert_eq!(found(r#"{"a":{"b":1},"\u0061":{"b":[2, 3 ]}}"#, "a.b"), "[2, 3 ]");
        assert_eq!(found(r#"[{"a":[7,8,9],"a":[1,2]}, {"a":[3]}]"#, "[0].a[0-5]"), "[1,2]");
        assert_eq!(found(r#"{"a":{"b":1},"a":[]}"#, "a.b"), "no a.b: a is an empty array");
        assert_eq!(found(r#"{"a":{"b":1},"a":3}"#, "a"), "3");
    }

    #[test]
    fn a_path_in_a_message_is_cut() {
        let long = "[0]".repeat(20_000).parse::<KeyPath>().expect("a path");
        let message = long.find(Value::of("[[7]]")).expect_err("nothing is there").to_string();
        assert!(message.len() < 500 && message.ends_with(": [0][0] is 7"), "{message}");
    }

    /// The parts of a value and the paths to them.
    fn parts(value: &serde_json::Value, path: &[Step], found: &mut Vec<(KeyPath, serde_json::Value)>) {
        found.push((KeyPath(path.to_vec()), value.clone()));
        let step_to = |step: Step| [path, &[step]].concat();
        match value {
            serde_json::Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    parts(item, &step_to(Step::Index(index)), found);
                }
                if !items.is_empty() {
                    let (first, last) = (items.len() / 2, items.len());
                    let range = KeyPath(step_to(Step::Range(first, last)));
                    found.push((range, items.get(first..).expect("items").into()));
                }
            }
            serde_json::Value::Object(members) => {
                for (name, member) in members {
                    parts(member, &step_to(Step::Key(name.clone())), found);
                }
            }
            _ => {}
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn a_path_leads_to_its_part_and_no_further(value in crate::samples::json()) {
            let mut all = Vec::new();
            parts(&value, &[], &mut all);
            for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("a value")] {
                for (path, part) in &all {
                    let found = path.find(Value::of(&text)).expect("it is there");
                    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
                    proptest::prop_assert_eq!(&found, part, "{}", path);
                    if !part.is_array() && !part.is_object() {
                        let further = KeyPath([&path.0[..], &[Step::Index(0)]].concat());
                        proptest::prop_assert!(further.find(Value::of(&text)).is_err(), "{}", further);
                    }
                }
            }
        }
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
    fn a_path_is_bounded_in_its_length_and_in_the_digits_of_an_index() {
        let longest = "a".repeat(MAX_PATH_BYTES);
        assert!(longest.parse::<KeyPath>().is_ok());
        assert_eq!((longest + "a").parse::<KeyPath>(), Err(BadPath::TooLong));
        check("results.items.0002", "\"two\"");
        let zeros = format!("results.items.{}2", "0".repeat(60_000)).parse::<KeyPath>().expect("a path");
        assert!(zeros.find(Value::of(JSON)).is_err());
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["a[", "a[x]", "a..", "[\"a]", "a[1", "[99999999999999999999999]", ">"] {
            assert!(path.parse::<KeyPath>().is_err(), "{path}");
        }
    }
}
