//! Tool results in MCP's format: a value with its text, or an error.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A value, or an error message for the model.
pub(super) type Outcome = Result<Value, String>;

/// The result of a call.
pub(super) fn of(outcome: Outcome) -> Value {
    match outcome {
        Ok(value) => json!({
            "content": [{ "type": "text", "text": value.to_string() }],
            "structuredContent": value,
        }),
        Err(reason) => json!({ "content": [{ "type": "text", "text": reason }], "isError": true }),
    }
}

/// Parses the arguments of a tool.
pub(super) fn arguments<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("bad arguments: {error}"))
}
