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
use shape::{Bounds, References, Shaper};

pub(super) use signature::{brief_types, expected};

/// What is said beside a tool whose results do not always fit what it declares.
pub const BREAKS_ITS_SCHEMA: &str = "its results do not always fit its output schema";

/// The schema of the value that a program receives.
///
/// FastMCP servers wrap a plain result into `{"result": …}` and mark the schema; programs receive the unwrapped value.
pub fn result_schema(tool: &Tool) -> Option<&Value> {
    let schema = tool.output_schema()?;
    let wrapped = schema.get("x-fastmcp-wrap-result").and_then(Value::as_bool) == Some(true);
    if wrapped { schema.pointer("/properties/result") } else { Some(schema) }
}

/// Bounds of a look at whether a schema says anything.
const DECLARED_BOUNDS: Bounds = Bounds { depth: 12, nodes: 100, fields: 20, literals: 4 };

/// Whether a tool says which value a program receives. `{}` and `{"type": "object"}` name no key and no kind of value, so
/// results of such a tool are learned as those of one without a schema.
pub fn declares_result(tool: &Tool) -> bool {
    let (Some(root), Some(schema)) = (tool.output_schema(), result_schema(tool)) else { return false };
    Shaper::new(root, DECLARED_BOUNDS, References::Inline).shape(schema).is_telling()
}

#[cfg(test)]
mod tests;
