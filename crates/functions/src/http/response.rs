//! The response that a sandboxed program receives: `{status, headers, body | json}`.

use super::{FetchError, HttpLimits};
use crate::FunctionAnswer;
use crate::answer::{CountedBody, grow_to, is_json, quoted_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, SET_COOKIE};
use serde_json::{Map, Value, json};
use std::time::Duration;
use toolgate_wire::{ByteBudget, BytePermit};

/// The most bytes that names and punctuation add to a body.
const MAX_TAIL_BYTES: usize = 40;

/// A complete response within its limits.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Lower-case names; repeated headers are joined by `, `, and `set-cookie` by line breaks.
    pub headers: Map<String, Value>,
    /// The decoded body.
    pub content: Content,
    /// Counts the body.
    permit: BytePermit,
}

/// The decoded body.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Valid JSON with a JSON content type, as text.
    Json(String),
    /// UTF-8 text.
    Text(String),
    /// Anything else.
    Binary(Vec<u8>),
}

impl HttpResponse {
    /// Reads a response up to its limits.
    pub(super) async fn read(response: Response, limits: &HttpLimits, budget: &ByteBudget) -> Result<Self, FetchError> {
        check_headers(response.headers(), limits)?;
        let status = response.status().as_u16();
        let headers = headers_json(response.headers());
        let announced = announces_json(response.headers());
        let CountedBody { bytes, permit } = read_body(response, limits.response_body, budget).await?;
        Ok(Self { status, headers, content: Content::new(bytes, announced), permit })
    }

    /// The response for the guest: the text of `{status, headers, json | body, encoding?}`, of which no tree is made.
    ///
    /// # Errors
    /// If the text does not fit into the budget.
    pub fn into_answer(self) -> Result<FunctionAnswer, FetchError> {
        let Self { status, headers, content, mut permit } = self;
        let mut text = json!({ "status": status, "headers": headers }).to_string().into_bytes();
        text.pop();
        let (held, size) = match &content {
            Content::Json(json) => (json.len(), json.len()),
            Content::Text(text) => (text.len(), quoted_bytes(text)),
            Content::Binary(bytes) => (bytes.len(), bytes.len().div_ceil(3) * 4 + 2),
        };
        grow_to(&mut permit, held.saturating_add(size))?;
        text.reserve_exact(size + MAX_TAIL_BYTES);
        match content {
            Content::Json(json) => {
                text.extend_from_slice(b",\"json\":");
                text.extend_from_slice(json.as_bytes());
            }
            Content::Text(body) => {
                text.extend_from_slice(b",\"body\":");
                serde_json::to_writer(&mut text, &body).map_err(|error| FetchError::Network(error.to_string()))?;
            }
            Content::Binary(bytes) => {
                text.extend_from_slice(b",\"encoding\":\"base64\",\"body\":\"");
                let start = text.len();
                text.resize(start + size, b'"');
                let room = text.get_mut(start..).unwrap_or_default();
                let written = STANDARD.encode_slice(&bytes, room).unwrap_or_default();
                text.truncate(start + written + 1);
            }
        }
        text.push(b'}');
        let text = String::from_utf8(text).map_err(|error| FetchError::Network(error.to_string()))?;
        Ok(FunctionAnswer::of_text(text, permit))
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
    /// Reads a response up to its limits; the budget counts it while it comes and must have room at once.
    pub(super) async fn read(
        mut response: Response,
        limits: &HttpLimits,
        budget: &ByteBudget,
    ) -> Result<Self, FetchError> {
        check_headers(response.headers(), limits)?;
        let status = response.status().as_u16();
        let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let mut body = CountedBody::announced(0, budget).await?;
        while let Some(chunk) = response.chunk().await.map_err(FetchError::from_client)? {
            check_size(&body, &chunk, limits.response_body)?;
            body.push(&chunk)?;
        }
        Ok(Self { status, headers, body: body.bytes })
    }
}

impl Content {
    fn new(body: Vec<u8>, announced: bool) -> Self {
        match String::from_utf8(body) {
            Err(error) => Self::Binary(error.into_bytes()),
            // Inside the object of the response.
            Ok(text) if announced && is_json(text.trim_start_matches('\u{feff}'), 1) => {
                Self::Json(text.trim_start_matches('\u{feff}').trim_ascii().to_owned())
            }
            Ok(text) => Self::Text(text),
        }
    }
}

/// Reads a body, decoded, up to a cap. What lies beyond it is never decompressed. A body waits for room in the budget: for
/// its size if that is announced, else for the cap. What it does not need is given back when its answer is made.
pub(crate) async fn read_body(
    mut response: Response,
    cap: usize,
    budget: &ByteBudget,
) -> Result<CountedBody, FetchError> {
    // Known for a body that is not compressed, with a `Content-Length`.
    let announced = usize::try_from(response.content_length().unwrap_or_default()).unwrap_or(usize::MAX);
    if announced > cap {
        return Err(FetchError::ResponseTooLarge { cap });
    }
    let mut body = CountedBody::announced(announced, budget).await?;
    while let Some(chunk) = response.chunk().await.map_err(FetchError::from_client)? {
        check_size(&body, &chunk, cap)?;
        body.wait_for_room(&chunk, cap, budget).await?;
        body.push(&chunk)?;
    }
    Ok(body)
}

fn check_size(body: &CountedBody, chunk: &[u8], cap: usize) -> Result<(), FetchError> {
    if body.bytes.len() + chunk.len() > cap {
        return Err(FetchError::ResponseTooLarge { cap });
    }
    Ok(())
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
        let permit = ByteBudget::unlimited().empty_permit();
        let response = HttpResponse { status: 200, headers: Map::new(), content, permit };
        let answer = response.into_answer().expect("there is room").into_text().0;
        let Ok(Value::Object(mut value)) = serde_json::from_str(&answer) else { panic!("an object") };
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
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
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
