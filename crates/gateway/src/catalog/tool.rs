//! One tool as its backend describes it.

use serde_json::Value;

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
