//! Reads the query of a link back into arguments: the inverse of the encoder, for the place where an API names its next page.
//!
//! A number of the schema is a number again and a list is a list, so that the arguments of a link fit the tool that they
//! are for. What the schema does not say stays text.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};
use url::Url;

use crate::operation::{Encoding, Operation, Parameter, ParameterPlace};

/// Maximum number of schemas that are looked at for one link. A link whose parameters have more keeps text for the rest.
const MAX_SCHEMAS: usize = 10_000;

/// The arguments of an operation that the query of a URL has.
pub(crate) fn arguments_of(operation: &Operation, target: &Url) -> Map<String, Value> {
    let tool: Value = serde_json::from_str(operation.tool.get()).unwrap_or_default();
    let root = tool.get("inputSchema").unwrap_or(&Value::Null);
    let mut arguments = Map::new();
    let mut budget = MAX_SCHEMAS;
    for parameter in operation.plan.parameters.iter().filter(|it| it.place == ParameterPlace::Query) {
        let given = target.query_pairs().filter(|(name, _)| *name == parameter.name.as_str());
        let given: Vec<String> = given.map(|(_, value)| value.into_owned()).collect();
        let schema = root.get("properties").and_then(|it| it.get(&parameter.argument)).unwrap_or(&Value::Null);
        if let Some(value) = value_of(root, schema, parameter, &given, &mut budget) {
            arguments.insert(parameter.argument.clone(), value);
        }
    }
    arguments
}

fn value_of(
    root: &Value,
    schema: &Value,
    parameter: &Parameter,
    given: &[String],
    budget: &mut usize,
) -> Option<Value> {
    let last = given.last()?;
    let (style, explode) = match parameter.encoding {
        Encoding::Json => return Some(serde_json::from_str(last).unwrap_or_else(|_| Value::from(last.as_str()))),
        Encoding::Style { style, explode, .. } => (style, explode),
    };
    let schemas = reachable(root, schema, budget);
    let Some(list) = schemas.iter().find(|it| names(it, "array")) else {
        return Some(Kinds::of(&schemas).scalar(last));
    };
    let kinds = Kinds::of(&reachable(root, list.get("items").unwrap_or(&Value::Null), budget));
    let texts: Vec<&str> = match explode {
        true => given.iter().map(String::as_str).collect(),
        false => last.split(style.separator()).collect(),
    };
    Some(texts.into_iter().map(|text| kinds.scalar(text)).collect())
}

/// What a value that is no list may be besides text.
struct Kinds {
    number: bool,
    boolean: bool,
}

impl Kinds {
    fn of(schemas: &[&Value]) -> Self {
        let is = |kind: &str| schemas.iter().any(|it| names(it, kind));
        Self { number: is("integer") || is("number"), boolean: is("boolean") }
    }

    fn scalar(&self, text: &str) -> Value {
        if self.number
            && let Ok(number) = text.parse::<Number>()
        {
            return Value::Number(number);
        }
        match text {
            "true" | "false" if self.boolean => Value::Bool(text == "true"),
            _ => Value::from(text),
        }
    }
}

/// A schema, what it refers to, and its parts and alternatives, each once and the nearest first; as many as the budget has.
fn reachable<'s>(root: &'s Value, schema: &'s Value, budget: &mut usize) -> Vec<&'s Value> {
    let mut found = vec![schema];
    let mut seen = HashSet::from([std::ptr::from_ref(schema)]);
    let mut next = 0;
    while let Some(schema) = found.get(next).copied() {
        next += 1;
        for inner in nested(root, schema) {
            let Some(left) = budget.checked_sub(1) else { return found };
            *budget = left;
            if seen.insert(std::ptr::from_ref(inner)) {
                found.push(inner);
            }
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_refers_to_itself_is_looked_at_once() {
        let itself = vec![json!({"$ref": "#/$defs/A"}); 900];
        let root = json!({"$defs": {"A": {"anyOf": itself, "allOf": [{"type": "integer"}]}}});
        let mut budget = MAX_SCHEMAS;
        let found = reachable(&root, &root["$defs"]["A"], &mut budget);
        assert_eq!((found.len(), MAX_SCHEMAS - budget), (902, 1_801));
        assert!(Kinds::of(&found).number);
    }

    #[test]
    fn the_schemas_of_a_link_are_bounded() {
        let root = json!({"anyOf": vec![json!({"type": "string"}); 2 * MAX_SCHEMAS]});
        let mut budget = MAX_SCHEMAS;
        assert_eq!(reachable(&root, &root, &mut budget).len(), MAX_SCHEMAS + 1);
        assert_eq!(reachable(&root, &root, &mut budget).len(), 1);
    }
}
