//! The response that a sandboxed program receives: `{status, headers, body | json}`.

use super::{FetchError, HttpLimits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, SET_COOKIE};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A complete response within its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Lower-case names; repeated headers are joined by `, `, and `set-cookie` by line breaks.
    pub headers: Map<String, Value>,
    /// The decoded body.
    pub content: Content,
}

/// The decoded body.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Valid JSON with a JSON content type.
    Json(Value),
    /// UTF-8 text.
    Text(String),
    /// Anything else.
    Binary(Vec<u8>),
}

impl HttpResponse {
    /// Reads a response up to its limits.
    pub(super) async fn read(response: Response, limits: &HttpLimits) -> Result<Self, FetchError> {
        check_headers(response.headers(), limits)?;
        let status = response.status().as_u16();
        let headers = headers_json(response.headers());
        let is_json = announces_json(response.headers());
        let body = read_body(response, limits.response_body).await?;
        Ok(Self { status, headers, content: Content::new(body, is_json) })
    }

    /// The response as a value for the guest.
    pub fn into_json(self) -> Value {
        let mut value = json!({ "status": self.status, "headers": self.headers });
        match self.content {
            Content::Json(json) => value["json"] = json,
            Content::Text(text) => value["body"] = Value::String(text),
            Content::Binary(bytes) => {
                value["body"] = Value::String(STANDARD.encode(bytes));
                value["encoding"] = json!("base64");
            }
        }
        value
    }
}

/// A complete response, its body not decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct RawResponse {
    /// The status code.
    pub status: u16,
    /// Lower-case names, in the order of the response.
    pub headers: Vec<(String, String)>,
    /// The body after decompression.
    pub body: Vec<u8>,
}

impl RawResponse {
    pub(super) async fn read(response: Response, limits: &HttpLimits) -> Result<Self, FetchError> {
        check_headers(response.headers(), limits)?;
        let status = response.status().as_u16();
        let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let body = read_body(response, limits.response_body).await?;
        Ok(Self { status, headers, body })
    }
}

impl Content {
    fn new(body: Vec<u8>, is_json: bool) -> Self {
        match String::from_utf8(body) {
            Err(error) => Self::Binary(error.into_bytes()),
            Ok(text) if is_json => match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
                Ok(json) => Self::Json(json),
                Err(_) => Self::Text(text),
            },
            Ok(text) => Self::Text(text),
        }
    }
}

/// Reads a body, decoded, up to a cap. What lies beyond it is never decompressed.
pub(crate) async fn read_body(mut response: Response, cap: usize) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(FetchError::from_client)? {
        if body.len() + chunk.len() > cap {
            return Err(FetchError::ResponseTooLarge { cap });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// `Retry-After` in seconds; the form with a date is left out.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u32>().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

fn check_headers(headers: &HeaderMap, limits: &HttpLimits) -> Result<(), FetchError> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > limits.response_headers || bytes > limits.response_header_bytes {
        return Err(FetchError::ResponseHeadersTooLarge);
    }
    Ok(())
}

fn headers_json(headers: &HeaderMap) -> Map<String, Value> {
    let joined = |name| {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        values.join(if name == SET_COOKIE { "\n" } else { ", " })
    };
    headers.keys().map(|name| (name.as_str().to_owned(), Value::String(joined(name)))).collect()
}

fn announces_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "text/json") || essence.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn check(content_type: &'static str, body: &[u8], expected: Value) {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        let content = Content::new(body.to_vec(), announces_json(&headers));
        let response = HttpResponse { status: 200, headers: Map::new(), content };
        let Value::Object(mut value) = response.into_json() else { panic!("an object") };
        value.retain(|key, _| key != "status" && key != "headers");
        assert_eq!(Value::Object(value), expected);
    }

    #[test]
    fn json_is_json_when_it_says_so_and_parses() {
        check("application/json; charset=utf-8", b"{\"a\":1}", json!({"json": {"a": 1}}));
        check("Application/Problem+JSON", b"\xef\xbb\xbf[1]", json!({"json": [1]}));
        check("application/json", b"null", json!({"json": null}));
        check("application/json", b"{oops", json!({"body": "{oops"}));
        check("text/plain", b"{\"a\":1}", json!({"body": "{\"a\":1}"}));
        check("application/jsonx", b"1", json!({"body": "1"}));
    }

    #[test]
    fn a_body_that_is_no_text_is_base64() {
        check("image/png", b"\x89PNG", json!({"body": "iVBORw==", "encoding": "base64"}));
        check("application/json", b"\xff", json!({"body": "/w==", "encoding": "base64"}));
        check("image/png", b"", json!({"body": ""}));
    }

    #[test]
    fn json_too_deep_to_parse_stays_text() {
        let deep = "[".repeat(100_000);
        check("application/json", deep.as_bytes(), json!({"body": deep}));
    }

    #[test]
    fn repeated_headers_are_joined() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "1"), ("a", "2"), ("set-cookie", "x=1, y"), ("set-cookie", "z=2")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(Value::Object(headers_json(&headers)), json!({"a": "1, 2", "set-cookie": "x=1, y\nz=2"}));
    }
}
