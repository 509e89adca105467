//! Imports servers from the files of MCP clients.
//!
//! Entries are translated to Toolgate's format; Toolgate's own entry is skipped. Nothing is executed and nothing is
//! written here. Whether a project's file may be used is decided by the caller: it may belong to a foreign repository.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

pub use super::translate::DroppedKey;
use super::translate::{Translated, translate};
use super::{Client, MAX_CLIENT_FILE_BYTES, Roots, Scope, opencode, owner, workspace};
use crate::checked::starts_toolgate;
use crate::problem::{Problem, ProblemSeverity};
use crate::raw::{Location, RawSetting as _, Reader, Server};
use crate::text::tree::{Entry, Node};
use crate::text::{Format, Source};
use crate::values::BackendName;

/// A server found in a client's file.
#[derive(Clone, PartialEq)]
pub struct FoundServer {
    /// Its name.
    pub name: String,
    /// The translated entry. Not printed, because it may contain secrets.
    pub raw: Map<String, Json>,
    /// Its settings for `toolgate.backends`: tool filters.
    pub settings: Map<String, Json>,
    /// The file that contains it.
    pub from: PathBuf,
    /// Whether the file is the user's or comes with the project.
    pub scope: Scope,
    /// Its project, if the file has sections for projects.
    pub project: Option<String>,
    /// Keys of the client without an equivalent.
    pub dropped: Vec<DroppedKey>,
    /// Why it is not imported; `None` if it is.
    pub skipped: Option<SkippedServer>,
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
pub enum SkippedServer {
    /// It is Toolgate.
    #[error("this is Toolgate itself")]
    Toolgate,
    /// An earlier file has the same server.
    #[error("already found in {}", .0.display())]
    Duplicate(PathBuf),
    /// An earlier file has a different server of this name.
    #[error("another server of this name was found in {}", .0.display())]
    NameConflict(PathBuf),
    /// It belongs to another project, whose servers were not asked for.
    #[error("belongs to the project {0}; --all-projects takes it too")]
    OtherProject(String),
    /// Its file came with the working directory and is not trusted.
    #[error("{path} comes with this folder and is not trusted; look at it, then name it: toolgate import {path}", path = .0.display())]
    Untrusted(PathBuf),
    /// It uses `${input:…}`, which the client asks its user for.
    #[error("needs the input {0}, which Toolgate cannot ask for; add the server by hand with an environment variable")]
    NeedsInput(String),
    /// The entry is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// Of which projects servers are imported, where a client keeps several in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projects {
    /// The working directory.
    Current,
    /// All.
    All,
}

/// The servers of a client, and what is wrong with those of its files that cannot be read.
#[derive(Debug, Clone)]
pub struct ClientServers {
    /// All servers of the files that can be read, those of the project first.
    pub servers: Vec<FoundServer>,
    /// Why a file cannot be read. It does not hide the servers of another one.
    pub problems: Vec<Problem>,
}

/// All servers of a client. Missing files are ignored.
pub fn found(client: Client, roots: &Roots, projects: Projects) -> ClientServers {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for scope in [Scope::Project, Scope::User] {
        let Some(file) = roots.file(client, scope).filter(|file| file.is_file()) else { continue };
        if scope == Scope::Project && Some(&file) == roots.file(client, Scope::User).as_ref() {
            // In the home directory, both are the user's.
            continue;
        }
        match servers_of(&file, Some(client), Some(&roots.cwd), scope) {
            Ok(more) => servers.extend(more),
            Err(more) => problems.extend(more),
        }
    }
    let is_here = |server: &FoundServer| server.project.as_deref().map(Path::new) == Some(&roots.cwd);
    // The user's settings for this project take precedence over the project's own file.
    servers.sort_by_key(|server| !is_here(server));
    if client == Client::ClaudeCode {
        disable_rejected(&mut servers, roots);
    }
    if client == Client::OpenCode {
        let [user, project] = [Scope::User, Scope::Project].map(|scope| tool_rules(roots.file(client, scope)));
        for server in &mut servers {
            // What a project shows again is shown of the servers of the project alone.
            let own = if server.scope == Scope::Project { project.as_slice() } else { &[] };
            opencode::filter(server, user.iter().chain(own));
        }
    }
    for server in servers.iter_mut().filter(|server| projects == Projects::Current && server.skipped.is_none()) {
        if let Some(project) = server.project.clone().filter(|_| !is_here(server)) {
            server.skipped = Some(SkippedServer::OtherProject(project));
        }
    }
    mark_repeated(&mut servers);
    ClientServers { servers, problems }
}

/// All servers of one file, of any client. Naming the file is consent to its content.
pub fn found_in(file: &Path) -> Result<Vec<FoundServer>, Vec<Problem>> {
    let mut servers = servers_of(file, owner(file), None, Scope::User)?;
    if owner(file) == Some(Client::OpenCode) {
        let rules = tool_rules(Some(file.to_owned()));
        servers.iter_mut().for_each(|server| opencode::filter(server, rules.iter()));
    }
    mark_repeated(&mut servers);
    Ok(servers)
}

/// The tool filters of a file of opencode; none if it cannot be read, which is reported with its servers.
fn tool_rules(file: Option<PathBuf>) -> Vec<opencode::ToolRule> {
    let source = file.and_then(|file| Source::open_within(&file, MAX_CLIENT_FILE_BYTES).ok());
    source.and_then(|source| source.tree().ok()).map(|tree| opencode::rules(&tree)).unwrap_or_default()
}

fn servers_of(
    file: &Path,
    client: Option<Client>,
    cwd: Option<&Path>,
    scope: Scope,
) -> Result<Vec<FoundServer>, Vec<Problem>> {
    let source = Source::open_within(file, MAX_CLIENT_FILE_BYTES).map_err(|problem| vec![*problem])?;
    let tree = source.tree()?;
    let mut servers = Vec::new();
    let mut take = |section: Option<&Node>, project: Option<&str>| {
        let entries = section.and_then(Node::entries).unwrap_or_default();
        servers.extend(entries.iter().map(|entry| server(&source, client, entry, scope, project)));
    };
    // The precedence of Claude Code: settings of this project, then of the user.
    let projects = tree.get("projects").and_then(Node::entries).unwrap_or_default();
    let (here, elsewhere): (Vec<&Entry>, Vec<&Entry>) =
        projects.iter().partition(|project| cwd.is_some_and(|cwd| Path::new(&project.key) == cwd));
    for project in here {
        take(project.node.get("mcpServers"), Some(&project.key));
    }
    if client == Some(Client::OpenCode) {
        take(tree.get("mcp"), None);
    } else {
        for section in ["mcpServers", "servers", "mcp_servers", "context_servers"] {
            take(tree.get(section), None);
        }
        take(tree.get("mcp").and_then(|mcp| mcp.get("servers")), None);
    }
    for project in elsewhere {
        take(project.node.get("mcpServers"), Some(&project.key));
    }
    if client == Some(Client::Gemini) {
        disable_excluded(&mut servers, &tree);
    }
    Ok(servers)
}

fn server(source: &Source, client: Option<Client>, entry: &Entry, scope: Scope, project: Option<&str>) -> FoundServer {
    let folder = match (project, scope) {
        (Some(project), _) => Some(Path::new(project)),
        (None, Scope::Project) => workspace(source.file()),
        (None, Scope::User) => inner_workspace(source.file()),
    };
    let Translated { entry: raw, settings, dropped } = translate(client, entry.node.to_json(), folder);
    let skipped = reason_to_skip(source, &entry.key, &entry.node, &raw);
    FoundServer {
        name: entry.key.clone(),
        raw,
        settings,
        from: source.file().to_owned(),
        scope,
        project: project.map(str::to_owned),
        dropped,
        skipped,
    }
}

/// The project directory of a file in `.vscode` or `.cursor` that was named.
fn inner_workspace(file: &Path) -> Option<&Path> {
    let folder = file.parent()?.file_name()?;
    let is_users = std::env::home_dir().is_some_and(|home| workspace(file) == Some(&home));
    if (folder == ".vscode" || folder == ".cursor") && !is_users { workspace(file) } else { None }
}

fn reason_to_skip(source: &Source, name: &str, node: &Node, raw: &Map<String, Json>) -> Option<SkippedServer> {
    if let Err(message) = BackendName::new(name) {
        return Some(SkippedServer::Invalid(message));
    }
    if node.entries().is_none() {
        return Some(SkippedServer::Invalid("must be an object".to_owned()));
    }
    if let Some(message) = first_error(source.file(), raw) {
        return Some(SkippedServer::Invalid(message));
    }
    let text = |key: &str| raw.get(key).and_then(Json::as_str);
    let args = raw.get("args").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    if text("command").is_some_and(|command| starts_toolgate(command, args.iter().filter_map(Json::as_str))) {
        return Some(SkippedServer::Toolgate);
    }
    if text("command").is_none() && text("url").is_none() {
        return Some(SkippedServer::Invalid("the server has neither a command nor a url".to_owned()));
    }
    first_input(&Json::Object(raw.clone())).map(SkippedServer::NeedsInput)
}

/// The first error of a translated entry.
fn first_error(file: &Path, raw: &Map<String, Json>) -> Option<String> {
    let source = Source::new(file, Format::Json, Json::Object(raw.clone()).to_string());
    let node = source.tree().ok()?;
    let mut reader = Reader { source: &source, problems: Vec::new() };
    Server::read(&node, &Location { span: node.span, path: String::new() }, &mut reader);
    let problem = reader.problems.into_iter().find(|problem| problem.severity == ProblemSeverity::Error)?;
    let prefix = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
    Some(format!("{prefix}{}", problem.message))
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

/// Keeps the decision of a user of Claude Code against servers of a project's `.mcp.json`.
fn disable_rejected(servers: &mut [FoundServer], roots: &Roots) {
    let file = roots.file(Client::ClaudeCode, Scope::User);
    let Some(source) = file.and_then(|file| Source::open_within(&file, MAX_CLIENT_FILE_BYTES).ok()) else { return };
    let Ok(tree) = source.tree() else { return };
    let projects = tree.get("projects").and_then(Node::entries).unwrap_or_default();
    let Some(here) = projects.iter().find(|project| Path::new(&project.key) == roots.cwd) else { return };
    let here = here.node.to_json();
    for server in servers.iter_mut() {
        let list = match (server.scope, &server.project) {
            (Scope::Project, _) => "disabledMcpjsonServers",
            (Scope::User, Some(project)) if Path::new(project) == roots.cwd => "disabledMcpServers",
            (Scope::User, _) => continue,
        };
        if names(here.get(list)).contains(&server.name.as_str()) {
            server.raw.insert("disabled".to_owned(), json!(true));
        }
    }
}

/// Gemini CLI names the servers that it starts, or does not start, in `mcp`.
fn disable_excluded(servers: &mut [FoundServer], tree: &Node) {
    let mcp = tree.get("mcp").map(Node::to_json).unwrap_or_default();
    let (allowed, excluded) = (mcp.get("allowed"), names(mcp.get("excluded")));
    for server in servers {
        let name = server.name.as_str();
        if excluded.contains(&name) || (allowed.is_some() && !names(allowed).contains(&name)) {
            server.raw.insert("disabled".to_owned(), json!(true));
        }
    }
}

fn names(list: Option<&Json>) -> Vec<&str> {
    list.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
}

/// Marks all servers but the first of each name.
pub fn mark_repeated(servers: &mut [FoundServer]) {
    for index in 1..servers.len() {
        let (before, rest) = servers.split_at_mut(index);
        let Some(server) = rest.first_mut().filter(|server| server.skipped.is_none()) else { continue };
        let first = before.iter().find(|first| first.name == server.name && first.skipped.is_none());
        server.skipped = first.map(|first| match (&first.raw, &first.settings) == (&server.raw, &server.settings) {
            true => SkippedServer::Duplicate(first.from.clone()),
            false => SkippedServer::NameConflict(first.from.clone()),
        });
    }
}
