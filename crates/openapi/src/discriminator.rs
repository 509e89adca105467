//! Discriminators: which value of a property leads to which schema.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// The property and the mapping of a discriminator without alternatives.
pub(crate) fn mapping(schema: &Value) -> Option<(&str, impl Iterator<Item = (&str, &str)>)> {
    if schema.get("oneOf").is_some() || schema.get("anyOf").is_some() {
        return None;
    }
    let discriminator = schema.get("discriminator")?;
    let property = discriminator.get("propertyName")?.as_str()?;
    let mapping = discriminator.get("mapping")?.as_object().filter(|mapping| !mapping.is_empty())?;
    Some((property, mapping.iter().filter_map(|(value, target)| Some((value.as_str(), target.as_str()?)))))
}

/// A mapping names a definition or refers to one.
pub(crate) fn reference_of(target: &str) -> String {
    if target.contains(['#', '/']) { target.to_owned() } else { format!("#/components/schemas/{target}") }
}

/// The values of a discriminator, by the schemas that they lead to.
pub(crate) struct ValuesByTarget<'m>(HashMap<String, Vec<&'m str>>);

impl<'m> ValuesByTarget<'m> {
    /// Reads the mapping of a discriminator.
    pub(crate) fn new(mapping: Option<&'m Map<String, Value>>) -> Self {
        let mut values: HashMap<String, Vec<&str>> = HashMap::new();
        for (value, target) in mapping.into_iter().flatten() {
            if let Some(target) = target.as_str() {
                values.entry(reference_of(target)).or_default().push(value);
            }
        }
        Self(values)
    }

    /// The value for an alternative; none if several values lead to it.
    pub(crate) fn of<'t>(&self, target: &'t str) -> Option<&'t str>
    where
        'm: 't,
    {
        match self.0.get(target).map(Vec::as_slice) {
            Some([value]) => Some(value),
            Some(_) => None,
            None => Some(target.rsplit('/').next().unwrap_or_default()),
        }
    }
}

/// Ties a schema to one value of a discriminator.
pub(crate) fn discriminate(schema: &mut Map<String, Value>, property: &str, value: &str) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(property.to_owned(), json!({ "const": value }));
    }
    schema.insert("required".to_owned(), json!([property]));
}

/// Whether a property that a schema describes so has values of its own, and not this one.
pub(crate) fn excludes(own: &Value, value: &str) -> bool {
    let is_other = |it: &Value| it.as_str() != Some(value);
    own.get("const").is_some_and(is_other)
        || own.get("enum").and_then(Value::as_array).is_some_and(|values| values.iter().all(is_other))
}
