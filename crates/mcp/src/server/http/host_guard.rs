//! Checks the `Host` and `Origin` of HTTP requests: the protection against DNS rebinding and against foreign web pages.
//!
//! A web page in a browser on the user's machine can send requests to a server on that machine, and by DNS rebinding it can
//! do so under a host name of its own. So the host must be an IP address (which cannot be rebound), `localhost` or a
//! configured name, and an `Origin`, which browsers always send, must be a configured one or the server itself.
//!
//! This is the only such check in Toolgate: the MCP endpoint uses it when it stands alone, and the HTTP service uses it in
//! front of all its routes. It does not check peer addresses or credentials.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use toolgate_wire::foreign_text::one_line;

/// How many characters of a foreign host or origin an error keeps.
const MAX_SHOWN_CHARS: usize = 100;

/// The hosts and origins that are accepted besides IP addresses, `localhost` and pages of the server itself.
#[derive(Debug, Clone, Default)]
pub struct HostGuard {
    /// Host names in lower case, without a port; `*.example.com` stands for all names below `example.com`.
    hosts: Vec<String>,
    /// Origins, as `https://host:port`.
    origins: Vec<String>,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostGuardError {
    /// The request has no `Host` header.
    #[error("the Host header is missing")]
    MissingHost,
    /// The `Host` header cannot be parsed.
    #[error("the Host header is not a host name or an address")]
    InvalidHost,
    /// The `Origin` header is not text.
    #[error("the Origin header is not text")]
    InvalidOrigin,
    /// A header occurs more than once.
    #[error("Host and Origin may each occur only once")]
    Repeated,
    /// The request is for a host name that is not accepted.
    #[error("the host `{0}` is not accepted")]
    ForeignHost(String),
    /// The request was sent by a page of an origin that is not accepted.
    #[error("requests from pages of `{0}` are not accepted")]
    ForeignOrigin(String),
}

impl HostGuard {
    /// A guard that also accepts these host names (without a port; `*.example.com` for all names below) and these origins.
    pub fn new(hosts: impl IntoIterator<Item = String>, origins: impl IntoIterator<Item = String>) -> Self {
        let normalised = |host: String| host.trim_end_matches('.').to_ascii_lowercase();
        Self { hosts: hosts.into_iter().map(normalised).collect(), origins: origins.into_iter().collect() }
    }

    /// The accepted `Origin` of the request; none if it has no `Origin` header.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>, HostGuardError> {
        let host = single(headers, &header::HOST)?.ok_or(HostGuardError::MissingHost)?;
        let host = Authority::try_from(host.as_bytes()).map_err(|_| HostGuardError::InvalidHost)?;
        for named in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.accepts_host(named.host()) {
                return Err(HostGuardError::ForeignHost(clipped(named.host())));
            }
        }
        let Some(origin) = single(headers, &header::ORIGIN)? else { return Ok(None) };
        let text = origin.to_str().map_err(|_| HostGuardError::InvalidOrigin)?;
        match self.accepts_origin(text, &host) {
            true => Ok(Some(origin.clone())),
            false => Err(HostGuardError::ForeignOrigin(clipped(text))),
        }
    }

    fn accepts_host(&self, host: &str) -> bool {
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        is_address
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|accepted| matches_name(accepted, &name))
    }

    /// A page may send requests if its origin is configured, or if it was loaded from the host that it addresses.
    fn accepts_origin(&self, origin: &str, host: &Authority) -> bool {
        let is_listed = self.origins.iter().any(|accepted| accepted.eq_ignore_ascii_case(origin));
        let authority = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        is_listed || authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
    }
}

fn matches_name(accepted: &str, name: &str) -> bool {
    match accepted.strip_prefix("*.") {
        Some(parent) => name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => accepted == name,
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, HostGuardError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(HostGuardError::Repeated),
    }
}

fn clipped(text: &str) -> String {
    one_line(text, MAX_SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn check(guard: &HostGuard, host: &str, origin: Option<&str>, expected: bool) {
        let mut request = Request::builder().uri("/mcp").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(guard.check(&parts.uri, &parts.headers).is_ok(), expected, "{host} {origin:?}");
    }

    fn configured() -> HostGuard {
        HostGuard::new(["Tools.example".to_owned()], ["https://app.example".to_owned()])
    }

    #[test]
    fn addresses_and_localhost_are_always_accepted_and_names_only_if_configured() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "LOCALHOST:1", "192.0.2.1"] {
            check(&HostGuard::default(), host, None, true);
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "localhost@evil.example",
            "tools.example",
            "",
            ":80",
        ] {
            check(&HostGuard::default(), host, None, false);
        }
        check(&configured(), "tools.example", None, true);
        check(&configured(), "TOOLS.example.:8443", None, true);
        check(&configured(), "more.tools.example", None, false);
        let below = HostGuard::new(["*.tools.example".to_owned()], []);
        check(&below, "more.tools.example", None, true);
        for host in ["tools.example", ".tools.example", "eviltools.example"] {
            check(&below, host, None, false);
        }
    }

    #[test]
    fn a_page_is_accepted_if_it_is_of_the_same_host_or_configured() {
        check(&configured(), "localhost:80", Some("http://localhost:80"), true);
        check(&configured(), "localhost:80", Some("https://app.example"), true);
        for origin in
            ["http://localhost:81", "http://evil.example", "null", "", "localhost:80", "https://app.example:1"]
        {
            check(&configured(), "localhost:80", Some(origin), false);
        }
    }

    #[test]
    fn a_host_or_origin_that_occurs_twice_is_refused() {
        for name in [header::HOST, header::ORIGIN] {
            let mut headers = HeaderMap::new();
            headers.append(header::HOST, HeaderValue::from_static("localhost"));
            headers.append(header::ORIGIN, HeaderValue::from_static("http://localhost"));
            headers.append(name, HeaderValue::from_static("localhost"));
            let found = HostGuard::default().check(&Uri::from_static("/mcp"), &headers);
            assert_eq!(found, Err(HostGuardError::Repeated));
        }
        let missing = HostGuard::default().check(&Uri::from_static("/mcp"), &HeaderMap::new());
        assert_eq!(missing, Err(HostGuardError::MissingHost));
    }
}
