//! Example calls: the required arguments of a tool with placeholder values.

use serde_json::{Map, Value, json};

use super::super::backend::ToolRef;
use super::super::names::is_identifier;
use super::super::types::reference;

/// Maximum length of the printed arguments, in bytes.
const MAX_CALL: usize = 500;
/// Maximum nesting depth of generated placeholder objects.
const MAX_DEPTH: usize = 5;
/// Maximum number of fields of one generated object.
const MAX_FIELDS: usize = 20;
/// Maximum length of an example value that is copied from the schema, in bytes of JSON.
const MAX_EXAMPLE: usize = 120;

/// `await exa.web_search({ query: "…" })`: the required arguments, with examples or placeholders.
pub fn ready_call(tool: ToolRef<'_>) -> String {
    format!("await {}({})", tool.spelling(), tool.entry.example_arguments(|| arguments(tool)))
}

fn arguments(tool: ToolRef<'_>) -> String {
    let schema = tool.tool().input_schema();
    let arguments = placeholder(schema, schema, MAX_DEPTH);
    let mut text = String::new();
    match &arguments {
        Value::Object(fields) if fields.is_empty() => {}
        Value::Object(_) => print(&mut text, &arguments),
        _ => text.push_str("{}"),
    }
    if text.len() > MAX_CALL { "{ /* see its interface */ }".to_owned() } else { text }
}

/// A value that `schema` probably accepts.
fn placeholder(root: &Value, schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(example) = example(schema) {
        return example.clone();
    }
    if let Some((_, target)) = reference::target(root, schema) {
        return placeholder(root, target, depth - 1);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let branches = schema.get(keyword).and_then(Value::as_array);
        let concrete = branches.and_then(|branches| branches.iter().find(|branch| kind(branch) != Some("null")));
        if let Some(branch) = concrete.filter(|_| schema.get("properties").is_none()) {
            return placeholder(root, branch, depth - 1);
        }
    }
    match kind(schema) {
        Some("string") => json!(text_for(schema)),
        Some("number" | "integer") => number_for(schema),
        Some("boolean") => json!(true),
        Some("array") => array_for(root, schema, depth),
        Some("object") => object_for(root, schema, depth),
        Some("null") => Value::Null,
        _ if schema.get("properties").is_some() => object_for(root, schema, depth),
        _ => json!("…"),
    }
}

/// The example, constant, default or first enum value that the schema declares.
fn example(schema: &Value) -> Option<&Value> {
    let first = |keyword: &str| schema.get(keyword).and_then(Value::as_array).and_then(|values| values.first());
    let offered = first("examples")
        .or_else(|| schema.get("example"))
        .or_else(|| schema.get("const"))
        .or_else(|| schema.get("default").filter(|default| !default.is_null()))
        .or_else(|| first("enum"))?;
    (offered.to_string().len() <= MAX_EXAMPLE).then_some(offered)
}

fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(one) => Some(one),
        Value::Array(several) => several.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    }
}

fn text_for(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("uri" | "url") => "https://example.com",
        Some("email") => "someone@example.com",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("date") => "2026-01-31",
        Some("time") => "12:00:00",
        Some("uuid") => "00000000-0000-0000-0000-000000000000",
        _ => "…",
    }
}

fn number_for(schema: &Value) -> Value {
    schema.get("minimum").filter(|least| least.is_number()).cloned().unwrap_or_else(|| json!(1))
}

fn array_for(root: &Value, schema: &Value, depth: usize) -> Value {
    if let Some(Value::Array(items)) = schema.get("prefixItems") {
        return items.iter().take(MAX_DEPTH).map(|item| placeholder(root, item, depth - 1)).collect();
    }
    match schema.get("items") {
        Some(items) if items.is_object() => Value::Array(vec![placeholder(root, items, depth - 1)]),
        _ => json!([]),
    }
}

fn object_for(root: &Value, schema: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str).take(MAX_FIELDS);
    let field = |name: &str| {
        let value = schema.get("properties").and_then(|properties| properties.get(name));
        (name.to_owned(), value.map_or_else(|| json!("…"), |value| placeholder(root, value, depth - 1)))
    };
    Value::Object(names.map(field).collect::<Map<_, _>>())
}

/// Prints JSON as a JavaScript literal. `__proto__` is printed as a computed key: as a plain key it would set the prototype.
fn print(out: &mut String, value: &Value) {
    match value {
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(fields) => {
            out.push_str("{ ");
            for (n, (name, value)) in fields.iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                match name.as_str() {
                    "__proto__" => out.push_str("[\"__proto__\"]"),
                    plain if is_identifier(plain) => out.push_str(plain),
                    other => out.push_str(&Value::from(other).to_string()),
                }
                out.push_str(": ");
                print(out, value);
            }
            out.push_str(" }");
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                print(out, item);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
