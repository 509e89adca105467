//! The shape of an answer that is not there yet, from the tool's declared or learned output type.
//!
//! The guest makes the placeholder (`prelude/stage.js`). Kinds are `text`, `number`, `boolean`, `null`, `object` with `fields` and
//! `list` with `items`; JSON's `null` is a shape of which nothing is known.

use serde_json::{Map, Value, json};
use toolgate_catalog::ToolRef;
use toolgate_catalog::types::learned::LearnedType;

/// Levels of a shape; deeper values may be anything.
const MAX_DEPTH: usize = 8;
/// Fields of one object.
const MAX_FIELDS: usize = 200;

/// The shape of a tool's answer.
pub(super) fn shape(tool: ToolRef<'_>, learned: Option<&LearnedType>) -> Value {
    match (tool.tool().output_schema(), learned) {
        (Some(schema), _) => {
            let is_wrapped = schema.get("x-fastmcp-wrap-result").and_then(Value::as_bool) == Some(true);
            let of = if is_wrapped { schema.pointer("/properties/result").unwrap_or(&Value::Null) } else { schema };
            declared(of, schema, 0)
        }
        (None, Some(learned)) => seen(&learned.export()["shape"], 0),
        (None, None) => Value::Null,
    }
}

fn object(fields: impl Iterator<Item = (String, Value)>) -> Value {
    json!({ "kind": "object", "fields": fields.take(MAX_FIELDS).collect::<Map<String, Value>>() })
}

fn declared(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let found = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |found| declared(found, root, depth + 1));
    }
    // An optional value is taken to be there.
    let some = |all: &[Value]| -> Option<Value> {
        let mut others = all.iter().filter(|it| it["type"] != "null");
        others.next().filter(|_| others.next().is_none()).cloned()
    };
    if let Some(all) = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| schema[*name].as_array()) {
        return some(all).map_or(Value::Null, |only| declared(&only, root, depth + 1));
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => {
            let mut others = kinds.iter().filter(|kind| *kind != "null");
            others.next().filter(|_| others.next().is_none()).and_then(Value::as_str)
        }
        kind => kind.as_str(),
    };
    match (kind, &schema["properties"]) {
        (Some("string"), _) => json!({ "kind": "text" }),
        (Some("number" | "integer"), _) => json!({ "kind": "number" }),
        (Some("boolean"), _) => json!({ "kind": "boolean" }),
        (Some("null"), _) => json!({ "kind": "null" }),
        (Some("array"), _) => json!({ "kind": "list", "items": declared(&schema["items"], root, depth + 1) }),
        (Some("object") | None, Value::Object(fields)) if !fields.is_empty() => {
            object(fields.iter().map(|(name, field)| (name.clone(), declared(field, root, depth + 1))))
        }
        _ => Value::Null,
    }
}

/// From an exported learned type: values of one kind only, and keys that every object had.
fn seen(shape: &Value, depth: usize) -> Value {
    let count = |name: &str| shape[name].as_u64().unwrap_or_default();
    if depth > MAX_DEPTH || shape["any"] == true || shape["map"] == true {
        return Value::Null;
    }
    let kinds = [
        ("text", count("strings")),
        ("number", count("integers") + count("fractions")),
        ("boolean", count("booleans")),
        ("list", count("arrays")),
        ("object", count("objects")),
    ];
    let mut there = kinds.into_iter().filter(|(_, count)| *count > 0);
    match (there.next(), there.next()) {
        (Some(("list", _)), None) => json!({ "kind": "list", "items": seen(&shape["items"], depth + 1) }),
        (Some(("object", _)), None) => match shape["fields"].as_object() {
            Some(fields) => object(fields.iter().map(|(name, field)| (name.clone(), seen(&field["shape"], depth + 1)))),
            None => Value::Null,
        },
        (Some((kind, _)), None) => json!({ "kind": kind }),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(declared(&schema, &schema, 0), expected, "{schema}");
    }

    #[test]
    fn declared_types_become_shapes() {
        let text = json!({ "kind": "text" });
        check(json!({ "type": "string" }), text.clone());
        check(json!({ "type": ["integer", "null"] }), json!({ "kind": "number" }));
        check(json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), text.clone());
        check(json!({ "anyOf": [{ "type": "string" }, { "type": "number" }] }), Value::Null);
        check(json!({ "type": "array", "items": { "type": "string" } }), json!({ "kind": "list", "items": text }));
        check(
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": { "type": "boolean" } } }),
            json!({ "kind": "object", "fields": { "a": { "kind": "boolean" } } }),
        );
        check(json!({ "$ref": "#" }), Value::Null);
        check(json!({ "type": "object" }), Value::Null);
    }

    #[test]
    fn learned_types_become_shapes() {
        let mut learned = LearnedType::of(r#"{"id": 1, "name": "a", "tags": ["x"], "odd": 1}"#).unwrap();
        learned.merge(&LearnedType::of(r#"{"id": 2, "name": "b", "tags": [], "odd": "two"}"#).unwrap());
        let expected = json!({ "kind": "object", "fields": {
            "id": { "kind": "number" }, "name": { "kind": "text" }, "odd": null,
            "tags": { "kind": "list", "items": { "kind": "text" } },
        } });
        assert_eq!(seen(&learned.export()["shape"], 0), expected);
    }
}
