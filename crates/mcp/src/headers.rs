//! Writes the headers that repeat parts of a modern request, so that proxies can route without parsing the body.
//!
//! A server refuses a request whose headers and body differ, so a value that a header cannot hold is encoded in Base64, not
//! altered. The comparison itself is in `server::http::headers`.

use crate::protocol::{BASE64_PREFIX, BASE64_SUFFIX, HEADER_METHOD, HEADER_NAME, HEADER_PARAM_PREFIX};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::collections::HashSet;

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

/// Nesting of a schema in which marks are looked for.
const MAX_DEPTH: usize = 64;

/// What is wrong with the marks of a tool's schema. A client over HTTP must leave such a tool out (SEP-2243): what it would
/// have to send is not defined.
pub(crate) fn defect(schema: &Value) -> Option<&'static str> {
    defect_below(schema, &mut HashSet::new(), 0)
}

fn defect_below(schema: &Value, seen: &mut HashSet<String>, depth: usize) -> Option<&'static str> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|_| depth < MAX_DEPTH)?;
    properties.values().find_map(|property| {
        let own = property.get("x-mcp-header").and_then(|mark| defect_of(mark, property.get("type"), seen));
        own.or_else(|| defect_below(property, seen, depth + 1))
    })
}

fn defect_of(mark: &Value, kind: Option<&Value>, seen: &mut HashSet<String>) -> Option<&'static str> {
    let is_plain = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    let is_fit = match kind {
        None => true,
        Some(Value::Array(kinds)) => {
            kinds.iter().any(is_plain) && kinds.iter().all(|kind| is_plain(kind) || kind.as_str() == Some("null"))
        }
        Some(kind) => is_plain(kind),
    };
    let is_token = |name: &&str| !name.is_empty() && name.bytes().all(is_token_byte);
    match mark.as_str().filter(is_token) {
        None => Some("an x-mcp-header is no name of a header"),
        Some(_) if !is_fit => Some("an x-mcp-header is on what is no string, integer or boolean"),
        Some(name) if !seen.insert(name.to_ascii_lowercase()) => Some("two parameters have the same x-mcp-header"),
        Some(_) => None,
    }
}

/// Whether a byte may be part of the name of a header (RFC 9110).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
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
    fn marks_that_cannot_be_sent_are_a_defect() {
        let of = |properties: Value| defect(&json!({ "type": "object", "properties": properties }));
        assert_eq!(of(json!({ "a": { "type": "string", "x-mcp-header": "A" }, "b": { "type": "number" } })), None);
        assert_eq!(of(json!({ "a": { "type": ["integer", "null"], "x-mcp-header": "A-b.c" } })), None);
        assert_eq!(of(json!({ "a": { "x-mcp-header": "A" } })), None);
        for name in [json!(""), json!("a b"), json!("a:b"), json!("größe"), json!("a\tb"), json!(5), json!(null)] {
            let found = of(json!({ "a": { "type": "string", "x-mcp-header": name } }));
            assert_eq!(found, Some("an x-mcp-header is no name of a header"), "{name}");
        }
        for kind in [json!("object"), json!("array"), json!("null"), json!("number"), json!(["string", "number"])] {
            let found = of(json!({ "a": { "properties": { "b": { "type": kind, "x-mcp-header": "B" } } } }));
            assert_eq!(found, Some("an x-mcp-header is on what is no string, integer or boolean"), "{kind}");
        }
        let twice = json!({ "type": "string", "x-mcp-header": "Same" });
        let nested = json!({ "type": "object", "properties": { "c": { "type": "string", "x-mcp-header": "sAME" } } });
        assert_eq!(of(json!({ "a": twice, "b": nested })), Some("two parameters have the same x-mcp-header"));
    }

    #[test]
    fn an_argument_that_is_absent_or_null_has_no_header() {
        let schema = json!({ "properties": { "a": { "x-mcp-header": "A" }, "b": { "x-mcp-header": "B" } } });
        check(schema, json!({ "a": null }), &[]);
    }
}
