//! TypeScript from the JSON Schemas of tools.
//!
//! Three sizes: [`signature`] is one line for a search hit, [`tool_declaration`] all there is to say about one tool, and
//! [`declaration`] a whole `.d.ts`, so that an editor completes the names of tools.
//!
//! The types are for readers and editors; what a call may carry is decided by the schema itself (`arguments`). So a
//! schema that TypeScript can't express, or that is too deep or too large, becomes a wider type, never an error: the
//! output always parses. Names and texts of a schema are quoted, escaped or left out, never pasted.

mod declare;
mod print;
pub(super) mod reference;
mod shape;
mod signature;

pub use declare::{declaration, tool_declaration};
pub use signature::{MAX_SIGNATURE, signature};

use serde_json::Value;

use super::Tool;

pub(super) use signature::expected;

/// The schema of the value that code receives.
///
/// Servers built with FastMCP wrap a plain result into `{"result": …}` and mark it; the wrapper is removed for code.
fn result_schema(tool: &Tool) -> Option<&Value> {
    let schema = tool.output_schema()?;
    let wrapped = schema.get("x-fastmcp-wrap-result").and_then(Value::as_bool) == Some(true);
    if wrapped { schema.pointer("/properties/result") } else { Some(schema) }
}

#[cfg(test)]
mod tests;
