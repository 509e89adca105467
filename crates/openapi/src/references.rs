//! Finds the references of a document that is parsed as a whole.
//!
//! A word is a keyword in some places and a name that the author chose in others: `default` is a value in a schema, and
//! a response in `responses` or a property in `properties`. So the walk knows which of the two an object's keys are.

use serde_json::{Map, Value};

/// Keywords whose values are data: a `$ref` in them is no reference.
const DATA: [&str; 5] = ["example", "examples", "default", "enum", "const"];
/// Keywords whose values have names as keys.
const NAMED: [&str; 23] = [
    "$defs",
    "callbacks",
    "content",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "encoding",
    "headers",
    "links",
    "mediaTypes",
    "parameters",
    "pathItems",
    "paths",
    "patternProperties",
    "properties",
    "requestBodies",
    "responses",
    "schemas",
    "securityDefinitions",
    "securitySchemes",
    "variables",
    "webhooks",
    "x-webhooks",
];

/// What the keys of an object are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Words of the format.
    Keywords,
    /// Names that the author of the document chose.
    Names,
    /// Words of a discriminator.
    Discriminator,
}

impl Keys {
    /// What the keys of a member are; `None` for data.
    fn of_member(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Names, _) => Some(Self::Keywords),
            (_, key) if DATA.contains(&key) => None,
            (_, key) if NAMED.contains(&key) => Some(Self::Names),
            (_, "discriminator") => Some(Self::Discriminator),
            _ => Some(Self::Keywords),
        }
    }
}

/// Calls `found` with every reference of a document.
pub(crate) fn visit(document: &mut Value, found: &mut dyn FnMut(&mut String)) {
    walk(document, Keys::Keywords, found);
}

fn walk(value: &mut Value, keys: Keys, found: &mut dyn FnMut(&mut String)) {
    match value {
        // Lists have no names: `parameters` of an operation.
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, Keys::Keywords, found)),
        Value::Object(members) => walk_members(members, keys, found),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn walk_members(members: &mut Map<String, Value>, keys: Keys, found: &mut dyn FnMut(&mut String)) {
    for (key, member) in members {
        match (keys, key.as_str(), member) {
            // Also among names: nothing that has a name is a string, and documents write `paths: { $ref: paths.yaml }`.
            (_, "$ref", Value::String(reference)) => found(reference),
            (Keys::Discriminator, "mapping", Value::Object(targets)) => {
                targets.values_mut().filter_map(as_reference).for_each(&mut *found);
            }
            (keys, key, member) => {
                if let Some(keys) = keys.of_member(key) {
                    walk(member, keys, found);
                }
            }
        }
    }
}

/// A target of a discriminator that is a reference and not the name of a schema.
fn as_reference(target: &mut Value) -> Option<&mut String> {
    match target {
        Value::String(text) if text.contains(['/', '#']) || is_file_name(text) => Some(text),
        _ => None,
    }
}

/// Whether a name is that of a document.
pub(crate) fn is_file_name(text: &str) -> bool {
    [".json", ".yaml", ".yml"].iter().any(|ending| text.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(mut document: Value, expected: &[&str]) {
        let mut references = Vec::new();
        visit(&mut document, &mut |reference| references.push(reference.clone()));
        assert_eq!(references, expected, "{document}");
    }

    #[test]
    fn data_has_no_references() {
        for key in DATA {
            check(json!({ "schema": { key: { "$ref": "#/a" }, "items": { "$ref": "#/b" } } }), &["#/b"]);
        }
    }

    #[test]
    fn a_name_is_no_keyword() {
        for map in NAMED {
            for name in ["example", "examples", "default", "enum", "const", "mapping", "properties", "discriminator"] {
                check(json!({ map: { name: { "x": { "$ref": "#/a" } } } }), &["#/a"]);
                check(json!({ map: { name: { "default": { "$ref": "#/a" } } } }), &[]);
            }
        }
        check(json!({ "properties": { "properties": { "properties": { "default": { "$ref": "#/a" } } } } }), &["#/a"]);
        check(json!({ "parameters": [{ "default": { "$ref": "#/a" }, "schema": { "$ref": "#/b" } }] }), &["#/b"]);
        check(json!({ "paths": { "$ref": "paths.yaml" } }), &["paths.yaml"]);
    }

    #[test]
    fn a_mapping_is_one_below_a_discriminator() {
        let mapping = json!({ "a": "a.yaml", "b": "#/b", "c": "Name" });
        check(json!({ "discriminator": { "propertyName": "k", "mapping": mapping } }), &["a.yaml", "#/b"]);
        check(json!({ "mapping": mapping }), &[]);
        check(json!({ "properties": { "discriminator": { "mapping": mapping } } }), &[]);
        let property = json!({ "description": "and/or", "items": { "$ref": "#/a" } });
        check(json!({ "properties": { "mapping": property } }), &["#/a"]);
    }
}
