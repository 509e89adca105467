//! Results as tools give them: a value and its text, or what went wrong.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A value, or a reason for the model to read.
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

/// Arguments as a tool wants them, or what is wrong with them.
pub(super) fn arguments<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("bad arguments: {error}"))
}
