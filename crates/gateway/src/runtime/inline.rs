//! Schemas without references: what a reference leads to is written in its place, within bounds.
//!
//! Which members are schemas, maps of schemas or plain data is decided by the keyword, so that a property may be called
//! `definitions` or `$ref`.

use serde_json::{Map, Value};

/// How deep references are followed; one that leads to itself accepts anything there.
const MAX_REFERENCES: usize = 6;
/// Values of a schema that are written; what comes after accepts anything.
const MAX_VALUES: usize = 2_000;
/// Bytes of a text that count as one more value.
const VALUE_BYTES: usize = 1024;

/// `schema` with the definitions of `root` written where it refers to them.
pub(super) fn inlined(root: &Value, schema: &Value) -> Value {
    Inliner { root, left: MAX_VALUES }.schema(schema, 0)
}

/// What the value of a keyword is.
enum Keyword {
    /// A schema, or a list of schemas.
    Schema,
    /// Schemas by names that are no keywords.
    SchemaMap,
    /// Schemas that only references lead to.
    Definitions,
    /// No schema.
    Data,
}

impl Keyword {
    fn of(name: &str) -> Self {
        match name {
            "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => Self::Schema,
            "additionalProperties" | "unevaluatedProperties" | "propertyNames" | "contentSchema" => Self::Schema,
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => Self::Schema,
            "properties" | "patternProperties" | "dependentSchemas" => Self::SchemaMap,
            "$defs" | "definitions" => Self::Definitions,
            _ => Self::Data,
        }
    }
}

/// Whether a keyword accepts every value.
fn is_annotation(name: &str) -> bool {
    let about = matches!(name, "$schema" | "$id" | "$anchor" | "$comment" | "title" | "description");
    about || matches!(name, "default" | "examples" | "example" | "deprecated" | "readOnly" | "writeOnly")
}

struct Inliner<'a> {
    root: &'a Value,
    /// Values that may still be written.
    left: usize,
}

impl Inliner<'_> {
    /// After the last value, a schema accepts anything and data is left out. The schemas that contain this one still list the
    /// names of their properties, so that their `additionalProperties: false` excludes none.
    fn schema(&mut self, schema: &Value, references: usize) -> Value {
        if self.left == 0 {
            return Value::Bool(true);
        }
        self.left -= 1;
        let Value::Object(members) = schema else { return Value::Bool(*schema != Value::Bool(false)) };
        let own = self.members(members, references);
        match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => with_target(own, self.target(reference, references)),
            None => Value::Object(own),
        }
    }

    fn target(&mut self, reference: &str, references: usize) -> Value {
        let pointer = reference.strip_prefix('#').filter(|_| references < MAX_REFERENCES);
        let target = pointer.and_then(|pointer| self.root.pointer(pointer));
        target.map_or(Value::Bool(true), |target| self.schema(target, references + 1))
    }

    /// The members of a schema, without its reference and its definitions.
    fn members(&mut self, members: &Map<String, Value>, references: usize) -> Map<String, Value> {
        let mut own = Map::new();
        for (name, value) in members.iter().filter(|(name, _)| *name != "$ref") {
            let written = match (Keyword::of(name), value) {
                (Keyword::Definitions, _) => None,
                (Keyword::Schema, Value::Array(schemas)) => {
                    Some(schemas.iter().map(|schema| self.schema(schema, references)).collect())
                }
                (Keyword::Schema, schema) => Some(self.schema(schema, references)),
                (Keyword::SchemaMap, Value::Object(schemas)) => {
                    let written = schemas.iter().map(|(name, schema)| {
                        self.left = self.left.saturating_sub(name.len() / VALUE_BYTES);
                        (name.clone(), self.schema(schema, references))
                    });
                    Some(Value::Object(written.collect()))
                }
                (Keyword::SchemaMap | Keyword::Data, data) => self.data(data),
            };
            own.extend(written.map(|written| (name.clone(), written)));
        }
        own
    }

    fn data(&mut self, data: &Value) -> Option<Value> {
        self.left = self.left.saturating_sub(size(data));
        (self.left > 0).then(|| data.clone())
    }
}

/// A schema that refers to `target` and has these members besides.
fn with_target(mut own: Map<String, Value>, target: Value) -> Value {
    match target {
        target if own.is_empty() => target,
        Value::Object(mut target) if own.keys().all(|name| is_annotation(name)) => {
            target.extend(own);
            Value::Object(target)
        }
        target => {
            let others = match own.remove("allOf") {
                Some(Value::Array(others)) => others,
                _ => Vec::new(),
            };
            own.insert("allOf".to_owned(), std::iter::once(target).chain(others).collect());
            Value::Object(own)
        }
    }
}

/// How many values data counts as.
fn size(data: &Value) -> usize {
    match data {
        Value::String(text) => 1 + text.len() / VALUE_BYTES,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, value)| name.len() / VALUE_BYTES + size(value)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reference_becomes_what_it_leads_to() {
        let root = json!({
            "type": "object", "properties": { "n": { "$ref": "#/$defs/n" }, "gone": { "$ref": "#/x" }, "far": { "$ref": "http://a" } },
            "$defs": { "n": { "type": "integer" } },
        });
        let expected =
            json!({ "type": "object", "properties": { "n": { "type": "integer" }, "gone": true, "far": true } });
        assert_eq!(inlined(&root, &root), expected);
        assert_eq!(inlined(&root, &root["properties"]["n"]), json!({ "type": "integer" }));
    }

    #[test]
    fn a_property_may_have_the_name_of_a_keyword() {
        let n = json!({ "$ref": "#/$defs/n" });
        let properties = |n: &Value| json!({ "definitions": n, "$defs": n, "$ref": n, "properties": n });
        let root = json!({ "properties": properties(&n), "required": ["definitions"], "$defs": { "n": { "type": "integer" } } });
        let expected = json!({ "properties": properties(&json!({ "type": "integer" })), "required": ["definitions"] });
        assert_eq!(inlined(&root, &root), expected);
    }

    #[test]
    fn data_is_no_schema() {
        let root =
            json!({ "const": { "$ref": "#/$defs/n", "definitions": 1 }, "$defs": { "n": { "type": "integer" } } });
        assert_eq!(inlined(&root, &root), json!({ "const": { "$ref": "#/$defs/n", "definitions": 1 } }));
    }

    #[test]
    fn what_stands_beside_a_reference_holds_too() {
        let check = |schema: Value, expected: Value| {
            let base = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "description": "base" });
            assert_eq!(inlined(&json!({ "$defs": { "Base": base } }), &schema), expected, "{schema}");
        };
        let base = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "description": "base" });
        let extra = json!({ "extra": { "type": "integer" } });
        check(
            json!({ "$ref": "#/$defs/Base", "properties": extra, "$defs": {} }),
            json!({ "properties": extra, "allOf": [base] }),
        );
        check(
            json!({ "$ref": "#/$defs/Base", "allOf": [{ "required": ["a"] }], "minProperties": 1 }),
            json!({ "minProperties": 1, "allOf": [base, { "required": ["a"] }] }),
        );
        check(
            json!({ "$ref": "#/$defs/Base", "description": "own" }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "description": "own" }),
        );
    }

    #[test]
    fn what_is_left_out_at_the_bound_accepts_more() {
        let names: Vec<String> = (0..MAX_VALUES * 2).map(|n| format!("n{n}")).collect();
        let text = |name: &String| (name.clone(), json!({ "type": "string", "enum": ["a", "b"] }));
        let properties: Map<String, Value> = names.iter().map(text).collect();
        let root = json!({ "additionalProperties": false, "properties": properties, "required": names });
        let written = inlined(&root, &root);
        assert_eq!(written["properties"].as_object().unwrap().len(), names.len());
        assert_eq!(written["properties"]["n0"], root["properties"]["n0"]);
        assert_eq!(written["properties"][names.last().unwrap()], true);
        assert_eq!(written.get("required"), None);
        let is_whole = |schema: &Value| schema.get("enum").is_none_or(|values| *values == json!(["a", "b"]));
        assert!(written["properties"].as_object().unwrap().values().all(is_whole));
    }

    #[test]
    fn a_long_text_is_not_written_for_each_reference() {
        let same: Map<String, Value> = (0..500).map(|n| (format!("n{n}"), json!({ "$ref": "#/$defs/long" }))).collect();
        let root = json!({ "properties": same, "$defs": { "long": { "description": "x".repeat(1 << 20) } } });
        assert!(inlined(&root, &root).to_string().len() < 4 << 20);
    }

    #[test]
    fn what_refers_to_itself_or_multiplies_ends() {
        let root = json!({ "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" }, "c": { "$ref": "#" }, "d": { "$ref": "#" } } });
        assert!(inlined(&root, &root).to_string().len() < 100_000);
    }
}
