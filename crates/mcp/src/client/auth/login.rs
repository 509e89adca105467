//! One login of a person: the URL for the browser, and the redirect that comes back.
//!
//! Checks in this order before the code is sent anywhere: that the redirect belongs to this login (`state`), that it comes
//! from the issuer that was asked (`iss`, RFC 9207), that it is no refusal.

use reqwest::Url;
use ring::digest;
use subtle::ConstantTimeEq;

use super::metadata::Discovered;
use super::registration::RegisteredClient;
use super::transport::printable;
use super::{AuthError, SecretText, random_text};

/// A login that waits for its redirect.
#[derive(Debug)]
pub struct PendingLogin {
    /// The URL to open in a browser.
    pub url: Url,
    pub(super) state: SecretText,
    pub(super) verifier: SecretText,
    pub(super) redirect_uri: String,
    pub(super) scopes: Vec<String>,
    pub(super) client: RegisteredClient,
    pub(super) discovered: Discovered,
}

impl PendingLogin {
    pub(super) fn new(
        discovered: Discovered,
        client: RegisteredClient,
        redirect_uri: &str,
        scopes: Vec<String>,
    ) -> Result<Self, AuthError> {
        let issuer = &discovered.issuer;
        if !issuer.has_pkce {
            return Err(AuthError::NoPkce { issuer: issuer.issuer.clone() });
        }
        let Some(mut url) = issuer.authorization_endpoint.clone() else {
            let reason = "it has no authorization_endpoint".to_owned();
            return Err(AuthError::Invalid { what: "the metadata of the authorization server", reason });
        };
        let (state, verifier) = (random_text()?, random_text()?);
        let mut query = url.query_pairs_mut();
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge_of(&verifier)),
            ("code_challenge_method", "S256"),
        ]);
        if discovered.names_resource {
            query.append_pair("resource", &discovered.resource);
        }
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.join(" "));
        }
        drop(query);
        Ok(Self {
            url,
            state: SecretText::new(state),
            verifier: SecretText::new(verifier),
            redirect_uri: redirect_uri.to_owned(),
            scopes,
            client,
            discovered,
        })
    }

    /// Whether a redirect belongs to this login.
    pub fn is_answered_by(&self, response: &AuthorizationResponse) -> bool {
        let state = response.state.as_ref().map(SecretText::expose).unwrap_or_default();
        bool::from(state.as_bytes().ct_eq(self.state.expose().as_bytes()))
    }

    /// The issuer that is asked.
    pub fn issuer(&self) -> &str {
        &self.discovered.issuer.issuer
    }

    /// Where the browser is redirected to.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// The code of a redirect that belongs to this login and its issuer.
    pub(super) fn accept(&self, response: &AuthorizationResponse) -> Result<SecretText, AuthError> {
        if !self.is_answered_by(response) {
            return Err(AuthError::WrongState);
        }
        self.check_issuer(response.issuer.as_deref())?;
        if let Some(code) = &response.error {
            let description = response.description.as_deref().map(printable);
            return Err(AuthError::Refused { what: "the login", code: printable(code), description });
        }
        let missing = || AuthError::Invalid { what: "the redirect", reason: "it has no code".to_owned() };
        response.code.clone().ok_or_else(missing)
    }

    /// The four cases of RFC 9207: an issuer that is given must be the right one; one that is not given is accepted only
    /// from a server that does not promise to send it.
    fn check_issuer(&self, found: Option<&str>) -> Result<(), AuthError> {
        let server = &self.discovered.issuer;
        match (found, server.sends_issuer) {
            (Some(found), _) if server.is_named_by(found) => Ok(()),
            (None, false) => Ok(()),
            (Some(_), _) | (None, true) => Err(AuthError::WrongIssuer {
                expected: server.redirect_issuer(),
                found: printable(found.unwrap_or("nobody")),
            }),
        }
    }
}

/// The parameters of the redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationResponse {
    code: Option<SecretText>,
    state: Option<SecretText>,
    issuer: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl AuthorizationResponse {
    /// Reads a URL, or the part of one after its question mark, as a person copies it from a browser.
    pub fn from_url(text: &str) -> Result<Self, AuthError> {
        let text = text.trim();
        let query = text.split_once('?').map_or(text, |(_, query)| query);
        Self::from_query(query.split('#').next().unwrap_or_default())
    }

    /// Reads the query of the redirect, without the question mark. A parameter that occurs twice makes it invalid.
    pub fn from_query(query: &str) -> Result<Self, AuthError> {
        let mut response = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            let repeated = match &*name {
                "code" => response.code.replace(SecretText::new(value)).is_some(),
                "state" => response.state.replace(SecretText::new(value)).is_some(),
                "iss" => response.issuer.replace(value).is_some(),
                "error" => response.error.replace(value).is_some(),
                "error_description" => response.description.replace(value).is_some(),
                _ => false,
            };
            if repeated {
                let reason = format!("{} occurs twice", printable(&name));
                return Err(AuthError::Invalid { what: "the redirect", reason });
            }
        }
        Ok(response)
    }
}

/// The S256 challenge of a PKCE verifier.
pub(super) fn challenge_of(verifier: &str) -> String {
    use base64::Engine;
    let digest = digest::digest(&digest::SHA256, verifier.as_bytes());
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::auth::metadata::{AuthorizationServer, RedirectIssuer};

    fn pending(sends_issuer: bool) -> PendingLogin {
        let url = |path: &str| Url::parse("https://as.example").unwrap().join(path).unwrap();
        let issuer = AuthorizationServer {
            issuer: "https://as.example".to_owned(),
            redirect_issuer: RedirectIssuer::Exact,
            authorization_endpoint: Some(url("/authorize?tenant=1")),
            token_endpoint: url("/token"),
            registration_endpoint: None,
            revocation_endpoint: None,
            sends_issuer,
            reads_client_documents: false,
            auth_methods: Vec::new(),
            scopes: Vec::new(),
            has_pkce: true,
        };
        let resource = "https://mcp.example/mcp".to_owned();
        let discovered = Discovered { resource, names_resource: true, scopes: Vec::new(), issuer };
        let client = RegisteredClient { id: "me".to_owned(), secret: None, redirect_uri: None };
        PendingLogin::new(discovered, client, "http://127.0.0.1:1/callback", vec!["a".to_owned(), "b".to_owned()])
            .unwrap()
    }

    fn check(sends_issuer: bool, extra: &str, expected: Result<(), AuthError>) {
        check_login(pending(sends_issuer), extra, expected);
    }

    #[track_caller]
    fn check_login(pending: PendingLogin, extra: &str, expected: Result<(), AuthError>) {
        let query = format!("code=c&state={}{extra}", pending.state.expose());
        let found = AuthorizationResponse::from_query(&query).and_then(|response| pending.accept(&response));
        assert_eq!(found.map(drop), expected, "{extra}");
    }

    fn wrong(found: &str) -> Result<(), AuthError> {
        Err(AuthError::WrongIssuer { expected: "https://as.example".to_owned(), found: found.to_owned() })
    }

    #[test]
    fn the_issuer_of_a_redirect_is_checked_in_all_four_cases() {
        let (right, other) = ("&iss=https%3A%2F%2Fas.example", "&iss=https%3A%2F%2Fevil.example");
        check(true, right, Ok(()));
        check(true, "", wrong("nobody"));
        check(true, other, wrong("https://evil.example"));
        check(false, right, Ok(()));
        check(false, "", Ok(()));
        check(false, other, wrong("https://evil.example"));
        // Compared as it is written: no slash more, no other case.
        check(false, "&iss=https%3A%2F%2Fas.example%2F", wrong("https://as.example/"));
    }

    #[test]
    fn the_issuer_of_a_redirect_without_metadata_is_the_configured_one_or_of_the_origin_of_the_page() {
        let check = |issuer: Option<&str>, extra: &str, expected: Result<(), AuthError>| {
            let mut pending = pending(false);
            let server = &mut pending.discovered.issuer;
            let page = Url::parse("https://login.example/authorize").unwrap();
            server.redirect_issuer = match issuer {
                Some(issuer) => {
                    issuer.clone_into(&mut server.issuer);
                    RedirectIssuer::Configured
                }
                None => RedirectIssuer::OfOrigin(page.origin()),
            };
            check_login(pending, extra, expected);
        };
        let wrong = |expected: &str, found: &str| {
            Err(AuthError::WrongIssuer { expected: expected.to_owned(), found: found.to_owned() })
        };
        check(None, "", Ok(()));
        check(None, "&iss=https%3A%2F%2Flogin.example%2Ftenant", Ok(()));
        check(None, "&iss=https%3A%2F%2Flogin.example", Ok(()));
        let page = "https://login.example";
        check(None, "&iss=https%3A%2F%2Fas.example", wrong(page, "https://as.example"));
        check(None, "&iss=http%3A%2F%2Flogin.example", wrong(page, "http://login.example"));
        check(None, "&iss=nonsense", wrong(page, "nonsense"));
        let one = Some("https://as.example/one");
        check(one, "", Ok(()));
        check(one, "&iss=https%3A%2F%2Fas.example%2Fone", Ok(()));
        check(one, "&iss=https%3A%2F%2Fas.example%2Ftwo", wrong("https://as.example/one", "https://as.example/two"));
        check(Some("https://as.example/"), "&iss=https%3A%2F%2Fas.example", Ok(()));
    }

    #[test]
    fn a_refusal_of_another_issuer_is_not_believed() {
        let refused =
            |code: &str| Err(AuthError::Refused { what: "the login", code: code.to_owned(), description: None });
        check(true, "&error=access_denied&iss=https%3A%2F%2Fas.example", refused("access_denied"));
        check(true, "&error=access_denied", wrong("nobody"));
    }

    #[test]
    fn a_redirect_of_another_login_is_refused() {
        for query in ["code=c", "code=c&state=other", "code=c&state="] {
            let response = AuthorizationResponse::from_query(query).unwrap();
            assert_eq!(pending(false).accept(&response), Err(AuthError::WrongState), "{query}");
        }
        assert!(AuthorizationResponse::from_query("code=a&code=b").is_err());
    }

    #[test]
    fn the_url_names_resource_scopes_and_challenge() {
        let pending = pending(false);
        let query: std::collections::BTreeMap<_, _> = pending.url.query_pairs().into_owned().collect();
        let get = |name: &str| query.get(name).map(String::as_str);
        assert_eq!(get("tenant"), Some("1"));
        assert_eq!(get("resource"), Some("https://mcp.example/mcp"));
        assert_eq!(get("scope"), Some("a b"));
        assert_eq!(get("code_challenge_method"), Some("S256"));
        assert_eq!(get("code_challenge"), Some(challenge_of(pending.verifier.expose()).as_str()));
    }

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // The example of RFC 7636, appendix B.
        let challenge = challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
