//! Marks: texts that stand for values which are not there before a write is made.
//!
//! The guest writes them (`prelude/stage.js`): `⟦#2/id of tracker.create_issue⟧` is the value at `/id` in the answer to line 2. A
//! program may also get such a text from a tool. That is harmless: what is sent is compared with what was approved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What every mark begins with.
const BEGIN: &str = "⟦#";
const END: char = '⟧';

/// A place in arguments that is filled in once an earlier call is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Substitution {
    /// The place: a JSON pointer into the arguments.
    pub at: String,
    /// The line of the review whose answer is filled in.
    pub line: u32,
    /// The value in that answer, as a JSON pointer; the whole answer when empty.
    pub value: String,
}

/// The answers that are there, by the numbers of their lines.
pub(super) type Values = BTreeMap<u32, Value>;

struct Mark<'a> {
    /// What stands before it.
    before: &'a str,
    line: u32,
    path: &'a str,
    after: &'a str,
}

/// Whether a text has a mark in it, or what may be one.
pub(crate) fn has_marks(text: &str) -> bool {
    first(text).is_some()
}

/// The first mark in a text.
fn first(text: &str) -> Option<Mark<'_>> {
    let mut from = 0;
    while let Some(begin) = text.get(from..)?.find(BEGIN).map(|at| from + at) {
        let rest = text.get(begin + BEGIN.len()..)?;
        if let Some((inside, after)) = rest.split_once(END)
            && let Some((place, _)) = inside.split_once(" of ")
        {
            let digits = place.find('/').unwrap_or(place.len());
            let (line, path) = place.split_at_checked(digits)?;
            if let Ok(line) = line.parse() {
                return Some(Mark { before: text.get(..begin)?, line, path, after });
            }
        }
        from = begin + BEGIN.len();
    }
    None
}

/// The value at a path of a mark; `None` where the answer has none.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').skip(1).try_fold(value, |value, step| {
        let key = step.replace("~3", " ").replace("~2", "⟧").replace("~1", "/").replace("~0", "~");
        match value {
            Value::Object(fields) => fields.get(&key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

/// The places of the arguments with marks.
pub(super) fn substitutions(arguments: &Value) -> Vec<Substitution> {
    let mut found = Vec::new();
    walk(arguments, &mut String::new(), &mut found);
    found
}

fn walk(value: &Value, place: &mut String, found: &mut Vec<Substitution>) {
    let mut inside = |key: &str, child: &Value, found: &mut Vec<Substitution>| {
        let length = place.len();
        place.push('/');
        place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        walk(child, place, found);
        place.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, child)| inside(key, child, found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, child)| inside(&at.to_string(), child, found));
        }
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some(mark) = first(rest) {
                found.push(Substitution { at: place.clone(), line: mark.line, value: mark.path.to_owned() });
                rest = mark.after;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What becomes of a value with marks.
enum Filled {
    Value(Value),
    /// The answer has no such value: JavaScript's `undefined`.
    Undefined,
}

/// The arguments with values in place of marks; `None` where an answer is not there yet.
pub(super) fn substituted(arguments: &Value, values: &Values) -> Option<Value> {
    match fill(arguments, values)? {
        Filled::Value(value) => Some(value),
        Filled::Undefined => None,
    }
}

fn fill(value: &Value, values: &Values) -> Option<Filled> {
    Some(Filled::Value(match value {
        Value::String(text) => return fill_text(text, values),
        Value::Array(items) => {
            let items = items.iter().map(|item| {
                Some(match fill(item, values)? {
                    Filled::Value(value) => value,
                    Filled::Undefined => Value::Null,
                })
            });
            Value::Array(items.collect::<Option<_>>()?)
        }
        Value::Object(fields) => {
            let mut filled = serde_json::Map::new();
            for (key, field) in fields {
                if let Filled::Value(value) = fill(field, values)? {
                    filled.insert(key.clone(), value);
                }
            }
            Value::Object(filled)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }))
}

/// A text that is one mark becomes the value; in any other text a mark becomes the value's text.
fn fill_text(text: &str, values: &Values) -> Option<Filled> {
    let mut made = String::new();
    let mut rest = text;
    while let Some(Mark { before, line, path, after }) = first(rest) {
        let value = at(values.get(&line)?, path);
        if rest.len() == text.len() && before.is_empty() && after.is_empty() {
            return Some(value.map_or(Filled::Undefined, |value| Filled::Value(value.clone())));
        }
        made.push_str(before);
        made.push_str(&value.map_or_else(|| "undefined".to_owned(), text_of));
        rest = after;
    }
    made.push_str(rest);
    Some(Filled::Value(Value::String(made)))
}

/// What JavaScript makes of a value in a text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let item = |item: &Value| if item.is_null() { String::new() } else { text_of(item) };
            items.iter().map(item).collect::<Vec<_>>().join(",")
        }
        Value::Object(_) => "[object Object]".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => toolgate_json::stringify(value),
    }
}

/// Whether two values are the same to a program: 1.0 is 1, and keys have no order.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    let plain = |value: &Value| serde_json::from_str::<Value>(&toolgate_json::stringify(value)).ok();
    one == other || (plain(one).is_some() && plain(one) == plain(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(arguments: Value, expected: Option<Value>) {
        let values =
            Values::from([(1, json!({ "id": 7, "tags": ["a", "b"], "a/b c": { "⟧": true } })), (2, json!("x"))]);
        let filled = substituted(&arguments, &values);
        assert!(
            match (&filled, &expected) {
                (Some(filled), Some(expected)) => is_same(filled, expected),
                (None, None) => true,
                _ => false,
            },
            "{arguments} {filled:?}"
        );
    }

    #[test]
    fn a_mark_becomes_the_value_and_in_a_text_its_text() {
        check(json!({ "n": "⟦#1/id of t.make⟧" }), Some(json!({ "n": 7 })));
        check(json!({ "n": "no. ⟦#1/id of t.make⟧, ⟦#2 of t.say⟧!" }), Some(json!({ "n": "no. 7, x!" })));
        check(json!(["⟦#1/tags/1 of t.make⟧", "⟦#1/tags of t.make⟧ "]), Some(json!(["b", "a,b "])));
        check(json!({ "k": "⟦#1/a~1b~3c/~2 of t.make⟧" }), Some(json!({ "k": true })));
        check(json!({ "k": "⟦#1/none of t.make⟧", "l": ["⟦#1/none of t⟧"] }), Some(json!({ "l": [null] })));
        check(json!({ "k": "⟦#3/id of t.make⟧" }), None);
        check(json!({ "k": "⟦#x of t⟧ ⟦#1 ⟦# of" }), Some(json!({ "k": "⟦#x of t⟧ ⟦#1 ⟦# of" })));
        check(json!({ "k": 1.0 }), Some(json!({ "k": 1 })));
    }

    #[test]
    fn substitutions_say_what_goes_where() {
        let found = substitutions(&json!({ "a/b": ["⟦#1/id of t.make⟧ and ⟦#2 of t.say⟧"], "c": "plain" }));
        let expected = [("/a~1b/0", 1, "/id"), ("/a~1b/0", 2, "")];
        let shown: Vec<_> = found.iter().map(|it| (it.at.as_str(), it.line, it.value.as_str())).collect();
        assert_eq!(shown, expected);
    }
}
