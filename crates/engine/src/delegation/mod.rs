//! Tool descriptions and errors for models: the contract of computation delegation, and what to do after a failure.
//!
//! For embedders that publish tools of their own. The engine itself does not use this module.

mod description;
mod error;

pub use description::{SandboxConfig, ToolDescription};
pub use error::{Severity, ToolError};
