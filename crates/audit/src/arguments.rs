//! Arguments in the audit log: their digest and, if configured, the arguments with secrets replaced.

use std::cell::Cell;
use std::fmt;

use ring::digest::{SHA256, digest as hash};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::chain::hexadecimal;
use toolgate_wire::foreign_text::clipped;

/// Characters of one text.
const MAX_TEXT_CHARS: usize = 200;
/// Entries of one list or object.
const MAX_ENTRIES: usize = 50;
/// Levels.
const MAX_DEPTH: usize = 6;
/// Characters of all that is told of one call, about. A run notes thousands of calls.
const MAX_CHARS: usize = 8 << 10;
/// Words in the name of a field whose value is not told.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "authorization",
    "cookie",
    "credential",
    "private",
    "session",
    "bearer",
];

/// The digest of a text: `sha256:` and 64 hexadecimal digits.
pub fn digest(text: &str) -> String {
    format!("sha256:{}", hexadecimal(hash(&SHA256, text.as_bytes()).as_ref()))
}

/// The arguments of a call, bounded and without the values of fields whose names say that they are secret.
///
/// Only what is told is made a value: the rest of the text is read over, however long it is.
pub fn redacted(arguments: &str) -> Value {
    let room = Cell::new(MAX_CHARS);
    let mut reader = serde_json::Deserializer::from_str(arguments);
    let told = BoundedValue { room: &room, depth: MAX_DEPTH }.deserialize(&mut reader);
    told.ok().filter(|_| reader.end().is_ok()).unwrap_or_default()
}

/// Reads a value as it is told: with so many levels, and as long as there is room.
#[derive(Clone, Copy)]
struct BoundedValue<'r> {
    /// Characters that may still be told.
    room: &'r Cell<usize>,
    depth: usize,
}

impl BoundedValue<'_> {
    fn cut() -> Value {
        Value::String("…".to_owned())
    }

    fn text(self, text: &str) -> Value {
        self.spend(text.chars().take(MAX_TEXT_CHARS).count());
        Value::String(clip(text))
    }

    fn plain(self, value: Value) -> Value {
        self.spend(8);
        value
    }

    fn spend(self, characters: usize) {
        self.room.set(self.room.get().saturating_sub(characters + 2));
    }

    /// Whether one more entry is told after so many.
    fn has_room(self, entries: usize) -> bool {
        self.depth > 0 && entries < MAX_ENTRIES && self.room.get() > 0
    }

    fn inner(self) -> Self {
        BoundedValue { depth: self.depth - 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for BoundedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(self.plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.plain(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(self.plain(Value::Null))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(self.text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(0);
        let mut told = Vec::new();
        while self.has_room(told.len()) {
            match items.next_element_seed(self.inner())? {
                Some(item) => told.push(item),
                None => return Ok(Value::Array(told)),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(if self.depth == 0 { BoundedValue::cut() } else { Value::Array(told) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.spend(0);
        let mut told = Map::new();
        while self.has_room(told.len()) {
            let Some(name) = fields.next_key::<String>()? else { return Ok(Value::Object(told)) };
            self.spend(name.chars().take(MAX_TEXT_CHARS).count());
            let value = if is_secret(&name) {
                fields.next_value::<IgnoredAny>()?;
                BoundedValue::cut()
            } else {
                fields.next_value_seed(self.inner())?
            };
            told.insert(clip(&name), value);
        }
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(if self.depth == 0 { BoundedValue::cut() } else { Value::Object(told) })
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn clip(text: &str) -> String {
    clipped(text, MAX_TEXT_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_and_long_texts_are_not_told() {
        let arguments = json!({
            "to": "ada", "Api-Key": "x", "auth": {"accessToken": 7, "user": "u"}, "list": [1, {"password": ["a"]}],
            "long": "y".repeat(300), "deep": [[[[[[[[1]]]]]]]],
        });
        let told = redacted(&arguments.to_string());
        let expected = json!({
            "to": "ada", "Api-Key": "…", "auth": {"accessToken": "…", "user": "u"}, "list": [1, {"password": "…"}],
            "long": format!("{}…", "y".repeat(200)), "deep": [[[[["…"]]]]],
        });
        assert_eq!(told, expected);
        assert_eq!(redacted("not JSON"), Value::Null);
    }

    /// A tree of the arguments would take forty times their text; what is told of them stays small.
    #[test]
    fn what_is_told_is_bounded_as_a_whole() {
        fn values(value: &Value) -> usize {
            1 + match value {
                Value::Array(items) => items.iter().map(values).sum(),
                Value::Object(fields) => fields.values().map(values).sum(),
                _ => 0,
            }
        }
        let nested = (0..3).fold(json!(1), |value, _| json!(vec![value; 50]));
        assert!(values(&nested) > 120_000);
        let told = redacted(&nested.to_string());
        assert!(values(&told) < 2_000, "{} values", values(&told));
        let long: Value =
            (0..50).map(|n| (format!("{n}{}", "k".repeat(500)), json!("x".repeat(500)))).collect::<Map<_, _>>().into();
        let told = redacted(&long.to_string()).to_string();
        assert!(told.len() < 2 * MAX_CHARS, "{} bytes", told.len());
        assert_eq!(redacted("[1] 2"), Value::Null);
    }

    #[test]
    fn a_digest_names_its_kind() {
        assert_eq!(digest(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
