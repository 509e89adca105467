//! Computes the next request of a redirect. Whether it may be sent is decided by the guard.

use super::request::parse_url;
use super::{FetchError, HttpRequest, headers};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};

/// The request to send next, or `None` if the response is no redirect.
pub(super) fn next_hop(
    request: &HttpRequest,
    status: StatusCode,
    response: &HeaderMap,
) -> Result<Option<HttpRequest>, FetchError> {
    let Some(location) = response.get(LOCATION).filter(|_| redirects(status)) else { return Ok(None) };
    let text = location.to_str().map_err(|_| FetchError::Url("the redirect's location is not ASCII".to_owned()))?;
    let mut next = HttpRequest { url: parse_url(text, Some(&request.url))?, ..request.clone() };
    if becomes_get(status, &request.method) {
        next.method = Method::GET;
        next.body = None;
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION] {
            next.headers.remove(name);
        }
    }
    // An origin is scheme, host and port, so a redirect from https to http changes the origin.
    if next.url.origin() != request.url.origin() {
        next.headers = headers::for_other_origin(&next.headers);
    }
    Ok(Some(next))
}

fn redirects(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// As browsers do: 303 turns everything but HEAD into GET, 301 and 302 turn POST into GET, 307 and 308 keep the method.
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        303 => !matches!(*method, Method::GET | Method::HEAD),
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use serde_json::json;

    fn hop(from: &str, method: &str, status: u16, location: &str) -> Result<Option<HttpRequest>, FetchError> {
        let body = if matches!(method, "GET" | "HEAD") { json!(null) } else { json!("b") };
        let headers = json!({"authorization": "a", "cookie": "c", "x-key": "k", "accept": "x", "content-type": "t"});
        let init = json!({"method": method, "headers": headers, "body": body});
        let request = HttpRequest::new(from, Some(&init), 100).expect("a good request");
        let location = HeaderValue::from_str(location).expect("a good header");
        let status = StatusCode::from_u16(status).expect("a status");
        next_hop(&request, status, &HeaderMap::from_iter([(LOCATION, location)]))
    }

    fn check(from: &str, method: &str, status: u16, location: &str, expected: &str) {
        let found = match hop(from, method, status, location) {
            Ok(None) => "no redirect".to_owned(),
            Err(error) => error.to_string(),
            Ok(Some(next)) => {
                let mut names: Vec<_> = next.headers.keys().map(|name| name.as_str()).collect();
                names.sort_unstable();
                let body = next.body.map_or(0, |body| body.len());
                format!("{} {} [{}] {body}", next.method, next.url, names.join(" "))
            }
        };
        assert_eq!(found, expected, "{method} {status} {from} -> {location}");
    }

    const ALL: &str = "[accept authorization content-type cookie x-key]";

    #[test]
    fn the_status_decides_about_the_method() {
        let no_type = "[accept authorization cookie x-key]";
        for status in [301, 302, 303] {
            check("http://a.test/", "POST", status, "/n", &format!("GET http://a.test/n {no_type} 0"));
        }
        for status in [307, 308] {
            check("http://a.test/", "POST", status, "/n", &format!("POST http://a.test/n {ALL} 1"));
        }
        check("http://a.test/", "PUT", 302, "/n", &format!("PUT http://a.test/n {ALL} 1"));
        check("http://a.test/", "PUT", 303, "/n", &format!("GET http://a.test/n {no_type} 0"));
        check("http://a.test/", "HEAD", 303, "/n", &format!("HEAD http://a.test/n {ALL} 0"));
        for status in [200, 201, 300, 304, 305, 306, 404] {
            check("http://a.test/", "GET", status, "/n", "no redirect");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let harmless = "[accept content-type] 0";
        check("https://a.test/", "GET", 302, "https://a.test:443/n", &format!("GET https://a.test/n {ALL} 0"));
        check("https://a.test/", "GET", 302, "https://b.test/", &format!("GET https://b.test/ {harmless}"));
        check("https://a.test/", "GET", 302, "https://a.test:8443/", &format!("GET https://a.test:8443/ {harmless}"));
        check("https://a.test/", "GET", 302, "http://a.test/", &format!("GET http://a.test/ {harmless}"));
        check("https://a.test/", "GET", 302, "https://sub.a.test/", &format!("GET https://sub.a.test/ {harmless}"));
        check("https://a.test/", "GET", 302, "//b.test/", &format!("GET https://b.test/ {harmless}"));
    }

    #[test]
    fn a_location_that_is_no_url_is_an_error() {
        check("http://a.test/", "GET", 302, "http://[", "the URL is not valid: invalid IPv6 address");
        check("http://a.test/", "GET", 302, "/a\tb", "the URL is not valid: it contains a control character");
    }
}
