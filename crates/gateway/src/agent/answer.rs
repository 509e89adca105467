//! Results of tools, in the form that both eras share.

use serde_json::{Value, json};

use super::Shared;
use super::arguments::Refusal;
use toolgate_config::values::ResultFormat;
use toolgate_output::{Body, BodyForm, Cut, fit};

/// A text block.
pub(super) fn text_block(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

/// A result that is one text.
pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "content": [text_block(text)] })
}

/// A result that is a JSON value, laid out for a reader.
pub(super) fn pretty(value: &Value) -> Value {
    text(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// A result that is a JSON value, indented only where the configuration asks for it: white space costs tokens.
pub(super) fn json(shared: &Shared, value: &Value) -> Value {
    match shared.gateway.config().settings.output.format {
        ResultFormat::Pretty => pretty(value),
        ResultFormat::Auto | ResultFormat::Compact | ResultFormat::Table => text(value.to_string()),
    }
}

/// A failure that the agent can read.
pub(super) fn failure(message: impl Into<String>) -> Value {
    json!({ "content": [text_block(message)], "isError": true })
}

/// The result, or the complaint as one.
pub(super) fn or_refusal(result: Result<Value, Refusal>) -> Value {
    result.unwrap_or_else(|Refusal(message)| failure(message))
}

/// The text within `room` bytes, its middle left out where it is longer.
pub(super) fn bounded(text: String, room: usize) -> String {
    if text.len() <= room { text } else { fit(&Body::new(text.into(), BodyForm::Text), room, Cut::Middle) }
}
