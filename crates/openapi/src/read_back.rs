//! Reads the query of a link back into arguments: the inverse of the encoder, for the place where an API names its next page.
//!
//! A number of the schema is a number again and a list is a list, so that the arguments of a link fit the tool that they
//! are for. What the schema does not say stays text.

use serde_json::{Map, Number, Value};
use url::Url;

use crate::operation::{Encoding, Operation, Parameter, ParameterPlace, Style};

/// How many references and alternatives inside each other are looked at.
const MAX_DEPTH: usize = 8;

/// The arguments of an operation that the query of a URL has.
pub(crate) fn arguments_of(operation: &Operation, target: &Url) -> Map<String, Value> {
    let tool: Value = serde_json::from_str(operation.tool.get()).unwrap_or_default();
    let root = tool.get("inputSchema").unwrap_or(&Value::Null);
    let mut arguments = Map::new();
    for parameter in operation.plan.parameters.iter().filter(|it| it.place == ParameterPlace::Query) {
        let given = target.query_pairs().filter(|(name, _)| *name == parameter.name.as_str());
        let given: Vec<String> = given.map(|(_, value)| value.into_owned()).collect();
        let schema = root.get("properties").and_then(|it| it.get(&parameter.argument)).unwrap_or(&Value::Null);
        if let Some(value) = value_of(root, schema, parameter, &given) {
            arguments.insert(parameter.argument.clone(), value);
        }
    }
    arguments
}

fn value_of(root: &Value, schema: &Value, parameter: &Parameter, given: &[String]) -> Option<Value> {
    let last = given.last()?;
    let (style, explode) = match parameter.encoding {
        Encoding::Json => return Some(serde_json::from_str(last).unwrap_or_else(|_| Value::from(last.as_str()))),
        Encoding::Style { style, explode, .. } => (style, explode),
    };
    let Some(items) = items_of(root, schema, MAX_DEPTH) else { return Some(scalar(root, schema, last)) };
    let separator = match style {
        Style::Space => ' ',
        Style::Pipe => '|',
        Style::Tab => '\t',
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => ',',
    };
    let texts: Vec<&str> = match explode {
        true => given.iter().map(String::as_str).collect(),
        false => last.split(separator).collect(),
    };
    Some(texts.into_iter().map(|text| scalar(root, items, text)).collect())
}

fn scalar(root: &Value, schema: &Value, text: &str) -> Value {
    let is = |kind: &str| has_kind(root, schema, kind, MAX_DEPTH);
    if (is("integer") || is("number"))
        && let Ok(number) = text.parse::<Number>()
    {
        return Value::Number(number);
    }
    match text {
        "true" | "false" if is("boolean") => Value::Bool(text == "true"),
        _ => Value::from(text),
    }
}

/// The schema of the items, if a value may be a list.
fn items_of<'s>(root: &'s Value, schema: &'s Value, depth: usize) -> Option<&'s Value> {
    if names(schema, "array") {
        return Some(schema.get("items").unwrap_or(&Value::Null));
    }
    nested(root, schema).filter(|_| depth > 0).find_map(|inner| items_of(root, inner, depth - 1))
}

fn has_kind(root: &Value, schema: &Value, kind: &str, depth: usize) -> bool {
    names(schema, kind) || (depth > 0 && nested(root, schema).any(|inner| has_kind(root, inner, kind, depth - 1)))
}

/// Whether a schema itself names a type.
fn names(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(kind)),
        _ => false,
    }
}

/// What a schema refers to, and its parts and alternatives.
fn nested<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| root.pointer(it.strip_prefix('#')?));
    let parts = ["anyOf", "allOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    target.into_iter().chain(parts.flatten())
}
