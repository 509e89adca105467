//! What a request asks for by its headers and query: accepted media types, the type of its body, the tool mode.
//!
//! Reads headers only; nothing here decides whether the client may send the request.

use crate::protocol::{EVENT_STREAM, JSON};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, Uri};

use super::refusal::Refusal;
use crate::server::message::invalid_params;
use crate::server::service::{ToolMode, UnknownToolMode};

/// The tool mode that `?mode=` requests.
pub(super) fn tool_mode(uri: &Uri) -> Result<Option<ToolMode>, Refusal> {
    let query = uri.query().unwrap_or_default();
    let Some((_, mode)) = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "mode") else {
        return Ok(None);
    };
    let mode = mode.parse().map_err(|unknown: UnknownToolMode| Refusal::bad(invalid_params(unknown.to_string())));
    mode.map(Some)
}

/// The media types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// A client without an `Accept` header accepts both, as the protocol requires of clients.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let named = texts(headers, ACCEPT);
        let accepts = |kind: &str, any: &str| {
            let kinds = named.iter().flat_map(|text| text.split(',')).map(|part| part.split(';').next().unwrap_or(""));
            named.is_empty() || kinds.map(str::trim).any(|part| part == kind || part == any || part == "*/*")
        };
        let found = Self { json: accepts(JSON, "application/*"), events: accepts(EVENT_STREAM, "text/*") };
        match found {
            Self { json: false, events: false } => {
                Err(Refusal::not_acceptable("Accept must include application/json or text/event-stream"))
            }
            found => Ok(found),
        }
    }
}

/// Only `application/json`: a browser sends that to another origin only after a CORS preflight, while it sends form types
/// without one.
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

    fn check(accept: Option<&str>, expected: Option<(bool, bool)>) {
        let mut headers = HeaderMap::new();
        headers.extend(accept.map(|accept| (ACCEPT, accept.parse().unwrap())));
        let found = Accepts::of(&headers).ok().map(|found| (found.json, found.events));
        assert_eq!(found, expected, "{accept:?}");
    }

    #[test]
    fn a_client_accepts_the_types_it_names() {
        check(None, Some((true, true)));
        check(Some("*/*"), Some((true, true)));
        check(Some("application/json, text/event-stream"), Some((true, true)));
        check(Some("Text/Event-Stream;q=1"), Some((false, true)));
        check(Some("application/json"), Some((true, false)));
        check(Some("text/html"), None);
    }
}
