//! One tool as its backend describes it.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

static ANY_OBJECT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));

/// A tool as its backend lists it. There may be thousands, so a clone shares what the backend sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The backend's own name for it, unsanitised.
    pub name: String,
    raw: Arc<Value>,
}

impl Tool {
    /// Reads a tool object of `tools/list`; `None` where it has no name to call it by.
    pub fn from_raw(raw: Value) -> Option<Self> {
        let name = raw.get("name")?.as_str()?.to_owned();
        Some(Self { name, raw: Arc::new(raw) })
    }

    /// The tool object as the backend sent it, for clients that want all of it.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// What it does, for a reader.
    pub fn description(&self) -> Option<&str> {
        self.raw.get("description")?.as_str()
    }

    /// JSON Schema of its one argument object; any object, where the backend gives none.
    pub fn input_schema(&self) -> &Value {
        self.schema("inputSchema").unwrap_or(&ANY_OBJECT)
    }

    /// JSON Schema of its structured result, where the backend declares one.
    pub fn output_schema(&self) -> Option<&Value> {
        self.schema("outputSchema")
    }

    fn schema(&self, key: &str) -> Option<&Value> {
        self.raw.get(key).filter(|schema| schema.is_object())
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(from)?;
        Tool::from_raw(raw).ok_or_else(|| serde::de::Error::custom("a tool without a name"))
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
    fn a_missing_or_odd_input_schema_takes_any_object() {
        for raw in [json!({ "name": "now" }), json!({ "name": "now", "inputSchema": true, "outputSchema": null })] {
            let tool = Tool::from_raw(raw.clone()).unwrap();
            assert_eq!(*tool.input_schema(), json!({ "type": "object" }));
            assert_eq!(tool.output_schema(), None);
            assert_eq!(*tool.raw(), raw);
        }
    }
}
