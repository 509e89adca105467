//! The HTTP service as an OAuth resource server: callers present tokens of the configured issuer instead of keys.
//!
//! A token is a JWT that the issuer signed for this service: signature, `iss`, `aud`, `exp` and `nbf` are checked, with an
//! asymmetric algorithm only, and a token with critical extensions (`crit`) is refused. Its scopes decide what the caller may use. The metadata document (RFC 9728) tells clients where
//! to log in, and every refusal names it. Tokens are never passed on and never logged. The keys of the issuer are those of
//! `issuer_keys`.

use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as JwtError, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_config::checked::{HttpOAuth, OAuthScope};
use toolgate_config::values::Glob;
use toolgate_run::durable::fairness_of;
use toolgate_wire::{Access, CallerScope};
use url::Url;

use super::caller::Caller;
use super::issuer_keys::{IssuerKeys, KeyTimes};
use super::refusal::Refusal;

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
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
    keys: Arc<IssuerKeys>,
}

impl fmt::Debug for ResourceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceServer").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
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
        let keys = Arc::new(IssuerKeys::new(&settings, KeyTimes::default()));
        Self { metadata_url: metadata_url(&settings.audience), settings, keys }
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

    /// Who issues the tokens that are accepted.
    pub(super) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Tells a refused client where to log in, and for what; a client that sent a token, also what is wrong with it.
    pub(super) fn challenge(&self, refusal: &Refusal, response: &mut Response) {
        if !response.headers().contains_key(header::WWW_AUTHENTICATE) {
            return;
        }
        let error = refusal.bearer_error().map(|error| format!(r#"error="{error}", "#)).unwrap_or_default();
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
        if !ALGORITHMS.contains(&header.alg) || has_critical_extensions(token) {
            return Err(TokenRefusal::Invalid);
        }
        let key = self.keys.key(header.kid.as_deref()).await?;
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
}

/// Whether the header of a token has `crit`, whatever its value: it names extensions that must be understood (RFC 7515, section
/// 4.1.11), and none is supported here. A header that cannot be read counts as one that has it.
fn has_critical_extensions(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = BASE64_URL_SAFE_NO_PAD.decode(header).ok();
    let header = header.and_then(|header| serde_json::from_slice::<Map<String, Value>>(&header).ok());
    header.is_none_or(|header| header.contains_key("crit"))
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

    #[test]
    fn a_header_with_crit_has_critical_extensions_whatever_its_value() {
        let has = |header: &str| has_critical_extensions(&format!("{}.e30.", BASE64_URL_SAFE_NO_PAD.encode(header)));
        for header in [r#"{"crit":["exp"]}"#, r#"{"crit":null}"#, r#"{"crit":[],"alg":"ES256"}"#, "[]", "no JSON"] {
            assert!(has(header), "{header}");
        }
        assert!(!has(r#"{"alg":"ES256","kid":"crit"}"#));
        assert!(has_critical_extensions("ä.e30."));
    }
}
