//! Adds Toolgate to a client's configuration.

use serde_json::{Map, Value as Json, json};

use super::{Client, Roots, Scope};
use crate::edit::{self, EditError, WrittenFile};

/// The name of Toolgate's entry in the files of clients.
const NAME: &str = "toolgate";

/// The command by which a client starts Toolgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, preferably an absolute path, because the PATH of a client may differ.
    pub command: String,
    /// Its arguments, such as `serve --config …`.
    pub args: Vec<String>,
}

/// Why Toolgate was not added.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The client has no project scope.
    #[error("{} does not support settings for a single project", .0.word())]
    NoProjects(Client),
    /// The file could not be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// Adds or updates Toolgate's entry and keeps a backup. Idempotent.
pub fn write(client: Client, scope: Scope, roots: &Roots, launch: &Launch) -> Result<WrittenFile, ConnectError> {
    let file = roots.file(client, scope).ok_or(ConnectError::NoProjects(client))?;
    let section = match client {
        Client::Claude | Client::ClaudeCode | Client::Cursor => "mcpServers",
        Client::VsCode => "servers",
        Client::Codex => "mcp_servers",
    };
    Ok(edit::put_into(&file, section, NAME, &entry(client, launch))?)
}

fn entry(client: Client, launch: &Launch) -> Map<String, Json> {
    let mut entry = Map::new();
    if matches!(client, Client::VsCode | Client::ClaudeCode) {
        entry.insert("type".to_owned(), json!("stdio"));
    }
    entry.insert("command".to_owned(), json!(launch.command));
    entry.insert("args".to_owned(), json!(launch.args));
    entry
}
