//! The page in the browser: its files, and who is signed in.
//!
//! | path | what |
//! |---|---|
//! | `GET /` | the page for a browser (`Accept: text/html`); for others the index of the service |
//! | `GET /page/{file}` | a file of the page; no credentials, since the files hold no data |
//! | `POST`, `GET`, `DELETE /page/session` | signs in, says who is signed in, signs out |
//! | `POST /v1/page/links` | a one-time link that signs its holder in as the caller |
//!
//! The page has no rights of its own: it uses the HTTP API as the caller that signed in.

pub(super) mod sessions;
mod sign_in;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use ring::digest::{SHA256, digest};
use toolgate_page::{CONTENT_SECURITY_POLICY, FILES, PageFile};

use super::path::Path;
use super::refusal::{Refusal, Shown};
use super::{HttpService, status};

pub(super) use sign_in::{LinkReply, SignInRequest, SignedInReply};

/// The routes without credentials.
pub(super) fn open_routes() -> Router<HttpService> {
    Router::new()
        .route("/", get(index))
        .route("/page/{file}", get(file))
        .route("/page/session", get(sign_in::signed_in).post(sign_in::sign_in).delete(sign_in::sign_out))
}

/// The routes that need a key, a token or a session.
pub(super) fn keyed_routes() -> Router<HttpService> {
    Router::new().route("/v1/page/links", post(sign_in::new_link))
}

async fn index(headers: HeaderMap) -> Response {
    let mut response = match (wants_html(&headers), FILES.first()) {
        (true, Some(page)) => serve(page, &headers),
        _ => status::index().await.into_response(),
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Whether the client is a browser that opens a page. A program that takes anything gets JSON, as before there was a page.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        kind.trim().eq_ignore_ascii_case("text/html")
            && !parameters.replace(' ', "").starts_with("q=0;")
            && parameters.replace(' ', "") != "q=0"
    })
}

async fn file(Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    match toolgate_page::file(&name) {
        Some(file) => serve(file, &headers),
        None => Refusal::NoSuchPath(Shown::new(uri.path())).into_response(),
    }
}

fn serve(file: &PageFile, asked: &HeaderMap) -> Response {
    let tag = tag(file);
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, file.media_type)], file.text).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", CONTENT_SECURITY_POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
        // Asked for each time, and answered with 304 while it is the same.
        ("cache-control", "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.extend(HeaderValue::from_str(&tag).map(|tag| (header::ETAG, tag)));
    response
}

/// The same for the same content.
fn tag(file: &PageFile) -> String {
    let hash = digest(&SHA256, file.text.as_bytes());
    let short: String = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{short}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&'static str], expected: bool) {
        let headers = accept.iter().map(|value| (header::ACCEPT, HeaderValue::from_static(value))).collect();
        assert_eq!(wants_html(&headers), expected, "{accept:?}");
    }

    #[test]
    fn browsers_get_the_page_and_programs_get_json() {
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true);
        check(&["application/json", "TEXT/HTML"], true);
        check(&[], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["text/html;q=0, application/json"], false);
    }
}
