//! Commands about MCP servers: those that are in front of agents, and those behind.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::ErrorKind;
use clap::{Args, Subcommand, ValueEnum};
use toolgate_backends::quoted;
use toolgate_mcp::server::ToolMode;

use super::programs::Interpreter;
use crate::log::LogFormat;
use crate::print::escape;

/// Which servers are meant.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Servers {
    /// The configuration file; otherwise ./toolgate.* or the one in ~/.config/toolgate
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The demo server inside this program instead of a configuration
    #[arg(long, conflicts_with = "config")]
    pub(crate) demo: bool,
    /// Use the file only if its content is trusted, also when it is named
    #[arg(long, hide_short_help = true)]
    pub(crate) require_trust: bool,
}

impl Servers {
    /// Whether any were asked for.
    pub(crate) fn are_named(&self) -> bool {
        self.demo || self.config.is_some()
    }
}

/// See `Command::Serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// What agents see: the few tools of code mode, the servers' own tools, or both
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Serve HTTP instead: MCP at /mcp, and the execution service
    ///
    /// At an address such as 127.0.0.1:7878, a port of this machine, or a Unix socket such as unix:/run/user/1000/toolgate.
    /// Without a value: at `toolgate.http.bind` of the configuration, or at 127.0.0.1:7878. Without keys, clients send the
    /// token of `toolgate.http.token_file` as a bearer token; a Unix socket is open to its user only and needs none.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) http: Option<HttpAddress>,
    /// The interpreter, whatever the configuration says; V8 needs a deno
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Interpreter>,
    /// What is logged to standard error: error, warn, info or debug, or a filter such as warn,toolgate::run=info
    ///
    /// Otherwise by the variable TOOLGATE_LOG; otherwise warnings, and over HTTP also one line for each run.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The form of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// See `Command::Ui`.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Print the link and start no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// What is logged to standard error, as for `serve`
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The form of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// Where `--http` listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HttpAddress {
    /// As configured, or at the default.
    Configured,
    /// At this port of this machine.
    Port(u16),
    /// There.
    At(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
}

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Ip(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl HttpAddress {
    /// The address, given the configured one.
    pub(crate) fn address(self, configured: Option<SocketAddr>) -> ListenAddress {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        match self {
            HttpAddress::Configured => ListenAddress::Ip(configured.unwrap_or_else(|| local(DEFAULT_PORT))),
            HttpAddress::Port(port) => ListenAddress::Ip(local(port)),
            HttpAddress::At(address) => ListenAddress::Ip(address),
            HttpAddress::Unix(path) => ListenAddress::Unix(path),
        }
    }
}

/// The port of the HTTP service where none is named.
const DEFAULT_PORT: u16 = 7878;

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(HttpAddress::Configured);
        }
        if let Ok(port) = text.parse() {
            return Ok(HttpAddress::Port(port));
        }
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(HttpAddress::Unix(path.into()));
        }
        let forms = "use an address such as 127.0.0.1:7878, a port, or unix:PATH";
        text.parse().map(HttpAddress::At).map_err(|_| forms.to_owned())
    }
}

/// What agents see.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    /// call_tool_chain, search_tools and the rest
    Code,
    /// Every tool of every server, as server__tool
    Direct,
    /// Both
    Both,
}

impl From<Mode> for ToolMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Code => ToolMode::Code,
            Mode::Direct => ToolMode::Direct,
            Mode::Both => ToolMode::Both,
        }
    }
}

/// See `Command::Init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "toolgate.json")]
    pub(crate) file: PathBuf,
}

/// See `Command::Import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// claude, claude-code, cursor, vscode, codex, gemini, windsurf, zed, opencode, cline, or a file; all clients when absent
    #[arg(value_name = "FROM")]
    pub(crate) from: Option<String>,
    /// The configuration file to add them to; otherwise the one in ~/.config/toolgate
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Also the servers that a client keeps for other projects than this folder
    #[arg(long)]
    pub(crate) all_projects: bool,
    /// Only show what would be added, what would be left out, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep literal secrets in the keyring (see `secret`) instead of in the file, without asking
    #[arg(long, conflicts_with = "keep_secrets")]
    pub(crate) move_secrets: bool,
    /// Leave literal secrets as they are, without asking
    #[arg(long)]
    pub(crate) keep_secrets: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to say about `toolgate add NAME PROGRAM ARGUMENTS…`, in which the `--` before the program was forgotten.
pub(crate) fn forgotten_dashes(error: &clap::Error) -> Option<String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let [_, command, name, program @ ..] = words.as_slice() else { return None };
    let first = program.first()?;
    let is_program = !first.starts_with('-') && !first.starts_with("http://") && !first.starts_with("https://");
    let is_add = command == "add" && !name.starts_with('-') && !program.iter().any(|word| word == "--");
    (error.kind() == ErrorKind::UnknownArgument && is_add && is_program).then(|| {
        let typed = program.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        format!("a program comes after --, as in: {}", escape::line(&format!("toolgate add {name} -- {typed}")))
    })
}

/// See `Command::Add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// How scripts will call it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The address of a server that is reached over HTTP
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The OpenAPI document of an HTTP API: a file or a URL; its operations become tools
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "command", "env"])]
    pub(crate) openapi: Option<String>,
    /// Where the requests of an HTTP API go; by default to the first server of its document
    #[arg(long, value_name = "URL", requires = "openapi")]
    pub(crate) base: Option<String>,
    /// A credential of an HTTP API, as SCHEME=VALUE; ${NAME} takes it from the environment later
    #[arg(long, value_name = "SCHEME=VALUE", requires = "openapi")]
    pub(crate) auth: Vec<String>,
    /// The id of a client that you registered at the authorization server of a server or, with --openapi, of an API
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The secret of that client; ${keyring:NAME} takes it from `toolgate secret` later
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// An OAuth scope to ask for at a login; can be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(crate) login_scope: Vec<String>,
    /// Do not connect: neither to find out whether a login is needed, nor to read the document of an HTTP API
    #[arg(long)]
    pub(crate) offline: bool,
    /// stdio or http, as other clients' commands have it; otherwise by what is given
    #[arg(long, short, value_name = "KIND", value_enum)]
    pub(crate) transport: Option<AddTransport>,
    /// An environment variable of the program, as NAME=VALUE; ${NAME} takes it from the environment later
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header of every request, as NAME=VALUE or "NAME: VALUE"
    #[arg(long, short = 'H', value_name = "NAME=VALUE")]
    pub(crate) header: Vec<String>,
    /// user: the file in ~/.config/toolgate; project: ./toolgate.json. Otherwise the file that is found
    #[arg(long, short, value_name = "SCOPE", value_enum, conflicts_with = "config")]
    pub(crate) scope: Option<AddScope>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The program to start, after --
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "url")]
    pub(crate) command: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddTransport {
    /// A program
    Stdio,
    /// Streamable HTTP
    Http,
    /// HTTP+SSE of 2024, which Toolgate does not speak; tried as Streamable HTTP
    Sse,
}

/// Which file a server is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddScope {
    /// Your own
    #[value(alias = "local")]
    User,
    /// The one of this folder
    Project,
}

/// See `Command::Remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// See `Command::Daemon`.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// End when no window has been attached for ten seconds
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// What is logged to standard error, as for `serve`
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The form of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// See `Command::Restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// See `Command::List`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `Command::Search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What the tool should do
    #[arg(value_name = "WORDS", required = true)]
    pub(crate) words: Vec<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: u16,
    /// Only tools of servers with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `Command::Describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The tool, as server.tool or alone
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `Command::Call`.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool, as server.tool or alone
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Its arguments
    #[arg(value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print the result as the server sent it, or {"error": {"code", "message"}}
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `Command::Types`.
#[derive(Debug, Args)]
pub(crate) struct TypesArgs {
    /// Write them to this file
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) out: Option<PathBuf>,
    /// Write them to toolgate.d.ts in this folder, and again whenever the tools change, until Ctrl-C
    #[arg(long, value_name = "DIR")]
    pub(crate) watch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(subcommand)]
    pub(crate) action: Option<TypesAction>,
}

/// What is done with learned types instead.
#[derive(Debug, Subcommand)]
pub(crate) enum TypesAction {
    /// Call the read-only tools of a server that need no arguments, and learn the types of their results
    Learn {
        /// The server
        #[arg(value_name = "SERVER")]
        server: String,
        #[command(flatten)]
        servers: Servers,
    },
    /// Write what was learned of results to a file: shapes, never values
    Export {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        servers: Servers,
    },
    /// Add what another gateway learned
    Import {
        /// A file that `types export` wrote
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        servers: Servers,
    },
}

/// See `Command::Connect`.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// claude, claude-code, cursor, vscode, codex, gemini, windsurf, zed, opencode or cline
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// For the project in this folder alone
    #[arg(long)]
    pub(crate) project: bool,
    /// Take the servers that Toolgate serves out of the client without asking; `disconnect` puts them back
    #[arg(long, conflicts_with = "keep")]
    pub(crate) take_over: bool,
    /// Leave the client's own servers as they are, without asking
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// What the client's agent sees
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
}

/// See `Command::Disconnect`.
#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// The client, as for `connect`
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// For the project in this folder alone
    #[arg(long)]
    pub(crate) project: bool,
}

/// See `Command::Trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The file; otherwise ./toolgate.*
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Withdraw trust in it instead
    #[arg(long)]
    pub(crate) forget: bool,
    /// List all trusted files instead
    #[arg(long, conflicts_with_all = ["file", "forget"])]
    pub(crate) list: bool,
}

/// See `Command::Config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the JSON Schema of configuration files, for editors
    Schema,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, configured: Option<&str>, expected: &str) {
        let configured = configured.map(|address| address.parse().expect("an address"));
        let found = text.parse::<HttpAddress>().map(|http| match http.address(configured) {
            ListenAddress::Ip(address) => address.to_string(),
            ListenAddress::Unix(path) => format!("unix:{}", path.display()),
        });
        assert_eq!(found.unwrap_or_else(|error| error), expected, "{text}");
    }

    #[test]
    fn http_listens_where_it_is_told_or_as_configured() {
        check("", None, "127.0.0.1:7878");
        check("", Some("0.0.0.0:80"), "0.0.0.0:80");
        check("9000", Some("0.0.0.0:80"), "127.0.0.1:9000");
        check("[::1]:1", None, "[::1]:1");
        check("unix:/run/toolgate", None, "unix:/run/toolgate");
        check("nowhere", None, "use an address such as 127.0.0.1:7878, a port, or unix:PATH");
    }
}
