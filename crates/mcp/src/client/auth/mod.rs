//! OAuth towards servers: finds out who issues tokens for a server, logs in, keeps and refreshes tokens.
//!
//! The client side of MCP's authorization in both eras: protected resource metadata (RFC 9728), authorization server
//! metadata (RFC 8414 and OpenID Connect), PKCE with S256, `resource` in every request (RFC 8707), and the `iss` check
//! (RFC 9207) before a code is sent anywhere. A token is bound to the issuer and the resource that it was issued for, and is
//! sent to that resource alone; no token of a caller is passed through.
//!
//! # Layout
//! - `challenge`: the `WWW-Authenticate` header of a refusal
//! - `transport`: bounded requests to addresses that a server may name; `allowed_hosts`: those that the configuration adds; `metadata`: the documents, and where they are
//! - `registration`: which client this is at an authorization server; `issuer_binding`: which one may have its credentials
//! - `login`: one login, from the URL for the browser to the code; `redirect`: receives the browser on this machine
//! - `token`: requests for tokens
//! - `store`: where logins are kept; [`Authorizer`]: all of it for one server
//!
//! Opening a browser is up to the command line; asking a person during a run, to the gateway.

mod allowed_hosts;
mod authorizer;
mod challenge;
mod issuer_binding;
mod login;
mod metadata;
mod redirect;
mod registration;
mod store;
mod token;
mod transport;

pub use authorizer::{AuthSettings, Authorizer, Grant, LoginStatus, Retry};
pub use challenge::Challenge;
pub use login::{AuthorizationResponse, PendingLogin};
pub use metadata::Endpoints;
pub use redirect::RedirectListener;
pub use registration::{ClientRegistration, RegisteredClient};
pub use store::{Login, LoginVersion, MemoryTokenStore, SecretError, StoreLock, TokenStore};
pub use token::Tokens;
pub use transport::AddressRule;

use std::fmt;

use super::redact::Redactor;

/// A secret, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends or stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A URL of the configuration or of a document is not usable.
    #[error("{what} is not a URL that may be used: {reason}")]
    Url {
        /// Whose URL it is.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A request was not answered.
    #[error("{what} can't be reached: {reason}")]
    Unreachable {
        /// What was asked for.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// An answer is larger than such answers are.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// An answer is not what the standards say.
    #[error("{what} is not valid: {reason}")]
    Invalid {
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The document is about another resource than the server that named it.
    #[error("the metadata of the server is about {found}, not about {expected}")]
    WrongResource {
        /// The server.
        expected: String,
        /// What the document says.
        found: String,
    },
    /// A document or a redirect names another issuer than the one that was asked.
    #[error("the answer comes from the issuer {found}, expected was {expected}: the login is refused")]
    WrongIssuer {
        /// The issuer that was asked.
        expected: String,
        /// The issuer that answered, or nothing.
        found: String,
    },
    /// The server names another issuer than the one that the credentials of this client belong to.
    #[error(
        "the server names the issuer {found}, but the login belongs to {expected}: nothing was sent to {found}; if it is \
         meant, set `issuer` of the server's `auth` to it, or run `{logout}` where that is not set"
    )]
    OtherIssuer {
        /// The issuer of the configuration, or the one that the client was first used at.
        expected: String,
        /// The issuer that the server names now.
        found: String,
        /// The command that forgets the login.
        logout: String,
    },
    /// The redirect belongs to another login.
    #[error("the redirect does not belong to this login")]
    WrongState,
    /// The authorization server does not support PKCE with S256.
    #[error("{issuer} does not support PKCE with S256, without which no login is made")]
    NoPkce {
        /// The issuer.
        issuer: String,
    },
    /// No client is registered and none can be registered automatically.
    #[error(
        "{issuer} has no automatic registration: register a client with the redirect URI {redirect_uri} there, and put its \
         id into the configuration, as `clientId` of the server's `auth`{}",
        fixed_port(.redirect_uri)
    )]
    NoClient {
        /// The issuer.
        issuer: String,
        /// The redirect URI to register.
        redirect_uri: String,
    },
    /// The authorization server refused.
    #[error("{what} was refused: {code}{}", described(.description.as_deref()))]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The error code, such as `access_denied`.
        code: String,
        /// Its description.
        description: Option<String>,
    },
    /// The authorization server refused to issue a token to the client itself; another request would be refused as well.
    #[error(
        "{issuer} issues no token to this client: {code}{}; check {} of the server, then restart it",
        described(.description.as_deref()), client_settings(.setting, .code)
    )]
    ClientRefused {
        /// Who refused.
        issuer: String,
        /// The error code, such as `invalid_client`.
        code: String,
        /// Its description.
        description: Option<String>,
        /// The setting that has the login, as the configuration spells it.
        setting: String,
    },
    /// The server refuses a token that was issued a moment ago: another login would give the same one.
    #[error(
        "the server refuses the token of this login{}; {issuer} issued it {}: check there for which audience it issues tokens, or run \
         `{logout}` and log in with another account",
        described(.description.as_deref()), asked_for(.resource.as_deref())
    )]
    TokenRefused {
        /// Who issued the token.
        issuer: String,
        /// The resource that it was asked for; none where none is named.
        resource: Option<String>,
        /// What the server says of it.
        description: Option<String>,
        /// The command that forgets the login.
        logout: String,
    },
    /// A person has to log in.
    #[error("a login is needed{}", if .scopes.is_empty() { String::new() } else { format!(" for {}", .scopes.join(", ")) })]
    LoginRequired {
        /// The scopes to ask for.
        scopes: Vec<String>,
    },
    /// The login does not cover a request: a person has to log in again, for more.
    #[error("{missing}{}", login_for(.scopes, *.missing))]
    ScopesRequired {
        /// The scopes to ask for.
        scopes: Vec<String>,
        /// What is known of those that the login lacks.
        missing: MissingScopes,
    },
    /// The login was not finished in time.
    #[error(
        "the login was not finished within {} s; if its page refused the client, run `{logout}` and log in again",
        .after.as_secs()
    )]
    TimedOut {
        /// The time.
        after: std::time::Duration,
        /// The command that forgets the login, and with it the client that was registered for it.
        logout: String,
    },
    /// Logins cannot be read or kept.
    #[error(transparent)]
    Store(#[from] SecretError),
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoRandomness,
}

/// What is known of the scopes that a login lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingScopes {
    /// The server names them.
    Named,
    /// The server does not name them, and the next login asks for scopes that this one does not have.
    UnnamedWithMoreToAsk,
    /// The server does not name them, and no other scope is known.
    Unnamed,
}

impl fmt::Display for MissingScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => "the login does not cover this request",
            Self::UnnamedWithMoreToAsk | Self::Unnamed => {
                "the server wants more rights than the login has, and does not say which"
            }
        })
    }
}

/// What another login is to ask for.
fn login_for(scopes: &[String], missing: MissingScopes) -> String {
    match missing {
        MissingScopes::Named | MissingScopes::UnnamedWithMoreToAsk => {
            format!(": another login is needed for {}", scopes.join(", "))
        }
        MissingScopes::Unnamed => ": another login with more `scopes` in the server's `auth` is needed".to_owned(),
    }
}

impl AuthError {
    /// The same without configured secrets, which an issuer may repeat in what it says.
    pub(crate) fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Url { what, reason } => Self::Url { what, reason: redactor.redact(&reason) },
            Self::Unreachable { what, reason } => Self::Unreachable { what, reason: redactor.redact(&reason) },
            Self::Invalid { what, reason } => Self::Invalid { what, reason: redactor.redact(&reason) },
            Self::Refused { what, code, description } => {
                let description = description.map(|text| redactor.redact(&text));
                Self::Refused { what, code: redactor.redact(&code), description }
            }
            Self::ClientRefused { issuer, code, description, setting } => {
                let description = description.map(|text| redactor.redact(&text));
                Self::ClientRefused { issuer, code: redactor.redact(&code), description, setting }
            }
            Self::TokenRefused { issuer, resource, description, logout } => {
                let description = description.map(|text| redactor.redact(&text));
                Self::TokenRefused { issuer, resource, description, logout }
            }
            // Values of documents that are public, of the configuration or of this machine.
            Self::TooLarge { .. }
            | Self::WrongResource { .. }
            | Self::WrongIssuer { .. }
            | Self::OtherIssuer { .. }
            | Self::WrongState
            | Self::NoPkce { .. }
            | Self::NoClient { .. }
            | Self::LoginRequired { .. }
            | Self::ScopesRequired { .. }
            | Self::TimedOut { .. }
            | Self::Store(_)
            | Self::NoRandomness => self,
        }
    }

    /// Whether the authorization server does not know the client, or not by this secret.
    fn is_unknown_client(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "invalid_client")
    }

    /// Whether the same request would be refused again: an error of OAuth, which says what is wrong with the request or the
    /// client. Servers have other codes for what passes.
    fn is_lasting_refusal(&self) -> bool {
        const LASTING: [&str; 8] = [
            "access_denied",
            "invalid_client",
            "invalid_grant",
            "invalid_request",
            "invalid_scope",
            "invalid_target",
            "unauthorized_client",
            "unsupported_grant_type",
        ];
        matches!(self, Self::Refused { code, .. } if LASTING.contains(&code.as_str()))
    }

    /// Whether the client was refused for the scopes that it asked for, and may ask for others.
    fn is_about_scopes(&self) -> bool {
        matches!(self, Self::ClientRefused { code, .. } if code == "invalid_scope")
    }

    /// Whether the authorization server does not take the refresh token or the code any more.
    fn is_ended_grant(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "invalid_grant")
    }
}

/// A description in brackets.
fn described(description: Option<&str>) -> String {
    description.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// The resource that a token was asked for.
fn asked_for(resource: Option<&str>) -> String {
    resource.map_or_else(|| "for no named resource".to_owned(), |resource| format!("for the resource {resource}"))
}

/// The settings of a login that a refusal is about.
fn client_settings(setting: &str, code: &str) -> String {
    let setting = if setting.is_empty() { "auth" } else { setting };
    match code {
        "invalid_client" => format!("`{setting}.clientId` and `{setting}.clientSecret`"),
        "invalid_scope" => format!("`{setting}.scopes`"),
        "unauthorized_client" | "unsupported_grant_type" => format!("`{setting}.clientId` and `{setting}.grant`"),
        _ => format!("`{setting}`"),
    }
}

/// The setting with which a client that is registered for this redirect URI is always redirected there.
fn fixed_port(redirect_uri: &str) -> String {
    let port = url::Url::parse(redirect_uri).ok().and_then(|url| url.port());
    port.map(|port| format!(", with `\"redirectPort\": {port}`")).unwrap_or_default()
}

/// Random text that cannot be guessed, safe in URLs.
fn random_text() -> Result<String, AuthError> {
    use base64::Engine;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| AuthError::NoRandomness)?;
    Ok(base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_oauth_last() {
        let is_lasting = |code: &str| {
            AuthError::Refused { what: "the token", code: code.to_owned(), description: None }.is_lasting_refusal()
        };
        assert!(is_lasting("invalid_client") && is_lasting("invalid_scope") && is_lasting("unauthorized_client"));
        for code in ["HTTP 503", "Service Unavailable", "unknown_error", "too_many_requests", "server_error"] {
            assert!(!is_lasting(code), "{code}");
        }
    }
}
