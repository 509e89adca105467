//! Who may knock: the host that is addressed, the page that a browser comes from, what it accepts.

use crate::protocol::{EVENT_STREAM, JSON};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Uri};

use super::HttpOptions;
use super::refusal::Refusal;
use crate::server::message::invalid_params;
use crate::server::service::{ToolMode, UnknownToolMode};

/// Turns away whoever addresses another host than ours, or comes from a foreign web page.
pub(super) fn check_way_in(parts: &Parts, options: &HttpOptions) -> Result<(), Refusal> {
    let host = addressed(parts).ok_or_else(|| Refusal::forbidden("no host is named"))?;
    if !options.allowed_hosts.iter().any(|allowed| is_host(allowed, &host)) {
        return Err(Refusal::forbidden("this host is not served here"));
    }
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    let own = origin.split_once("://").is_some_and(|(_, authority)| authority == host);
    let listed = options.allowed_origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(&origin));
    match origins.next().is_none() && (own || listed) {
        true => Ok(()),
        false => Err(Refusal::forbidden("this origin may not come in")),
    }
}

/// The host of the request, with its port where one is named.
fn addressed(parts: &Parts) -> Option<String> {
    let mut named = parts.headers.get_all(HOST).iter();
    match (named.next(), named.next(), parts.uri.authority()) {
        (Some(host), None, _) => host.to_str().ok().map(str::to_ascii_lowercase),
        (None, _, Some(authority)) => Some(authority.as_str().to_ascii_lowercase()),
        _ => None,
    }
}

/// Whether `host` is the allowed one: at its port, or at any if it names none.
fn is_host(allowed: &str, host: &str) -> bool {
    let allowed = allowed.to_ascii_lowercase();
    allowed == "*" || allowed == host || allowed == without_port(host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The view that `?mode=` asks for.
pub(super) fn view(uri: &Uri) -> Result<Option<ToolMode>, Refusal> {
    let query = uri.query().unwrap_or_default();
    let Some((_, mode)) = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "mode") else {
        return Ok(None);
    };
    let view = mode.parse().map_err(|unknown: UnknownToolMode| Refusal::bad(invalid_params(unknown.to_string())));
    view.map(Some)
}

/// Which kinds of answer a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// A client that does not say reads both, as the protocol asks of it.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let named = texts(headers, ACCEPT);
        let accepts = |kind: &str, any: &str| {
            let kinds = named.iter().flat_map(|text| text.split(',')).map(|part| part.split(';').next().unwrap_or(""));
            named.is_empty() || kinds.map(str::trim).any(|part| part == kind || part == any || part == "*/*")
        };
        let found = Self { json: accepts(JSON, "application/*"), events: accepts(EVENT_STREAM, "text/*") };
        match found {
            Self { json: false, events: false } => {
                Err(Refusal::not_acceptable("answers are application/json or text/event-stream"))
            }
            found => Ok(found),
        }
    }
}

/// A browser sends JSON to a foreign server only after asking; anything else it just sends.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = texts(headers, CONTENT_TYPE).into_iter().next().unwrap_or_default();
    match kind.split(';').next().unwrap_or("").trim() == JSON {
        true => Ok(()),
        false => Err(Refusal::wrong_type()),
    }
}

fn texts(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok()).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn check(host: &str, origin: Option<&str>, options: &HttpOptions, expected: bool) {
        let mut request = Request::builder().uri("/mcp").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(check_way_in(&parts, options).is_ok(), expected, "{host} {origin:?}");
    }

    #[test]
    fn by_default_only_this_machine_is_served() {
        let options = HttpOptions::default();
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "LOCALHOST:1"] {
            check(host, None, &options, true);
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::2]:80", "", ":80"] {
            check(host, None, &options, false);
        }
    }

    #[test]
    fn a_web_page_comes_from_the_same_host_or_is_listed() {
        let options = HttpOptions { allowed_origins: vec!["https://app.example".to_owned()], ..HttpOptions::default() };
        check("localhost:80", Some("http://localhost:80"), &options, true);
        check("localhost:80", Some("https://app.example"), &options, true);
        for origin in
            ["http://localhost:81", "http://evil.example", "null", "", "localhost:80", "https://app.example:1"]
        {
            check("localhost:80", Some(origin), &options, false);
        }
    }

    #[test]
    fn a_host_with_a_port_is_allowed_at_that_port_alone() {
        let options = HttpOptions { allowed_hosts: vec!["gate.example:8443".to_owned()], ..HttpOptions::default() };
        check("gate.example:8443", None, &options, true);
        check("gate.example", None, &options, false);
        check("gate.example:80", None, &options, false);
    }

    fn check_accept(accept: Option<&str>, expected: Option<(bool, bool)>) {
        let mut headers = HeaderMap::new();
        headers.extend(accept.map(|accept| (ACCEPT, accept.parse().unwrap())));
        let found = Accepts::of(&headers).ok().map(|found| (found.json, found.events));
        assert_eq!(found, expected, "{accept:?}");
    }

    #[test]
    fn a_client_reads_what_it_says_it_reads() {
        check_accept(None, Some((true, true)));
        check_accept(Some("*/*"), Some((true, true)));
        check_accept(Some("application/json, text/event-stream"), Some((true, true)));
        check_accept(Some("Text/Event-Stream;q=1"), Some((false, true)));
        check_accept(Some("application/json"), Some((true, false)));
        check_accept(Some("text/html"), None);
    }
}
