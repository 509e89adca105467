//! Edits a configuration file and keeps comments and layout.
//!
//! Each format has its own text editor, and none is trusted: the edited text is parsed again and must equal the old file
//! with exactly that change; otherwise the edit is rejected and nothing is written.

mod file;
mod json;
mod template;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use file::Backup;
pub use file::WrittenFile;
pub use template::template;

use super::clients::MAX_CLIENT_FILE_BYTES;
use super::problem::Problem;
use super::text::{Format, Source};

/// The reason for rejecting an edit whose result differs from the expected change.
pub(super) const UNSUPPORTED_LAYOUT: &str = "its layout is not supported";
/// The reason for rejecting a removal from a section that the file does not have.
pub(super) const NO_SECTION: &str = "it has no such section";

/// Why a file was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file cannot be read or parsed.
    #[error("{}", list(.0))]
    Unreadable(Vec<Problem>),
    /// The server exists already.
    #[error("a server named {0} already exists")]
    Exists(String),
    /// The server does not exist.
    #[error("no server named {0}")]
    Absent(String),
    /// The layout of the file cannot be kept.
    #[error("cannot edit {}: {why}; please edit it by hand", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Another program changed the file during the edit.
    #[error("{} was changed by another program during the edit; try again", .0.display())]
    Changed(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        #[source]
        error: std::io::Error,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Adds a server to a configuration file.
pub fn add(file: &Path, name: &str, entry: &Map<String, Json>) -> Result<WrittenFile, EditError> {
    let source = open(file)?;
    let (section, tree) = (section(&source)?, json_of(&source)?);
    let taken = ["mcpServers", "servers"].iter().any(|section| tree.pointer_of(&[section, name]).is_some());
    if taken {
        return Err(EditError::Exists(name.to_owned()));
    }
    let text = put(&source, section, name, entry)?;
    file::replace(&source, &text, Backup::Latest)
}

/// Removes a server and its settings under `toolgate.backends` from a configuration file.
pub fn remove(file: &Path, name: &str) -> Result<WrittenFile, EditError> {
    let original = open(file)?;
    let mut source = original.clone();
    for section in ["mcpServers", "servers"] {
        if let Some(text) = take(&source, &[section], name)? {
            source = Source::new(file, source.format(), text);
        }
    }
    if source.text() == original.text() {
        return Err(EditError::Absent(name.to_owned()));
    }
    let text = take(&source, &["toolgate", "backends"], name)?;
    file::replace(&original, text.as_deref().unwrap_or(source.text()), Backup::Latest)
}

/// Creates a configuration file from the template. Fails if the file exists.
pub fn init(file: &Path) -> Result<WrittenFile, EditError> {
    file::create(file, template(Format::of(file)))
}

/// Adds or replaces an entry in a client's file; creates the file if it does not exist.
pub(crate) fn put_into(
    file: &Path,
    section: &str,
    name: &str,
    entry: &Map<String, Json>,
) -> Result<WrittenFile, EditError> {
    if !file.exists() {
        let empty = if Format::of(file) == Format::Json { "{}\n" } else { "" };
        let source = Source::new(file, Format::of(file), empty);
        return file::create(file, &put(&source, section, name, entry)?);
    }
    let source =
        Source::open_within(file, MAX_CLIENT_FILE_BYTES).map_err(|problem| EditError::Unreadable(vec![*problem]))?;
    let before = json_of(&source)?;
    if before.pointer_of(&[section, name]) == Some(&Json::Object(entry.clone())) {
        return Ok(WrittenFile { path: file.to_owned(), backup: None, changed: false });
    }
    let text = put(&source, section, name, entry)?;
    file::replace(&source, &text, Backup::Numbered)
}

fn open(file: &Path) -> Result<Source, EditError> {
    Source::open(file).map_err(|problem| EditError::Unreadable(vec![*problem]))
}

/// The section for new servers: `servers` if the file has only that, otherwise `mcpServers`.
fn section(source: &Source) -> Result<&'static str, EditError> {
    let tree = json_of(source)?;
    let only_servers = tree.get("servers").is_some() && tree.get("mcpServers").is_none();
    Ok(if only_servers { "servers" } else { "mcpServers" })
}

/// The text with an entry added to a top-level section, or replaced in it.
pub(crate) fn put(source: &Source, section: &str, name: &str, entry: &Map<String, Json>) -> Result<String, EditError> {
    let tree = source.tree().map_err(EditError::Unreadable)?;
    let mut expected = tree.to_json();
    let root = expected.as_object_mut().ok_or_else(|| refused(source, "the top level is not an object"))?;
    let servers = root.entry(section).or_insert_with(|| Json::Object(Map::new()));
    if servers.is_null() {
        *servers = Json::Object(Map::new());
    }
    let servers = servers.as_object_mut().ok_or_else(|| refused(source, "its servers are not an object"))?;
    servers.insert(name.to_owned(), Json::Object(entry.clone()));
    let text = match source.format() {
        Format::Json => json::put(source, &tree, section, name, entry),
        Format::Yaml => yaml::put(source, &tree, section, name, entry),
        Format::Toml => toml::put(source, section, name, entry),
    };
    verified(source, text, expected)
}

/// The text without an entry; `None` if there is no such entry.
fn take(source: &Source, path: &[&str], name: &str) -> Result<Option<String>, EditError> {
    let tree = source.tree().map_err(EditError::Unreadable)?;
    let mut expected = tree.to_json();
    let map = path.iter().try_fold(&mut expected, |json, key| json.get_mut(key)).and_then(Json::as_object_mut);
    if map.and_then(|map| map.shift_remove(name)).is_none() {
        return Ok(None);
    }
    let text = match source.format() {
        Format::Json => json::take(source, &tree, path, name),
        Format::Yaml => yaml::take(source, &tree, path, name),
        Format::Toml => toml::take(source, path, name),
    };
    verified(source, text, expected).map(Some)
}

/// The edited text, if it parses to `expected`.
fn verified(source: &Source, text: Result<String, &'static str>, expected: Json) -> Result<String, EditError> {
    let text = text.map_err(|why| refused(source, why))?;
    let edited = Source::new(source.file(), source.format(), text.as_str());
    match edited.tree() {
        Ok(tree) if without_empty(tree.to_json()) == without_empty(expected) => Ok(text),
        _ => Err(refused(source, UNSUPPORTED_LAYOUT)),
    }
}

/// Removes empty sections, which TOML does not distinguish from absent ones.
fn without_empty(json: Json) -> Json {
    match json {
        Json::Object(map) => {
            let kept = map.into_iter().map(|(key, value)| (key, without_empty(value)));
            Json::Object(kept.filter(|(_, value)| value.as_object().is_none_or(|map| !map.is_empty())).collect())
        }
        other => other,
    }
}

fn refused(source: &Source, why: &'static str) -> EditError {
    EditError::Refused { file: source.file().to_owned(), why }
}

fn json_of(source: &Source) -> Result<Json, EditError> {
    source.tree().map(|tree| tree.to_json()).map_err(EditError::Unreadable)
}

trait PointerOf {
    fn pointer_of(&self, path: &[&str]) -> Option<&Json>;
}

impl PointerOf for Json {
    fn pointer_of(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |json, key| json.get(key))
    }
}

/// The line break that a text uses.
pub(super) fn line_break(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The first byte of the line that holds `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind(['\n', '\r'])).map_or(0, |end| end + 1)
}

/// The end of the line that holds `at`, before its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|after| after.find(['\n', '\r'])).map_or(text.len(), |end| at + end)
}

/// The first byte of the line after the one that holds `at`.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    let end = line_end(text, at);
    let rest = text.get(end..).unwrap_or_default();
    end + if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) }
}

/// The indentation of the line of `at`, if only white space precedes `at`.
pub(super) fn indent(text: &str, at: usize) -> Option<&str> {
    let before = text.get(line_start(text, at)..at)?;
    before.chars().all(|c| c == ' ' || c == '\t').then_some(before)
}

/// The text with one range replaced.
pub(super) fn splice(text: &str, from: usize, to: usize, new: &str) -> String {
    let (head, tail) = (text.get(..from).unwrap_or_default(), text.get(to..).unwrap_or_default());
    format!("{head}{new}{tail}")
}
