//! Validates the servers: how to start or connect to each, and its policy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::checker::Checker;
use super::envfile;
use super::login::{self, LoginSettings};
use super::openapi::{self, OpenApi};
use super::parts::FilePart;
use super::server_sandbox::{self, ServerSandbox};
use crate::raw::reader::closest;
use crate::raw::{self, Located, Location, RawText, StringMap};
use crate::values::{BackendName, Endpoint, Glob, Secret, Setting, Start, TransportKind};

/// A configured server.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendConfig {
    /// How to start or connect to it. A change requires a restart.
    pub transport: BackendTransport,
    /// Its limits and filters. A change applies without a restart.
    pub policy: BackendPolicy,
}

/// How to start or connect to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendTransport {
    /// A child process.
    Stdio(Process),
    /// Streamable HTTP.
    Http(Remote),
    /// An HTTP API that a document describes.
    OpenApi(Box<OpenApi>),
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// A name that is searched on PATH, or an absolute path.
    pub command: PathBuf,
    /// Its arguments; secret, because they may contain tokens.
    pub args: Vec<Secret>,
    /// Environment variables in addition to the inherited ones.
    pub env: BTreeMap<String, Secret>,
    /// Whether it inherits the whole environment of this process.
    pub inherit_env: bool,
    /// Its working directory; `None` inherits ours, or means a folder of its own in a sandbox.
    pub cwd: Option<PathBuf>,
    /// The sandbox that it is started in.
    pub sandbox: Option<ServerSandbox>,
}

/// A server to connect to.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// Its URL.
    pub url: Endpoint,
    /// Headers of each request; names and values are valid.
    pub headers: Vec<(String, Secret)>,
    /// How to log in there; `None` where a header does.
    pub login: Option<Box<LoginSettings>>,
}

/// Limits and filters of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendPolicy {
    /// Timeout of one call.
    pub timeout: Duration,
    /// Maximum number of concurrent calls.
    pub max_concurrent_calls: usize,
    /// Patterns of the tools to show; `None` means all.
    pub allow: Option<Vec<Glob>>,
    /// Patterns of the tools to hide; takes precedence over `allow`.
    pub deny: Vec<Glob>,
    /// Additional search words for its tools.
    pub tags: Vec<String>,
    /// Whether its tools are prefixed with its name in direct mode.
    pub prefix: bool,
    /// Whether the types of results that its tools do not declare are learned.
    pub learn_types: bool,
    /// When it is started.
    pub start: Start,
    /// What it is for, in a phrase.
    pub description: Option<String>,
    /// What its tools do, by patterns of their names; the most specific are last.
    pub tools: Vec<(Glob, ToolTraits)>,
}

/// What the configuration says that a tool does; `None` where it says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// A call changes nothing.
    pub read_only: Option<bool>,
    /// A call may change or delete what is there.
    pub destructive: Option<bool>,
    /// A call may be made again with the same arguments.
    pub idempotent: Option<bool>,
    /// A call may reach beyond a closed system.
    pub open_world: Option<bool>,
}

impl ToolTraits {
    /// What is set, by the names of the annotations of MCP.
    pub fn hints(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let all = [
            ("readOnlyHint", self.read_only),
            ("destructiveHint", self.destructive),
            ("idempotentHint", self.idempotent),
            ("openWorldHint", self.open_world),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

impl BackendPolicy {
    /// Whether a tool is shown and may be called.
    pub fn permits(&self, tool: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        self.allow.as_deref().is_none_or(any) && !any(&self.deny)
    }

    /// What the configuration says that a tool does. A more specific pattern replaces what contradicts it: a tool that it says
    /// changes nothing is not destructive, and the other way round.
    pub fn traits_of(&self, tool: &str) -> ToolTraits {
        let said = self.tools.iter().filter(|(glob, _)| glob.matches(tool)).map(|(_, traits)| *traits);
        said.fold(ToolTraits::default(), |before, own| ToolTraits {
            read_only: own.read_only.or(before.read_only.filter(|set| !set || own.destructive != Some(true))),
            destructive: own.destructive.or(before.destructive.filter(|set| !set || own.read_only != Some(true))),
            idempotent: own.idempotent.or(before.idempotent),
            open_world: own.open_world.or(before.open_world),
        })
    }
}

/// The defaults of servers without their own settings.
pub(super) struct Defaults {
    pub(super) timeout: Duration,
    max_concurrent_calls: usize,
    start: Start,
}

impl Defaults {
    pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Limits, toolgate: &raw::Toolgate) -> Self {
        Self {
            start: checker.get(&toolgate.start).unwrap_or(Start::Lazy),
            timeout: checker.period(&raw.call_timeout).unwrap_or(Duration::from_secs(30)),
            max_concurrent_calls: checker.count(&raw.max_concurrent_calls, CONCURRENCY_RANGE).unwrap_or(16),
        }
    }
}

const CONCURRENCY_RANGE: std::ops::RangeInclusive<usize> = 1..=1024;

/// The servers of a file.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) backends: BTreeMap<BackendName, BackendConfig>,
    pub(super) disabled: Vec<BackendName>,
    /// All names, including servers with problems, so that references to these are not reported as well.
    pub(super) names: BTreeSet<BackendName>,
    /// Those with values that commands print.
    pub(super) commanded: BTreeSet<BackendName>,
}

/// Checks all servers of a file.
pub(super) fn check(
    checker: &mut Checker<'_>,
    file: &raw::File,
    toolgate: &raw::Toolgate,
    defaults: &Defaults,
) -> Servers {
    let own = toolgate.backends.as_ref().map(|own| own.value.0.as_slice()).unwrap_or_default();
    let mut servers = Servers::default();
    let sections = [&file.mcp_servers, &file.servers];
    for (key, server) in sections.into_iter().flatten().flat_map(|section| &section.value.0) {
        let Some(name) = new_name(checker, key, &mut servers) else { continue };
        // A disabled server is not validated: its variables need not be set.
        if super::flag(&server.value.disabled, false) || !super::flag(&server.value.enabled, true) {
            servers.disabled.push(name);
            continue;
        }
        let own = own.iter().find(|(own, _)| own.value == key.value).map(|(_, own)| own.value.clone());
        let own = own.unwrap_or_default();
        let uses = checker.command_uses();
        let policy = policy(checker, &server.value, &own, defaults);
        let transport = transport(checker, key, server, &own);
        if checker.command_uses() > uses {
            servers.commanded.insert(name.clone());
        }
        if let Some(transport) = transport {
            servers.backends.insert(name, BackendConfig { transport, policy });
        }
    }
    for key in sections.into_iter().flatten().flat_map(|section| &section.value.1) {
        new_name(checker, key, &mut servers);
    }
    assign_settings(checker, toolgate, &servers.names);
    servers
}

/// The name of a server that no server before it has. What is wrong in its entry is a problem of this server.
fn new_name(checker: &mut Checker<'_>, key: &Located<String>, servers: &mut Servers) -> Option<BackendName> {
    let name = match BackendName::new(&key.value) {
        Ok(name) => name,
        Err(message) => {
            checker.parts.add(&key.place, FilePart::NamelessServer);
            checker.wrong(&key.place, message, "");
            return None;
        }
    };
    checker.parts.add(&key.place, FilePart::Server(name.clone()));
    if !servers.names.insert(name.clone()) {
        checker.wrong(&key.place, "the server is in both mcpServers and servers", "remove one of the two entries");
        return None;
    }
    Some(name)
}

/// Says whose problems those of `toolgate.backends` are, and reports settings of servers that do not exist.
///
/// Where a server without settings has almost the name, it is the one that they are probably for. Then it is not started:
/// the settings may be what hides its tools.
fn assign_settings(checker: &mut Checker<'_>, toolgate: &raw::Toolgate, names: &BTreeSet<BackendName>) {
    let Some(Located { value: raw::Table(rows, unreadable), .. }) = &toolgate.backends else { return };
    let keys: Vec<&Located<String>> = rows.iter().map(|(key, _)| key).chain(unreadable).collect();
    let known: Vec<&str> = names.iter().map(BackendName::as_str).collect();
    for key in &keys {
        if let Some(name) = names.get(key.value.as_str()) {
            checker.parts.add(&key.place, FilePart::Server(name.clone()));
            continue;
        }
        let near = closest(&key.value, &known);
        let has_settings = |name: &str| keys.iter().any(|key| key.value == name);
        let meant = near.filter(|near| !has_settings(near)).and_then(|near| names.get(near));
        let row = rows.iter().find(|(name, _)| name.value == key.value).map(|(_, row)| &row.value);
        match meant.cloned() {
            Some(name) => checker.parts.add(&key.place, FilePart::Server(name)),
            // A server that was renamed would start without what hides its tools, or without its sandbox.
            None if row.is_none_or(restricts) && names.iter().any(|name| !has_settings(name.as_str())) => {}
            None => checker.parts.add(&key.place, FilePart::Orphan),
        }
        let help = near.map(|near| format!("did you mean {near}?")).unwrap_or_default();
        checker.wrong(&key.place, "no server of this name in mcpServers", help);
    }
}

/// Whether settings of a server take something away from it.
fn restricts(row: &raw::Backend) -> bool {
    row.allow.is_some() || row.deny.is_some() || row.sandbox.is_some() || row.tools.is_some()
}

fn policy(checker: &mut Checker<'_>, server: &raw::Server, own: &raw::Backend, defaults: &Defaults) -> BackendPolicy {
    let foreign = checker.get(&server.timeout);
    if let (Some(millis), Some(setting), None) = (foreign, &server.timeout, &own.timeout)
        && millis.doubtful
    {
        let message = "a number without a unit means milliseconds here, which is very short";
        checker.warn(&setting.place, message, "add a unit, such as \"30s\"");
    }
    let timeout = checker.period(&own.timeout).or(foreign.map(|millis| millis.period.get()));
    let concurrency = checker.count(&own.max_concurrent_calls, CONCURRENCY_RANGE);
    BackendPolicy {
        timeout: timeout.unwrap_or(defaults.timeout),
        max_concurrent_calls: concurrency.unwrap_or(defaults.max_concurrent_calls),
        allow: checker.list(&own.allow),
        deny: checker.list(&own.deny).unwrap_or_default(),
        tags: checker.list(&own.tags).unwrap_or_default(),
        prefix: super::flag(&own.prefix, true),
        learn_types: super::flag(&own.learn_types, true),
        start: checker.get(&own.start).or(checker.get(&server.start)).unwrap_or(defaults.start),
        description: description(server),
        tools: tool_traits(checker, own),
    }
}

/// What the tools of a server do. Patterns are sorted by their letters: an exact name has the most.
fn tool_traits(checker: &mut Checker<'_>, own: &raw::Backend) -> Vec<(Glob, ToolTraits)> {
    let mut said = Vec::new();
    for (pattern, raw) in own.tools.as_ref().map(|tools| tools.value.0.as_slice()).unwrap_or_default() {
        let flag = |flag: &Option<Located<bool>>| flag.as_ref().map(|flag| flag.value);
        let raw = &raw.value;
        let traits = ToolTraits {
            read_only: flag(&raw.read_only),
            destructive: flag(&raw.destructive),
            idempotent: flag(&raw.idempotent),
            open_world: flag(&raw.open_world),
        };
        if traits.read_only == Some(true) && traits.destructive == Some(true) {
            checker.wrong(&pattern.place, "a tool that changes nothing cannot be destructive", "remove one of the two");
        }
        match Glob::parse(&pattern.value) {
            Ok(glob) => said.push((glob, traits)),
            Err(message) => checker.wrong(&pattern.place, message, ""),
        }
    }
    said.sort_by_key(|(glob, _)| {
        let text = glob.to_string();
        (text.chars().filter(|c| !['*', '?'].contains(c)).count(), !text.contains(['*', '?']), text)
    });
    said
}

/// Written by people for people: as it is, without substitution.
fn description(server: &raw::Server) -> Option<String> {
    let phrase = server.description.as_ref()?.value.text.trim();
    (!phrase.is_empty()).then(|| phrase.to_owned())
}

fn transport(
    checker: &mut Checker<'_>,
    name: &Located<String>,
    server: &Located<raw::Server>,
    own: &raw::Backend,
) -> Option<BackendTransport> {
    let mut transport = plain_transport(checker, name, server)?;
    let written = if own.sandbox.is_some() { &own.sandbox } else { &server.value.sandbox };
    match (&mut transport, written) {
        (BackendTransport::Stdio(process), _) => process.sandbox = server_sandbox::check(checker, &name.value, written),
        (_, Some(written)) => checker.warn(&written.place, "has an effect on stdio servers only", ""),
        (_, None) => {}
    }
    Some(transport)
}

/// The transport, outside a sandbox.
fn plain_transport(
    checker: &mut Checker<'_>,
    name: &Located<String>,
    server: &Located<raw::Server>,
) -> Option<BackendTransport> {
    let raw = &server.value;
    // An invalid type is reported once; do not report its consequences as well.
    let kind = match &raw.kind {
        Some(kind) => Some(checker.parse(kind)?),
        None => None,
    };
    match (kind, &raw.command, &raw.url) {
        (Some(TransportKind::OpenApi), _, _) => {
            openapi::check(checker, name, raw).map(|api| BackendTransport::OpenApi(Box::new(api)))
        }
        (Some(TransportKind::Stdio) | None, Some(command), None) => {
            process(checker, raw, command).map(BackendTransport::Stdio)
        }
        (Some(TransportKind::Stdio), Some(command), Some(url)) => {
            checker.warn(&url.place, "has no effect on a stdio server", "");
            process(checker, raw, command).map(BackendTransport::Stdio)
        }
        (Some(TransportKind::Http), _, Some(url)) | (None, None, Some(url)) => {
            remote(checker, raw, url).map(BackendTransport::Http)
        }
        (Some(TransportKind::Sse), _, Some(url)) => {
            let message = "the HTTP+SSE transport is not supported; using Streamable HTTP at this URL";
            let place = raw.kind.as_ref().map_or(&server.place, |kind| &kind.place);
            checker.warn(
                place,
                message,
                "use \"type\": \"http\" and the server's Streamable HTTP URL, which often ends in /mcp",
            );
            remote(checker, raw, url).map(BackendTransport::Http)
        }
        (Some(TransportKind::Stdio), None, _) => {
            checker.wrong(&name.place, "a stdio server must have a command", "add \"command\"");
            None
        }
        (Some(TransportKind::Http | TransportKind::Sse), _, None) => {
            checker.wrong(&name.place, "an http server must have a url", "add \"url\"");
            None
        }
        (None, Some(_), Some(_)) => {
            checker.wrong(
                &name.place,
                "the server has both a command and a url",
                "remove one of them, or add \"type\"",
            );
            None
        }
        (None, None, None) => {
            checker.wrong(
                &name.place,
                "the server has neither a command nor a url",
                "add \"command\" for a local program, or \"url\" for an HTTP server",
            );
            None
        }
    }
}

fn process(checker: &mut Checker<'_>, raw: &raw::Server, command: &Located<RawText<String>>) -> Option<Process> {
    let ineffective = [raw.headers.as_ref().map(|it| &it.place), raw.auth.as_ref().map(|it| &it.place)];
    for place in ineffective.into_iter().flatten() {
        checker.warn(place, "has no effect on a stdio server", "");
    }
    let program = checker.text(command).and_then(|text| checker.program(&text, &command.place));
    let args = raw.args.as_ref().map(|args| args.value.as_slice()).unwrap_or_default();
    let args: Vec<Option<String>> = args.iter().map(|arg| text_without_nul(checker, arg)).collect();
    checker.secrets.add_arguments(args.iter().flatten().map(String::as_str));
    let mut env = match &raw.env_file {
        Some(file) => envfile::read(checker, file),
        None => BTreeMap::new(),
    };
    env.extend(environment(checker, &raw.env));
    let cwd = raw.cwd.as_ref().and_then(|cwd| checker.text(cwd).and_then(|text| checker.path(&text, &cwd.place)));
    let (command_place, command) = (&command.place, program?);
    let args: Vec<String> = args.into_iter().flatten().collect();
    if starts_toolgate(&command.to_string_lossy(), args.iter().map(String::as_str)) {
        checker.warn(command_place, "the server is Toolgate itself", "remove this server");
    }
    let inherit_env = super::flag(&raw.inherit_env, false);
    let args = args.into_iter().map(Secret::new).collect();
    Some(Process { command, args, env, inherit_env, cwd, sandbox: None })
}

/// Whether a command starts a Toolgate gateway: `npx toolgate serve` does, `toolgate demo` does not.
pub fn starts_toolgate<'a>(command: &str, args: impl Iterator<Item = &'a str>) -> bool {
    let is_toolgate = |word: &str| {
        let stem = Path::new(word).file_stem().and_then(|stem| stem.to_str());
        stem.is_some_and(|stem| stem.eq_ignore_ascii_case("toolgate"))
    };
    let args: Vec<&str> = args.collect();
    let named = is_toolgate(command) || args.iter().any(|arg| is_toolgate(arg));
    named && args.contains(&"serve")
}

fn environment(checker: &mut Checker<'_>, texts: &Option<Located<StringMap>>) -> BTreeMap<String, Secret> {
    let mut environment = BTreeMap::new();
    for (name, value) in texts.as_ref().map(|texts| texts.value.0.as_slice()).unwrap_or_default() {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            checker.wrong(&name.place, "invalid name of an environment variable", "");
        }
        if let Some(text) = text_without_nul(checker, value) {
            checker.secrets.add_named(&name.value, &text);
            environment.insert(name.value.clone(), Secret::new(text));
        }
    }
    environment
}

fn text_without_nul<T>(checker: &mut Checker<'_>, written: &Located<RawText<T>>) -> Option<String> {
    let text = checker.text(written)?;
    if text.contains('\0') {
        checker.wrong(&written.place, "must not contain a NUL character", "");
        return None;
    }
    Some(text)
}

fn remote(checker: &mut Checker<'_>, raw: &raw::Server, url: &Located<RawText<Endpoint>>) -> Option<Remote> {
    let ineffective: [Option<&Location>; 4] = [
        raw.args.as_ref().map(|args| &args.place),
        raw.env.as_ref().map(|env| &env.place),
        raw.cwd.as_ref().map(|cwd| &cwd.place),
        raw.command.as_ref().map(|command| &command.place),
    ];
    for place in ineffective.into_iter().flatten() {
        checker.warn(place, "has no effect on an http server", "");
    }
    let headers = headers(checker, &raw.headers);
    let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let login = raw.auth.as_ref().map(|auth| login::of_server(checker, auth));
    if let (true, Some(auth)) = (has_token, &raw.auth) {
        checker.wrong(&auth.place, "the header Authorization and a login exclude each other", "remove one of them");
    }
    let login = if has_token { None } else { Some(Box::new(login.unwrap_or_default())) };
    let url = checker.parse(url)?;
    checker.secrets.add_url(url.url());
    Some(Remote { url, headers, login })
}

/// Validates the names and values of headers.
pub(super) fn headers(checker: &mut Checker<'_>, texts: &Option<Located<StringMap>>) -> Vec<(String, Secret)> {
    let mut headers = Vec::new();
    for (name, value) in texts.as_ref().map(|texts| texts.value.0.as_slice()).unwrap_or_default() {
        if HeaderName::from_bytes(name.value.as_bytes()).is_err() {
            checker.wrong(&name.place, "invalid header name", "");
        }
        let Some(text) = checker.text(value) else { continue };
        if HeaderValue::from_str(&text).is_err() {
            checker.wrong(
                &value.place,
                "invalid header value: it contains a line break or another control character",
                "",
            );
        }
        checker.secrets.add_named(&name.value, &text);
        headers.push((name.value.clone(), Secret::new(text)));
    }
    headers
}
