//! Words for models: tool descriptions that teach computation delegation, and errors that say what to do next.
//!
//! For embedders who publish tools of their own; the engine itself uses none of it.

mod description;
mod error;

pub use description::{SandboxConfig, ToolDescription};
pub use error::{Severity, ToolError};
