//! The HTTP service as an OAuth resource server: callers present tokens of the configured issuer instead of keys.
//!
//! A token is a JWT that the issuer signed for this service: signature, `iss`, `aud`, `exp` and `nbf` are checked, with an
//! asymmetric algorithm only. Its scopes decide what the caller may use. The metadata document (RFC 9728) tells clients where
//! to log in, and every refusal names it. Tokens are never passed on and never logged.
//!
//! Keys of the issuer are fetched when they are first needed, kept, and fetched again when a token names another one, at
//! most once in a while: a token with an invented key id costs no request.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as JwtError, ErrorKind};
use jsonwebtoken::jwk::{JwkSet, PublicKeyUse};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use parking_lot::RwLock;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use toolgate_config::checked::{HttpOAuth, OAuthScope};
use toolgate_config::values::Glob;
use toolgate_functions::http::{AllowList, Fetcher, Guard, HttpLimits, HttpRequest};
use toolgate_mcp::process_budget;
use toolgate_run::durable::fairness_of;
use toolgate_wire::{Access, CallerScope};
use url::Url;

use super::caller::Caller;

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// The largest document of an issuer.
const MAX_DOCUMENT_BYTES: usize = 512 << 10;
/// The most keys of an issuer.
const MAX_KEYS: usize = 100;
/// How long keys are used before they are fetched again.
const KEYS_LIFE: Duration = Duration::from_secs(600);
/// The least time between two fetches of keys.
const FETCH_INTERVAL: Duration = Duration::from_secs(15);
/// How much the clock of the issuer may differ, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// The algorithms of tokens. None with a shared secret: the issuer's public key would be one.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Admits callers by tokens of an issuer.
pub(super) struct ResourceServer {
    settings: HttpOAuth,
    metadata_url: String,
    fetcher: Fetcher,
    keys: RwLock<Keyset>,
    /// Held while keys are fetched.
    fetching: Mutex<Option<Instant>>,
}

impl fmt::Debug for ResourceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceServer").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

/// The keys of the issuer.
#[derive(Default)]
struct Keyset {
    by_id: HashMap<String, Arc<DecodingKey>>,
    /// The key of an issuer that has one and gives it no id.
    only: Option<Arc<DecodingKey>>,
    fetched: Option<Instant>,
}

/// Why a token opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// It is none of the issuer's for this service, or over. No reason is told: each would help to guess.
    Invalid,
    /// It is valid, and has no scope that opens anything.
    InsufficientScope,
    /// The keys of the issuer cannot be fetched.
    NoKeys,
}

/// A caller with a token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenCaller {
    /// Whose token it is.
    pub name: String,
    /// What it opens.
    pub scope: CallerScope,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    #[serde(default)]
    scope: Value,
    #[serde(default)]
    scp: Value,
}

impl ResourceServer {
    /// For the issuer of a configuration.
    pub(super) fn new(settings: HttpOAuth) -> Self {
        // Fails if a provider is installed already: of an embedding program, which is as good.
        let _ = PROVIDER.install_default();
        // The user configured the issuer, at whichever address.
        let hosts = [Url::parse(&settings.issuer).ok(), settings.jwks.as_ref().map(|url| url.url().clone())];
        let hosts: Vec<String> = hosts.iter().flatten().filter_map(|url| url.host_str().map(plain_host)).collect();
        let guard = Guard::new(AllowList::parse(&hosts).unwrap_or_default());
        let limits = HttpLimits { response_body: MAX_DOCUMENT_BYTES, ..HttpLimits::default() };
        let metadata_url = metadata_url(&settings.audience);
        let fetcher = Fetcher::new(guard, limits);
        Self { settings, metadata_url, fetcher, keys: RwLock::default(), fetching: Mutex::default() }
    }

    /// The protected resource metadata.
    pub(super) fn metadata(&self) -> Value {
        let scopes: Vec<&String> = self.settings.scopes.keys().collect();
        json!({
            "resource": self.settings.audience,
            "resource_name": "Toolgate",
            "authorization_servers": [self.settings.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
        })
    }

    /// Tells a refused client where to log in, and for what.
    pub(super) fn challenge(&self, response: &mut Response) {
        let error = match response.status() {
            StatusCode::UNAUTHORIZED => "",
            StatusCode::FORBIDDEN => r#"error="insufficient_scope", "#,
            _ => return,
        };
        let scopes: Vec<&str> = self.settings.scopes.keys().map(String::as_str).collect();
        let scope = if scopes.is_empty() { String::new() } else { format!(r#"scope="{}", "#, scopes.join(" ")) };
        let value = format!(r#"Bearer {error}{scope}resource_metadata="{}""#, self.metadata_url);
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }

    /// The caller with this token.
    pub(super) async fn caller(&self, token: &str) -> Result<Caller, TokenRefusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::Invalid);
        }
        let header = decode_header(token).map_err(|_| TokenRefusal::Invalid)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(TokenRefusal::Invalid);
        }
        let key = self.key(header.kid.as_deref()).await?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.settings.audience]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
        let claims = decode::<Claims>(token, &key, &validation).map_err(|_| TokenRefusal::Invalid)?.claims;
        self.admitted(&claims)
    }

    fn admitted(&self, claims: &Claims) -> Result<Caller, TokenRefusal> {
        let subject = [&claims.sub, &claims.client_id, &claims.azp].into_iter().flatten().find(|it| !it.is_empty());
        let name = format!("oauth:{}", subject.ok_or(TokenRefusal::Invalid)?);
        let granted: Vec<&OAuthScope> = match self.settings.scopes.is_empty() {
            true => Vec::new(),
            false => scopes_of(claims).iter().filter_map(|scope| self.settings.scopes.get(scope)).collect(),
        };
        if granted.is_empty() && !self.settings.scopes.is_empty() {
            return Err(TokenRefusal::InsufficientScope);
        }
        let mut scope =
            CallerScope { fairness: Some(fairness_of(&name)), name: name.clone(), ..CallerScope::default() };
        if !granted.is_empty() {
            scope.tools = union(granted.iter().map(|grant| grant.tools.as_deref()));
            scope.functions = union(granted.iter().map(|grant| grant.functions.as_deref()));
            scope.backends = backends_of(granted.iter().map(|grant| grant.tools.as_deref()));
        }
        Ok(Caller::Token(Arc::new(TokenCaller { name, scope })))
    }

    /// The key of that id, fetched again if it is not known or old.
    async fn key(&self, id: Option<&str>) -> Result<Arc<DecodingKey>, TokenRefusal> {
        let known = || {
            let keys = self.keys.read();
            let fresh = keys.fetched.is_some_and(|at| at.elapsed() < KEYS_LIFE);
            let key = match id {
                Some(id) => keys.by_id.get(id).or(keys.only.as_ref().filter(|_| keys.by_id.is_empty())),
                None => keys.only.as_ref(),
            };
            (key.cloned(), fresh)
        };
        if let (Some(key), true) = known() {
            return Ok(key);
        }
        let mut last = self.fetching.lock().await;
        let (key, fresh) = known();
        let may_fetch = last.is_none_or(|at| at.elapsed() >= FETCH_INTERVAL);
        if may_fetch && (key.is_none() || !fresh) {
            *last = Some(Instant::now());
            match self.fetch().await {
                Ok(keys) => *self.keys.write() = keys,
                Err(reason) => {
                    tracing::warn!(issuer = self.settings.issuer, reason, "the keys of the issuer can't be fetched")
                }
            }
        }
        // Old keys are better than none: the issuer may be away for a while.
        let (key, _) = known();
        match key {
            Some(key) => Ok(key),
            None if self.keys.read().fetched.is_none() => Err(TokenRefusal::NoKeys),
            None => Err(TokenRefusal::Invalid),
        }
    }

    async fn fetch(&self) -> Result<Keyset, String> {
        let url = match &self.settings.jwks {
            Some(url) => url.url().clone(),
            None => self.discover().await?,
        };
        let set: JwkSet = serde_json::from_value(self.document(url).await?).map_err(|error| error.to_string())?;
        let mut keys = Keyset { fetched: Some(Instant::now()), ..Keyset::default() };
        let mut anonymous = Vec::new();
        for jwk in set.keys.iter().take(MAX_KEYS) {
            let signs = jwk.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
            // A shared secret in a public document is none.
            let is_public = !matches!(jwk.algorithm, jsonwebtoken::jwk::AlgorithmParameters::OctetKey(_));
            let Some(key) = DecodingKey::from_jwk(jwk).ok().filter(|_| signs && is_public) else { continue };
            match &jwk.common.key_id {
                Some(id) => drop(keys.by_id.insert(id.clone(), Arc::new(key))),
                None => anonymous.push(Arc::new(key)),
            }
        }
        keys.only = match (anonymous.as_slice(), keys.by_id.len()) {
            ([one], 0) => Some(Arc::clone(one)),
            ([], 1) => keys.by_id.values().next().cloned(),
            _ => None,
        };
        Ok(keys)
    }

    /// Where the issuer's metadata says that its keys are.
    async fn discover(&self) -> Result<Url, String> {
        let issuer = Url::parse(&self.settings.issuer).map_err(|error| error.to_string())?;
        let path = issuer.path().trim_matches('/').to_owned();
        let mut reason = String::new();
        for place in ["oauth-authorization-server", "openid-configuration", "openid-configuration after"] {
            let mut url = issuer.clone();
            url.set_path(&match place.strip_suffix(" after") {
                _ if path.is_empty() => format!("/.well-known/{}", place.trim_end_matches(" after")),
                Some(name) => format!("/{path}/.well-known/{name}"),
                None => format!("/.well-known/{place}/{path}"),
            });
            match self.document(url).await {
                Ok(found) if found.get("issuer").and_then(Value::as_str) != Some(&self.settings.issuer) => {
                    reason = "its metadata names another issuer".to_owned();
                }
                Ok(found) => {
                    let keys = found.get("jwks_uri").and_then(Value::as_str).ok_or("its metadata has no jwks_uri")?;
                    return Url::parse(keys).map_err(|error| error.to_string());
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    async fn document(&self, url: Url) -> Result<Value, String> {
        let is_local = url.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !is_local {
            return Err("its URL is not HTTPS".to_owned());
        }
        let request = HttpRequest::from_parts("GET", url, &[], None).map_err(|error| error.to_string())?;
        let answer = self.fetcher.send_once(request, process_budget()).await.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("it answered {}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
    }
}

/// A host as an entry of an allow list: an IPv6 address without its brackets.
fn plain_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Where the metadata of a resource is: the well-known part before its path.
fn metadata_url(resource: &str) -> String {
    let Ok(mut url) = Url::parse(resource) else { return String::new() };
    let path = format!("/.well-known/oauth-protected-resource/{}", url.path().trim_matches('/'));
    url.set_path(path.trim_end_matches('/'));
    url.into()
}

/// The scopes of a token: a text, or a list as some issuers write it.
fn scopes_of(claims: &Claims) -> Vec<String> {
    let mut scopes = Vec::new();
    for value in [&claims.scope, &claims.scp] {
        match value {
            Value::String(text) => scopes.extend(text.split_ascii_whitespace().map(str::to_owned)),
            Value::Array(items) => scopes.extend(items.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        }
    }
    scopes
}

/// What any of the grants opens; a grant without a list opens all.
fn union<'a>(grants: impl Iterator<Item = Option<&'a [Glob]>>) -> Access {
    let mut patterns = Vec::new();
    for grant in grants {
        match grant {
            None => return Access::All,
            Some(globs) => patterns.extend(globs.iter().cloned()),
        }
    }
    Access::Only(patterns)
}

/// The backends of patterns over `backend.tool`.
fn backends_of<'a>(grants: impl Iterator<Item = Option<&'a [Glob]>>) -> Access {
    let mut patterns = Vec::new();
    for grant in grants {
        let Some(globs) = grant else { return Access::All };
        for glob in globs {
            let text = glob.to_string();
            patterns.push(Glob::new(text.split_once('.').map_or(text.as_str(), |(backend, _)| backend)));
        }
    }
    Access::Only(patterns)
}

/// Signatures are verified by `ring`, which is linked already. Nothing is signed here.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| -> Result<Box<dyn JwtSigner>, JwtError> { Err(ErrorKind::UnsupportedAlgorithm.into()) },
    verifier_factory: |algorithm, key| {
        let verifier = RingVerifier { algorithm: *algorithm, key: key.clone() };
        Ok(Box::new(verifier) as Box<dyn JwtVerifier>)
    },
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), SignatureError> {
        let rsa = |parameters: &'static RsaParameters| match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signed).map_err(|_| SignatureError::new())
            }
            DecodingKeyKind::SecretOrDer(_) => Err(SignatureError::new()),
        };
        let other = |algorithm: &'static dyn VerificationAlgorithm| match self.key.kind() {
            DecodingKeyKind::SecretOrDer(key) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signed).map_err(|_| SignatureError::new())
            }
            DecodingKeyKind::RsaModulusExponent { .. } => Err(SignatureError::new()),
        };
        match self.algorithm {
            Algorithm::RS256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => other(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => other(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => other(&signature::ED25519),
            // Shared secrets, and whatever a later version of the library knows.
            _ => Err(SignatureError::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_is_before_the_path_of_the_resource() {
        let well_known = "https://t.example/.well-known/oauth-protected-resource";
        assert_eq!(metadata_url("https://t.example/mcp"), format!("{well_known}/mcp"));
        assert_eq!(metadata_url("https://t.example"), well_known);
    }
}
