//! The configuration files of MCP clients: where they are and how they spell a server.
//!
//! Home, working folder and operating system are given, not asked for, so that tests need no real ones.

pub mod connect;
pub mod import;

use std::path::{Path, PathBuf};

/// A client whose files are known.
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

    /// Whether it fills in `${…}` itself. Where it doesn't, such text is meant literally.
    fn fills_variables(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::VsCode => true,
            Self::Claude | Self::Codex => false,
        }
    }
}

/// Whose settings: those for all projects, or those of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All projects of the user.
    User,
    /// The project in the working folder.
    Project,
}

/// The kinds of systems on which clients keep their files in different places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// Linux and its like.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Os {
    /// The one we run on.
    pub fn current() -> Self {
        match std::env::consts::OS {
            "macos" => Self::MacOs,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

/// Where clients' files are looked for.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The user's home folder.
    pub home: PathBuf,
    /// The project's folder.
    pub cwd: PathBuf,
    /// The system.
    pub os: Os,
}

impl Roots {
    /// Where programs keep their settings.
    fn settings(&self) -> PathBuf {
        self.home.join(match self.os {
            Os::Linux => ".config",
            Os::MacOs => "Library/Application Support",
            Os::Windows => "AppData/Roaming",
        })
    }

    /// A client's file, if it has one of that scope.
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

/// The client that a file most likely belongs to, by its name and folder.
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
