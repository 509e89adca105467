//! Converts a JSON Schema to a TypeScript type for a signature.
//!
//! The type is documentation only, so references, conditions and patterns become `unknown`. The depth is bounded, because
//! schemas may come from a remote caller.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 6;

/// The type of the values a schema admits.
pub(super) fn type_of(schema: &Value) -> String {
    at_depth(schema, 0)
}

fn at_depth(schema: &Value, depth: usize) -> String {
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return "unknown".to_owned() };
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return union(values.iter().map(literal));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            return union(choices.iter().map(|choice| at_depth(choice, depth + 1)));
        }
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let all = std::iter::once(typed(schema, depth)).chain(parts.iter().map(|part| at_depth(part, depth + 1)));
        return intersection(all);
    }
    typed(schema, depth)
}

fn typed(schema: &Map<String, Value>, depth: usize) -> String {
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, depth),
        Some(Value::Array(names)) => {
            union(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, depth)))
        }
        None if schema.contains_key("properties") => object(schema, depth),
        _ => "unknown".to_owned(),
    }
}

fn named(name: &str, schema: &Map<String, Value>, depth: usize) -> String {
    match name {
        "string" | "boolean" | "null" => name.to_owned(),
        "number" | "integer" => "number".to_owned(),
        "array" => match schema.get("items").map(|items| at_depth(items, depth + 1)) {
            Some(item) if item.contains(['|', ' ']) && !item.starts_with('{') => format!("({item})[]"),
            Some(item) => format!("{item}[]"),
            None => "unknown[]".to_owned(),
        },
        "object" => object(schema, depth),
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Map<String, Value>, depth: usize) -> String {
    let required: Vec<_> = schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut members: Vec<_> = properties
        .into_iter()
        .flatten()
        .map(|(name, of)| {
            let mark = if required.iter().any(|required| *required == name) { "" } else { "?" };
            format!("{}{mark}: {}", key(name), at_depth(of, depth + 1))
        })
        .collect();
    match schema.get("additionalProperties") {
        Some(of @ Value::Object(_)) => members.push(format!("[key: string]: {}", at_depth(of, depth + 1))),
        _ if members.is_empty() => return "Record<string, unknown>".to_owned(),
        _ => {}
    }
    format!("{{ {} }}", members.join("; "))
}

fn key(name: &str) -> String {
    if super::super::name::is_identifier(name) { name.to_owned() } else { Value::from(name).to_string() }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => "unknown".to_owned(),
        scalar => scalar.to_string(),
    }
}

fn union(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    types.for_each(|of| {
        if !distinct.contains(&of) {
            distinct.push(of);
        }
    });
    if distinct.is_empty() { "unknown".to_owned() } else { distinct.join(" | ") }
}

/// What is unknown adds nothing to the others.
fn intersection(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    types.filter(|of| of != "unknown").for_each(|of| {
        if !distinct.contains(&of) {
            distinct.push(of);
        }
    });
    match distinct.as_slice() {
        [] => "unknown".to_owned(),
        [one] => one.clone(),
        several => {
            let part = |of: &String| if of.contains('|') { format!("({of})") } else { of.clone() };
            several.iter().map(part).collect::<Vec<_>>().join(" & ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, expected: &str) {
        assert_eq!(type_of(&schema), expected);
    }

    #[test]
    fn schemas_become_types() {
        check(json!({"type": "integer"}), "number");
        check(json!({"type": ["string", "null"]}), "string | null");
        check(json!({"enum": ["a", "b", 1]}), r#""a" | "b" | 1"#);
        check(json!({"const": "x\"y"}), r#""x\"y""#);
        check(json!({"type": "array", "items": {"type": "string"}}), "string[]");
        check(json!({"type": "array", "items": {"type": ["string", "number"]}}), "(string | number)[]");
        check(json!({"anyOf": [{"type": "number"}, {"type": "integer"}]}), "number");
        check(json!({"type": "object"}), "Record<string, unknown>");
        check(json!({"type": "object", "additionalProperties": {"type": "string"}}), "{ [key: string]: string }");
        let object = json!({"type": "object", "properties": {"a": {"type": "number"}, "b-c": true}, "required": ["a"]});
        check(object, r#"{ a: number; "b-c"?: unknown }"#);
        let part = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
        check(json!({"allOf": [part("a"), part("b"), part("a"), true]}), "{ a?: string } & { b?: string }");
        check(json!({"allOf": [{"type": ["string", "null"]}]}), "string | null");
        let beside = json!({"properties": {"c": {"type": "string"}}, "allOf": [{"type": ["object", "null"]}]});
        check(beside, "{ c?: string } & (Record<string, unknown> | null)");
    }

    #[test]
    fn what_has_no_short_spelling_is_unknown() {
        check(json!(true), "unknown");
        check(json!({"$ref": "#/x"}), "unknown");
        check(json!({"type": 3}), "unknown");
        check(json!({"enum": []}), "unknown");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..1000).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
        check(deep, "unknown[][][][][][]");
    }
}
