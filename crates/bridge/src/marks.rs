//! Marks: texts that stand for values which are not there before a write is made.
//!
//! The guest writes them (`prelude/stage.js`): `⟦#2/id of tracker.create_issue⟧` is the value at `/id` in the answer to line 2. A
//! program may also get such a text from a tool. That is harmless: what is sent is compared with what was approved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What every mark begins with.
const BEGIN: &str = "⟦#";
const END_TEXT: &str = "⟧";
const OF: &str = " of ";

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

/// Substitutions of one call that are shown. Each names its place, so many marks below one long key would take much memory.
const MAX_SUBSTITUTIONS: usize = 256;
/// Bytes of a place that is shown.
const MAX_PLACE_BYTES: usize = 4 << 10;

/// The answers that are there, by the numbers of their lines.
pub type Values = BTreeMap<u32, Value>;

struct Mark<'a> {
    /// What stands before it.
    before: &'a str,
    line: u32,
    path: &'a str,
    after: &'a str,
}

/// Whether a text has a mark in it, or what may be one.
pub fn has_marks(text: &str) -> bool {
    first(text).is_some()
}

/// The first mark in a text.
fn first(text: &str) -> Option<Mark<'_>> {
    let (mut ends, mut words) = (Next::new(END_TEXT), Next::new(OF));
    let mut from = 0;
    while let Some(begin) = text.get(from..)?.find(BEGIN).map(|at| from + at) {
        from = begin + BEGIN.len();
        // Without either, nothing from here on is a mark.
        let (end, of) = (ends.at_or_after(text, from)?, words.at_or_after(text, from)?);
        if of >= end {
            continue;
        }
        let place = text.get(from..of)?;
        let digits = place.bytes().take_while(u8::is_ascii_digit).count();
        let (line, path) = place.split_at_checked(digits)?;
        if let Ok(line) = line.parse()
            && (path.is_empty() || path.starts_with('/'))
        {
            let after = text.get(end + END_TEXT.len()..)?;
            return Some(Mark { before: text.get(..begin)?, line, path, after });
        }
    }
    None
}

/// Where a word stands next, found again only when the place is passed: a text of beginnings without an end is read once.
struct Next {
    word: &'static str,
    found: Option<usize>,
}

impl Next {
    fn new(word: &'static str) -> Self {
        Next { word, found: None }
    }

    fn at_or_after(&mut self, text: &str, from: usize) -> Option<usize> {
        if self.found.is_none_or(|found| found < from) {
            #[cfg(test)]
            tests::SEARCHES.with(|searches| searches.set(searches.get() + 1));
            self.found = Some(from + text.get(from..)?.find(self.word)?);
        }
        self.found
    }
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

/// The places of the arguments with marks: the first ones, where there are more than a person would read.
pub fn substitutions(arguments: &Value) -> Vec<Substitution> {
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
            while found.len() < MAX_SUBSTITUTIONS && place.len() <= MAX_PLACE_BYTES {
                let Some(mark) = first(rest) else { break };
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

/// The arguments with values in place of marks; `None` where an answer is not there yet, or where the JSON text of the
/// whole would be longer than `max_bytes`: a mark is short, and what it stands for may be long and stand there often.
pub fn substituted(arguments: &Value, values: &Values, max_bytes: usize) -> Option<Value> {
    match fill(arguments, values, &mut Room(max_bytes))? {
        Filled::Value(value) => Some(value),
        Filled::Undefined => None,
    }
}

/// Bytes of JSON text that are left.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes)?;
        Some(())
    }

    /// Takes at most what the JSON text of a value has. Stops where there is no more room.
    fn take_value(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::String(text) => self.take(text.len() + 2),
            Value::Array(items) => {
                self.take(2)?;
                items.iter().try_for_each(|item| self.take_value(item))
            }
            Value::Object(fields) => {
                self.take(2)?;
                fields.iter().try_for_each(|(key, field)| {
                    self.take(key.len() + 3)?;
                    self.take_value(field)
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(1),
        }
    }
}

fn fill(value: &Value, values: &Values, room: &mut Room) -> Option<Filled> {
    Some(Filled::Value(match value {
        Value::String(text) => return fill_text(text, values, room),
        Value::Array(items) => {
            let items = items.iter().map(|item| {
                Some(match fill(item, values, room)? {
                    Filled::Value(value) => value,
                    Filled::Undefined => Value::Null,
                })
            });
            Value::Array(items.collect::<Option<_>>()?)
        }
        Value::Object(fields) => {
            let mut filled = serde_json::Map::new();
            for (key, field) in fields {
                // One that is left out takes no room.
                if let Filled::Value(value) = fill(field, values, room)? {
                    room.take(key.len())?;
                    filled.insert(key.clone(), value);
                }
            }
            Value::Object(filled)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            room.take(1)?;
            value.clone()
        }
    }))
}

/// A text that is one mark becomes the value; in any other text a mark becomes the value's text.
fn fill_text(text: &str, values: &Values, room: &mut Room) -> Option<Filled> {
    let mut made = String::new();
    let mut rest = text;
    while let Some(Mark { before, line, path, after }) = first(rest) {
        let value = at(values.get(&line)?, path);
        if rest.len() == text.len() && before.is_empty() && after.is_empty() {
            let Some(value) = value else { return Some(Filled::Undefined) };
            room.take_value(value)?;
            return Some(Filled::Value(value.clone()));
        }
        room.take(before.len())?;
        made.push_str(before);
        match value {
            Some(value) => push_text(value, &mut made, room)?,
            None => made.push_str("undefined"),
        }
        rest = after;
    }
    room.take(rest.len())?;
    made.push_str(rest);
    Some(Filled::Value(Value::String(made)))
}

/// Adds what JavaScript makes of a value in a text.
fn push_text(value: &Value, made: &mut String, room: &mut Room) -> Option<()> {
    let piece: &str = match value {
        Value::String(text) => text,
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    room.take(1)?;
                    made.push(',');
                }
                if !item.is_null() {
                    push_text(item, made, room)?;
                }
            }
            return Some(());
        }
        Value::Object(_) => "[object Object]",
        Value::Null | Value::Bool(_) | Value::Number(_) => &toolgate_json::stringify(value),
    };
    room.take(piece.len())?;
    made.push_str(piece);
    Some(())
}

/// Whether two values are the same to a program: 1.0 is 1, and keys have no order.
pub fn is_same(one: &Value, other: &Value) -> bool {
    let plain = |value: &Value| serde_json::from_str::<Value>(&toolgate_json::stringify(value)).ok();
    one == other || (plain(one).is_some() && plain(one) == plain(other))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use serde_json::json;

    thread_local! {
        /// How often the text after a beginning was searched.
        pub static SEARCHES: Cell<usize> = const { Cell::new(0) };
    }

    fn check(arguments: Value, expected: Option<Value>) {
        let values =
            Values::from([(1, json!({ "id": 7, "tags": ["a", "b"], "a/b c": { "⟧": true } })), (2, json!("x"))]);
        let filled = substituted(&arguments, &values, 1000);
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
    fn a_text_of_beginnings_is_read_once() {
        let many = "⟦#1/".repeat(100_000);
        for (text, most) in
            [(many.clone(), 2), (format!("{many} of ⟧"), 2), (format!("{many}⟧"), 2), ("⟦#x ⟧".repeat(9), 2)]
        {
            SEARCHES.set(0);
            let _ = first(&text);
            assert!(SEARCHES.get() <= most, "{} searches", SEARCHES.get());
        }
        // Every mark is found, and what lies between two is searched for the next one.
        let marks = "⟦#1/id of t⟧".repeat(1000);
        SEARCHES.set(0);
        assert!(substituted(&json!(marks), &Values::from([(1, json!({ "id": "x" }))]), 1000).is_some());
        assert!(SEARCHES.get() <= 2 * 1001, "{} searches", SEARCHES.get());
    }

    #[test]
    fn substitutions_are_bounded() {
        let marks = "⟦#1/id of t⟧".repeat(1000);
        assert_eq!(substitutions(&json!({ "a": marks, "b": marks })).len(), MAX_SUBSTITUTIONS);
        assert_eq!(substitutions(&json!({ "k".repeat(5000): marks, "b": "⟦#1 of t⟧" })).len(), 1);
    }

    #[test]
    fn what_is_filled_in_is_bounded() {
        let values = Values::from([(1, json!("x".repeat(1000))), (2, json!(["y".repeat(1000)]))]);
        let filled = |arguments: &Value| substituted(arguments, &values, 5000);
        for mark in ["⟦#1 of t⟧", "⟦#2/0 of t⟧", "⟦#2 of t⟧"] {
            assert!(filled(&json!([mark, { "a": mark }])).is_some(), "{mark}");
            assert!(filled(&json!({ "a": format!("{mark} {mark}") })).is_some(), "{mark}");
            assert!(filled(&json!(vec![mark; 6])).is_none(), "{mark}");
            assert!(filled(&json!(mark.repeat(6))).is_none(), "{mark}");
        }
        assert!(filled(&json!(vec![0; 5001])).is_none());
    }

    #[test]
    fn substitutions_say_what_goes_where() {
        let found = substitutions(&json!({ "a/b": ["⟦#1/id of t.make⟧ and ⟦#2 of t.say⟧"], "c": "plain" }));
        let expected = [("/a~1b/0", 1, "/id"), ("/a~1b/0", 2, "")];
        let shown: Vec<_> = found.iter().map(|it| (it.at.as_str(), it.line, it.value.as_str())).collect();
        assert_eq!(shown, expected);
    }
}
