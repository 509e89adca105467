//! Reads a tool's arguments into the type that it takes, and writes the schema of that type for clients.
//!
//! A tool's arguments are a struct that serde reads and schemars describes, so that what clients see is what is read; the
//! doc comments of its fields are what a model reads. Whatever does not fit is named, with what would. `null` counts as left
//! out. The errors are of this module: those of `serde_json` repeat values, and a value may be long or secret.

mod reader;
mod schema;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_run::OUTPUT_SIZE;
use toolgate_wire::Limit;

use self::reader::{ArgumentFault, BOOLEAN, Fields, LIST, NUMBER, OBJECT, Problem};
pub(super) use self::schema::schema_of;

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

/// Milliseconds that a run may be given.
pub(super) type TimeoutMs = Count<{ Limit::Wall.spec().min }, { Limit::Wall.spec().max }>;

/// Bytes that an answer may be asked to have.
pub(super) type OutputBytes = Count<{ *OUTPUT_SIZE.start() }, { *OUTPUT_SIZE.end() }>;

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
