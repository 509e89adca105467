//! Validates how to log in at a server.

use super::checker::Checker;
use crate::raw::reader::closest;
use crate::raw::{self, Located, Location, RawAuth};
use crate::values::{Allowed, Endpoint, LoginGrant, Secret};

/// How to log in at a server.
#[derive(Debug, Clone, PartialEq)]
pub struct LoginSettings {
    /// Who logs in.
    pub grant: LoginGrant,
    /// The id of a registered client.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// The URL of a document that describes this client.
    pub client_metadata: Option<Endpoint>,
    /// The only issuer that this client logs in at.
    pub issuer: Option<Endpoint>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// The port that the browser comes back to.
    pub redirect_port: Option<u16>,
    /// Where a person logs in.
    pub authorization_url: Option<Endpoint>,
    /// Where tokens are issued.
    pub token_url: Option<Endpoint>,
    /// What the login may lead to although it is not public.
    pub allow_hosts: Vec<Allowed>,
}

impl Default for LoginSettings {
    fn default() -> Self {
        Self {
            grant: LoginGrant::AuthorizationCode,
            client_id: None,
            client_secret: None,
            client_metadata: None,
            issuer: None,
            scopes: Vec::new(),
            redirect_port: None,
            authorization_url: None,
            token_url: None,
            allow_hosts: Vec::new(),
        }
    }
}

/// The login of an HTTP server.
pub(super) fn of_server(checker: &mut Checker<'_>, auth: &Located<RawAuth>) -> LoginSettings {
    match &auth.value {
        RawAuth::Login(login) => check(checker, login, &auth.place),
        RawAuth::Schemes(schemes) => {
            for (key, _) in schemes.0.iter().filter(|(key, _)| !raw::Login::KEYS.contains(&key.value.as_str())) {
                let near = closest(&key.value, raw::Login::KEYS).map(|near| format!("did you mean {near}?"));
                let all = || format!("the settings of this section are {}", raw::Login::KEYS.join(", "));
                checker.wrong(&key.place, "unknown setting", near.unwrap_or_else(all));
            }
            LoginSettings::default()
        }
    }
}

/// Checks one login.
pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Login, place: &Location) -> LoginSettings {
    let grant = checker.get(&raw.grant).unwrap_or(LoginGrant::AuthorizationCode);
    let client_secret: Option<String> = checker.get(&raw.client_secret);
    client_secret.iter().for_each(|secret| checker.secrets.add(secret));
    let settings = LoginSettings {
        grant,
        client_id: checker.get(&raw.client_id),
        client_secret: client_secret.map(Secret::new),
        client_metadata: checker.get(&raw.client_metadata),
        issuer: checker.get(&raw.issuer),
        scopes: checker.list(&raw.scopes).unwrap_or_default(),
        redirect_port: checker.count(&raw.redirect_port, 1..=65_535).and_then(|port| u16::try_from(port).ok()),
        authorization_url: checker.get(&raw.authorization_url),
        token_url: checker.get(&raw.token_url),
        allow_hosts: checker.list(&raw.allow_hosts).unwrap_or_default(),
    };
    if let (Some(secret), None) = (&raw.client_secret, &raw.client_id) {
        checker.wrong(&secret.place, "a client secret needs a client id", "add \"clientId\"");
    }
    if grant == LoginGrant::ClientCredentials && (raw.client_id.is_none() || raw.client_secret.is_none()) {
        let message = "a client that logs in by itself needs an id and a secret";
        checker.wrong(place, message, "add \"clientId\" and \"clientSecret\"");
    }
    if let (Some(page), None) = (&raw.authorization_url, &raw.token_url) {
        checker.wrong(&page.place, "has no use without a token URL", "add \"tokenUrl\"");
    }
    if let (Some(url), None, LoginGrant::AuthorizationCode) = (&raw.token_url, &raw.authorization_url, grant) {
        checker.wrong(&url.place, "a person needs a page to log in", "add \"authorizationUrl\"");
    }
    if let Some(scope) = settings.scopes.iter().find(|scope| scope.is_empty() || scope.contains(char::is_whitespace)) {
        let message = format!("a scope has no spaces: {} scopes are one entry each", scope.split_whitespace().count());
        checker.wrong(raw.scopes.as_ref().map_or(place, |scopes| &scopes.place), message, "");
    }
    settings
}
