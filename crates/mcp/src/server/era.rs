//! Determines the era and the revision of a request.
//!
//! A modern request names its revision in `_meta`. Any other request is legacy, and legacy requires `initialize` first. So
//! one connection may carry both. Which methods an era has is not decided here.

use crate::protocol::ErrorCode;
use serde_json::{Map, Value, json};

use super::message::{Request, RpcError, error, invalid_params};
use crate::interaction::InteractiveClient;
pub(super) use crate::protocol::Era;
use crate::protocol::{LEGACY_VERSIONS, META_CAPABILITIES, META_VERSION, MODERN, NEWEST_LEGACY};

/// The revision a request names in its own parameters.
pub(super) fn named_version(request: &Request) -> Option<&Value> {
    request.meta()?.get(META_VERSION)
}

/// Whether the request is a legacy `initialize`; a modern request names its revision in `_meta`.
pub(super) fn is_initialize(request: &Request) -> bool {
    request.method == "initialize" && named_version(request).is_none()
}

/// The era of a request on a connection; `initialized` says whether `initialize` was received on it.
pub(super) fn of(request: &Request, initialized: bool) -> Result<Era, RpcError> {
    if named_version(request).is_some() {
        return check_modern(request).map(|()| Era::Modern);
    }
    match request.method.as_str() {
        "initialize" | "ping" => Ok(Era::Legacy),
        _ if initialized => Ok(Era::Legacy),
        _ => check_modern(request).map(|()| Era::Modern),
    }
}

/// Checks that a request is a complete modern request in a supported revision.
pub(super) fn check_modern(request: &Request) -> Result<(), RpcError> {
    let version = check_complete(request)?;
    if version == MODERN { Ok(()) } else { Err(unsupported(version)) }
}

/// The revision of a modern request; fails if a required member of `_meta` is missing.
pub(super) fn check_complete(request: &Request) -> Result<&str, RpcError> {
    let meta = request.meta();
    let version = meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str);
    let capabilities = meta.and_then(|meta| meta.get(META_CAPABILITIES)).filter(|found| found.is_object());
    match (version, capabilities) {
        (Some(version), Some(_)) => Ok(version),
        (None, Some(_)) => Err(incomplete(META_VERSION)),
        (Some(_), None) => Err(incomplete(META_CAPABILITIES)),
        (None, None) => Err(incomplete(&format!("{META_VERSION}, {META_CAPABILITIES}"))),
    }
}

fn incomplete(missing: &str) -> RpcError {
    invalid_params(format!("send initialize first, or add to `_meta` of every request: {missing}"))
}

/// The client capabilities that a modern request declares.
pub(super) fn capabilities(request: &Request) -> Map<String, Value> {
    let declared = request.meta().and_then(|meta| meta.get(META_CAPABILITIES));
    declared.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The client of a modern request, from which a result may request input; none for legacy requests.
pub(super) fn interactive_client(era: Era, request: &Request) -> Option<InteractiveClient> {
    match era {
        Era::Legacy => None,
        Era::Modern => Some(InteractiveClient::new(&capabilities(request), &request.params)),
    }
}

fn unsupported(version: &str) -> RpcError {
    let data = json!({ "requested": version, "supported": [MODERN] });
    let error = error(ErrorCode::UNSUPPORTED_VERSION, "unsupported protocol version");
    RpcError { data: Some(data), ..error }
}

/// The revision of a legacy session: the requested one if it is a legacy revision, else the newest.
pub(super) fn negotiated_version(requested: Option<&str>) -> &'static str {
    let found = LEGACY_VERSIONS.into_iter().find(|version| Some(*version) == requested);
    found.unwrap_or(NEWEST_LEGACY)
}

/// Whether this is a legacy revision.
pub(super) fn is_legacy(version: &str) -> bool {
    negotiated_version(Some(version)) == version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, meta: Value) -> Request {
        let params = json!({ "_meta": meta }).as_object().cloned().unwrap();
        Request { id: json!(1), method: method.to_owned(), params }
    }

    fn check(method: &str, meta: Value, initialized: bool, expected: Result<Era, i64>) {
        let found = of(&request(method, meta.clone()), initialized).map_err(|error| error.code);
        assert_eq!(found, expected, "{method} {meta}");
    }

    #[test]
    fn a_request_that_names_the_modern_revision_is_modern_even_after_initialize() {
        let meta = json!({ META_VERSION: MODERN, META_CAPABILITIES: {} });
        check("tools/list", meta.clone(), false, Ok(Era::Modern));
        check("tools/list", meta, true, Ok(Era::Modern));
    }

    #[test]
    fn a_request_that_names_no_revision_is_legacy_after_initialize() {
        check("tools/list", json!({}), true, Ok(Era::Legacy));
        check("tools/list", json!({}), false, Err(-32602));
        check("initialize", json!({}), false, Ok(Era::Legacy));
        check("ping", json!({}), false, Ok(Era::Legacy));
    }

    #[test]
    fn a_modern_request_says_what_the_client_can_do() {
        check("tools/list", json!({ META_VERSION: MODERN }), false, Err(-32602));
        check("tools/list", json!({ META_VERSION: MODERN, META_CAPABILITIES: [] }), true, Err(-32602));
        check("tools/list", json!({ META_VERSION: 7, META_CAPABILITIES: {} }), false, Err(-32602));
    }

    #[test]
    fn an_unknown_revision_is_refused_with_the_known_one() {
        let error = of(&request("tools/list", json!({ META_VERSION: "2099-01-01", META_CAPABILITIES: {} })), false);
        let error = error.unwrap_err();
        assert_eq!(error.code, -32022);
        assert_eq!(error.data, Some(json!({ "requested": "2099-01-01", "supported": [MODERN] })));
    }

    #[test]
    fn initialize_is_answered_in_its_revision_or_the_newest() {
        assert_eq!(negotiated_version(Some("2024-11-05")), "2024-11-05");
        assert_eq!(negotiated_version(Some("2025-06-18")), "2025-06-18");
        assert_eq!(negotiated_version(Some(MODERN)), "2025-11-25");
        assert_eq!(negotiated_version(None), "2025-11-25");
    }
}
