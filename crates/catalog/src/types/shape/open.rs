//! Objects that may have properties which their type does not show.
//!
//! A property may be named where no type is made of it: under `then`, in a schema that depends on another property, behind a
//! reference that leads nowhere. An object of such a schema is open: it may have properties beyond those that are declared.

use serde_json::{Map, Value};

use super::{Type, UNKNOWN};

/// Keywords that name no property that a value may have besides those that are named elsewhere.
const NAMELESS: [&str; 14] = [
    "required",
    "title",
    "description",
    "not",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "default",
    "examples",
    "deprecated",
    "$comment",
    "readOnly",
    "writeOnly",
];

/// Whether a schema may name properties that a value has. Every other keyword is a doubt, so this looks at no schema inside.
pub(super) fn may_name_properties(schema: &Value) -> bool {
    let is_naming = |keyword: &String| !NAMELESS.contains(&keyword.as_str());
    schema.as_object().is_some_and(|keywords| keywords.keys().any(is_naming))
}

/// Whether a schema has keywords that name properties under a condition.
pub(super) fn is_conditional(keywords: &Map<String, Value>) -> bool {
    let names = |keyword: &str| keywords.get(keyword).is_some_and(may_name_properties);
    let has = |keyword: &str| keywords.contains_key(keyword);
    let names_any = |keyword: &str| {
        let schemas = keywords.get(keyword).and_then(Value::as_object);
        schemas.is_some_and(|schemas| schemas.values().any(may_name_properties))
    };
    let takes_others = keywords.get("unevaluatedProperties").is_some_and(|schema| *schema != Value::Bool(false));
    names("then")
        || names("else")
        || names_any("dependentSchemas")
        || names_any("dependencies")
        || has("$dynamicRef")
        || has("$recursiveRef")
        || takes_others
}

/// Lets the objects of a type have other properties.
pub(super) fn open(shape: &mut Type) {
    match shape {
        Type::Object { index: index @ None, .. } => *index = Some(Box::new(UNKNOWN)),
        Type::Union(members) => members.iter_mut().for_each(open),
        Type::Recursive { of, .. } => open(of),
        _ => {}
    }
}
