//! Validates an HTTP API that an OpenAPI document describes: the document, the base, credentials and the choice of
//! operations.
//!
//! Requests go to the base, whatever the document says, so the base is required. Rules of `include` and `exclude` are
//! read with the document.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::backends::headers;
use super::checker::Checker;
use crate::raw::{self, Located, Location};
use crate::values::{Allowed, Endpoint, Secret, Setting};

/// An HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApi {
    /// Where its document is.
    pub spec: SpecSource,
    /// Where requests go.
    pub base: Endpoint,
    /// Credentials by the names of security schemes.
    pub auth: BTreeMap<String, Secret>,
    /// Headers of each request; names and values are valid.
    pub headers: Vec<(String, Secret)>,
    /// Rules of the operations that are tools; all if empty.
    pub include: Vec<String>,
    /// Rules of the operations that are no tools.
    pub exclude: Vec<String>,
    /// Hosts and networks that this API may be at although they are not public.
    pub allow_hosts: Vec<Allowed>,
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecSource {
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(Endpoint),
}

pub(super) fn check(checker: &mut Checker<'_>, name: &Located<String>, raw: &raw::Server) -> Option<OpenApi> {
    let ineffective: [Option<&Location>; 5] = [
        raw.command.as_ref().map(|command| &command.place),
        raw.args.as_ref().map(|args| &args.place),
        raw.env.as_ref().map(|env| &env.place),
        raw.cwd.as_ref().map(|cwd| &cwd.place),
        raw.url.as_ref().map(|url| &url.place),
    ];
    for place in ineffective.into_iter().flatten() {
        checker.warn(place, "has no effect on an openapi server", "");
    }
    let mut absent = |key: &str, is_absent: bool| {
        if is_absent {
            checker.wrong(&name.place, format!("an openapi server must have a {key}"), format!("add \"{key}\""));
        }
    };
    absent("spec", raw.spec.is_none());
    absent("base", raw.base.is_none());
    let spec = raw.spec.as_ref().and_then(|spec| {
        let text = checker.text(spec)?;
        let is_url = ["http:", "https:"].iter().any(|scheme| text.trim().to_ascii_lowercase().starts_with(scheme));
        if is_url {
            let url = Endpoint::parse(&text).map_err(|message| checker.wrong(&spec.place, message, "")).ok()?;
            return Some(SpecSource::Url(url));
        }
        checker.path(&text, &spec.place).map(SpecSource::File)
    });
    let base = checker.get(&raw.base);
    let mut auth = BTreeMap::new();
    for (scheme, secret) in raw.auth.as_ref().map(|auth| auth.value.0.as_slice()).unwrap_or_default() {
        let Some(text) = checker.text(secret) else { continue };
        if text.chars().any(char::is_control) {
            checker.wrong(&secret.place, "a credential must not contain control characters", "");
        }
        auth.insert(scheme.value.clone(), Secret::new(text));
    }
    let headers = headers(checker, &raw.headers);
    let include = checker.list(&raw.include).unwrap_or_default();
    let exclude = checker.list(&raw.exclude).unwrap_or_default();
    let allow_hosts = checker.list(&raw.allow_hosts).unwrap_or_default();
    Some(OpenApi { spec: spec?, base: base?, auth, headers, include, exclude, allow_hosts })
}
