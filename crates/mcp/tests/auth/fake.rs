//! A server behind OAuth and its authorization server, in one: what they do is a setting of the test.

#![allow(dead_code, reason = "the tests of several crates use parts of it")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use base64::Engine;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

/// How the authorization server is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Described {
    OAuth,
    OpenId,
    /// By the configuration alone.
    Configured,
    /// By the configuration alone, for an MCP server.
    ConfiguredMcp,
    /// As in the first revision: no document of the resource, and none of the issuer.
    Nowhere,
}

/// What comes with the redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issuer {
    Right,
    /// With a path, as servers of several tenants have it.
    OfTenant,
    Absent,
    Wrong,
}

/// What is wrong with the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// 100 MB, as they come.
    HugeMetadata,
    /// The documents never end.
    SlowMetadata,
    /// The documents are half of one.
    BrokenMetadata,
    /// The documents redirect to an inner address.
    RedirectedMetadata,
    /// The token endpoint fails.
    BrokenToken,
    /// The token endpoint never answers.
    SlowToken,
    /// The token endpoint redirects.
    RedirectedToken,
    /// A refresh is answered once the test permits it.
    HeldRefresh,
    /// No client is known to the token endpoint.
    ForgottenClients,
    /// The resource and the API refuse every token.
    RefusedTokens,
    MetadataOfAnotherResource,
    MetadataOfAnotherIssuer,
    MetadataElsewhere,
    /// Tokens are issued at another inner address.
    TokenElsewhere,
    /// Every path without a document is a page.
    PagesInPlaceOfDocuments,
    NoPkce,
}

#[derive(Debug, Clone)]
pub(crate) struct Behaviour {
    pub(crate) described: Described,
    pub(crate) promises_issuer: bool,
    pub(crate) issuer: Issuer,
    pub(crate) registers: bool,
    pub(crate) reads_client_documents: bool,
    pub(crate) fault: Fault,
    /// The life of a token in seconds.
    pub(crate) life: u64,
    /// Whether a refresh token can be used once only.
    pub(crate) rotates: bool,
    /// Whether tokens can be revoked.
    pub(crate) revokes: bool,
    /// How clients may prove who they are; unsaid if empty.
    pub(crate) auth_methods: &'static [&'static str],
    /// Whether an account is told with the tokens.
    pub(crate) tells_account: bool,
    /// The issuer that the resource names in place of this one.
    pub(crate) other_issuer: Option<String>,
    /// Whether a refusal for want of a scope names it.
    pub(crate) names_scopes: bool,
    /// Whether a refresh token comes with the tokens.
    pub(crate) refreshes: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            described: Described::OAuth,
            promises_issuer: true,
            issuer: Issuer::Right,
            registers: true,
            reads_client_documents: false,
            fault: Fault::None,
            life: 3600,
            rotates: true,
            revokes: false,
            auth_methods: &[],
            tells_account: false,
            other_issuer: None,
            names_scopes: true,
            refreshes: true,
        }
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The client ids of authorizations.
    pub(crate) clients: Vec<String>,
    /// Requests that came to the token endpoint, answered or not.
    pub(crate) token_arrivals: usize,
    /// The headers that came to the resource and to the API.
    pub(crate) headers: Vec<String>,
    /// The form of every token request.
    pub(crate) token_requests: Vec<BTreeMap<String, String>>,
    /// The redirect URIs of registrations.
    pub(crate) registrations: Vec<String>,
    /// Scopes asked for in authorizations.
    pub(crate) scopes: Vec<String>,
    /// Requests at the resource, by whether they had a valid token.
    pub(crate) calls: Vec<bool>,
    /// Tokens that were revoked.
    pub(crate) revoked: Vec<String>,
    /// `Authorization` headers that came to the resource.
    pub(crate) tokens_sent: Vec<String>,
    codes: HashMap<String, BTreeMap<String, String>>,
    tokens: HashMap<String, Vec<String>>,
    refresh: HashMap<String, Vec<String>>,
    issued: usize,
}

pub(crate) struct Fake {
    pub(crate) origin: String,
    pub(crate) behaviour: Mutex<Behaviour>,
    pub(crate) seen: Mutex<Seen>,
    /// A refresh that is held has come.
    pub(crate) refresh_came: Notify,
    /// Lets one refresh that is held go on.
    pub(crate) refresh_permits: Semaphore,
}

impl Fake {
    pub(crate) async fn start(behaviour: Behaviour) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let fake = Arc::new(Self {
            origin,
            behaviour: Mutex::new(behaviour),
            seen: Mutex::default(),
            refresh_came: Notify::new(),
            refresh_permits: Semaphore::new(0),
        });
        let router = Router::new()
            .route("/mcp", any(resource))
            .route("/v1/pets", any(api))
            .route("/.well-known/{*name}", get(document))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    fn behaviour(&self) -> Behaviour {
        self.behaviour.lock().unwrap().clone()
    }

    /// Makes every access token invalid, as a server whose clock is ahead does.
    pub(crate) fn revoke_access(&self) {
        self.seen.lock().unwrap().tokens.clear();
    }

    /// Makes every refresh token invalid.
    pub(crate) fn revoke_refresh(&self) {
        self.seen.lock().unwrap().refresh.clear();
    }

    pub(crate) fn refreshes(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.token_requests.iter().filter(|form| form["grant_type"] == "refresh_token").count()
    }

    /// The part of a challenge that names the scope that is missing.
    fn missing_scope(&self) -> &'static str {
        if self.behaviour().names_scopes { r#", scope="write""# } else { "" }
    }

    fn see(&self, headers: &HeaderMap) {
        let shown =
            headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
        self.seen.lock().unwrap().headers.extend(shown);
    }

    fn issue(&self, scopes: Vec<String>) -> Value {
        let behaviour = self.behaviour();
        let mut seen = self.seen.lock().unwrap();
        seen.issued += 1;
        let (access, refresh) = (format!("canary-access-{}", seen.issued), format!("canary-refresh-{}", seen.issued));
        seen.tokens.insert(access.clone(), scopes.clone());
        seen.refresh.insert(refresh.clone(), scopes.clone());
        let mut tokens = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": behaviour.life,
            "refresh_token": refresh, "scope": scopes.join(" "),
        });
        if !behaviour.refreshes {
            tokens.as_object_mut().unwrap().remove("refresh_token");
        }
        if behaviour.tells_account {
            let claims = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"7","email":"ada@example.com"}"#);
            tokens["id_token"] = json!(format!("e30.{claims}.canary-signature"));
        }
        tokens
    }
}

type Shared = State<Arc<Fake>>;

async fn document(State(fake): Shared, Path(name): Path<String>) -> Response {
    let (behaviour, origin) = (fake.behaviour(), &fake.origin);
    let absent = || match behaviour.fault {
        Fault::PagesInPlaceOfDocuments => axum::response::Html("<!doctype html>").into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    };
    let kind = match name.as_str() {
        _ if matches!(behaviour.described, Described::Configured | Described::ConfiguredMcp) => return absent(),
        "oauth-protected-resource/v1" if behaviour.described == Described::OAuth => {
            return axum::Json(json!({ "resource": format!("{origin}/v1"), "authorization_servers": [origin] }))
                .into_response();
        }
        "oauth-protected-resource/mcp" if behaviour.described != Described::Nowhere => {
            let resource = match behaviour.fault {
                Fault::MetadataOfAnotherResource => "https://victim.example/mcp".to_owned(),
                _ => fake.url(),
            };
            let issuer = match behaviour.fault {
                Fault::MetadataElsewhere => "http://169.254.169.254/latest".to_owned(),
                _ => behaviour.other_issuer.clone().unwrap_or_else(|| origin.clone()),
            };
            let scopes = ["read"];
            return axum::Json(
                json!({ "resource": resource, "authorization_servers": [issuer], "scopes_supported": scopes }),
            )
            .into_response();
        }
        "oauth-authorization-server" => Described::OAuth,
        "openid-configuration" => Described::OpenId,
        _ => return absent(),
    };
    if kind != behaviour.described {
        return absent();
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    match behaviour.fault {
        Fault::HugeMetadata => {
            let begin = format!(r#"{{"issuer":"{origin}","padding":""#);
            let parts = (0..1600).map(|_| Ok::<_, std::io::Error>("x".repeat(64 << 10)));
            let parts = std::iter::once(Ok(begin)).chain(parts).chain([Ok("\"}".to_owned())]);
            return (json, Body::from_stream(futures_util::stream::iter(parts))).into_response();
        }
        Fault::SlowMetadata => std::future::pending().await,
        Fault::BrokenMetadata => return (json, format!(r#"{{"issuer":"{origin}","#)).into_response(),
        Fault::RedirectedMetadata => return Redirect::temporary("http://169.254.169.254/latest").into_response(),
        _ => {}
    }
    let issuer = match behaviour.fault {
        Fault::MetadataOfAnotherIssuer => "https://bank.example",
        _ => origin,
    };
    let mut found = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": behaviour.promises_issuer,
        "client_id_metadata_document_supported": behaviour.reads_client_documents,
    });
    if behaviour.fault == Fault::TokenElsewhere {
        found["token_endpoint"] = json!("http://127.0.0.9:9/token");
    }
    if behaviour.revokes {
        found["revocation_endpoint"] = json!(format!("{origin}/revoke"));
    }
    if !behaviour.auth_methods.is_empty() {
        found["token_endpoint_auth_methods_supported"] = json!(behaviour.auth_methods);
    }
    if behaviour.registers {
        found["registration_endpoint"] = json!(format!("{origin}/register"));
    }
    if behaviour.fault == Fault::NoPkce {
        found["code_challenge_methods_supported"] = json!(["plain"]);
    }
    axum::Json(found).into_response()
}

async fn register(State(fake): Shared, axum::Json(request): axum::Json<Value>) -> Response {
    let behaviour = fake.behaviour();
    if !behaviour.registers && behaviour.described != Described::Nowhere {
        return StatusCode::NOT_FOUND.into_response();
    }
    let method = behaviour.auth_methods.first().copied().unwrap_or("none");
    assert_eq!(request["token_endpoint_auth_method"], method);
    assert_eq!(request["application_type"], "native");
    fake.seen.lock().unwrap().registrations.push(request["redirect_uris"][0].as_str().unwrap().to_owned());
    let secret = if method == "none" { "" } else { "canary-registered-secret" };
    let client = json!({ "client_id": "registered", "client_secret": secret, "token_endpoint_auth_method": method });
    (StatusCode::CREATED, axum::Json(client)).into_response()
}

async fn authorize(State(fake): Shared, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let behaviour = fake.behaviour();
    assert_eq!(query["response_type"], "code");
    assert_eq!(query["code_challenge_method"], "S256");
    assert_resource(&fake, query.get("resource"));
    let mut seen = fake.seen.lock().unwrap();
    let code = format!("canary-code-{}", seen.codes.len());
    seen.clients.push(query["client_id"].clone());
    seen.scopes.push(query.get("scope").cloned().unwrap_or_default());
    let issuer = match behaviour.issuer {
        Issuer::Right => format!("&iss={}", fake.origin),
        Issuer::OfTenant => format!("&iss={}/tenant", fake.origin),
        Issuer::Absent => String::new(),
        Issuer::Wrong => "&iss=https://evil.example".to_owned(),
    };
    let back = format!("{}?code={code}&state={}{issuer}", query["redirect_uri"], query["state"]);
    seen.codes.insert(code, query);
    Redirect::to(&back).into_response()
}

/// Every request names the resource, except for an API of which no metadata is read.
fn assert_resource(fake: &Fake, named: Option<&String>) {
    match fake.behaviour().described {
        Described::Configured => assert_eq!(named, None),
        Described::OAuth if named == Some(&format!("{}/v1", fake.origin)) => {}
        _ => assert_eq!(named, Some(&fake.url())),
    }
}

/// An HTTP API: `GET` needs a token, other methods the scope `write`.
async fn api(State(fake): Shared, method: axum::http::Method, headers: HeaderMap) -> Response {
    fake.see(&headers);
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let scopes = sent.and_then(|token| fake.seen.lock().unwrap().tokens.get(token).cloned());
    let accepted = scopes.filter(|_| fake.behaviour().fault != Fault::RefusedTokens);
    let Some(scopes) = accepted else {
        return (StatusCode::UNAUTHORIZED, axum::Json(json!({ "message": "no token" }))).into_response();
    };
    if method != axum::http::Method::GET && !scopes.iter().any(|scope| scope == "write") {
        let challenge = format!(r#"Bearer error="insufficient_scope"{}"#, fake.missing_scope());
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    axum::Json(json!([{ "name": "Rex" }])).into_response()
}

async fn token(State(fake): Shared, headers: HeaderMap, body: Bytes) -> Response {
    fake.seen.lock().unwrap().token_arrivals += 1;
    let mut form: BTreeMap<String, String> = String::from_utf8(body.to_vec())
        .unwrap()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(decoded)
        .collect();
    if let Some(basic) = headers.get(header::AUTHORIZATION) {
        form.insert("basic".to_owned(), basic.to_str().unwrap().to_owned());
    }
    assert_resource(&fake, form.get("resource"));
    match fake.behaviour().fault {
        Fault::BrokenToken => return (StatusCode::BAD_GATEWAY, "<html>canary-proxy</html>").into_response(),
        Fault::SlowToken => std::future::pending().await,
        Fault::RedirectedToken => return Redirect::temporary("/elsewhere").into_response(),
        Fault::HeldRefresh if form["grant_type"] == "refresh_token" => {
            fake.refresh_came.notify_one();
            fake.refresh_permits.acquire().await.unwrap().forget();
        }
        Fault::ForgottenClients => {
            return (StatusCode::UNAUTHORIZED, axum::Json(json!({ "error": "invalid_client" }))).into_response();
        }
        _ => {}
    }
    let refused = |code: &str| (StatusCode::BAD_REQUEST, axum::Json(json!({ "error": code }))).into_response();
    let scopes = {
        let mut seen = fake.seen.lock().unwrap();
        seen.token_requests.push(form.clone());
        match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = seen.codes.remove(&form["code"]) else { return refused("invalid_grant") };
                assert_eq!(asked["redirect_uri"], form["redirect_uri"]);
                assert_eq!(asked["code_challenge"], s256(&form["code_verifier"]));
                asked.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => {
                let token = &form["refresh_token"];
                let rotates = fake.behaviour().rotates;
                let found = if rotates { seen.refresh.remove(token) } else { seen.refresh.get(token).cloned() };
                let Some(scopes) = found else { return refused("invalid_grant") };
                scopes.join(" ")
            }
            "client_credentials" => form.get("scope").cloned().unwrap_or_default(),
            _ => return refused("unsupported_grant_type"),
        }
    };
    axum::Json(fake.issue(scopes.split_ascii_whitespace().map(str::to_owned).collect())).into_response()
}

async fn revoke(State(fake): Shared, body: Bytes) -> Response {
    let form = url::form_urlencoded::parse(&body).into_owned().collect::<BTreeMap<_, _>>();
    fake.seen.lock().unwrap().revoked.push(form["token"].clone());
    StatusCode::OK.into_response()
}

fn decoded((name, value): (&str, &str)) -> (String, String) {
    let text = format!("http://x/?{name}={value}");
    let url = url::Url::parse(&text).unwrap();
    url.query_pairs().into_owned().next().unwrap()
}

fn s256(verifier: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(digest)
}

/// A small MCP server: `tools/call` of `write` needs the scope `write`.
async fn resource(State(fake): Shared, headers: HeaderMap, body: Bytes) -> Response {
    fake.see(&headers);
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let scopes = sent.and_then(|token| fake.seen.lock().unwrap().tokens.get(token).cloned());
    {
        let mut seen = fake.seen.lock().unwrap();
        seen.calls.push(scopes.is_some());
        seen.tokens_sent.extend(sent.map(str::to_owned));
    }
    let origin = &fake.origin;
    let metadata = match fake.behaviour().described {
        Described::Nowhere => String::new(),
        _ => format!(r#", resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp""#),
    };
    let accepted = scopes.filter(|_| fake.behaviour().fault != Fault::RefusedTokens);
    let Some(scopes) = accepted else {
        let why = sent.map(|_| ", error_description=\"the audience is\u{9}another\"").unwrap_or_default();
        let challenge = format!(r#"Bearer error="invalid_token"{why}, scope="read"{metadata}"#);
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], format!("bad token {sent:?}"))
            .into_response();
    };
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let writes = message["params"]["name"] == "write";
    if writes && !scopes.iter().any(|scope| scope == "write") {
        let challenge = format!(r#"Bearer error="insufficient_scope"{}{metadata}"#, fake.missing_scope());
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        Some("tools/list") => {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("read"), tool("write")] })
        }
        Some("server/discover") => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return axum::Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
        _ => json!({ "content": [{ "type": "text", "text": "done" }] }),
    };
    axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}
