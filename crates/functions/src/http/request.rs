//! Validates a request of a sandboxed program.

use super::{FetchError, headers};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_wire::foreign_text::escaped;
use url::Url;

/// Maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// A valid request: a parsed URL, an allowed method, allowed headers, a body within its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// The optional fields of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Init {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<Value>,
}

/// Whether requests with this method change nothing, by the HTTP standard; the method is as a program writes it.
pub(crate) fn is_safe(method: Option<&str>) -> bool {
    parse_method(method.unwrap_or("GET")).is_ok_and(|method| method.is_safe())
}

impl HttpRequest {
    /// Parses `{method?, headers?, body?}`. A body that is not a string is sent as JSON.
    pub fn new(url: &str, init: Option<&Value>, body_cap: usize) -> Result<Self, FetchError> {
        let init = match init {
            None | Some(Value::Null) => Init::default(),
            Some(init) => Init::deserialize(init).map_err(|error| FetchError::Shape(error.to_string()))?,
        };
        let url = parse_url(url, None)?;
        let method = parse_method(init.method.as_deref().unwrap_or("GET"))?;
        let mut headers = headers::parse(&init.headers.unwrap_or_default())?;
        let body = init.body.filter(|body| !body.is_null()).map(|body| encode(body, &mut headers));
        if let Some(body) = &body {
            if matches!(method, Method::GET | Method::HEAD) {
                return Err(FetchError::BodyNotAllowed(method.to_string()));
            }
            if body.len() > body_cap {
                return Err(FetchError::RequestTooLarge { size: body.len(), cap: body_cap });
            }
        }
        Ok(Self { url, method, headers, body })
    }
}

impl HttpRequest {
    /// A request from parts that were made elsewhere, for a caller that is not a sandboxed program: any method but
    /// `CONNECT` and `TRACE`, and bytes as the body. Header values are marked as sensitive. Errors do not contain the URL.
    pub fn from_parts(
        method: &str,
        url: Url,
        header_fields: &[(String, String)],
        body: Option<Vec<u8>>,
    ) -> Result<Self, FetchError> {
        let is_sent = method.bytes().all(|byte| byte.is_ascii_uppercase()) && !matches!(method, "CONNECT" | "TRACE");
        let method = Method::from_bytes(method.as_bytes()).ok().filter(|_| is_sent);
        let method = method.ok_or_else(|| FetchError::Method("of the operation".to_owned()))?;
        let given: Map<String, Value> =
            header_fields.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
        let mut headers = headers::parse(&given)?;
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Ok(Self { url, method, headers, body })
    }
}

fn encode(body: Value, headers: &mut HeaderMap) -> Vec<u8> {
    match body {
        Value::String(text) => text.into_bytes(),
        json => {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
            json.to_string().into_bytes()
        }
    }
}

/// Parses a URL. The URL standard removes tabs and line breaks silently; they are rejected here, so that the checked URL
/// equals the written one.
pub(super) fn parse_url(text: &str, base: Option<&Url>) -> Result<Url, FetchError> {
    if text.len() > MAX_URL_BYTES {
        return Err(FetchError::Url(format!("it is longer than {MAX_URL_BYTES} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(FetchError::Url("it contains a control character".to_owned()));
    }
    let parsed = base.map_or_else(|| Url::parse(text), |base| base.join(text));
    parsed.map_err(|error| FetchError::Url(error.to_string()))
}

fn parse_method(text: &str) -> Result<Method, FetchError> {
    match text.to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        "OPTIONS" => Ok(Method::OPTIONS),
        _ => Err(FetchError::Method(escaped(text, 32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(url: &str, init: Value, expected: &str) {
        let found = HttpRequest::new(url, Some(&init), 10).map_or_else(
            |error| error.to_string(),
            |request| {
                let body = request.body.map(|body| String::from_utf8_lossy(&body).into_owned());
                format!("{} {} {:?} {:?}", request.method, request.url, request.headers, body.unwrap_or_default())
            },
        );
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bare_url_is_a_get() {
        check("http://a.test", json!(null), r#"GET http://a.test/ {} """#);
        check("http://a.test/x", json!({"method": "delete"}), r#"DELETE http://a.test/x {} """#);
    }

    #[test]
    fn a_body_that_is_no_string_is_json() {
        let sent = r#"POST http://a.test/ {"content-type": "application/json"} "{\"a\":1}""#;
        check("http://a.test", json!({"method": "POST", "body": {"a": 1}}), sent);
        check("http://a.test", json!({"method": "POST", "body": "a=1"}), r#"POST http://a.test/ {} "a=1""#);
        check("http://a.test", json!({"method": "PUT", "body": null}), r#"PUT http://a.test/ {} """#);
    }

    #[test]
    fn bodies_have_a_cap_and_a_place() {
        let too_large = "the request body has 11 bytes, but at most 10 are allowed";
        check("http://a.test", json!({"method": "POST", "body": "12345678901"}), too_large);
        check("http://a.test", json!({"method": "GET", "body": "x"}), "a GET request must not have a body");
    }

    #[test]
    fn methods_that_reach_beyond_the_server_are_refused() {
        for method in ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\n", ""] {
            let found = HttpRequest::new("http://a.test", Some(&json!({"method": method})), 10);
            assert!(matches!(found, Err(FetchError::Method(_))), "{method}");
        }
    }

    #[test]
    fn a_url_must_parse_as_it_was_written() {
        for url in [
            "",
            "//a.test",
            "/x",
            "http://",
            "http://a b/",
            "http://a.test/\r\nX: y",
            "\thttp://a.test",
            "http://a\0b/",
        ] {
            let found = HttpRequest::new(url, None, 10);
            assert!(matches!(found, Err(FetchError::Url(_))), "{url:?}: {found:?}");
        }
        let long = format!("http://a.test/{}", "x".repeat(MAX_URL_BYTES));
        check(&long, json!(null), "the URL is not valid: it is longer than 8192 bytes");
    }

    #[test]
    fn parts_are_checked_like_any_request() {
        let url = || Url::parse("http://a.test/?key=secret").expect("a URL");
        let fields = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let request = HttpRequest::from_parts("QUERY", url(), &fields("X-Key", "hidden"), Some(vec![0xff]));
        let request = request.expect("a good request");
        assert_eq!((request.method.as_str(), request.body.as_deref()), ("QUERY", Some(&[0xff][..])));
        assert!(!format!("{:?}", request.headers).contains("hidden"));
        for method in ["CONNECT", "TRACE", "get", "", "A B"] {
            let found = HttpRequest::from_parts(method, url(), &[], None).expect_err(method);
            assert!(matches!(found, FetchError::Method(_)) && !found.to_string().contains("secret"), "{found}");
        }
        for (name, value) in [("host", "b.test"), ("x-a", "a\r\nb: c"), ("transfer-encoding", "chunked")] {
            assert!(HttpRequest::from_parts("GET", url(), &fields(name, value), None).is_err(), "{name}");
        }
    }
}
