//! Validates an HTTP API that an OpenAPI document describes: the document, the base, credentials and the choice of
//! operations.
//!
//! Requests go to the base, whatever the document says, so the base is required. Rules of `include` and `exclude` are
//! read with the document.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::backends::headers;
use super::checker::Checker;
use super::login::{self, LoginSettings};
use crate::raw::{self, Located, Location, RawAuth, RawCredential};
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
    /// The security scheme that a login gives the credential of, and how to log in.
    pub login: Option<(String, LoginSettings)>,
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
    base.iter().for_each(|base| checker.secrets.add_url(base.url()));
    let Credentials { auth, login } = credentials(checker, &raw.auth);
    let headers = headers(checker, &raw.headers);
    let include = checker.list(&raw.include).unwrap_or_default();
    let exclude = checker.list(&raw.exclude).unwrap_or_default();
    let allow_hosts = checker.list(&raw.allow_hosts).unwrap_or_default();
    Some(OpenApi { spec: spec?, base: base?, auth, login, headers, include, exclude, allow_hosts })
}

struct Credentials {
    auth: BTreeMap<String, Secret>,
    login: Option<(String, LoginSettings)>,
}

fn credentials(checker: &mut Checker<'_>, auth: &Option<Located<RawAuth>>) -> Credentials {
    let mut found = Credentials { auth: BTreeMap::new(), login: None };
    let schemes = match auth.as_ref().map(|auth| (&auth.value, &auth.place)) {
        None => return found,
        Some((RawAuth::Schemes(schemes), _)) => &schemes.0,
        Some((RawAuth::Login(login), place)) => {
            // The scheme that needs no document.
            found.login = Some(("bearer".to_owned(), login::check(checker, login, place)));
            return found;
        }
    };
    for (scheme, credential) in schemes {
        let place = &credential.place;
        match &credential.value {
            RawCredential::Text(secret) => {
                let written = Located { value: secret.clone(), place: place.clone() };
                let Some(text) = checker.text(&written) else { continue };
                if text.chars().any(char::is_control) {
                    checker.wrong(place, "a credential must not contain control characters", "");
                }
                checker.secrets.add(&text);
                found.auth.insert(scheme.value.clone(), Secret::new(text));
            }
            RawCredential::Login(_) if found.login.is_some() => {
                checker.wrong(place, "an API has one login", "give the other scheme a credential");
            }
            RawCredential::Login(login) => {
                found.login = Some((scheme.value.clone(), login::check(checker, login, place)));
            }
        }
    }
    found
}
