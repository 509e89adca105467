//! Signs browsers in and out: by a key or token, or by a one-time link.
//!
//! The link carries its token behind `#`, which browsers send to no server and keep out of `Referer`; the page posts it.

use std::time::Instant;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sessions::{LINK_TIME, SESSION_TIME, cookie_name};
use crate::admission::{self, Peer};
use crate::body::Received;
use crate::refusal::Refusal;
use crate::{Caller, HttpService};

/// What signs a browser in: one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SignInRequest {
    /// An API key, or the token of `toolgate.http.token_file`.
    pub(crate) key: Option<String>,
    /// The token of a one-time link.
    pub(crate) link: Option<String>,
}

/// Who is signed in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedInReply {
    /// Whether the service asks for credentials at all.
    required: bool,
    /// The name of the key; empty for the user of this machine, absent without a sign-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    /// The token to send as `x-toolgate-csrf` with every request; only in the reply to a sign-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
    /// The version of the service.
    version: &'static str,
}

/// A one-time link.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkReply {
    /// What to open in a browser. The first to open it is signed in.
    url: String,
    /// How many seconds it can be used.
    expires_in_seconds: u64,
}

impl SignedInReply {
    fn of(required: bool, caller: Option<&Caller>, csrf: Option<String>) -> Self {
        let caller = caller.map(|caller| caller.name().to_owned());
        SignedInReply { required, caller, csrf, version: env!("CARGO_PKG_VERSION") }
    }
}

/// Begins a session.
pub(super) async fn sign_in(
    State(service): State<HttpService>,
    peer: Peer,
    headers: HeaderMap,
    received: Received<SignInRequest>,
) -> Result<Response, Refusal> {
    if !service.rules().requires_credentials(peer) {
        return Ok(Json(SignedInReply::of(false, Some(&Caller::Local), None)).into_response());
    }
    let now = Instant::now();
    let caller = match received.value {
        SignInRequest { key: Some(key), link: None } => {
            admission::holder(&service, peer, &key).await.map_err(|refusal| match refusal {
                // A token of the issuer signs no browser in, so none is asked for.
                Refusal::InvalidToken { .. } => Refusal::NotSignedIn,
                other => other,
            })?
        }
        SignInRequest { key: None, link: Some(link) } => {
            let comparison = service.failed_keys().begin(peer.address())?;
            match service.page_sessions().follow(&link, &service.rules(), now) {
                Some(caller) => caller,
                None => return Err(comparison.failed(Refusal::LinkNotValid(LINK_TIME)).await),
            }
        }
        _ => return Err(Refusal::field("", "must have either `key` or `link`")),
    };
    let new = service.page_sessions().begin(&caller, now)?;
    // The browser says in `Origin` whether it reached the service by TLS, which a proxy has ended.
    let is_secure = headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        cookie_name(&headers),
        new.cookie.reveal(),
        SESSION_TIME.as_secs()
    );
    let reply = SignedInReply::of(true, Some(&caller), Some(new.csrf.reveal().to_owned()));
    with_cookie(Json(reply).into_response(), &cookie)
}

/// Who is signed in.
pub(super) async fn signed_in(
    State(service): State<HttpService>,
    peer: Peer,
    headers: HeaderMap,
) -> Json<SignedInReply> {
    let rules = service.rules();
    if !rules.requires_credentials(peer) {
        return Json(SignedInReply::of(false, Some(&Caller::Local), None));
    }
    // Without its token a session is not told of.
    let caller = service.page_sessions().caller(&headers, &rules, Instant::now()).ok().flatten();
    Json(SignedInReply::of(true, caller.as_ref(), None))
}

/// Ends a session. A request without its token ends nothing.
pub(super) async fn sign_out(State(service): State<HttpService>, headers: HeaderMap) -> Result<Response, Refusal> {
    if service.page_sessions().caller(&headers, &service.rules(), Instant::now())?.is_some() {
        service.page_sessions().end(&headers);
    }
    let cookie = format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie_name(&headers));
    with_cookie(StatusCode::NO_CONTENT.into_response(), &cookie)
}

/// A link for the caller itself.
pub(super) async fn new_link(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let token = service.page_sessions().link(&caller, Instant::now())?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let base = service.public_url().map_or_else(|| format!("http://{host}/"), ToString::to_string);
    let url = format!("{base}#link={}", token.reveal());
    let reply = LinkReply { url, expires_in_seconds: LINK_TIME.as_secs() };
    let mut response = (StatusCode::CREATED, Json(reply)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn with_cookie(mut response: Response, cookie: &str) -> Result<Response, Refusal> {
    let headers = response.headers_mut();
    headers.insert(header::SET_COOKIE, HeaderValue::from_str(cookie).map_err(|_| Refusal::Internal)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl HttpService {
    /// What to open in a browser at this address: a link that signs its holder in once, as the user of this machine.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn page_link(&self, base: &str) -> Result<String, crate::rpc_sessions::SessionStoreError> {
        let token = self.page_sessions().local_link(Instant::now())?;
        Ok(format!("{base}#link={}", token.reveal()))
    }
}
