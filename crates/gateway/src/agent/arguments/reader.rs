//! Reads a JSON object by serde, with errors that name the argument and what would fit, and that repeat no secret.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::super::uri::shown;

pub(super) const BOOLEAN: &str = "true or false";
pub(super) const NUMBER: &str = "a number";
pub(super) const LIST: &str = "a list";
pub(super) const OBJECT: &str = "an object";

/// What is wrong with one argument.
#[derive(Debug)]
pub(super) struct Problem {
    /// Where it is, innermost last.
    path: String,
    fault: ArgumentFault,
}

#[derive(Debug)]
pub(super) enum ArgumentFault {
    Missing(&'static str),
    Unknown { name: String, known: String },
    Wrong { expected: String, got: String },
    Other(String),
}

impl Problem {
    pub(super) fn below(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{}{separator}{}", shown(name), self.path);
        self
    }

    fn at(mut self, index: usize) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.path = format!("[{index}]{separator}{}", self.path);
        self
    }

    pub(super) fn sentence(&self, expected_kind: impl Fn(&str) -> &'static str) -> String {
        let path = &self.path;
        let inside = |name: &str| if path.is_empty() { shown(name) } else { format!("{path}.{}", shown(name)) };
        match &self.fault {
            ArgumentFault::Missing(name) => {
                format!("{}: is missing; it must be {}", inside(name), expected_kind(name))
            }
            ArgumentFault::Unknown { name, known } => {
                format!("{}: there is no such argument; known are {known}", inside(name))
            }
            ArgumentFault::Wrong { expected, got } => format!("{path}: must be {expected}, got {got}"),
            ArgumentFault::Other(text) => format!("{path}: {text}"),
        }
    }
}

impl From<ArgumentFault> for Problem {
    fn from(fault: ArgumentFault) -> Self {
        Problem { path: String::new(), fault }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence(|_| "given"))
    }
}

impl std::error::Error for Problem {}

impl Error for Problem {
    fn custom<T: fmt::Display>(text: T) -> Self {
        ArgumentFault::Other(text.to_string()).into()
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        ArgumentFault::Wrong { expected: expected.to_string(), got: described(unexpected) }.into()
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let expected = match expected {
            [one] => (*one).to_owned(),
            several => format!("one of {}", several.join(", ")),
        };
        ArgumentFault::Wrong { expected, got: described(Unexpected::Str(variant)) }.into()
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        ArgumentFault::Unknown { name: name.to_owned(), known: known.join(", ") }.into()
    }

    fn missing_field(name: &'static str) -> Self {
        ArgumentFault::Missing(name).into()
    }
}

/// Says what came by its kind where it may be long or secret.
fn described(got: Unexpected<'_>) -> String {
    match got {
        Unexpected::Bool(it) => it.to_string(),
        Unexpected::Unsigned(it) => it.to_string(),
        Unexpected::Signed(it) => it.to_string(),
        Unexpected::Float(it) => serde_json::Number::from_f64(it).map_or_else(|| it.to_string(), |it| it.to_string()),
        Unexpected::Str(text) if text.len() <= 40 => format!("{:?}", shown(text)),
        Unexpected::Str(_) => "a long string".to_owned(),
        Unexpected::Seq => LIST.to_owned(),
        Unexpected::Map => OBJECT.to_owned(),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        other => other.to_string(),
    }
}

fn wrong(expected: &str, got: &Value) -> Problem {
    let got = match got {
        Value::Null => Unexpected::Unit,
        Value::Bool(it) => Unexpected::Bool(*it),
        Value::Number(it) => match (it.as_u64(), it.as_i64()) {
            (Some(it), _) => Unexpected::Unsigned(it),
            (None, Some(it)) => Unexpected::Signed(it),
            (None, None) => Unexpected::Float(it.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    ArgumentFault::Wrong { expected: expected.to_owned(), got: described(got) }.into()
}

/// The arguments of a call; `null` counts as left out.
pub(super) struct Fields<'de>(pub(super) &'de Map<String, Value>);

impl<'de> Deserializer<'de> for Fields<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_map(Entries { rest: self.0.iter(), value: None, skips_null: true })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// One value.
struct Argument<'de>(&'de Value);

impl<'de> Deserializer<'de> for Argument<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(it) => visitor.visit_bool(*it),
            Value::Number(it) => match (it.as_u64(), it.as_i64()) {
                (Some(it), _) => visitor.visit_u64(it),
                (None, Some(it)) => visitor.visit_i64(it),
                (None, None) => visitor.visit_f64(it.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { rest: items.iter().enumerate() }),
            Value::Object(fields) => visitor.visit_map(Entries { rest: fields.iter(), value: None, skips_null: false }),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.0.is_boolean() { self.deserialize_any(visitor) } else { Err(wrong(BOOLEAN, self.0)) }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.0.is_number() { self.deserialize_any(visitor) } else { Err(wrong(NUMBER, self.0)) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.0.is_array() { self.deserialize_any(visitor) } else { Err(wrong(LIST, self.0)) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.0.is_object() { self.deserialize_any(visitor) } else { Err(wrong(OBJECT, self.0)) }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.0.as_str() {
            Some(word) => visitor.visit_enum(IntoDeserializer::<Problem>::into_deserializer(word)),
            None => Err(wrong(&format!("one of {}", words.join(", ")), self.0)),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 u16 u32 u64 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct struct
        identifier ignored_any
    }
}

struct Entries<'de> {
    rest: serde_json::map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    skips_null: bool,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let skips_null = self.skips_null;
        let Some((name, value)) = self.rest.find(|(_, value)| !(skips_null && value.is_null())) else {
            return Ok(None);
        };
        self.value = Some((name, value));
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Problem> {
        let Some((name, value)) = self.value.take() else { return Err(Problem::custom("a value without a name")) };
        seed.deserialize(Argument(value)).map_err(|problem| problem.below(name))
    }
}

struct Items<'de> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        let Some((index, value)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(Argument(value)).map(Some).map_err(|problem| problem.at(index))
    }
}
