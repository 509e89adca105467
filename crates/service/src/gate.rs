//! Who is let in: where a request comes from, which name it was sent to, which page sent it, whose key it carries.
//!
//! A web page on the user's machine can send requests to this machine, and by DNS rebinding it can do so under a
//! name of its own. So the `Host` must be an address (which can't be rebound), this machine or a configured name,
//! and an `Origin`, which browsers always send, must be a configured one or the service itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Service;
use super::refusal::Refusal;
use super::service::Rules;

const PREFLIGHT_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const PREFLIGHT_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, mcp-session-id");

/// Lets through what comes from the right place.
pub(super) async fn by_place(State(service): State<Service>, request: Request, next: Next) -> Response {
    let rules = service.rules();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let origin = match from_right_place(&rules, peer, &request) {
        Ok(origin) => origin,
        Err(refusal) => return refusal.into_response(),
    };
    let Some(origin) = origin else { return next.run(request).await };
    let asked = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match request.method() == Method::OPTIONS && asked {
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

/// Lets through who has a key, as often as the key allows.
pub(super) async fn by_key(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    let caller = match service.rules().keys.holder(request.headers()) {
        Ok(caller) => caller,
        Err(refusal) => return refusal.into_response(),
    };
    if let Err(refusal) = service.rates().take(&caller, Instant::now()) {
        return refusal.into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The origin to name in the answer, if the request has one.
fn from_right_place(rules: &Rules, peer: Option<IpAddr>, request: &Request) -> Result<Option<HeaderValue>, Refusal> {
    // A peer that nobody knows is not one of this machine.
    let local = peer.is_some_and(|ip| ip.to_canonical().is_loopback());
    if rules.keys.is_empty() && !local {
        return Err(Refusal::NotLocal);
    }
    let host = only(request.headers(), &header::HOST)?.ok_or(Refusal::BadRequest("the Host header is missing"))?;
    let authority = Authority::try_from(host.as_bytes()).map_err(|_| Refusal::BadRequest("the Host is not a host"))?;
    for named in [Some(&authority), request.uri().authority()].into_iter().flatten() {
        if !answers_to(rules, named) {
            return Err(Refusal::ForeignHost(named.host().chars().take(100).collect()));
        }
    }
    let Some(origin) = only(request.headers(), &header::ORIGIN)? else { return Ok(None) };
    let text = origin.to_str().map_err(|_| Refusal::BadRequest("the Origin is not text"))?;
    if may_call(rules, text, &authority) {
        return Ok(Some(origin.clone()));
    }
    Err(Refusal::ForeignOrigin(text.chars().take(100).collect()))
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    match all.next() {
        None => Ok(first),
        Some(_) => Err(Refusal::BadRequest("Host and Origin may be given once")),
    }
}

fn answers_to(rules: &Rules, authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || rules.allowed_hosts.iter().any(|allowed| allowed.matches(host))
}

/// A page may call if it is listed, or if it came from here: then its origin is the host it calls.
fn may_call(rules: &Rules, origin: &str, host: &Authority) -> bool {
    let listed = rules.allowed_origins.iter().any(|allowed| allowed.as_str().eq_ignore_ascii_case(origin));
    let own = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
    listed || own.is_some_and(|own| own.eq_ignore_ascii_case(host.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_config::values::{HostName, Origin, Setting};

    fn check(peer: &str, host: &str, origin: Option<&str>, expected: &str) {
        let rules = Rules {
            allowed_hosts: vec![HostName::parse("tools.example").expect("a host")],
            allowed_origins: vec![Origin::parse("https://app.example").expect("an origin")],
            ..Rules::default()
        };
        let mut request = Request::builder().header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let found = from_right_place(&rules, peer.parse().ok(), &request);
        let found = found.map_or_else(|refusal| refusal.to_string(), |_| "let in".to_owned());
        assert!(found.starts_with(expected), "{peer} {host} {origin:?}: {found}");
    }

    #[test]
    fn without_keys_only_this_machine_is_let_in() {
        check("127.0.0.1", "localhost:7878", None, "let in");
        check("127.8.8.8", "127.0.0.1:7878", None, "let in");
        check("::1", "[::1]:7878", None, "let in");
        check("::ffff:127.0.0.1", "localhost", None, "let in");
        check("192.0.2.1", "localhost", None, "without API keys");
        check("nobody knows", "localhost", None, "without API keys");
    }

    #[test]
    fn a_name_that_could_be_rebound_is_refused() {
        check("127.0.0.1", "tools.example", None, "let in");
        check("127.0.0.1", "TOOLS.example:80", None, "let in");
        check("127.0.0.1", "evil.example:7878", None, "the host `evil.example`");
        check("127.0.0.1", "localhost.evil.example", None, "the host");
        check("127.0.0.1", "127.0.0.1.evil.example", None, "the host");
        check("127.0.0.1", "localhost@evil.example", None, "the host");
    }

    #[test]
    fn a_page_is_let_in_if_it_is_listed_or_our_own() {
        check("127.0.0.1", "localhost:7878", Some("https://app.example"), "let in");
        check("127.0.0.1", "localhost:7878", Some("http://localhost:7878"), "let in");
        check("127.0.0.1", "localhost:7878", Some("http://localhost:3000"), "pages of");
        check("127.0.0.1", "localhost:7878", Some("https://evil.example"), "pages of");
        check("127.0.0.1", "localhost:7878", Some("null"), "pages of");
    }
}
