//! Edits a configuration file and keeps comments and layout.
//!
//! Each format has its own text editor, and none is trusted: the edited text is parsed again and must equal the old file
//! with exactly that change; otherwise the edit is rejected and nothing is written.

mod file;
mod json;
mod template;
mod toml;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use file::Backup;
use file::Mode;
pub use file::WrittenFile;
pub(crate) use file::write_private;
pub use template::template;

use super::clients::MAX_CLIENT_FILE_BYTES;
use super::problem::Problem;
use super::raw::reader::closest;
use super::text::{Format, Source};
use super::vars;

/// The reason for rejecting an edit whose result differs from the expected change.
pub(super) const UNSUPPORTED_LAYOUT: &str = "its layout is not supported";
/// The reason for rejecting a removal from a section that the file does not have.
pub(super) const NO_SECTION: &str = "it has no such section";

/// The sections that servers may be in.
const SERVER_SECTIONS: [&str; 2] = ["mcpServers", "servers"];

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
    Absent(AbsentServer),
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

/// A server that a file does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct AbsentServer {
    /// The name that was given.
    pub name: String,
    /// The server that may be meant.
    pub near: Option<String>,
}

fn absent(file: &Json, name: &str) -> EditError {
    let sections = SERVER_SECTIONS.into_iter().filter_map(|section| file.get(section)?.as_object());
    let known: Vec<&str> = sections.flat_map(Map::keys).map(String::as_str).collect();
    EditError::Absent(AbsentServer { name: name.to_owned(), near: closest(name, &known).map(str::to_owned) })
}

impl fmt::Display for AbsentServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.near.iter().try_for_each(|near| write!(f, ": did you mean {near}?"))
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// A server to add, with its settings under `toolgate.backends`.
#[derive(Clone, PartialEq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Its entry in `mcpServers`.
    pub entry: Map<String, Json>,
    /// Its entry in `toolgate.backends`; none if empty.
    pub settings: Map<String, Json>,
}

impl NewServer {
    /// A server without settings of its own.
    pub fn new(name: &str, entry: Map<String, Json>) -> Self {
        Self { name: name.to_owned(), entry, settings: Map::new() }
    }
}

/// Adds a server to a configuration file.
pub fn add(file: &Path, name: &str, entry: &Map<String, Json>) -> Result<WrittenFile, EditError> {
    add_all(file, &[NewServer::new(name, entry.clone())])
}

/// Adds servers to a configuration file by one write, with one backup: all of them, or none. A file that does not exist is
/// created from the template.
///
/// A file that gets values which may be secrets is readable by its owner only afterwards.
pub fn add_all(file: &Path, servers: &[NewServer]) -> Result<WrittenFile, EditError> {
    let exists = file.exists();
    let original = if exists { open(file)? } else { Source::new(file, Format::of(file), template(Format::of(file))) };
    let section = section(&original)?;
    let mut source = original.clone();
    for server in servers {
        if names(&source)?.contains(&server.name) {
            return Err(EditError::Exists(server.name.clone()));
        }
        let mut text = put(&source, &[section], &server.name, &server.entry)?;
        if !server.settings.is_empty() {
            let added = Source::new(file, source.format(), text);
            text = put(&added, &["toolgate", "backends"], &server.name, &server.settings)?;
        }
        source = Source::new(file, source.format(), text);
    }
    if !exists {
        return file::create(file, source.text());
    }
    let literal = servers.iter().any(|server| may_have_secrets(&server.entry));
    file::replace(&original, source.text(), Backup::Latest, if literal { Mode::Private } else { Mode::Kept })
}

/// The names of all servers of a configuration file.
pub fn server_names(file: &Path) -> Result<Vec<String>, EditError> {
    if file.exists() { names(&open(file)?) } else { Ok(Vec::new()) }
}

/// The entries of all servers of a configuration file, by their names.
pub fn server_entries(file: &Path) -> Result<Map<String, Json>, EditError> {
    if file.exists() { entries(&open(file)?) } else { Ok(Map::new()) }
}

fn names(source: &Source) -> Result<Vec<String>, EditError> {
    Ok(entries(source)?.into_iter().map(|(name, _)| name).collect())
}

fn entries(source: &Source) -> Result<Map<String, Json>, EditError> {
    let tree = json_of(source)?;
    let sections = ["mcpServers", "servers"].into_iter().filter_map(|section| tree.get(section)?.as_object().cloned());
    Ok(sections.flatten().collect())
}

/// Whether an entry has a value in `env` or `headers` that is not just a reference, or arguments or a URL, which may contain tokens.
fn may_have_secrets(entry: &Map<String, Json>) -> bool {
    let is_reference = |value: &Json| {
        // A default may be the secret.
        value.as_str().is_some_and(|text| vars::is_reference(text) && !text.contains(":-"))
    };
    let literal =
        |key: &str| entry.get(key).and_then(Json::as_object).is_some_and(|map| !map.values().all(is_reference));
    let token_in_args = entry.get("args").and_then(Json::as_array).is_some_and(|args| !args.is_empty());
    let query_in_url = entry.get("url").and_then(Json::as_str).is_some_and(|url| url.contains(['?', '@']));
    literal("env") || literal("headers") || token_in_args || query_in_url
}

/// Removes a server and its settings under `toolgate.backends` from a configuration file.
pub fn remove(file: &Path, name: &str) -> Result<WrittenFile, EditError> {
    let original = open(file)?;
    let mut source = original.clone();
    for section in SERVER_SECTIONS {
        if let Some(text) = take(&source, &[section], name)? {
            source = Source::new(file, source.format(), text);
        }
    }
    if source.text() == original.text() {
        return Err(absent(&json_of(&original)?, name));
    }
    let text = take(&source, &["toolgate", "backends"], name)?;
    file::replace(&original, text.as_deref().unwrap_or(source.text()), Backup::Latest, Mode::Kept)
}

/// Sets the client of a server's login: members of its `auth`, or of the login in the `auth` of an API.
pub fn set_client(file: &Path, name: &str, client: &Map<String, Json>) -> Result<WrittenFile, EditError> {
    let source = open(file)?;
    let tree = json_of(&source)?;
    let of_server = |section: &&str| tree.get(section).and_then(|servers| servers.get(name));
    let section = SERVER_SECTIONS.into_iter().find(|section| of_server(section).is_some());
    let section = section.ok_or_else(|| absent(&tree, name))?;
    let auth = of_server(&section).and_then(|server| server.get("auth"));
    let login_of = |auth: Option<&Json>| {
        let mut login = auth.and_then(Json::as_object).cloned().unwrap_or_default();
        login.extend(client.clone());
        login
    };
    let is_api = of_server(&section).and_then(|server| server.get("type")).is_some_and(|kind| kind == "openapi");
    let mut logins = auth.and_then(Json::as_object).filter(|_| is_api).into_iter().flatten();
    // The login of an API is the one member that is not a credential itself.
    let text = match logins.find(|(_, login)| login.is_object()) {
        Some((scheme, login)) => put(&source, &[section, name, "auth"], scheme, &login_of(Some(login)))?,
        None => put(&source, &[section, name], "auth", &login_of(auth))?,
    };
    file::replace(&source, &text, Backup::Latest, Mode::Kept)
}

/// Creates a configuration file from the template. Fails if the file exists.
pub fn init(file: &Path) -> Result<WrittenFile, EditError> {
    file::create(file, template(Format::of(file)))
}

/// Changes of a client's file that are written at once, with a backup that is never replaced.
pub(crate) struct ClientEdit {
    path: PathBuf,
    /// `None` if there is no file yet.
    original: Option<Source>,
    edited: Source,
}

impl ClientEdit {
    /// Reads the file; a file that does not exist is empty.
    pub(crate) fn open(path: &Path) -> Result<Self, EditError> {
        if !path.exists() {
            let empty = if Format::of(path) == Format::Json { "{}\n" } else { "" };
            let edited = Source::new(path, Format::of(path), empty);
            return Ok(Self { path: path.to_owned(), original: None, edited });
        }
        let source = Source::open_within(path, MAX_CLIENT_FILE_BYTES)
            .map_err(|problem| EditError::Unreadable(vec![*problem]))?;
        Ok(Self { path: path.to_owned(), original: Some(source.clone()), edited: source })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The entries of a section, which is named by its keys from the top.
    pub(crate) fn entries(&self, section: &[&str]) -> Result<Map<String, Json>, EditError> {
        let tree = json_of(&self.edited)?;
        let found = section.iter().try_fold(&tree, |json, key| json.get(key));
        Ok(found.and_then(Json::as_object).cloned().unwrap_or_default())
    }

    /// Adds or replaces an entry.
    pub(crate) fn put(&mut self, section: &[&str], name: &str, entry: &Map<String, Json>) -> Result<(), EditError> {
        if self.entries(section)?.get(name).and_then(Json::as_object) == Some(entry) {
            return Ok(());
        }
        let text = put(&self.edited, section, name, entry)?;
        self.edited = Source::new(&self.path, self.edited.format(), text);
        Ok(())
    }

    /// Removes an entry and returns it.
    pub(crate) fn take(&mut self, section: &[&str], name: &str) -> Result<Option<Json>, EditError> {
        let entry = self.entries(section)?.get(name).cloned();
        if let Some(text) = take(&self.edited, section, name)? {
            self.edited = Source::new(&self.path, self.edited.format(), text);
        }
        Ok(entry)
    }

    /// Writes what was changed.
    pub(crate) fn write(self) -> Result<WrittenFile, EditError> {
        match self.original {
            None => file::create(&self.path, self.edited.text()),
            Some(original) if original.text() == self.edited.text() => {
                Ok(WrittenFile { path: self.path, backup: None, changed: false })
            }
            Some(original) => file::replace(&original, self.edited.text(), Backup::Numbered, Mode::Kept),
        }
    }
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

/// The text with an entry added to a section, or replaced in it.
pub(crate) fn put(source: &Source, path: &[&str], name: &str, entry: &Map<String, Json>) -> Result<String, EditError> {
    let tree = source.tree().map_err(EditError::Unreadable)?;
    let mut expected = tree.to_json();
    if !expected.is_object() {
        return Err(refused(source, "the top level is not an object"));
    }
    let mut section = &mut expected;
    for key in path {
        let map = section.as_object_mut().ok_or_else(|| refused(source, "its servers are not an object"))?;
        section = map.entry(*key).or_insert_with(|| Json::Object(Map::new()));
        if section.is_null() {
            *section = Json::Object(Map::new());
        }
    }
    let map = section.as_object_mut().ok_or_else(|| refused(source, "its servers are not an object"))?;
    map.insert(name.to_owned(), Json::Object(entry.clone()));
    let text = match source.format() {
        Format::Json => json::put(source, path, name, entry),
        Format::Yaml => yaml::put(source, &tree, path, name, entry),
        Format::Toml => toml::put(source, path, name, entry),
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
        Format::Json => json::take(source, path, name),
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
