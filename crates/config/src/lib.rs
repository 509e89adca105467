//! The configuration file: finds, reads, validates, watches and edits it.
//!
//! # Layout
//! - [`lookup`]: finds the file; [`trust`]: consent to one that comes from a folder
//! - [`text`]: parses JSONC, YAML and TOML into one tree with source positions
//! - `raw`: the settings as written in the file; the only list of settings
//! - [`values`], [`vars`]: the types of single values, and `${VAR}` substitution
//! - [`checked`]: the validated configuration that the program uses
//! - [`problem`]: errors and warnings with file, line and column
//! - [`schema`]: the JSON Schema for editors
//! - [`mod@diff`], [`watch`]: what a changed file changes, and when it changed
//! - [`edit`]: adds and removes servers and keeps comments and layout
//! - [`clients`]: the files of MCP clients, to import servers and to add Toolgate
//!
//! Deliberately absent: nothing here connects to a server.

#![forbid(unsafe_code)]

pub mod checked;
pub mod clients;
pub mod diff;
pub mod edit;
pub mod lookup;
pub mod problem;
mod raw;
pub mod schema;
pub mod text;
pub mod trust;
pub mod values;
pub mod vars;
pub mod watch;

use std::path::Path;

pub use checked::Checked;
pub use diff::{Changes, diff};
pub use problem::Problem;
pub use raw::reader::closest;
pub use vars::Env;

/// Reads and validates a file.
pub fn load(file: &Path, env: &Env) -> Result<Checked, Vec<Problem>> {
    check(text::Source::open(file).map_err(|problem| vec![*problem])?, env)
}

/// Reads and validates a file if the gate admits its text.
pub fn load_through(file: &Path, env: &Env, gate: &trust::Gate) -> Result<Checked, Vec<Problem>> {
    check_through(text::Source::open(file).map_err(|problem| vec![*problem])?, env, gate)
}

fn check_through(source: text::Source, env: &Env, gate: &trust::Gate) -> Result<Checked, Vec<Problem>> {
    if !gate.admits(&source) {
        let problem = Problem::of_file(source.file(), "the file has changed, and its new content is not trusted");
        let help = format!("look at it, then run: toolgate trust {}", source.file().display());
        return Err(vec![problem.help(help)]);
    }
    check(source, env)
}

/// Validates a text. Reports all problems at once; no server is started and no host name is resolved, but the `envFile`
/// of a server is read.
pub fn check(source: text::Source, env: &Env) -> Result<Checked, Vec<Problem>> {
    checked::check(&raw::Raw::read(source)?, env)
}
