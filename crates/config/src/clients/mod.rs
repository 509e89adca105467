//! The configuration files of MCP clients: their locations and formats.
//!
//! Home directory, working directory and operating system are parameters, so that tests can set them.
//!
//! # Layout
//! - [`import`]: finds servers in the files; `translate`: their entries in Toolgate's format; `opencode`: filters beside them
//! - [`connect`]: adds Toolgate to a file, takes the servers out that it serves, and undoes both

pub mod connect;
pub mod import;
mod opencode;
mod translate;

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
    /// Gemini CLI.
    Gemini,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// opencode.
    OpenCode,
    /// Cline in VS Code.
    Cline,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Claude,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Codex,
        Self::Gemini,
        Self::Windsurf,
        Self::Zed,
        Self::OpenCode,
        Self::Cline,
    ];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::OpenCode => "opencode",
            Self::Cline => "cline",
        }
    }

    /// By its name on the command line.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.word() == word)
    }

    /// The section of its file that has the servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Claude | Self::ClaudeCode | Self::Cursor | Self::Gemini | Self::Windsurf | Self::Cline => {
                "mcpServers"
            }
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            Self::OpenCode => "mcp",
        }
    }

    /// Whether the client substitutes `${…}`. Otherwise such text is literal.
    fn fills_variables(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::VsCode | Self::Gemini | Self::Windsurf => true,
            Self::Claude | Self::Codex | Self::Zed | Self::OpenCode | Self::Cline => false,
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
        let (home, cwd) = (&self.home, &self.cwd);
        Some(match (client, scope) {
            (Client::Claude, Scope::User) => self.settings().join("Claude/claude_desktop_config.json"),
            (Client::ClaudeCode, Scope::User) => home.join(".claude.json"),
            (Client::ClaudeCode, Scope::Project) => cwd.join(".mcp.json"),
            (Client::Cursor, Scope::User) => home.join(".cursor/mcp.json"),
            (Client::Cursor, Scope::Project) => cwd.join(".cursor/mcp.json"),
            (Client::VsCode, Scope::User) => self.settings().join("Code/User/mcp.json"),
            (Client::VsCode, Scope::Project) => cwd.join(".vscode/mcp.json"),
            (Client::Codex, Scope::User) => home.join(".codex/config.toml"),
            (Client::Codex, Scope::Project) => cwd.join(".codex/config.toml"),
            (Client::Gemini, Scope::User) => home.join(".gemini/settings.json"),
            (Client::Gemini, Scope::Project) => cwd.join(".gemini/settings.json"),
            (Client::Windsurf, Scope::User) => home.join(".codeium/windsurf/mcp_config.json"),
            (Client::Zed, Scope::User) if self.os == Os::Windows => self.settings().join("Zed/settings.json"),
            (Client::Zed, Scope::User) => home.join(".config/zed/settings.json"),
            (Client::Zed, Scope::Project) => cwd.join(".zed/settings.json"),
            (Client::OpenCode, Scope::User) => json_or_jsonc(&home.join(".config/opencode/opencode.json")),
            (Client::OpenCode, Scope::Project) => json_or_jsonc(&cwd.join("opencode.json")),
            (Client::Cline, Scope::User) => {
                self.settings().join("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")
            }
            (Client::Claude | Client::Windsurf | Client::Cline, Scope::Project) => return None,
        })
    }
}

/// The file, or the one with comments beside it if only that exists.
fn json_or_jsonc(file: &Path) -> PathBuf {
    let with_comments = file.with_extension("jsonc");
    if !file.is_file() && with_comments.is_file() { with_comments } else { file.to_owned() }
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
        (".gemini", "settings.json") => Some(Client::Gemini),
        ("windsurf", "mcp_config.json") => Some(Client::Windsurf),
        (".zed" | "zed" | "Zed", "settings.json") => Some(Client::Zed),
        (_, "opencode.json" | "opencode.jsonc") => Some(Client::OpenCode),
        (_, "cline_mcp_settings.json") => Some(Client::Cline),
        _ => None,
    }
}

/// The project directory of a file that belongs to a project.
fn workspace(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let inner = [".vscode", ".cursor", ".gemini", ".zed", ".codex"];
    let is_inner = folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| inner.contains(&name));
    if is_inner { folder.parent() } else { Some(folder) }
}
