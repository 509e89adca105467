//! Which issuer the credentials of this client belong to.
//!
//! A server names its issuer itself, and a server that was taken over names another one. So a client that the user registered
//! is presented to one issuer alone: the configured one, else the one that it was first presented to. A configured token
//! endpoint is that choice already. No I/O.

use reqwest::Url;

use super::AuthError;
use super::authorizer::AuthSettings;
use super::store::Login;
use super::transport::printable;

/// Refuses an issuer that a server names and that the credentials do not belong to; `login` is what is kept for the server.
pub(super) fn check(settings: &AuthSettings, found: &str, login: Option<&Login>) -> Result<(), AuthError> {
    match expected(settings, login) {
        Some(expected) if !is_same(expected, found) => Err(AuthError::OtherIssuer {
            expected: printable(expected),
            found: printable(found),
            logout: settings.logout_command.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// The issuer that the credentials belong to, if that is known.
fn expected<'a>(settings: &'a AuthSettings, login: Option<&'a Login>) -> Option<&'a str> {
    if settings.endpoints.is_some() {
        return None;
    }
    let client = settings.client.preregistered.as_ref();
    let first = login.filter(|login| client.is_some_and(|client| client.id == login.client.id));
    settings.issuer.as_deref().or_else(|| first.map(|login| login.issuer.as_str()))
}

/// Whether two texts name one issuer: whether the root path is written as a slash makes no difference.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| Url::parse(text).map_or_else(|_| text.to_owned(), String::from);
    plain(one).trim_end_matches('/') == plain(other).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::auth::{ClientRegistration, Endpoints, RegisteredClient};

    fn client(id: &str) -> RegisteredClient {
        RegisteredClient { id: id.to_owned(), secret: None, redirect_uri: None }
    }

    /// Whether an issuer is accepted by these settings after a login at `https://one.example` of the client `mine`.
    fn check_issuer(found: &str, change: impl FnOnce(&mut AuthSettings), is_accepted: bool) {
        let registration = ClientRegistration { preregistered: Some(client("mine")), metadata_document: None };
        let mut settings = AuthSettings { client: registration, ..AuthSettings::default() };
        change(&mut settings);
        let login = Login {
            issuer: "https://one.example".to_owned(),
            resource: "https://mcp.example".to_owned(),
            client: client("mine"),
            account: None,
            tokens: None,
        };
        assert_eq!(check(&settings, found, Some(&login)).is_ok(), is_accepted, "{found} {settings:?}");
    }

    #[test]
    fn a_registered_client_belongs_to_the_configured_issuer_or_to_its_first() {
        let other = "https://two.example";
        check_issuer("https://one.example", |_| (), true);
        check_issuer("https://one.example/", |_| (), true);
        check_issuer(other, |_| (), false);
        check_issuer("https://one.example/tenant", |_| (), false);
        check_issuer("http://one.example", |_| (), false);
        // The configuration decides, whatever was first.
        check_issuer(other, |settings| settings.issuer = Some("https://two.example/".to_owned()), true);
        check_issuer("https://one.example", |settings| settings.issuer = Some(other.to_owned()), false);
        // Another client, and one that was registered by itself, has nothing of the user's.
        check_issuer(other, |settings| settings.client.preregistered = Some(client("another")), true);
        check_issuer(other, |settings| settings.client.preregistered = None, true);
        let endpoints =
            Endpoints { authorization: None, token: "https://two.example/token".to_owned(), names_resource: false };
        check_issuer(other, |settings| settings.endpoints = Some(endpoints), true);
    }
}
