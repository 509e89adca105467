//! Imports servers from the files of MCP clients.
//!
//! An entry is translated to Toolgate's format. Keys without an equivalent are reported as dropped, and Toolgate's own
//! entry is skipped.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use super::{Client, MAX_CLIENT_FILE_BYTES, Roots, Scope, owner};
use crate::checked::starts_toolgate;
use crate::problem::{Problem, Severity};
use crate::raw::{Location, RawSetting as _, Reader, Server};
use crate::text::Source;
use crate::text::tree::{Entry, Node};
use crate::values::BackendName;
use crate::vars::escape;

/// A server found in a client's file.
#[derive(Clone, PartialEq)]
pub struct FoundServer {
    /// Its name.
    pub name: String,
    /// The translated entry. Not printed, because it may contain secrets.
    pub raw: Map<String, Json>,
    /// The file that contains it.
    pub from: PathBuf,
    /// Its project, if the file has sections for projects.
    pub project: Option<String>,
    /// Keys of the client without an equivalent.
    pub dropped: Vec<String>,
    /// Why it is not imported; `None` if it is.
    pub skipped: Option<Skipped>,
}

impl std::fmt::Debug for FoundServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown =
            f.debug_struct("FoundServer").field("name", &self.name).field("from", &self.from).finish_non_exhaustive();
        shown.and_then(|()| write!(f, " {:?}", self.skipped))
    }
}

/// Why a server is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// It is Toolgate.
    #[error("this is Toolgate itself")]
    Toolgate,
    /// An earlier file has the same server.
    #[error("already found in {}", .0.display())]
    Duplicate(PathBuf),
    /// An earlier file has a different server of this name.
    #[error("another server of this name was found in {}", .0.display())]
    NameConflict(PathBuf),
    /// It uses `${input:…}`, which the client asks its user for.
    #[error("needs the input {0}, which Toolgate cannot ask for; add the server by hand with an environment variable")]
    NeedsInput(String),
    /// The entry is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// All servers of a client, those of the project first. Missing files are ignored.
pub fn found(client: Client, roots: &Roots) -> Result<Vec<FoundServer>, Vec<Problem>> {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for scope in [Scope::Project, Scope::User] {
        let Some(file) = roots.file(client, scope).filter(|file| file.is_file()) else { continue };
        match servers_of(&file, Some(client), Some(&roots.cwd)) {
            Ok(more) => servers.extend(more),
            Err(more) => problems.extend(more),
        }
    }
    // The user's settings for this project take precedence over the project's own file.
    servers.sort_by_key(|server| server.project.as_deref().map(Path::new) != Some(&roots.cwd));
    mark_repeated(&mut servers);
    if problems.is_empty() { Ok(servers) } else { Err(problems) }
}

/// All servers of one file, of any client.
pub fn found_in(file: &Path) -> Result<Vec<FoundServer>, Vec<Problem>> {
    let mut servers = servers_of(file, owner(file), None)?;
    mark_repeated(&mut servers);
    Ok(servers)
}

fn servers_of(file: &Path, client: Option<Client>, cwd: Option<&Path>) -> Result<Vec<FoundServer>, Vec<Problem>> {
    let source = Source::open_within(file, MAX_CLIENT_FILE_BYTES).map_err(|problem| vec![*problem])?;
    let tree = source.tree()?;
    let mut servers = Vec::new();
    let mut take = |section: Option<&Node>, project: Option<&str>| {
        let entries = section.and_then(Node::entries).unwrap_or_default();
        servers.extend(entries.iter().map(|entry| server(&source, client, entry, project)));
    };
    // The precedence of Claude Code: settings of this project, then of the user.
    let projects = tree.get("projects").and_then(Node::entries).unwrap_or_default();
    let (here, elsewhere): (Vec<&Entry>, Vec<&Entry>) =
        projects.iter().partition(|project| cwd.is_some_and(|cwd| Path::new(&project.key) == cwd));
    for project in here {
        take(project.node.get("mcpServers"), Some(&project.key));
    }
    for section in ["mcpServers", "servers", "mcp_servers"] {
        take(tree.get(section), None);
    }
    take(tree.get("mcp").and_then(|mcp| mcp.get("servers")), None);
    for project in elsewhere {
        take(project.node.get("mcpServers"), Some(&project.key));
    }
    Ok(servers)
}

fn server(source: &Source, client: Option<Client>, entry: &Entry, project: Option<&str>) -> FoundServer {
    let (raw, dropped) = translate(client, entry.node.to_json(), source.file());
    let skipped = reason_to_skip(source, entry, &raw);
    FoundServer {
        name: entry.key.clone(),
        raw,
        from: source.file().to_owned(),
        project: project.map(str::to_owned),
        dropped,
        skipped,
    }
}

fn reason_to_skip(source: &Source, entry: &Entry, raw: &Map<String, Json>) -> Option<Skipped> {
    if let Err(message) = BackendName::new(&entry.key) {
        return Some(Skipped::Invalid(message));
    }
    let mut reader = Reader { source, problems: Vec::new() };
    Server::read(&entry.node, &Location { span: entry.node.span, path: String::new() }, &mut reader);
    if let Some(problem) = reader.problems.into_iter().find(|problem| problem.severity == Severity::Error) {
        let prefix = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        return Some(Skipped::Invalid(format!("{prefix}{}", problem.message)));
    }
    let text = |key: &str| raw.get(key).and_then(Json::as_str);
    let args = raw.get("args").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    if text("command").is_some_and(|command| starts_toolgate(command, args.iter().filter_map(Json::as_str))) {
        return Some(Skipped::Toolgate);
    }
    if text("command").is_none() && text("url").is_none() {
        return Some(Skipped::Invalid("the server has neither a command nor a url".to_owned()));
    }
    first_input(&Json::Object(raw.clone())).map(Skipped::NeedsInput)
}

/// The name of the first `${input:…}` in an entry.
fn first_input(json: &Json) -> Option<String> {
    match json {
        Json::String(text) => input_in(text).map(str::to_owned),
        Json::Array(items) => items.iter().find_map(first_input),
        Json::Object(map) => map.values().find_map(first_input),
        Json::Null | Json::Bool(_) | Json::Number(_) => None,
    }
}

fn input_in(text: &str) -> Option<&str> {
    text.split_once("${input:").and_then(|(_, rest)| rest.split_once('}')).map(|(name, _)| name)
}

/// The translated entry, and the keys that were dropped.
fn translate(client: Option<Client>, entry: Json, file: &Path) -> (Map<String, Json>, Vec<String>) {
    let Json::Object(mut entry) = entry else { return (Map::new(), Vec::new()) };
    if client.is_some_and(|client| !client.fills_variables()) {
        entry.values_mut().for_each(|value| each_text(value, &escape));
    }
    if let Some(workspace) = workspace(file) {
        let workspace = escape(&workspace.to_string_lossy());
        entry.values_mut().for_each(|value| each_text(value, &|text| text.replace("${workspaceFolder}", &workspace)));
    }
    if client == Some(Client::Codex) || entry.contains_key("bearer_token_env_var") {
        from_codex(&mut entry);
    }
    let (kept, dropped): (Vec<_>, Vec<_>) =
        entry.into_iter().partition(|(key, _)| Server::KEYS.contains(&key.as_str()));
    (kept.into_iter().collect(), dropped.into_iter().map(|(key, _)| key).collect())
}

/// The project directory if the file is in `.vscode` or `.cursor`.
fn workspace(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let inner = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    if inner { folder.parent() } else { None }
}

fn each_text(json: &mut Json, change: &dyn Fn(&str) -> String) {
    match json {
        Json::String(text) => *text = change(text),
        Json::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Json::Object(map) => map.values_mut().for_each(|item| each_text(item, change)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Translates the keys of Codex: names of environment variables become `${…}`, timeouts in seconds get a unit.
fn from_codex(entry: &mut Map<String, Json>) {
    let text = |value: Json| value.as_str().map(str::to_owned);
    if let Some(Json::Array(names)) = entry.remove("env_vars") {
        for name in names.into_iter().filter_map(text) {
            member(entry, "env", &name, format!("${{{name}}}"));
        }
    }
    for (name, value) in object(entry.remove("http_headers")) {
        member(entry, "headers", &name, text(value).unwrap_or_default());
    }
    for (name, variable) in object(entry.remove("env_http_headers")) {
        member(entry, "headers", &name, format!("${{{}}}", text(variable).unwrap_or_default()));
    }
    if let Some(variable) = entry.remove("bearer_token_env_var").and_then(text) {
        member(entry, "headers", "Authorization", format!("Bearer ${{{variable}}}"));
    }
    if let Some(seconds) = entry.remove("tool_timeout_sec").filter(Json::is_number) {
        entry.insert("timeout".to_owned(), json!(format!("{seconds}s")));
    }
}

fn object(json: Option<Json>) -> Map<String, Json> {
    match json {
        Some(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

fn member(entry: &mut Map<String, Json>, section: &str, name: &str, value: String) {
    let section = entry.entry(section).or_insert_with(|| json!({}));
    if let Json::Object(map) = section {
        map.entry(name).or_insert(Json::String(value));
    }
}

/// Marks all servers but the first of each name.
fn mark_repeated(servers: &mut [FoundServer]) {
    for index in 1..servers.len() {
        let (before, rest) = servers.split_at_mut(index);
        let Some(server) = rest.first_mut().filter(|server| server.skipped.is_none()) else { continue };
        let first = before.iter().find(|first| first.name == server.name && first.skipped.is_none());
        server.skipped = first.map(|first| match first.raw == server.raw {
            true => Skipped::Duplicate(first.from.clone()),
            false => Skipped::NameConflict(first.from.clone()),
        });
    }
}
