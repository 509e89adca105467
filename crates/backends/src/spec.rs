//! What the user asked for: one backend, how to reach it and how far to trust its speed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::login::LoginSpec;
use super::openapi::ApiSpec;
use toolgate_catalog::Tool;
use toolgate_catalog::cache::ChangedTool;
use toolgate_mcp::client::{InheritedEnv, Redactor, StdioSandbox};
use toolgate_mcp::protocol::Era;

/// One MCP server of the user's.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSpec {
    /// The name the user gave it, unique within a configuration.
    pub name: String,
    /// How it is reached.
    pub kind: BackendKind,
    /// Secrets of its command, its arguments or its URL, which are not shown.
    pub secrets: Redactor,
    /// How long one call may take once the backend has it.
    pub timeout: Duration,
    /// How long a connection may take to answer for the first time; `npx` may download first.
    pub start_timeout: Duration,
    /// How many calls it works on at the same time; the rest wait their turn.
    pub max_concurrent_calls: usize,
    /// How many calls may wait before new ones are turned away.
    pub max_queued_calls: usize,
    /// The largest single message it may send, in bytes.
    pub max_message: usize,
    /// What a child process inherits of the environment of this process.
    pub inherit_env: InheritedEnv,
    /// The sandbox that a child process is started in.
    pub sandbox: Option<StdioSandbox>,
    /// The protocol era it spoke last time: tried first.
    pub era_hint: Option<Era>,
    /// When silence is looked into.
    pub probe: Probe,
    /// When it is started.
    pub start: StartTime,
    /// What is known of its tools from an earlier start, to notice that one says something else now.
    pub known: KnownTools,
}

/// What is known of a backend's tools from an earlier start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownTools {
    /// As it listed them last.
    pub tools: Vec<Tool>,
    /// Those that changed what they say, oldest first.
    pub changed: Vec<ChangedTool>,
}

/// When a backend is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartTime {
    /// At once.
    #[default]
    Now,
    /// When something of it is needed: its tools are known from the cache.
    WhenNeeded,
}

impl BackendSpec {
    /// A backend with the usual bounds.
    pub fn new(name: impl Into<String>, kind: BackendKind) -> Self {
        Self {
            name: name.into(),
            kind,
            secrets: Redactor::default(),
            timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(60),
            max_concurrent_calls: 16,
            max_queued_calls: 1024,
            max_message: 64 << 20,
            inherit_env: InheritedEnv::Basic,
            sandbox: None,
            era_hint: None,
            probe: Probe::default(),
            start: StartTime::Now,
            known: KnownTools::default(),
        }
    }

    /// Removes what is secret from what people and programs are shown of it.
    pub(crate) fn redactor(&self) -> Redactor {
        let own = match &self.kind {
            BackendKind::Stdio { env, .. } => Redactor::new(env),
            BackendKind::Http { headers, .. } => Redactor::new(headers),
            BackendKind::OpenApi(api) => {
                Redactor::new(&api.auth).and(Redactor::new(&api.headers.iter().cloned().collect()))
            }
        };
        let client = self.kind.login().and_then(|login| login.settings.client.preregistered.as_ref());
        let client_secret = client.and_then(|client| client.secret.as_ref()).map(|secret| secret.expose());
        own.and_values(client_secret).and(self.secrets.clone())
    }
}

/// How a backend is reached.
#[derive(Clone, PartialEq)]
pub enum BackendKind {
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program, looked up in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables besides the few that every child inherits.
        env: BTreeMap<String, String>,
        /// Where it runs; ours if absent.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks Streamable HTTP.
    Http {
        /// The MCP endpoint.
        url: String,
        /// Sent with every request, such as `Authorization`.
        headers: BTreeMap<String, String>,
        /// How to log in if the server asks for it.
        login: Option<Box<LoginSpec>>,
    },
    /// An HTTP API with an OpenAPI document, called in this process.
    OpenApi(Box<ApiSpec>),
}

impl BackendKind {
    /// The setting with the scopes of the login, as the configuration spells it.
    pub(crate) fn scopes_setting(&self) -> String {
        match self {
            Self::OpenApi(api) => match &api.login {
                Some((scheme, _)) => format!("auth.{scheme}.scopes"),
                None => "auth.scopes".to_owned(),
            },
            Self::Http { .. } | Self::Stdio { .. } => "auth.scopes".to_owned(),
        }
    }

    /// How to log in, where that is possible.
    pub fn login(&self) -> Option<&LoginSpec> {
        match self {
            Self::Http { login, .. } => login.as_deref(),
            Self::OpenApi(api) => api.login.as_ref().map(|(_, login)| login),
            Self::Stdio { .. } => None,
        }
    }
}

/// Values of variables and headers are secrets as a rule, so only their names are shown.
impl fmt::Debug for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys())
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers, login } => f
                .debug_struct("Http")
                .field("url", url)
                .field("headers", &headers.keys())
                .field("login", &login.as_ref().map(|login| &login.settings.name))
                .finish(),
            Self::OpenApi(api) => f.debug_tuple("OpenApi").field(api).finish(),
        }
    }
}

/// When a silent backend is asked whether it still lives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Silence that long, with nothing in flight, is looked into.
    pub idle: Duration,
    /// A probe without an answer for that long means it is gone.
    pub timeout: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), timeout: Duration::from_secs(10) }
    }
}
