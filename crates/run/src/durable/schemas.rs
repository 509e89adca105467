//! Hashes of the schemas of tools, so that a run notices that a tool which it has called is another one now.
//!
//! What only people and models read (descriptions, titles, examples) and the order of members do not count.

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_wire::CallerScope;

use toolgate_bridge::{Bridge, ScopedCatalog};

/// Keywords of a schema that say nothing about values.
const WORDS: [&str; 5] = ["description", "title", "examples", "example", "$comment"];
/// Keywords whose members are named by the author: each is a schema, whatever its name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data.
const DATA: [&str; 3] = ["const", "default", "enum"];
/// Hexadecimal digits of a hash: 128 bits.
const HASH_DIGITS: usize = 32;

/// The hash of a tool that the caller may use; `None` for one that is not there, and for a function.
pub(super) fn hash_of(bridge: &Bridge, caller: &CallerScope, target: &Target) -> Option<String> {
    let Target::Tool { backend, tool } = target else { return None };
    let catalog = bridge.catalog();
    let view = ScopedCatalog::new(&catalog, &caller.backends, &caller.tools);
    view.tool(backend, tool).map(hash)
}

fn hash(tool: ToolRef<'_>) -> String {
    // Not what is kept of it, which may be without its schemas.
    let raw = tool.tool().to_raw();
    let schema = |key: &str| raw.get(key).filter(|schema| schema.is_object());
    let any_object = json!({ "type": "object" });
    hash_of_schemas(schema("inputSchema").unwrap_or(&any_object), raw.get("outputSchema").unwrap_or(&Value::Null))
}

fn hash_of_schemas(input: &Value, output: &Value) -> String {
    let text = format!("{}\n{}", essence(input), essence(output));
    let mut hash: String = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hash.truncate(HASH_DIGITS);
    hash
}

/// A schema without words for people, its members in the order of their names.
fn essence(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let counts = |name: &&String| !WORDS.contains(&name.as_str());
            sorted(members, counts, |name, value| match (name, value) {
                (name, value) if DATA.contains(&name) => data(value),
                (name, Value::Object(named)) if NAMED.contains(&name) => sorted(named, |_| true, |_, it| essence(it)),
                ("required", Value::Array(names)) => {
                    let mut names = names.clone();
                    names.sort_by_key(Value::to_string);
                    Value::Array(names)
                }
                (_, value) => essence(value),
            })
        }
        Value::Array(items) => Value::Array(items.iter().map(essence).collect()),
        other => other.clone(),
    }
}

/// Data, its members in the order of their names.
pub(super) fn data(value: &Value) -> Value {
    match value {
        Value::Object(members) => sorted(members, |_| true, |_, value| data(value)),
        Value::Array(items) => Value::Array(items.iter().map(data).collect()),
        other => other.clone(),
    }
}

fn sorted(
    members: &Map<String, Value>,
    counts: impl Fn(&&String) -> bool,
    value: impl Fn(&str, &Value) -> Value,
) -> Value {
    let mut names: Vec<&String> = members.keys().filter(counts).collect();
    names.sort();
    Value::Object(names.into_iter().map(|name| (name.clone(), value(name, &members[name.as_str()]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn same(one: Value, other: Value) -> bool {
        hash_of_schemas(&one, &Value::Null) == hash_of_schemas(&other, &Value::Null)
    }

    #[test]
    fn words_and_order_do_not_count() {
        let before = json!({ "type": "object", "description": "a", "required": ["a", "b"],
            "properties": { "a": { "type": "string", "title": "A" }, "b": { "enum": [1, 2] } } });
        let after = json!({ "required": ["b", "a"], "title": "t", "$comment": "c",
            "properties": { "b": { "enum": [1, 2], "examples": [1] }, "a": { "type": "string", "description": "new" } },
            "type": "object" });
        assert!(same(before, after));
    }

    #[test]
    fn what_values_may_be_counts() {
        let schema = |property: Value| json!({ "type": "object", "properties": { "description": property } });
        let text = || json!({ "type": "string" });
        assert!(!same(schema(text()), schema(json!({ "type": "number" }))), "a property may be named like a keyword");
        assert!(!same(schema(text()), json!({ "type": "object", "properties": {} })));
        assert!(!same(schema(json!({ "const": { "title": 1 } })), schema(json!({ "const": { "title": 2 } }))), "data");
        let required =
            json!({ "type": "object", "properties": { "description": text() }, "required": ["description"] });
        assert!(!same(schema(text()), required));
        let input = text();
        assert_ne!(hash_of_schemas(&input, &Value::Null), hash_of_schemas(&input, &text()), "what is returned, too");
    }
}
