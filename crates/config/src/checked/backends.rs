//! Servers: what to start or connect to, and what is allowed of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::checker::Checker;
use super::envfile;
use crate::raw::shape::closest;
use crate::raw::{self, At, Place, Texts, Written};
use crate::values::{BackendName, Endpoint, Glob, Secret, TransportKind};

/// A server and how to treat it.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// How it is reached. If this changes, it must be restarted.
    pub transport: Transport,
    /// What is allowed of it. This can change while it runs.
    pub policy: Policy,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process.
    Stdio(Process),
    /// Streamable HTTP.
    Http(Remote),
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// A bare name (to be found on PATH) or an absolute path.
    pub command: PathBuf,
    /// Its arguments; they carry tokens often enough to be hidden.
    pub args: Vec<Secret>,
    /// Its environment, beyond what is inherited.
    pub env: BTreeMap<String, Secret>,
    /// Its folder; none is ours.
    pub cwd: Option<PathBuf>,
}

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub url: Endpoint,
    /// Headers for each request: valid names, and values fit for a header.
    pub headers: Vec<(String, Secret)>,
}

/// What is allowed of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long one call may take.
    pub timeout: Duration,
    /// Calls at once.
    pub max_concurrent_calls: usize,
    /// Which tools are shown; none means all.
    pub allow: Option<Vec<Glob>>,
    /// Which are hidden all the same.
    pub deny: Vec<Glob>,
    /// Words to find its tools by.
    pub tags: Vec<String>,
    /// Whether its name stands in front of its tools' names in direct mode.
    pub prefix: bool,
}

impl Policy {
    /// Whether a tool is shown and may be called.
    pub fn permits(&self, tool: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        self.allow.as_deref().is_none_or(any) && !any(&self.deny)
    }
}

/// What a server gets that says nothing itself.
pub(super) struct Defaults {
    pub(super) timeout: Duration,
    max_concurrent_calls: usize,
}

impl Defaults {
    pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Limits) -> Self {
        Self {
            timeout: checker.period(&raw.call_timeout).unwrap_or(Duration::from_secs(30)),
            max_concurrent_calls: checker.count(&raw.max_concurrent_calls, CONCURRENCY).unwrap_or(16),
        }
    }
}

const CONCURRENCY: std::ops::RangeInclusive<usize> = 1..=1024;

/// The servers of a file.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) backends: BTreeMap<BackendName, Backend>,
    pub(super) disabled: Vec<BackendName>,
    /// All of them, also those with problems: what refers to one of these is not wrong itself.
    pub(super) names: BTreeSet<BackendName>,
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
        let name = match BackendName::new(&key.value) {
            Ok(name) => name,
            Err(message) => {
                checker.wrong(&key.place, message, "");
                continue;
            }
        };
        if !servers.names.insert(name.clone()) {
            checker.wrong(&key.place, "is both in mcpServers and in servers", "keep one of the two");
            continue;
        }
        // A server that is switched off may be unfinished: its variables need not be set.
        if super::flag(&server.value.disabled, false) || !super::flag(&server.value.enabled, true) {
            servers.disabled.push(name);
            continue;
        }
        let own = own.iter().find(|(own, _)| own.value == key.value).map(|(_, own)| own.value.clone());
        let policy = policy(checker, &server.value, &own.unwrap_or_default(), defaults);
        if let Some(transport) = transport(checker, key, server) {
            servers.backends.insert(name, Backend { transport, policy });
        }
    }
    for (key, _) in own.iter().filter(|(own, _)| !servers.names.contains(own.value.as_str())) {
        let known: Vec<&str> = servers.names.iter().map(BackendName::as_str).collect();
        let help = closest(&key.value, &known).map(|near| format!("did you mean {near}?")).unwrap_or_default();
        checker.wrong(&key.place, "there is no server of this name in mcpServers", help);
    }
    servers
}

fn policy(checker: &mut Checker<'_>, server: &raw::Server, own: &raw::Backend, defaults: &Defaults) -> Policy {
    let foreign = checker.get(&server.timeout);
    if let (Some(millis), Some(setting), None) = (foreign, &server.timeout, &own.timeout)
        && millis.doubtful
    {
        let message = "is read as milliseconds, as clients do, which is very short";
        checker.warn(&setting.place, message, "write it with its unit, such as \"30s\"");
    }
    let timeout = checker.period(&own.timeout).or(foreign.map(|millis| millis.period.get()));
    let concurrency = checker.count(&own.max_concurrent_calls, CONCURRENCY);
    Policy {
        timeout: timeout.unwrap_or(defaults.timeout),
        max_concurrent_calls: concurrency.unwrap_or(defaults.max_concurrent_calls),
        allow: checker.list(&own.allow),
        deny: checker.list(&own.deny).unwrap_or_default(),
        tags: checker.list(&own.tags).unwrap_or_default(),
        prefix: super::flag(&own.prefix, true),
    }
}

fn transport(checker: &mut Checker<'_>, name: &At<String>, server: &At<raw::Server>) -> Option<Transport> {
    let raw = &server.value;
    // A type that can't be read is one problem; guessing on would make it two.
    let kind = match &raw.kind {
        Some(kind) => Some(checker.parse(kind)?),
        None => None,
    };
    match (kind, &raw.command, &raw.url) {
        (Some(TransportKind::Stdio) | None, Some(command), None) => {
            process(checker, raw, command).map(Transport::Stdio)
        }
        (Some(TransportKind::Stdio), Some(command), Some(url)) => {
            checker.warn(&url.place, "has no effect on a stdio server", "");
            process(checker, raw, command).map(Transport::Stdio)
        }
        (Some(TransportKind::Http), _, Some(url)) | (None, None, Some(url)) => {
            remote(checker, raw, url).map(Transport::Http)
        }
        (Some(TransportKind::Sse), _, Some(url)) => {
            let message = "the HTTP+SSE transport is no longer spoken; Streamable HTTP is tried at this URL";
            let place = raw.kind.as_ref().map_or(&server.place, |kind| &kind.place);
            checker.warn(
                place,
                message,
                "write \"type\": \"http\" and the server's Streamable HTTP URL, often the one ending in /mcp",
            );
            remote(checker, raw, url).map(Transport::Http)
        }
        (Some(TransportKind::Stdio), None, _) => {
            checker.wrong(&name.place, "is a stdio server without a command", "add \"command\"");
            None
        }
        (Some(TransportKind::Http | TransportKind::Sse), _, None) => {
            checker.wrong(&name.place, "is an http server without a url", "add \"url\"");
            None
        }
        (None, Some(_), Some(_)) => {
            checker.wrong(&name.place, "has both a command and a url", "remove one, or say which by \"type\"");
            None
        }
        (None, None, None) => {
            checker.wrong(
                &name.place,
                "has neither a command nor a url",
                "add \"command\" for a program, or \"url\" for a server",
            );
            None
        }
    }
}

fn process(checker: &mut Checker<'_>, raw: &raw::Server, command: &At<Written<String>>) -> Option<Process> {
    if let Some(headers) = &raw.headers {
        checker.warn(&headers.place, "have no effect on a stdio server", "");
    }
    let program = checker.text(command).and_then(|text| checker.program(&text, &command.place));
    let args = raw.args.as_ref().map(|args| args.value.as_slice()).unwrap_or_default();
    let args: Vec<Option<String>> = args.iter().map(|arg| fit_for_process(checker, arg)).collect();
    let mut env = match &raw.env_file {
        Some(file) => envfile::read(checker, file),
        None => BTreeMap::new(),
    };
    env.extend(environment(checker, &raw.env));
    let cwd = raw.cwd.as_ref().and_then(|cwd| checker.text(cwd).and_then(|text| checker.path(&text, &cwd.place)));
    let (command_place, command) = (&command.place, program?);
    let args: Vec<String> = args.into_iter().flatten().collect();
    if starts_toolgate(&command.to_string_lossy(), args.iter().map(String::as_str)) {
        checker.warn(command_place, "starts Toolgate inside of itself", "remove this server");
    }
    Some(Process { command, args: args.into_iter().map(Secret::new).collect(), env, cwd })
}

/// Whether a command is a Toolgate that serves. `npx toolgate serve` counts, `toolgate demo` does not.
pub fn starts_toolgate<'a>(command: &str, args: impl Iterator<Item = &'a str>) -> bool {
    let is_toolgate = |word: &str| {
        let stem = Path::new(word).file_stem().and_then(|stem| stem.to_str());
        stem.is_some_and(|stem| stem.eq_ignore_ascii_case("toolgate"))
    };
    let args: Vec<&str> = args.collect();
    let named = is_toolgate(command) || args.iter().any(|arg| is_toolgate(arg));
    named && args.contains(&"serve")
}

fn environment(checker: &mut Checker<'_>, texts: &Option<At<Texts>>) -> BTreeMap<String, Secret> {
    let mut environment = BTreeMap::new();
    for (name, value) in texts.as_ref().map(|texts| texts.value.0.as_slice()).unwrap_or_default() {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            checker.wrong(&name.place, "is not a name for an environment variable", "");
        }
        if let Some(text) = fit_for_process(checker, value) {
            environment.insert(name.value.clone(), Secret::new(text));
        }
    }
    environment
}

fn fit_for_process<T>(checker: &mut Checker<'_>, written: &At<Written<T>>) -> Option<String> {
    let text = checker.text(written)?;
    if text.contains('\0') {
        checker.wrong(&written.place, "holds a NUL character, which no process can be given", "");
        return None;
    }
    Some(text)
}

fn remote(checker: &mut Checker<'_>, raw: &raw::Server, url: &At<Written<Endpoint>>) -> Option<Remote> {
    let unfit: [Option<&Place>; 4] = [
        raw.args.as_ref().map(|args| &args.place),
        raw.env.as_ref().map(|env| &env.place),
        raw.cwd.as_ref().map(|cwd| &cwd.place),
        raw.command.as_ref().map(|command| &command.place),
    ];
    for place in unfit.into_iter().flatten() {
        checker.warn(place, "has no effect on an http server", "");
    }
    let headers = headers(checker, &raw.headers);
    checker.parse(url).map(|url| Remote { url, headers })
}

/// Headers that an HTTP client will accept.
pub(super) fn headers(checker: &mut Checker<'_>, texts: &Option<At<Texts>>) -> Vec<(String, Secret)> {
    let mut headers = Vec::new();
    for (name, value) in texts.as_ref().map(|texts| texts.value.0.as_slice()).unwrap_or_default() {
        if HeaderName::from_bytes(name.value.as_bytes()).is_err() {
            checker.wrong(&name.place, "is not a name for a header", "");
        }
        let Some(text) = checker.text(value) else { continue };
        if HeaderValue::from_str(&text).is_err() {
            checker.wrong(
                &value.place,
                "is not fit for a header: it holds a line break or another control character",
                "",
            );
        }
        headers.push((name.value.clone(), Secret::new(text)));
    }
    headers
}
