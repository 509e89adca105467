//! The schema of a tool's arguments, as clients see it.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a tool's arguments, as clients see it: without what only schemars has to say.
pub(in super::super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    Plain.transform(&mut schema);
    schema.to_value()
}

/// What a value is comes first, then its default, then what it is for.
const KEY_ORDER: [&str; 10] = [
    "type",
    "enum",
    "items",
    "minimum",
    "maximum",
    "default",
    "description",
    "properties",
    "required",
    "additionalProperties",
];

/// What a model needs of a schema and no more: `null` counts as left out everywhere, so no type says that it may be there.
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [one] = types.as_mut_slice() {
                let one = one.take();
                schema.insert("type".to_owned(), one);
            }
        }
        schema.remove("format");
        if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
            schema.remove("additionalProperties");
        }
        if let Some(keys) = schema.as_object_mut() {
            let mut unordered = std::mem::take(keys);
            let ordered = KEY_ORDER.iter().filter_map(|key| unordered.remove_entry(*key));
            keys.extend(ordered.collect::<Vec<_>>());
            keys.extend(unordered);
        }
    }
}
