//! Puts Toolgate into a client's configuration.

use serde_json::{Map, Value as Json, json};

use super::{Client, Roots, Scope};
use crate::edit::{self, EditError, Written};

/// The name under which clients know us.
pub const NAME: &str = "toolgate";

/// How a client is to start Toolgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, best as an absolute path: clients have their own PATH.
    pub command: String,
    /// Its arguments, such as `serve --config …`.
    pub args: Vec<String>,
}

/// Why a client was not connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It keeps no settings for single projects.
    #[error("{} has no settings for single projects", .0.word())]
    NoProjects(Client),
    /// Its file was not changed.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// Adds or renews Toolgate's entry, keeps the rest and a backup. Run twice, the second time changes nothing.
pub fn write(client: Client, scope: Scope, roots: &Roots, launch: &Launch) -> Result<Written, ConnectError> {
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
