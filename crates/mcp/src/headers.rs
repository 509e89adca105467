//! Writes the headers that repeat parts of a modern request, so that proxies can route without parsing the body.
//!
//! A server refuses a request whose headers and body differ, so a value that a header cannot hold is encoded in Base64, not
//! altered. The comparison itself is in `server::http::headers`.

use crate::protocol::{BASE64_PREFIX, BASE64_SUFFIX, HEADER_METHOD, HEADER_NAME, HEADER_PARAM_PREFIX};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// The headers of a request without a target.
pub(crate) fn of_method(method: &str) -> Vec<(String, String)> {
    vec![(HEADER_METHOD.to_owned(), method.to_owned())]
}

/// The headers of a request that names a tool, prompt or resource.
pub(crate) fn of_target(method: &str, name: &str) -> Vec<(String, String)> {
    let mut headers = of_method(method);
    headers.push((HEADER_NAME.to_owned(), encode(name)));
    headers
}

/// The headers of a tool call: its name, and the arguments that its schema marks with `x-mcp-header`.
pub(crate) fn of_call(tool: &str, schema: &Value, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let mut headers = of_target("tools/call", tool);
    add_arguments(schema, arguments, &mut headers);
    headers
}

fn add_arguments(schema: &Value, arguments: &Map<String, Value>, headers: &mut Vec<(String, String)>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, property) in properties {
        let Some(argument) = arguments.get(name) else { continue };
        if let (Some(header), Some(text)) = (property.get("x-mcp-header").and_then(Value::as_str), plain(argument)) {
            headers.push((format!("{HEADER_PARAM_PREFIX}{header}"), encode(&text)));
        }
        if let Value::Object(inner) = argument {
            add_arguments(property, inner, headers);
        }
    }
}

/// A string, boolean or number as header text; none for other values.
pub(crate) fn plain(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(argument.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn encode(text: &str) -> String {
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let trimmed = text.trim_matches(' ').len() == text.len();
    let looks_encoded = text.starts_with(BASE64_PREFIX) && text.ends_with(BASE64_SUFFIX);
    if printable && trimmed && !looks_encoded {
        return text.to_owned();
    }
    format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", BASE64_STANDARD.encode(text))
}

/// Decodes a value that [`of_call`] may have encoded; none if the encoding is invalid.
pub(crate) fn decode(value: &str) -> Option<String> {
    let inner = value.strip_prefix(BASE64_PREFIX).and_then(|rest| rest.strip_suffix(BASE64_SUFFIX));
    let Some(inner) = inner else { return Some(value.to_owned()) };
    String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, arguments: Value, expected: &[(&str, &str)]) {
        let headers = of_call("t", &schema, arguments.as_object().unwrap());
        let headers: Vec<_> = headers.iter().skip(2).map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn a_plain_name_stays_and_any_other_is_encoded() {
        assert_eq!(encode("get_weather"), "get_weather");
        assert_eq!(encode("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(encode(" pad"), "=?base64?IHBhZA==?=");
        assert_eq!(encode("a\r\nX: y"), "=?base64?YQ0KWDogeQ==?=");
        assert_eq!(encode("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn what_is_encoded_can_be_read_back() {
        for text in ["plain", "größe", " pad", "a\r\nX: y", "=?base64?eA==?="] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(decode("=?base64?!?="), None);
    }

    #[test]
    fn an_annotated_argument_is_repeated_even_when_nested() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "page": { "properties": { "size": { "x-mcp-header": "Size" } } },
            "quiet": { "type": "string" },
        } });
        check(
            schema,
            json!({ "region": "eu", "page": { "size": 5 }, "quiet": "x" }),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Size", "5")],
        );
    }

    #[test]
    fn an_argument_that_is_absent_or_null_has_no_header() {
        let schema = json!({ "properties": { "a": { "x-mcp-header": "A" }, "b": { "x-mcp-header": "B" } } });
        check(schema, json!({ "a": null }), &[]);
    }
}
