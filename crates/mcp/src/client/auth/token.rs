//! Requests for tokens: for a code, for a refresh token, for the client itself.
//!
//! Every request names the resource that the token is for (RFC 8707), except at endpoints of the configuration. How the client proves who it is follows the
//! authorization server's metadata. Tokens are never shown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use reqwest::Url;
use serde_json::Value;

use super::challenge::scopes_of;
use super::metadata::AuthorizationServer;
use super::registration::RegisteredClient;
use super::transport::{Answer, AuthTransport, printable};
use super::{AuthError, SecretText};

const WHAT: &str = "the token";
/// A token is refreshed so long before it expires, or after nine tenths of its life if that is later.
const REFRESH_AHEAD: Duration = Duration::from_secs(60);

/// The tokens of one login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Sent to the server.
    pub access: SecretText,
    /// Exchanged for the next access token.
    pub refresh: Option<SecretText>,
    /// When the access token was issued, in seconds since 1970.
    pub issued_at: u64,
    /// When it expires, in seconds since 1970; unknown if the server did not say.
    pub expires_at: Option<u64>,
    /// What it may be used for.
    pub scopes: Vec<String>,
}

impl Tokens {
    /// Whether it is over, by this machine's clock.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }

    /// Whether it should be refreshed now.
    pub fn is_due(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|expires_at| {
            let life = expires_at.saturating_sub(self.issued_at);
            let ahead = REFRESH_AHEAD.as_secs().min(life / 10);
            now >= expires_at.saturating_sub(ahead)
        })
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Who asks for tokens, and where.
#[derive(Debug)]
pub(super) struct TokenRequest<'a> {
    pub(super) transport: &'a AuthTransport,
    pub(super) server: &'a AuthorizationServer,
    pub(super) client: &'a RegisteredClient,
    /// The resource that the token is for, where the server knows such.
    pub(super) resource: Option<&'a str>,
}

impl TokenRequest<'_> {
    /// Tokens for a code.
    pub(super) async fn for_code(
        &self,
        code: &SecretText,
        verifier: &SecretText,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<(Tokens, Option<String>), AuthError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("code_verifier", verifier.expose()),
            ("redirect_uri", redirect_uri),
        ];
        let answer = self.exchange(&form).await?;
        let account = answer.body.get("id_token").and_then(Value::as_str).and_then(account_of);
        Ok((read(&answer, scopes, None)?, account))
    }

    /// New tokens for old ones.
    pub(super) async fn refresh(&self, tokens: &Tokens, refresh: &SecretText) -> Result<Tokens, AuthError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        self.send(&form, &tokens.scopes, Some(refresh)).await
    }

    /// Tokens for the client itself, without a person.
    pub(super) async fn for_client(&self, scopes: &[String]) -> Result<Tokens, AuthError> {
        let scope = scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        self.send(&form, scopes, None).await
    }

    async fn send(
        &self,
        form: &[(&str, &str)],
        asked: &[String],
        former: Option<&SecretText>,
    ) -> Result<Tokens, AuthError> {
        read(&self.exchange(form).await?, asked, former)
    }

    /// Tells the server that a token is not used any more (RFC 7009).
    pub(super) async fn revoke(&self, endpoint: Url, token: &SecretText) -> Result<(), AuthError> {
        let form = [("token", token.expose())];
        self.send_to(endpoint, &form).await.map(drop)
    }

    async fn exchange(&self, form: &[(&str, &str)]) -> Result<Answer, AuthError> {
        let mut form = form.to_vec();
        form.extend(self.resource.map(|resource| ("resource", resource)));
        self.send_to(self.server.token_endpoint.clone(), &form).await
    }

    /// Sends a form with what proves who this client is.
    async fn send_to(&self, endpoint: Url, form: &[(&str, &str)]) -> Result<Answer, AuthError> {
        let mut form = form.to_vec();
        let secret = self.client.secret.as_ref().map(SecretText::expose);
        let in_body = self.server.auth_methods.iter().any(|method| method == "client_secret_post")
            && !self.server.auth_methods.iter().any(|method| method == "client_secret_basic");
        let basic = secret.filter(|_| !in_body).map(|secret| (self.client.id.as_str(), secret));
        if basic.is_none() {
            form.push(("client_id", &self.client.id));
            form.extend(secret.map(|secret| ("client_secret", secret)));
        }
        self.transport.post_form(WHAT, endpoint, &form, basic).await
    }
}

/// The name of the account in an ID token, to be shown to people. It comes from the issuer itself over TLS, so its
/// signature adds nothing; nothing is decided by it.
fn account_of(id_token: &str) -> Option<String> {
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let names = ["email", "preferred_username", "name", "sub"].iter();
    let found = names.filter_map(|name| claims.get(name)?.as_str()).find(|text| !text.trim().is_empty());
    found.map(printable)
}

fn read(answer: &Answer, asked: &[String], former: Option<&SecretText>) -> Result<Tokens, AuthError> {
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !answer.status.is_success() || text("error").is_some() {
        let code = text("error").map_or_else(|| format!("HTTP {}", answer.status.as_u16()), printable);
        return Err(AuthError::Refused { what: WHAT, code, description: text("error_description").map(printable) });
    }
    let invalid = |reason: &str| AuthError::Invalid { what: WHAT, reason: reason.to_owned() };
    let access = text("access_token").ok_or_else(|| invalid("the answer has no access_token"))?;
    if !access.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
        return Err(invalid("the access token has characters that a header cannot have"));
    }
    if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(invalid("the token is not a bearer token"));
    }
    let issued_at = now();
    let life = answer.body.get("expires_in").and_then(seconds);
    Ok(Tokens {
        access: SecretText::new(access),
        refresh: text("refresh_token").map(SecretText::new).or_else(|| former.cloned()),
        issued_at,
        expires_at: life.map(|life| issued_at.saturating_add(life)),
        scopes: text("scope").map_or_else(|| asked.to_vec(), scopes_of),
    })
}

/// Seconds, which some servers send as text or with a fraction.
fn seconds(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    // A conversion of numbers saturates.
    (seconds >= 0.0).then_some(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;
    use serde_json::json;

    fn answer(status: u16, body: Value) -> Result<Tokens, AuthError> {
        read(&Answer { status: StatusCode::from_u16(status).unwrap(), body }, &["asked".to_owned()], None)
    }

    #[test]
    fn a_token_is_due_before_it_expires() {
        let tokens = |life: u64| Tokens {
            access: SecretText::new("a"),
            refresh: None,
            issued_at: 1000,
            expires_at: Some(1000 + life),
            scopes: Vec::new(),
        };
        assert!(!tokens(3600).is_due(1000 + 3539));
        assert!(tokens(3600).is_due(1000 + 3540));
        // A token of a short life is not due from its first second.
        assert!(!tokens(10).is_due(1000));
        assert!(tokens(10).is_due(1009));
        assert!(!Tokens { expires_at: None, ..tokens(1) }.is_due(u64::MAX));
    }

    #[test]
    fn scopes_are_those_that_were_granted_or_asked_for() {
        let body = json!({ "access_token": "a", "token_type": "bearer", "expires_in": "5" });
        let tokens = answer(200, body.clone()).unwrap();
        assert_eq!((tokens.scopes, tokens.expires_at), (vec!["asked".to_owned()], Some(tokens.issued_at + 5)));
        let mut body = body;
        body["scope"] = json!("x y");
        assert_eq!(answer(200, body).unwrap().scopes, ["x", "y"]);
    }

    #[test]
    fn the_life_of_a_token_is_a_number_of_seconds_in_any_writing() {
        for (life, expected) in [
            (json!(5), Some(5)),
            (json!(5.9), Some(5)),
            (json!("5"), Some(5)),
            (json!(" 5.0 "), Some(5)),
            (json!(-1), None),
            (json!("soon"), None),
            (json!(null), None),
            (json!(1e300), Some(u64::MAX)),
        ] {
            assert_eq!(seconds(&life), expected, "{life}");
        }
    }

    #[test]
    fn what_is_not_a_bearer_token_is_refused() {
        for body in [
            json!({}),
            json!({ "access_token": "", "token_type": "bearer" }),
            json!({ "access_token": "a", "token_type": "mac" }),
            json!({ "access_token": "a\r\nX: y", "token_type": "bearer" }),
            json!([]),
        ] {
            assert!(matches!(answer(200, body.clone()), Err(AuthError::Invalid { .. })), "{body}");
        }
        let refused = answer(400, json!({ "error": "invalid_grant", "error_description": "gone\u{7}" })).unwrap_err();
        assert_eq!(refused.to_string(), "the token was refused: invalid_grant (gone\u{fffd})");
    }
}
