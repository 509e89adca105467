//! TypeScript from the JSON Schemas of tools.
//!
//! Three sizes: [`signature`] is one line for a search hit, [`tool_declaration`] is the full declaration of one tool, and
//! [`declaration`] is a whole `.d.ts` file for editors.
//!
//! [`check`] has the declarations for a type checker. [`learned`] types describe results of tools that declare no schema.
//!
//! The types are for readers and editors; calls are validated against the schema itself (`arguments`). A schema that
//! TypeScript cannot express, or that is too deep or too large, becomes a wider type, never an error: the output always
//! parses. Names and texts of a schema are quoted, escaped or omitted, never inserted verbatim.

pub mod check;
mod declare;
pub mod learned;
mod print;
pub(super) mod reference;
mod shape;
mod signature;

pub use declare::{declaration, declaration_with, tool_declaration, tool_declaration_with};
#[cfg(test)]
use signature::MAX_SIGNATURE;
pub use signature::signature;

use serde_json::Value;

use super::Tool;

pub(super) use signature::{brief_types, expected};

/// The schema of the value that a program receives.
///
/// FastMCP servers wrap a plain result into `{"result": …}` and mark the schema; programs receive the unwrapped value.
pub(super) fn result_schema(tool: &Tool) -> Option<&Value> {
    let schema = tool.output_schema()?;
    let wrapped = schema.get("x-fastmcp-wrap-result").and_then(Value::as_bool) == Some(true);
    if wrapped { schema.pointer("/properties/result") } else { Some(schema) }
}

#[cfg(test)]
mod tests;
