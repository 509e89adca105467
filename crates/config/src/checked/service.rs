//! The HTTP service and its keys.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::checker::Checker;
use crate::raw::{self, At};
use crate::values::{Glob, HostName, KeyHash, Origin, Rate};

/// The HTTP service.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// Where to listen; none unless the command line says so.
    pub bind: Option<SocketAddr>,
    /// Who may use it; empty means this machine only.
    pub keys: Vec<Key>,
    /// Web pages that may call it.
    pub allowed_origins: Vec<Origin>,
    /// Names it answers to besides this machine's own.
    pub allowed_hosts: Vec<HostName>,
}

/// Who may use the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Whose key it is; unique.
    pub name: String,
    /// Its digest.
    pub hash: KeyHash,
    /// Functions it may call; none means all.
    pub functions: Option<Vec<Glob>>,
    /// Backends it may call; none means all.
    pub backends: Option<Vec<Glob>>,
    /// How often; none means as often as it likes.
    pub rate: Option<Rate>,
}

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Http) -> Http {
    let bind = checker.get(&raw.bind);
    let entries = raw.keys.as_ref().map(|keys| keys.value.as_slice()).unwrap_or_default();
    let mut names = HashSet::new();
    let keys: Vec<Key> = entries.iter().filter_map(|entry| key(checker, entry, &mut names)).collect();
    if let (Some(address), Some(setting), true) = (bind, &raw.bind, entries.is_empty())
        && !address.ip().is_loopback()
    {
        let message = "listens beyond this machine, but without keys only this machine may connect";
        checker.warn(&setting.place, message, "add toolgate.http.keys");
    }
    Http {
        bind,
        keys,
        allowed_origins: checker.list(&raw.allowed_origins).unwrap_or_default(),
        allowed_hosts: checker.list(&raw.allowed_hosts).unwrap_or_default(),
    }
}

fn key(checker: &mut Checker<'_>, entry: &At<raw::Key>, names: &mut HashSet<String>) -> Option<Key> {
    let raw = &entry.value;
    let name = checker.get(&raw.name).filter(|name| !name.is_empty());
    if name.is_none() && raw.name.as_ref().is_none_or(|name| name.value.text.is_empty()) {
        checker.wrong(&entry.place, "has no name", "add \"name\": whose key it is");
    }
    if let (Some(name), Some(setting)) = (&name, &raw.name)
        && !names.insert(name.clone())
    {
        checker.wrong(&setting.place, "is the name of another key too", "give each key a name of its own");
    }
    if raw.hash.is_none() {
        checker.wrong(&entry.place, "has no hash", "add \"hash\": sha256: and the SHA-256 of the key in hexadecimal");
    }
    let hash = checker.get(&raw.hash);
    let functions = checker.list(&raw.functions);
    let backends = checker.list(&raw.backends);
    let rate = checker.get(&raw.rate);
    Some(Key { name: name?, hash: hash?, functions, backends, rate })
}
