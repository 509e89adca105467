//! Reads a tool's arguments into the type that it takes, and writes the schema of that type for clients.
//!
//! A tool's arguments are a struct that serde reads and schemars describes, so that what clients see is what is read; the
//! doc comments of its fields are what a model reads. Whatever does not fit is named, with what would. `null` counts as left
//! out. The errors are of this module: those of `serde_json` repeat values, and a value may be long or secret.

use std::fmt;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

use super::uri::shown;

/// Why a tool did nothing: a sentence for the agent that called it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Refusal(text.into())
    }
}

/// Reads the arguments of a call.
pub(super) fn read<'a, T: Deserialize<'a> + JsonSchema>(given: &'a Map<String, Value>) -> Result<T, Refusal> {
    read_below::<T>(&[], given)
}

/// Reads arguments that are nested in others, which `path` names.
pub(super) fn read_below<'a, T>(path: &[&str], given: &'a Map<String, Value>) -> Result<T, Refusal>
where
    T: Deserialize<'a> + JsonSchema,
{
    without_unknown_nulls::<T>(given).and_then(|()| T::deserialize(Fields(given))).map_err(|problem| {
        let problem = path.iter().rev().fold(problem, |problem, name| problem.below(name));
        Refusal(problem.sentence(|name| expected_kind::<T>(name)))
    })
}

/// Refuses a name that is not known also where its value is `null`, which the reader does not see.
fn without_unknown_nulls<T: JsonSchema>(given: &Map<String, Value>) -> Result<(), Problem> {
    if !given.values().any(Value::is_null) {
        return Ok(());
    }
    let schema = schema_of::<T>();
    let known: Vec<&str> =
        schema["properties"].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    match given.iter().find(|(name, value)| value.is_null() && !known.contains(&name.as_str())) {
        Some((name, _)) => Err(ArgumentFault::Unknown { name: name.clone(), known: known.join(", ") }.into()),
        None => Ok(()),
    }
}

/// The schema of a tool's arguments, as clients see it: without what only schemars has to say.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    Plain.transform(&mut schema);
    schema.to_value()
}

/// What a value is comes first, then its default, then what it is for.
const KEY_ORDER: [&str; 10] = [
    "type",
    "enum",
    "items",
    "minimum",
    "maximum",
    "default",
    "description",
    "properties",
    "required",
    "additionalProperties",
];

/// What a model needs of a schema and no more: `null` counts as left out everywhere, so no type says that it may be there.
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [one] = types.as_mut_slice() {
                let one = one.take();
                schema.insert("type".to_owned(), one);
            }
        }
        schema.remove("format");
        if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
            schema.remove("additionalProperties");
        }
        if let Some(keys) = schema.as_object_mut() {
            let mut unordered = std::mem::take(keys);
            let ordered = KEY_ORDER.iter().filter_map(|key| unordered.remove_entry(*key));
            keys.extend(ordered.collect::<Vec<_>>());
            keys.extend(unordered);
        }
    }
}

/// What an argument that is missing would have to be.
fn expected_kind<T: JsonSchema>(name: &str) -> &'static str {
    match schema_of::<T>()["properties"][name]["type"].as_str() {
        Some("string") => "a string",
        Some("integer" | "number") => NUMBER,
        Some("boolean") => BOOLEAN,
        Some("array") => LIST,
        Some("object") => OBJECT,
        _ => "given",
    }
}

const BOOLEAN: &str = "true or false";
const NUMBER: &str = "a number";
const LIST: &str = "a list";
const OBJECT: &str = "an object";

/// A text that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.trim().is_empty() { Err(D::Error::custom("must not be empty")) } else { Ok(Text(text)) }
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// A whole number from `MIN` to `MAX`. Models write 10.0 for 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Count<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Visitor<'_> for CountVisitor<MIN, MAX> {
    type Value = Count<MIN, MAX>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a whole number from {MIN} to {MAX}")
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self::Value, E> {
        let fits = (MIN..=MAX).contains(&count);
        if fits { Ok(Count(count)) } else { Err(E::invalid_value(Unexpected::Unsigned(count), &self)) }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        let is_whole = number.fract() == 0.0 && (MIN as f64..=MAX as f64).contains(&number);
        if is_whole { Ok(Count(number as u64)) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// What is wrong with one argument.
#[derive(Debug)]
struct Problem {
    /// Where it is, innermost last.
    path: String,
    fault: ArgumentFault,
}

#[derive(Debug)]
enum ArgumentFault {
    Missing(&'static str),
    Unknown { name: String, known: String },
    Wrong { expected: String, got: String },
    Other(String),
}

impl Problem {
    fn below(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{}{separator}{}", shown(name), self.path);
        self
    }

    fn at(mut self, index: usize) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.path = format!("[{index}]{separator}{}", self.path);
        self
    }

    fn sentence(&self, expected_kind: impl Fn(&str) -> &'static str) -> String {
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
struct Fields<'de>(&'de Map<String, Value>);

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// What these arguments are for is not shown to clients.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        /// The program.
        code: Text,
        #[serde(default = "ten")]
        limit: Count<1, 100>,
        brief: Option<bool>,
        #[serde(default)]
        detail: Detail,
        env: Option<BTreeMap<String, String>>,
        args: Option<Vec<String>>,
        hints: Option<Map<String, Value>>,
    }

    #[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Detail {
        #[default]
        Brief,
        Full,
    }

    fn ten() -> Count<1, 100> {
        Count(10)
    }

    fn check(given: Value, expected: &str) {
        let given = given.as_object().cloned().unwrap_or_default();
        let found = read::<Sample>(&given).map(|it| {
            let Sample { code, limit, brief, detail, env, args, hints } = it;
            format!("{:?} {} {brief:?} {detail:?} {env:?} {args:?} {hints:?}", code.0, limit.0)
        });
        assert_eq!(found.unwrap_or_else(|Refusal(text)| text), expected);
    }

    /// The same with the argument that must be there.
    fn check_with(name: &str, value: Value, expected: &str) {
        check(json!({ "code": "1", name: value }), expected);
    }

    #[test]
    fn what_is_left_out_or_null_has_its_default() {
        check(json!({ "code": "1" }), "\"1\" 10 None Brief None None None");
        let given = json!({ "code": "1", "limit": null, "brief": null, "detail": null, "env": null, "args": null });
        check(given, "\"1\" 10 None Brief None None None");
        let env = json!({ "A": "b" });
        let given = json!({ "code": "1", "limit": 7, "brief": true, "detail": "full", "env": env, "args": ["x"] });
        check(given, "\"1\" 7 Some(true) Full Some({\"A\": \"b\"}) Some([\"x\"]) None");
        check_with(
            "hints",
            json!({ "a": [1, { "b": null }] }),
            "\"1\" 10 None Brief None None Some({\"a\": Array [Number(1), Object {\"b\": Null}]})",
        );
    }

    #[test]
    fn a_complaint_names_the_argument_and_what_would_fit() {
        check(json!({}), "code: is missing; it must be a string");
        check(json!({ "code": null }), "code: is missing; it must be a string");
        check(json!({ "code": " " }), "code: must not be empty");
        check(json!({ "code": 7 }), "code: must be a string, got 7");
        check_with("brief", json!("yes"), "brief: must be true or false, got \"yes\"");
        check_with("args", json!("x"), "args: must be a list, got \"x\"");
        check_with("args", json!(["x", 1]), "args[1]: must be a string, got 1");
        check_with("env", json!({ "A": null }), "env.A: must be a string, got null");
    }

    #[test]
    fn an_argument_that_is_not_known_is_refused_whatever_its_value() {
        for value in [json!("1"), Value::Null] {
            let known = "code, limit, brief, detail, env, args, hints";
            check_with("cod", value, &format!("cod: there is no such argument; known are {known}"));
        }
        check_with(
            "a\u{1b}\nb",
            json!(1),
            "a\u{fffd} b: there is no such argument; known are code, limit, brief, detail, env, args, hints",
        );
    }

    #[test]
    fn a_count_is_whole_and_in_range() {
        check_with("limit", json!(10.0), "\"1\" 10 None Brief None None None");
        for bad in [json!(0), json!(101), json!(-1), json!(1.5), json!(1e300), json!("10"), json!([]), json!(true)] {
            let given = json!({ "code": "1", "limit": bad });
            let found = read::<Sample>(given.as_object().unwrap()).unwrap_err().0;
            assert!(found.starts_with("limit: must be a whole number from 1 to 100, got "), "{bad}: {found}");
        }
        check_with("limit", json!(1.5), "limit: must be a whole number from 1 to 100, got 1.5");
    }

    #[test]
    fn a_choice_lists_the_words() {
        check_with("detail", json!("all"), "detail: must be one of brief, full, got \"all\"");
        check_with("detail", json!(1), "detail: must be one of brief, full, got 1");
    }

    #[test]
    fn a_value_that_may_be_a_secret_is_not_repeated() {
        check_with("env", json!({ "A": ["hunter2"] }), "env.A: must be a string, got a list");
        check_with("env", json!("x".repeat(1000)), "env: must be an object, got a long string");
        check_with("limit", json!({ "A": "hunter2" }), "limit: must be a whole number from 1 to 100, got an object");
    }

    #[test]
    fn nested_arguments_are_named_by_their_path() {
        let given = json!({ "code": "1", "env": { "A": 1 } });
        let found = read_below::<Sample>(&["a", "b"], given.as_object().unwrap()).unwrap_err();
        assert_eq!(found.0, "a.b.env.A: must be a string, got 1");
        let found = read_below::<Sample>(&["a", "b"], &Map::new()).unwrap_err();
        assert_eq!(found.0, "a.b.code: is missing; it must be a string");
    }

    #[test]
    fn the_schema_says_what_is_read_and_no_more() {
        let expected = json!({
            "type": "object",
            "properties": {
                "code": { "type": "string", "description": "The program." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 },
                "brief": { "type": "boolean" },
                "detail": { "type": "string", "enum": ["brief", "full"], "default": "brief" },
                "env": { "type": "object", "additionalProperties": { "type": "string" } },
                "args": { "type": "array", "items": { "type": "string" } },
                "hints": { "type": "object" },
            },
            "required": ["code"],
            "additionalProperties": false,
        });
        assert_eq!(schema_of::<Sample>().to_string(), expected.to_string());
    }
}
