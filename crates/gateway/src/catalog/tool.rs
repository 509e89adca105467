//! One tool as its backend describes it.

use serde_json::{Value, json};

/// A tool as its backend lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The backend's own name for it, unsanitised.
    pub name: String,
    /// What it does, for a reader.
    pub description: Option<String>,
    /// JSON Schema of its one argument object.
    pub input_schema: Value,
    /// JSON Schema of its structured result, where the backend declares one.
    pub output_schema: Option<Value>,
    /// The tool object as the backend sent it, for clients that want all of it.
    pub raw: Value,
}

impl Tool {
    /// Reads a tool object of `tools/list`; `None` where it has no name to call it by.
    pub fn from_raw(raw: Value) -> Option<Self> {
        let name = raw.get("name")?.as_str()?.to_owned();
        Some(Self {
            name,
            description: raw.get("description").and_then(Value::as_str).map(str::to_owned),
            input_schema: raw.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: raw.get("outputSchema").filter(|schema| !schema.is_null()).cloned(),
            raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_without_a_name_is_none() {
        assert_eq!(Tool::from_raw(json!({ "description": "x" })), None);
        assert_eq!(Tool::from_raw(json!({ "name": 7 })), None);
        assert_eq!(Tool::from_raw(json!("echo")), None);
    }

    #[test]
    fn a_missing_input_schema_takes_any_object() {
        let tool = Tool::from_raw(json!({ "name": "now", "outputSchema": null })).unwrap();
        assert_eq!(tool.input_schema, json!({ "type": "object" }));
        assert_eq!(tool.output_schema, None);
        assert_eq!(tool.raw, json!({ "name": "now", "outputSchema": null }));
    }
}
