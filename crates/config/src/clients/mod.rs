//! The configuration files of MCP clients: their locations and formats.
//!
//! Home directory, working directory and operating system are parameters, so that tests can set them.

pub mod connect;
pub mod import;

use std::path::{Path, PathBuf};

/// Maximum size of a client's file, in bytes. Some clients keep their history in the same file.
pub(crate) const MAX_CLIENT_FILE_BYTES: u64 = 64 << 20;

/// A supported client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Desktop.
    Claude,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// VS Code.
    VsCode,
    /// Codex.
    Codex,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claude, Self::ClaudeCode, Self::Cursor, Self::VsCode, Self::Codex];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
        }
    }

    /// By its name on the command line.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.word() == word)
    }

    /// Whether the client substitutes `${…}`. Otherwise such text is literal.
    fn fills_variables(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::VsCode => true,
            Self::Claude | Self::Codex => false,
        }
    }
}

/// The scope of a client's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All projects of the user.
    User,
    /// The project in the working directory.
    Project,
}

/// Operating systems with different locations of clients' files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// Linux and other Unix systems.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Os {
    /// The current operating system.
    pub fn current() -> Self {
        match std::env::consts::OS {
            "macos" => Self::MacOs,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

/// The directories in which clients' files are searched.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The user's home directory.
    pub home: PathBuf,
    /// The project directory.
    pub cwd: PathBuf,
    /// The operating system.
    pub os: Os,
}

impl Roots {
    /// The directory of application settings.
    fn settings(&self) -> PathBuf {
        self.home.join(match self.os {
            Os::Linux => ".config",
            Os::MacOs => "Library/Application Support",
            Os::Windows => "AppData/Roaming",
        })
    }

    /// The file of a client, if the client supports the scope.
    pub fn file(&self, client: Client, scope: Scope) -> Option<PathBuf> {
        match (client, scope) {
            (Client::Claude, Scope::User) => Some(self.settings().join("Claude/claude_desktop_config.json")),
            (Client::Claude, Scope::Project) => None,
            (Client::ClaudeCode, Scope::User) => Some(self.home.join(".claude.json")),
            (Client::ClaudeCode, Scope::Project) => Some(self.cwd.join(".mcp.json")),
            (Client::Cursor, Scope::User) => Some(self.home.join(".cursor/mcp.json")),
            (Client::Cursor, Scope::Project) => Some(self.cwd.join(".cursor/mcp.json")),
            (Client::VsCode, Scope::User) => Some(self.settings().join("Code/User/mcp.json")),
            (Client::VsCode, Scope::Project) => Some(self.cwd.join(".vscode/mcp.json")),
            (Client::Codex, Scope::User) => Some(self.home.join(".codex/config.toml")),
            (Client::Codex, Scope::Project) => Some(self.cwd.join(".codex/config.toml")),
        }
    }
}

/// The client that a file probably belongs to, by its name and directory.
fn owner(file: &Path) -> Option<Client> {
    let name = file.file_name()?.to_str()?;
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    match (folder, name) {
        (_, "claude_desktop_config.json") => Some(Client::Claude),
        (_, ".claude.json" | ".mcp.json") => Some(Client::ClaudeCode),
        (".cursor", "mcp.json") => Some(Client::Cursor),
        (".vscode" | "User", "mcp.json") => Some(Client::VsCode),
        (".codex", "config.toml") => Some(Client::Codex),
        _ => None,
    }
}
