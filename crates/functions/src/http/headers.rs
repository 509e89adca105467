//! The headers that a caller may set, and those that are kept on a redirect to another origin.

use super::FetchError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use toolgate_wire::foreign_text::escaped;
use toolgate_wire::http_text::is_connection_header;

/// Maximum number of request headers.
const MAX_HEADERS: usize = 64;
/// Maximum total size of request headers, in bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Headers that another origin may receive. Credentials may have any name (`X-Api-Key`, `X-Auth-Token`, …), so this is an
/// allow list.
const HARMLESS: [&str; 8] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "range",
    "user-agent",
];

/// Checks the headers of a request.
pub(super) fn parse(given: &Map<String, Value>) -> Result<HeaderMap, FetchError> {
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in given {
        let (header, value) = one(name, value)?;
        bytes += header.as_str().len() + value.len();
        headers.append(header, value);
        if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            return Err(FetchError::RequestHeadersTooLarge);
        }
    }
    Ok(headers)
}

fn one(name: &str, value: &Value) -> Result<(HeaderName, HeaderValue), FetchError> {
    let shown = || escaped(name, 64);
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| FetchError::HeaderInvalid(shown()))?;
    if is_connection_header(header.as_str()) {
        return Err(FetchError::HeaderForbidden(shown()));
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(FetchError::HeaderInvalid(shown())),
    };
    // Non-ASCII bytes are legal in HTTP, but servers decode them differently.
    let value = HeaderValue::from_str(&text).ok().filter(|_| text.is_ascii());
    let value = value.ok_or_else(|| FetchError::HeaderInvalid(shown()))?;
    Ok((header, value))
}

/// The headers that are kept for a hop to another origin.
pub(super) fn for_other_origin(headers: &HeaderMap) -> HeaderMap {
    let harmless = headers.iter().filter(|(name, _)| HARMLESS.contains(&name.as_str()));
    harmless.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolgate_wire::http_text::CONNECTION_HEADERS;

    fn check(name: &str, value: Value, expected: &str) {
        let found = match parse(&Map::from_iter([(name.to_owned(), value)])) {
            Ok(headers) => format!("{headers:?}"),
            Err(FetchError::HeaderForbidden(_)) => "forbidden".to_owned(),
            Err(FetchError::HeaderInvalid(_)) => "invalid".to_owned(),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn ordinary_headers_pass_and_scalars_become_text() {
        check("X-Api-Key", json!("k"), r#"{"x-api-key": "k"}"#);
        check("X-Count", json!(3), r#"{"x-count": "3"}"#);
        check("X-Flag", json!(true), r#"{"x-flag": "true"}"#);
    }

    #[test]
    fn headers_of_the_connection_are_forbidden_in_any_case() {
        for name in CONNECTION_HEADERS {
            check(name, json!("x"), "forbidden");
            check(&name.to_uppercase(), json!("x"), "forbidden");
        }
        check("Proxy-Authorization", json!("x"), "forbidden");
        check("proxy-anything", json!("x"), "forbidden");
    }

    #[test]
    fn nothing_can_break_out_of_its_line() {
        for value in ["a\r\nHost: evil", "a\nb", "a\rb", "a\0b", "é", "\u{7f}"] {
            check("x-a", json!(value), "invalid");
        }
        for name in ["a\r\nb", "a b", "host ", "a:b", ":authority", "", "a\0", "é"] {
            check(name, json!("x"), "invalid");
        }
        check("x-a", json!(["x"]), "invalid");
        check("x-a", json!(null), "invalid");
    }

    #[test]
    fn headers_are_bounded_in_number_and_size() {
        let too_large = FetchError::RequestHeadersTooLarge.to_string();
        check("x-a", json!("v".repeat(MAX_HEADER_BYTES + 1)), &too_large);
        let many: Map<_, _> = (0..=MAX_HEADERS).map(|n| (format!("x-{n}"), json!("v"))).collect();
        assert_eq!(parse(&many), Err(FetchError::RequestHeadersTooLarge));
    }

    #[test]
    fn only_harmless_headers_reach_another_origin() {
        let given = json!({"Authorization": "a", "Cookie": "c", "X-Api-Key": "k", "Accept": "text/html", "Content-Type": "t/x"});
        let Value::Object(given) = given else { panic!("an object") };
        let kept = for_other_origin(&parse(&given).expect("good headers"));
        assert_eq!(format!("{kept:?}"), r#"{"accept": "text/html", "content-type": "t/x"}"#);
    }
}
