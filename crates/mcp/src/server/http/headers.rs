//! Headers of a modern request that repeat parts of its body.
//!
//! What stands between client and server routes by them, so a request whose headers and body
//! disagree is refused: it might have been let through as something else.

use crate::protocol::ErrorCode;
use crate::protocol::{HEADER_METHOD, HEADER_NAME, HEADER_PARAM_PREFIX, HEADER_PROTOCOL_VERSION};
use axum::http::HeaderMap;
use serde_json::{Map, Value};

use crate::headers::{decode, plain};
use crate::protocol::MODERN;
use crate::server::era;
use crate::server::message::{Request, RpcError, error};

/// Whether the request is to be read as a modern one.
pub(super) fn is_modern(headers: &HeaderMap, request: &Request) -> bool {
    if era::named_version(request).is_some() {
        return true;
    }
    // The greeting of a client that knows the newest revision by name but speaks an older one.
    let greets = era::is_greeting(request) && request.params.contains_key("protocolVersion");
    !greets && (request.method == "server/discover" || names_modern(headers))
}

/// Whether the headers name the modern revision.
pub(super) fn names_modern(headers: &HeaderMap) -> bool {
    headers.get(HEADER_PROTOCOL_VERSION).is_some_and(|version| version.as_bytes() == MODERN.as_bytes())
}

/// Whether the headers name a revision that we don't speak at all.
pub(super) fn names_unknown(headers: &HeaderMap) -> bool {
    let named = headers.get(HEADER_PROTOCOL_VERSION);
    named.is_some_and(|version| !version.to_str().is_ok_and(|version| version == MODERN || era::is_legacy(version)))
}

/// Whether everything that the headers repeat is what the body says. `schema` is that of the tool called, if any.
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

/// What a request is about, where it is about one thing.
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

/// A header that must be there once with this value, or must not be there.
fn compare(
    headers: &HeaderMap,
    name: &str,
    expected: Option<&str>,
    read: impl Fn(&str) -> String,
) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(mismatch(format!("more than one header {name}")));
    }
    let Some(expected) = expected else {
        return match first {
            None => Ok(()),
            Some(_) => Err(mismatch(format!("a header {name} for nothing in the body"))),
        };
    };
    let Some(value) = first else { return Err(mismatch(format!("no header {name}"))) };
    match value.to_str() {
        Ok(value) if read(value) == expected => Ok(()),
        _ => Err(mismatch(format!("the header {name} is not what the body says"))),
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
