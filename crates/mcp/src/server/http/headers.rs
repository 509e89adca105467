//! Compares the headers of a modern request with the parts of its body that they repeat.
//!
//! Proxies route and filter by these headers, so a request whose headers and body disagree is refused: a proxy may have let
//! it pass as something else. Headers that repeat nothing are ignored.

use crate::protocol::ErrorCode;
use crate::protocol::{HEADER_METHOD, HEADER_NAME, HEADER_PARAM_PREFIX, HEADER_PROTOCOL_VERSION};
use axum::http::HeaderMap;
use serde_json::{Map, Value};

use crate::headers::{decode, plain};
use crate::protocol::MODERN;
use crate::server::era;
use crate::server::message::{Request, RpcError, error};

/// Whether the request is in the modern era.
pub(super) fn is_modern(headers: &HeaderMap, request: &Request) -> bool {
    if era::named_version(request).is_some() {
        return true;
    }
    // An `initialize` whose headers name the newest revision but whose parameters name an older one.
    let is_legacy_initialize = era::is_initialize(request) && request.params.contains_key("protocolVersion");
    !is_legacy_initialize && (request.method == "server/discover" || names_modern(headers))
}

/// Whether the headers name the modern revision.
pub(super) fn names_modern(headers: &HeaderMap) -> bool {
    headers.get(HEADER_PROTOCOL_VERSION).is_some_and(|version| version.as_bytes() == MODERN.as_bytes())
}

/// Whether the headers name a revision that this server does not support.
pub(super) fn names_unknown(headers: &HeaderMap) -> bool {
    let named = headers.get(HEADER_PROTOCOL_VERSION);
    named.is_some_and(|version| !version.to_str().is_ok_and(|version| version == MODERN || era::is_legacy(version)))
}

/// Checks that the headers repeat the body exactly. `schema` is the input schema of the called tool, if any.
pub(super) fn check(
    headers: &HeaderMap,
    request: &Request,
    version: &str,
    schema: Option<&Value>,
) -> Result<(), RpcError> {
    compare(headers, HEADER_PROTOCOL_VERSION, Some(version), str::to_owned)?;
    compare(headers, HEADER_METHOD, Some(&request.method), str::to_owned)?;
    if let Some(name) = target(request) {
        compare_encoded(headers, HEADER_NAME, Some(name))?;
    }
    match (schema, request.params.get("arguments")) {
        (Some(schema), Some(Value::Object(arguments))) => check_arguments(headers, schema, arguments),
        (Some(schema), _) => check_arguments(headers, schema, &Map::new()),
        (None, _) => Ok(()),
    }
}

/// The tool, prompt or resource that a request names.
fn target(request: &Request) -> Option<&str> {
    let key = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    request.params.get(key)?.as_str()
}

fn check_arguments(headers: &HeaderMap, schema: &Value, arguments: &Map<String, Value>) -> Result<(), RpcError> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, property) in properties {
        let argument = arguments.get(name);
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str).filter(|header| !header.is_empty()) {
            let expected = argument.and_then(plain);
            compare_encoded(headers, &format!("{HEADER_PARAM_PREFIX}{header}"), expected.as_deref())?;
        }
        if property.get("properties").is_some() {
            let none = Map::new();
            check_arguments(headers, property, argument.and_then(Value::as_object).unwrap_or(&none))?;
        }
    }
    Ok(())
}

fn compare_encoded(headers: &HeaderMap, name: &str, expected: Option<&str>) -> Result<(), RpcError> {
    compare(headers, name, expected, |value| decode(value).unwrap_or_default())
}

/// Requires the header exactly once with the expected value, or, without an expected value, not at all.
fn compare(
    headers: &HeaderMap,
    name: &str,
    expected: Option<&str>,
    read: impl Fn(&str) -> String,
) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(mismatch(format!("the header {name} occurs more than once")));
    }
    let Some(expected) = expected else {
        return match first {
            None => Ok(()),
            Some(_) => Err(mismatch(format!("the header {name} repeats nothing in the body"))),
        };
    };
    let Some(value) = first else { return Err(mismatch(format!("the header {name} is missing"))) };
    match value.to_str() {
        Ok(value) if read(value) == expected => Ok(()),
        _ => Err(mismatch(format!("the header {name} differs from the body"))),
    }
}

fn mismatch(message: String) -> RpcError {
    error(ErrorCode::HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use serde_json::json;

    fn check_call(extra: &[(&str, &str)], arguments: Value, expected: bool) {
        let params = json!({ "name": "größe", "arguments": arguments }).as_object().cloned().unwrap();
        let request = Request { id: json!(1), method: "tools/call".to_owned(), params };
        let schema = json!({ "properties": {
            "region": { "x-mcp-header": "Region" },
            "page": { "properties": { "size": { "x-mcp-header": "Size" } } },
        } });
        let usual =
            [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDtsOfZQ==?=")];
        let mut headers = HeaderMap::new();
        for (name, value) in usual.iter().chain(extra) {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(super::check(&headers, &request, MODERN, Some(&schema)).is_ok(), expected, "{extra:?}");
    }

    #[test]
    fn headers_repeat_what_the_schema_marks() {
        check_call(&[], json!({}), true);
        check_call(&[("mcp-param-region", "eu")], json!({ "region": "eu" }), true);
        check_call(
            &[("mcp-param-region", "eu"), ("mcp-param-size", "5")],
            json!({ "region": "eu", "page": { "size": 5 } }),
            true,
        );
        check_call(&[], json!({ "region": "eu" }), false);
        check_call(&[("mcp-param-region", "us")], json!({ "region": "eu" }), false);
        check_call(&[("mcp-param-region", "eu")], json!({ "region": null }), false);
        check_call(&[("mcp-param-region", "=?base64?!?=")], json!({ "region": "eu" }), false);
    }

    #[test]
    fn a_header_that_comes_twice_is_refused() {
        check_call(&[("mcp-method", "tools/call")], json!({}), false);
        check_call(&[("mcp-name", "other")], json!({}), false);
    }
}
