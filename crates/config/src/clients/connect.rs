//! Adds Toolgate to a client's configuration, and takes it out again.
//!
//! A server that Toolgate serves should not be started by the client as well. So servers can be taken out of the client's
//! file in the same write; their entries are kept in the user's state directory until [`undo`] puts them back.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::import::{self, Projects};
use super::{Client, Roots, Scope};
use crate::checked::starts_toolgate;
use crate::edit::{ClientEdit, EditError, WrittenFile, write_private};
use crate::vars::{self, Env};

/// The name of Toolgate's entry in the files of clients.
const NAME: &str = "toolgate";

/// The command by which a client starts Toolgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLaunch {
    /// The program, preferably an absolute path, because the PATH of a client may differ.
    pub command: String,
    /// Its arguments, such as `serve --config …`.
    pub args: Vec<String>,
}

/// Why Toolgate was not added or taken out.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The client has no project scope.
    #[error("{} does not support settings for a single project", .0.word())]
    NoProjects(Client),
    /// Toolgate is not in the client's file.
    #[error("Toolgate is not in {}", .0.display())]
    NotConnected(PathBuf),
    /// The entries that were taken out cannot be kept or read.
    #[error("cannot keep the entries that are taken out of the client: {0}")]
    Moved(#[source] io::Error),
    /// The file could not be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// The entries that were taken out of clients' files, in a file of mode 0600 in the user's state directory.
#[derive(Debug, Clone)]
pub struct MovedServers {
    file: Option<PathBuf>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Moved {
    file: PathBuf,
    /// The project, where the file has sections for projects and the entry was in one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    name: String,
    entry: Map<String, Json>,
}

impl Moved {
    /// What tells entries apart.
    fn place(&self) -> (&Path, Option<&str>, &str) {
        (&self.file, self.project.as_deref(), &self.name)
    }
}

impl MovedServers {
    /// `$XDG_STATE_HOME/toolgate/moved.json`, or below `~/.local/state`.
    pub fn of(env: &Env) -> Self {
        Self { file: env.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate/moved.json")) }
    }

    fn read(&self) -> io::Result<Vec<Moved>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        match std::fs::read(file) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, moved: &[Moved]) -> io::Result<()> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("there is no home directory"))?;
        write_private(file, &serde_json::to_vec_pretty(moved)?)
    }
}

/// Adds or updates Toolgate's entry, takes the entries of `take` out, and keeps a backup: one write. Idempotent.
pub fn write(
    client: Client,
    scope: Scope,
    roots: &Roots,
    launch: &ClientLaunch,
    take: &[String],
    moved: &MovedServers,
) -> Result<WrittenFile, ConnectError> {
    let mut edit = ClientEdit::open(&file(client, scope, roots)?)?;
    edit.put(&[client.section()], NAME, &entry(client, launch))?;
    let mut taken = Vec::new();
    let own = own_project(client, scope, roots, &edit)?;
    for project in std::iter::once(None).chain(own.map(Some)) {
        for name in take {
            if let Some(Json::Object(entry)) = edit.take(&section(client, project.as_deref()), name)? {
                let (file, project) = (edit.path().to_owned(), project.clone());
                taken.push(Moved { file, project, name: name.clone(), entry });
            }
        }
    }
    if !taken.is_empty() {
        // Kept before the file is changed: an entry is in one place or in both, never in none.
        let mut all = moved.read().map_err(ConnectError::Moved)?;
        all.retain(|old| !taken.iter().any(|new| new.place() == old.place()));
        all.extend(taken);
        moved.write(&all).map_err(ConnectError::Moved)?;
    }
    Ok(edit.write()?)
}

/// The section of the project in the working directory, where the client's own file has one for each project: there Claude
/// Code keeps what `claude mcp add` adds, unless it is told otherwise.
fn own_project(client: Client, scope: Scope, roots: &Roots, edit: &ClientEdit) -> Result<Option<String>, EditError> {
    if (client, scope) != (Client::ClaudeCode, Scope::User) {
        return Ok(None);
    }
    let projects = edit.entries(&["projects"])?;
    Ok(projects.into_iter().map(|(project, _)| project).find(|project| Path::new(project) == roots.cwd))
}

/// Where the servers of a client are, or those of one of its projects.
fn section(client: Client, project: Option<&str>) -> Vec<&str> {
    match project {
        Some(project) => vec!["projects", project, client.section()],
        None => vec![client.section()],
    }
}

/// The names of the client's own servers, in this scope and in the project that it is used in, without Toolgate.
pub fn servers(client: Client, scope: Scope, roots: &Roots) -> Result<Vec<String>, ConnectError> {
    let edit = ClientEdit::open(&file(client, scope, roots)?)?;
    let mut entries = edit.entries(&[client.section()])?;
    if let Some(project) = own_project(client, scope, roots, &edit)? {
        entries.extend(edit.entries(&section(client, Some(&project)))?);
    }
    let is_toolgate = |entry: &Json| {
        let text = |key: &str| entry.get(key).and_then(Json::as_str);
        let args = entry.get("args").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        text("command").is_some_and(|command| starts_toolgate(command, args.iter().filter_map(Json::as_str)))
    };
    Ok(entries.into_iter().filter(|(name, entry)| name != NAME && !is_toolgate(entry)).map(|(name, _)| name).collect())
}

/// The client's own servers of which Toolgate has one of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedServers {
    /// Toolgate serves the same program or address.
    pub same: Vec<String>,
    /// Toolgate's server is another one, or disabled while the client's is not.
    pub different: Vec<String>,
}

/// Compares the client's own servers with those that Toolgate serves, by the entries of its configuration.
pub fn shared_servers(
    client: Client,
    scope: Scope,
    roots: &Roots,
    served: &Map<String, Json>,
) -> Result<SharedServers, ConnectError> {
    let found = import::found(client, roots, Projects::All).servers;
    let mut shared = SharedServers::default();
    for name in servers(client, scope, roots)? {
        let Some(entry) = served.get(&name).and_then(Json::as_object) else { continue };
        let mut own = found.iter().filter(|server| server.scope == scope && server.name == name).peekable();
        let is_same = own.peek().is_some() && own.all(|server| is_same_server(entry, &server.raw));
        if is_same { &mut shared.same } else { &mut shared.different }.push(name);
    }
    Ok(shared)
}

/// Whether an entry of Toolgate's configuration starts or reaches what a client's entry does. Its variables and headers may differ.
fn is_same_server(served: &Map<String, Json>, own: &Map<String, Json>) -> bool {
    let is_disabled = |entry: &Map<String, Json>| entry.get("disabled").and_then(Json::as_bool) == Some(true);
    let text = |entry: &Map<String, Json>, key: &str| entry.get(key).and_then(Json::as_str).map(str::to_owned);
    let arguments = |entry: &Map<String, Json>| match entry.get("args") {
        Some(Json::Array(args)) => args.iter().map(|arg| arg.as_str().unwrap_or_default().to_owned()).collect(),
        _ => Vec::new(),
    };
    let same_text = |key: &str| match (text(served, key), text(own, key)) {
        // A reference alone may stand for anything.
        (Some(served), Some(own)) if vars::is_reference(&served) => served == own,
        (Some(served), Some(own)) => is_same_text(&served, &own),
        (served, own) => served == own,
    };
    // A server of a project gets the folder of its file where its entry names none.
    let same_folder = text(served, "cwd").is_none() || text(own, "cwd").is_none() || same_text("cwd");
    let (ours, theirs): (Vec<String>, Vec<String>) = (arguments(served), arguments(own));
    let same_arguments =
        ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(served, own)| is_same_text(served, own));
    (!is_disabled(served) || is_disabled(own))
        && same_text("command")
        && same_text("url")
        && same_folder
        && same_arguments
}

/// Whether a text of Toolgate's configuration is a client's text, with `${…}` in place of what was moved to another place.
fn is_same_text(served: &str, own: &str) -> bool {
    let mut pieces = Vec::new();
    let mut rest = served;
    while let Some((before, (_, after))) =
        rest.split_once("${").and_then(|(before, reference)| Some((before, reference.split_once('}')?)))
    {
        pieces.push(before);
        rest = after;
    }
    let Some((first, middle)) = pieces.split_first() else { return served == own };
    let Some(mut left) = own.strip_prefix(first).and_then(|own| own.strip_suffix(rest)) else { return served == own };
    for piece in middle {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    true
}

/// Whether the client starts Toolgate, in general or in the working directory.
pub fn is_connected(client: Client, roots: &Roots) -> bool {
    let has_entry = |file: PathBuf| {
        let entries = ClientEdit::open(&file).and_then(|edit| edit.entries(&[client.section()]));
        entries.is_ok_and(|entries| entries.contains_key(NAME))
    };
    [Scope::User, Scope::Project].into_iter().filter_map(|scope| roots.file(client, scope)).any(has_entry)
}

/// Takes Toolgate's entry out and puts the entries back that [`write()`] took out; returns their names.
pub fn undo(
    client: Client,
    scope: Scope,
    roots: &Roots,
    moved: &MovedServers,
) -> Result<(WrittenFile, Vec<String>), ConnectError> {
    let mut edit = ClientEdit::open(&file(client, scope, roots)?)?;
    let kept = moved.read().map_err(ConnectError::Moved)?;
    let (back, others): (Vec<Moved>, Vec<Moved>) = kept.into_iter().partition(|moved| moved.file == edit.path());
    if edit.take(&[client.section()], NAME)?.is_none() && back.is_empty() {
        return Err(ConnectError::NotConnected(edit.path().to_owned()));
    }
    let mut names = Vec::new();
    for moved in &back {
        let section = section(client, moved.project.as_deref());
        if !edit.entries(&section)?.contains_key(&moved.name) {
            edit.put(&section, &moved.name, &moved.entry)?;
            names.push(moved.name.clone());
        }
    }
    let written = edit.write()?;
    if !back.is_empty() {
        moved.write(&others).map_err(ConnectError::Moved)?;
    }
    Ok((written, names))
}

/// What the user does next, so that the client uses Toolgate.
pub fn next_step(client: Client) -> &'static str {
    match client {
        Client::Claude => "quit Claude Desktop and start it again; toolgate is then among its tools",
        Client::ClaudeCode => "start `claude` anew; /mcp shows toolgate",
        Client::Cursor => "Cursor asks whether to enable toolgate, or Settings > MCP shows it",
        Client::VsCode => "VS Code asks whether to trust toolgate when a chat first uses it",
        Client::Codex => {
            "start `codex` anew; its calls of Toolgate are approved in advance, so that `codex exec` can make them"
        }
        Client::Gemini => "start `gemini` anew; /mcp shows toolgate",
        Client::Windsurf => "refresh the MCP servers in Windsurf's Cascade panel",
        Client::Zed => "Zed starts toolgate by itself; the agent panel's settings show it",
        Client::OpenCode => "start `opencode` anew; `opencode mcp list` shows toolgate",
        Client::Cline => "Cline picks it up by itself; its MCP servers panel shows toolgate",
    }
}

fn file(client: Client, scope: Scope, roots: &Roots) -> Result<PathBuf, ConnectError> {
    roots.file(client, scope).ok_or(ConnectError::NoProjects(client))
}

fn entry(client: Client, launch: &ClientLaunch) -> Map<String, Json> {
    let ClientLaunch { command, args } = launch;
    let entry = match client {
        Client::Claude | Client::Cursor | Client::Windsurf | Client::Gemini | Client::Cline => {
            json!({ "command": command, "args": args })
        }
        Client::VsCode => json!({ "type": "stdio", "command": command, "args": args }),
        // Otherwise Claude Code defers the tools, and its model has to find them first.
        Client::ClaudeCode => json!({ "type": "stdio", "command": command, "args": args, "alwaysLoad": true }),
        // Otherwise `codex exec`, which cannot ask, cancels every call.
        Client::Codex => json!({ "command": command, "args": args, "default_tools_approval_mode": "approve" }),
        Client::Zed => json!({ "source": "custom", "enabled": true, "command": command, "args": args, "env": {} }),
        Client::OpenCode => {
            let words: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({ "type": "local", "command": words, "enabled": true })
        }
    };
    match entry {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_stands_for_what_was_moved() {
        for (served, own, same) in [
            ("npx", "npx", true),
            ("npx", "uvx", false),
            ("--token=${keyring:a.token}", "--token=abc", true),
            ("${keyring:a.token}", "abc", true),
            ("https://${env:U}:${env:P}@a.example/mcp", "https://bob:secret@a.example/mcp", true),
            ("https://${env:U}@a.example/mcp", "https://bob@b.example/mcp", false),
            ("${HOME}/x", "${HOME}/x", true),
            ("a${b", "a${b", true),
            ("ab${c}bc", "abc", false),
        ] {
            assert_eq!(is_same_text(served, own), same, "{served} {own}");
        }
    }
}
