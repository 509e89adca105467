//! Decides which requests are admitted: by peer address, host and origin, API key or local token, and rate.
//!
//! `Host` and `Origin` are checked by [`toolgate_mcp::server::HostGuard`], which explains why. This module adds the peer
//! address (without keys only this machine may connect), the CORS headers, the keys, and tokens of a configured issuer. A Unix socket can be opened by
//! its user only, so its peer needs no token. What an admitted caller may use is
//! decided by its [`Caller::scope`](crate::Caller::scope).

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::Json;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::caller::{MetricsReader, bearer};
use super::refusal::{Refusal, Shown};
use super::resource_server::TokenRefusal;
use super::server::UnixPeer;
use super::service::AdmissionRules;
use super::stream_right::StreamRight;
use super::{Caller, HttpService};
use toolgate_config::values::MetricsAccess;

const PREFLIGHT_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const PREFLIGHT_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, \
     traceparent, tracestate, baggage",
);
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, mcp-session-id, www-authenticate");

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// A Unix socket that only this user can open.
    UnixSocket,
    /// An address.
    Address(IpAddr),
    /// Treated as remote.
    Unknown,
}

impl Peer {
    pub(super) fn of(extensions: &Extensions) -> Self {
        if extensions.get::<UnixPeer>().is_some() {
            return Peer::UnixSocket;
        }
        let info = extensions.get::<ConnectInfo<SocketAddr>>();
        info.map_or(Peer::Unknown, |info| Peer::Address(info.0.ip().to_canonical()))
    }

    fn is_local(self) -> bool {
        match self {
            Peer::UnixSocket => true,
            Peer::Address(address) => address.is_loopback(),
            Peer::Unknown => false,
        }
    }

    /// The address, for counting failures.
    pub(super) fn address(self) -> Option<IpAddr> {
        match self {
            Peer::Address(address) => Some(address),
            Peer::UnixSocket | Peer::Unknown => None,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Peer::of(&parts.extensions))
    }
}

/// Middleware: admits a request by its peer address, `Host` and `Origin`, and adds the CORS headers.
pub(super) async fn check_peer_and_host(State(service): State<HttpService>, request: Request, next: Next) -> Response {
    let rules = service.rules();
    let origin = match accepted_origin(&rules, Peer::of(request.extensions()), &request) {
        Ok(origin) => origin,
        Err(refusal) => return refusal.into_response(),
    };
    let Some(origin) = origin else { return next.run(request).await };
    let is_preflight = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match request.method() == Method::OPTIONS && is_preflight {
        true => preflight(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

fn preflight() -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, PREFLIGHT_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, PREFLIGHT_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Middleware: admits a request by its key or token, as often as the key's rate allows, and adds the [`Caller`](crate::Caller) to it.
pub(super) async fn check_key(State(service): State<HttpService>, mut request: Request, next: Next) -> Response {
    let right = match authenticate(&service, Peer::of(request.extensions()), request.headers()).await {
        Ok(right) => right,
        Err(refusal) => return refused(&service, refusal),
    };
    if let Err(refusal) = service.rates().take(&right.caller, Instant::now()) {
        return refusal.into_response();
    }
    request.extensions_mut().insert(right.caller.clone());
    request.extensions_mut().insert(right);
    next.run(request).await
}

/// Middleware: admits a reader of the metrics, and adds the [`MetricsReader`] to the request.
pub(super) async fn check_metrics_reader(
    State(service): State<HttpService>,
    mut request: Request,
    next: Next,
) -> Response {
    match metrics_reader(&service, Peer::of(request.extensions()), request.headers()).await {
        Ok(reader) => {
            request.extensions_mut().insert(reader);
            next.run(request).await
        }
        Err(refusal) => refused(&service, refusal),
    }
}

/// The refusal, with where to log in.
fn refused(service: &HttpService, refusal: Refusal) -> Response {
    let mut response = refusal.clone().into_response();
    service.rules().oauth.iter().for_each(|oauth| oauth.challenge(&refusal, &mut response));
    response
}

async fn metrics_reader(service: &HttpService, peer: Peer, headers: &HeaderMap) -> Result<MetricsReader, Refusal> {
    let presented = bearer(headers);
    if let Some(presented) = presented.filter(|_| service.rules().metrics.has_key()) {
        // Guesses are bounded here as at every other path; a wrong one is counted below.
        let _comparison = service.failed_keys().begin(peer.address())?;
        if service.rules().metrics.opens(presented) {
            return Ok(MetricsReader::Key);
        }
    }
    match service.rules().metrics.access {
        MetricsAccess::Open => {
            if let Some(presented) = presented.filter(|_| service.rules().metrics.has_key()) {
                count_wrong_key(service, peer, presented).await;
            }
            Ok(MetricsReader::Anyone)
        }
        MetricsAccess::Callers => {
            let StreamRight { caller, .. } = authenticate(service, peer, headers).await?;
            service.rates().take(&caller, Instant::now())?;
            Ok(MetricsReader::Caller(caller))
        }
        MetricsAccess::Key => {
            if let Some(presented) = presented {
                count_wrong_key(service, peer, presented).await;
            }
            Err(Refusal::Unauthorised)
        }
    }
}

/// Counts a key that does not open the metrics as a failure of its address, unless it is that of a caller.
async fn count_wrong_key(service: &HttpService, peer: Peer, presented: &str) {
    // Whose it is does not matter here.
    let _ = holder(service, peer, presented).await;
}

/// The caller of a request, by its key or token, or by a session of the page.
async fn authenticate(service: &HttpService, peer: Peer, headers: &HeaderMap) -> Result<StreamRight, Refusal> {
    if !service.rules().requires_credentials(peer) {
        return Ok(StreamRight { caller: Caller::Local, session: None });
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        let signed_in = service.page_sessions().signed_in(headers, &service.rules(), Instant::now())?;
        let (caller, session) = signed_in.ok_or_else(|| no_credentials(service))?;
        return Ok(StreamRight { caller, session: Some(session) });
    }
    let presented = bearer(headers).ok_or_else(|| no_credentials(service))?;
    let caller = holder(service, peer, presented).await?;
    Ok(StreamRight { caller, session: None })
}

/// The refusal of a request without a key or token.
fn no_credentials(service: &HttpService) -> Refusal {
    match &service.rules().oauth {
        Some(oauth) => Refusal::NoToken { issuer: oauth.issuer().to_owned() },
        None => Refusal::Unauthorised,
    }
}

/// The caller with this key or token. A wrong one counts as a failure of its address.
pub(super) async fn holder(service: &HttpService, peer: Peer, presented: &str) -> Result<Caller, Refusal> {
    let comparison = service.failed_keys().begin(peer.address())?;
    let rules = service.rules();
    let caller = match (rules.caller(presented), &rules.oauth) {
        (Some(caller), _) => return Ok(caller),
        (None, Some(oauth)) => oauth.caller(presented).await,
        (None, None) => Err(TokenRefusal::Invalid),
    };
    match caller {
        Ok(caller) => Ok(caller),
        Err(TokenRefusal::Invalid) => {
            let issuer = rules.oauth.as_ref().map(|oauth| oauth.issuer().to_owned());
            let refusal = issuer.map_or(Refusal::Unauthorised, |issuer| Refusal::InvalidToken { issuer });
            Err(comparison.failed(refusal).await)
        }
        Err(TokenRefusal::InsufficientScope) => Err(Refusal::InsufficientScope),
        Err(TokenRefusal::NoKeys) => Err(Refusal::unavailable("the keys of the issuer can't be fetched")),
    }
}

/// Where clients log in (RFC 9728); needs no token.
pub(super) async fn resource_metadata(State(service): State<HttpService>, uri: Uri) -> Response {
    match &service.rules().oauth {
        Some(oauth) => Json(oauth.metadata()).into_response(),
        None => Refusal::NoSuchPath(Shown::new(uri.path())).into_response(),
    }
}

/// The accepted `Origin` of the request; none if it has no `Origin` header.
fn accepted_origin(rules: &AdmissionRules, peer: Peer, request: &Request) -> Result<Option<HeaderValue>, Refusal> {
    if rules.has_only_local_callers() && !peer.is_local() {
        return Err(Refusal::NotLocal);
    }
    Ok(rules.host_guard.check(request.uri(), request.headers())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_mcp::server::HostGuard;

    fn check(peer: &str, host: &str, origin: Option<&str>, expected: &str) {
        let host_guard = HostGuard::new(["tools.example".to_owned()], ["https://app.example".to_owned()]);
        let rules = AdmissionRules { host_guard, ..AdmissionRules::default() };
        let mut request = Request::builder().header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let mut extensions = Extensions::new();
        if let Ok(address) = peer.parse::<IpAddr>() {
            extensions.insert(ConnectInfo(SocketAddr::new(address, 1)));
        } else if peer == "unix" {
            extensions.insert(UnixPeer);
        }
        let found = accepted_origin(&rules, Peer::of(&extensions), &request);
        let found = found.map_or_else(|refusal| refusal.to_string(), |_| "admitted".to_owned());
        assert!(found.starts_with(expected), "{peer} {host} {origin:?}: {found}");
    }

    #[test]
    fn without_keys_only_this_machine_is_admitted() {
        check("127.0.0.1", "localhost:7878", None, "admitted");
        check("127.8.8.8", "127.0.0.1:7878", None, "admitted");
        check("::1", "[::1]:7878", None, "admitted");
        check("::ffff:127.0.0.1", "localhost", None, "admitted");
        check("unix", "localhost", None, "admitted");
        check("192.0.2.1", "localhost", None, "without API keys");
        check("unknown", "localhost", None, "without API keys");
    }

    #[test]
    fn a_host_name_that_is_not_configured_is_refused() {
        check("127.0.0.1", "tools.example", None, "admitted");
        check("127.0.0.1", "TOOLS.example:80", None, "admitted");
        check("127.0.0.1", "evil.example:7878", None, "the host `evil.example` is not accepted");
        check("127.0.0.1", "localhost.evil.example", None, "the host");
        check("127.0.0.1", "127.0.0.1.evil.example", None, "the host");
        check("127.0.0.1", "localhost@evil.example", None, "the host");
    }

    #[test]
    fn a_page_is_admitted_if_it_is_configured_or_of_the_service_itself() {
        check("127.0.0.1", "localhost:7878", Some("https://app.example"), "admitted");
        check("127.0.0.1", "localhost:7878", Some("http://localhost:7878"), "admitted");
        check("127.0.0.1", "localhost:7878", Some("http://localhost:3000"), "requests from pages of");
        check("127.0.0.1", "localhost:7878", Some("https://evil.example"), "requests from pages of");
        check("127.0.0.1", "localhost:7878", Some("null"), "requests from pages of");
    }
}
