//! The configuration file: found, read, checked, watched and edited.
//!
//! # Layout
//! - [`lookup`]: which file
//! - [`text`]: bytes to one tree with positions, for JSONC, YAML and TOML
//! - [`raw`]: the tree as the file's settings; the one list of what may be set
//! - [`values`], [`vars`]: what settings are made of, and variables in them
//! - [`checked`]: what the program may rely on
//! - [`schema`]: what editors check by
//! - [`mod@diff`], [`watch`]: what changed, and when
//! - [`edit`]: adding and removing servers without disturbing the rest
//! - [`clients`]: the files of MCP clients, to import from and to connect
//!
//! Nothing here connects to a server.

#![forbid(unsafe_code)]

pub mod checked;
pub mod clients;
pub mod diff;
pub mod edit;
pub mod lookup;
pub mod problem;
pub mod raw;
pub mod schema;
pub mod text;
pub mod values;
pub mod vars;
pub mod watch;

use std::path::Path;

pub use checked::{Checked, check};
pub use diff::{Changes, diff};
pub use problem::Problem;
pub use vars::Env;

/// Reads and checks a file.
pub fn load(file: &Path, env: &Env) -> Result<Checked, Vec<Problem>> {
    let source = text::Source::open(file).map_err(|problem| vec![*problem])?;
    check(&raw::Raw::read(source)?, env)
}
