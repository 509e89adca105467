//! Validates the HTTP service and its keys.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::checker::Checker;
use crate::raw::{self, Located, RawText};
use crate::values::{Endpoint, Glob, HostName, HttpAuth, KeyHash, MetricsAccess, Origin, Rate};
use toolgate_wire::CallRate;

/// The HTTP service.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// Address to listen on; `None` unless configured.
    pub bind: Option<SocketAddr>,
    /// The API keys; if empty, only clients on this machine may connect.
    pub keys: Vec<Key>,
    /// How clients on this machine identify themselves where there are no keys.
    pub auth: HttpAuth,
    /// The file with the token for them; `None` if it is not configured and there is no home directory.
    pub token_file: Option<PathBuf>,
    /// The issuer whose tokens are accepted besides keys.
    pub oauth: Option<HttpOAuth>,
    /// Origins of web pages that may use the service.
    pub allowed_origins: Vec<Origin>,
    /// Accepted host names besides this machine's own.
    pub allowed_hosts: Vec<HostName>,
    /// Who may read the metrics.
    pub metrics: MetricsAccess,
    /// The SHA-256 of a key that opens the metrics and nothing else.
    pub metrics_key: Option<KeyHash>,
}

impl Default for Http {
    fn default() -> Self {
        Http {
            bind: None,
            keys: vec![],
            auth: HttpAuth::Token,
            token_file: None,
            oauth: None,
            allowed_origins: vec![],
            allowed_hosts: vec![],
            metrics: MetricsAccess::Callers,
            metrics_key: None,
        }
    }
}

/// An OAuth issuer whose tokens are accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOAuth {
    /// The issuer, as its tokens have it.
    pub issuer: String,
    /// The identifier of this service.
    pub audience: String,
    /// The URL of the issuer's keys; `None` if its metadata tells.
    pub jwks: Option<Endpoint>,
    /// What scopes open; if empty, every token opens everything.
    pub scopes: BTreeMap<String, OAuthScope>,
}

/// What a scope opens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuthScope {
    /// Tools, as `backend.tool`; `None` means all.
    pub tools: Option<Vec<Glob>>,
    /// Functions; `None` means all.
    pub functions: Option<Vec<Glob>>,
}

/// What the names of callers with a token of an issuer begin with.
const TOKEN_PREFIX: &str = "oauth:";

/// An API key.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The owner of the key; unique.
    pub name: String,
    /// The SHA-256 of the key.
    pub hash: KeyHash,
    /// Functions it may call; `None` means all.
    pub functions: Option<Vec<Glob>>,
    /// Backends it may call; `None` means all.
    pub backends: Option<Vec<Glob>>,
    /// Tools it may call, as `backend.tool`; `None` means all of its backends.
    pub tools: Option<Vec<Glob>>,
    /// How many tool calls it may make; `None` means as many as it likes.
    pub call_rate: Option<CallRate>,
    /// Its rate limit; `None` means unlimited.
    pub rate: Option<Rate>,
}

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Http) -> Http {
    let bind = checker.get(&raw.bind);
    let entries = raw.keys.as_ref().map(|keys| keys.value.as_slice()).unwrap_or_default();
    let mut names = HashSet::new();
    let keys: Vec<Key> = entries.iter().filter_map(|entry| key(checker, entry, &mut names)).collect();
    let oauth = raw.oauth.as_ref().and_then(|oauth| check_oauth(checker, oauth));
    if let (Some(address), Some(setting), true) = (bind, &raw.bind, entries.is_empty() && raw.oauth.is_none())
        && !address.ip().is_loopback()
    {
        let message =
            "the address is not a loopback address, but without keys only clients on this machine may connect";
        checker.warn(&setting.place, message, "add toolgate.http.keys");
    }
    let metrics_key = metrics_key(checker, raw, &keys);
    Http {
        bind,
        keys,
        auth: checker.get(&raw.auth).unwrap_or(HttpAuth::Token),
        token_file: token_file(checker, raw),
        oauth,
        allowed_origins: checker.list(&raw.allowed_origins).unwrap_or_default(),
        allowed_hosts: checker.list(&raw.allowed_hosts).unwrap_or_default(),
        metrics: checker.get(&raw.metrics).unwrap_or(MetricsAccess::Callers),
        metrics_key,
    }
}

/// The key for metrics, which opens nothing else.
fn metrics_key(checker: &mut Checker<'_>, raw: &raw::Http, keys: &[Key]) -> Option<KeyHash> {
    let key = checker.get(&raw.metrics_key);
    if let (Some(key), Some(setting)) = (&key, &raw.metrics_key)
        && keys.iter().any(|other| other.hash == *key)
    {
        let help = "make another key for metrics, which opens nothing else";
        checker.wrong(&setting.place, "this key is one of toolgate.http.keys too", help);
    }
    if let (Some(MetricsAccess::Key), Some(setting), None) = (checker.get(&raw.metrics), &raw.metrics, &raw.metrics_key)
    {
        checker.wrong(&setting.place, "there is no key for metrics", "add toolgate.http.metrics_key");
    }
    key
}

fn check_oauth(checker: &mut Checker<'_>, oauth: &Located<raw::HttpOAuth>) -> Option<HttpOAuth> {
    let raw = &oauth.value;
    let mut url = |setting: &Option<Located<RawText<String>>>, key: &str| {
        let Some(setting) = setting else {
            checker.wrong(&oauth.place, format!("a setting is missing: {key}"), format!("add \"{key}\""));
            return None;
        };
        let text = checker.text(setting)?;
        let parsed = url::Url::parse(&text).ok();
        let is_local =
            |url: &url::Url| url.host_str().is_some_and(|it| ["localhost", "127.0.0.1", "[::1]"].contains(&it));
        if !parsed.is_some_and(|url| url.scheme() == "https" || (url.scheme() == "http" && is_local(&url))) {
            checker.wrong(&setting.place, "must be an https URL, or an http URL of this machine", "");
            return None;
        }
        Some(text)
    };
    let (issuer, audience) = (url(&raw.issuer, "issuer"), url(&raw.audience, "audience"));
    let jwks = checker.get(&raw.jwks);
    let mut scopes = BTreeMap::new();
    for (name, scope) in raw.scopes.as_ref().map(|scopes| scopes.value.0.as_slice()).unwrap_or_default() {
        if name.value.is_empty() || !name.value.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~')) {
            checker.wrong(&name.place, "invalid name of a scope", "");
        }
        let tools = checker.list(&scope.value.tools);
        let is_tool = |glob: &Glob| glob.to_string().contains(['.', '*']);
        if let (Some(tools), Some(setting)) = (&tools, &scope.value.tools)
            && !tools.iter().all(is_tool)
        {
            checker.wrong(&setting.place, "a tool is written as backend.tool", "write backend.* for all of a backend");
        }
        let functions = checker.list(&scope.value.functions);
        scopes.insert(name.value.clone(), OAuthScope { tools, functions });
    }
    Some(HttpOAuth { issuer: issuer?, audience: audience?, jwks, scopes })
}

fn token_file(checker: &mut Checker<'_>, raw: &raw::Http) -> Option<PathBuf> {
    match &raw.token_file {
        Some(file) => checker.text(file).and_then(|text| checker.path(&text, &file.place)),
        None => checker.env.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate/http-token")),
    }
}

/// How rules and approvers name the user of this machine, who has no key.
const LOCAL: &str = "local";

fn key(checker: &mut Checker<'_>, entry: &Located<raw::Key>, names: &mut HashSet<String>) -> Option<Key> {
    let raw = &entry.value;
    let name = checker.get(&raw.name).filter(|name| !name.is_empty());
    if name.is_none() && raw.name.as_ref().is_none_or(|name| name.value.text.is_empty()) {
        checker.wrong(&entry.place, "the key has no name", "add \"name\" with the owner of the key");
    }
    if let (Some(name), Some(setting)) = (&name, &raw.name)
        && !names.insert(name.clone())
    {
        checker.wrong(&setting.place, "another key has the same name", "give each key a unique name");
    }
    if let (Some(LOCAL), Some(setting)) = (name.as_deref(), &raw.name) {
        checker.wrong(
            &setting.place,
            "local is the user of this machine in rules and approvers",
            "give the key another name",
        );
    }
    if let (Some(name), Some(setting)) = (&name, &raw.name)
        && name.starts_with(TOKEN_PREFIX)
    {
        let message = "names that begin with oauth: are those of callers with a token, by the subject of the token";
        checker.wrong(&setting.place, message, "give the key another name");
    }
    if raw.hash.is_none() {
        checker.wrong(
            &entry.place,
            "the key has no hash",
            "add \"hash\" with sha256: followed by the SHA-256 of the key in hexadecimal",
        );
    }
    let hash = checker.get(&raw.hash);
    let functions = checker.list(&raw.functions);
    let backends = checker.list(&raw.backends);
    let tools = checker.list(&raw.tools);
    let calls = checker.count(&raw.calls_per_minute, 1..=CallRate::MAX as usize);
    let call_rate = calls.and_then(|calls| u32::try_from(calls).ok()).and_then(CallRate::per_minute);
    let rate = checker.get(&raw.rate);
    Some(Key { name: name?, hash: hash?, functions, backends, tools, call_rate, rate })
}
