//! Redirects over real connections.

use crate::support::{Client, serve};
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::any;
use serde_json::{Value, json};

/// Says what arrived.
async fn echo(method: Method, headers: HeaderMap, body: String) -> axum::Json<Value> {
    let mut seen: Vec<_> = headers.keys().map(|name| name.as_str().to_owned()).collect();
    seen.retain(|name| !["host", "accept-encoding", "user-agent", "content-length"].contains(&name.as_str()));
    seen.sort_unstable();
    axum::Json(json!({"method": method.as_str(), "headers": seen, "body": body}))
}

async fn countdown(Path(n): Path<usize>) -> impl IntoResponse {
    if n == 0 { "arrived".into_response() } else { Redirect::temporary(&format!("/hop/{}", n - 1)).into_response() }
}

async fn target() -> std::net::SocketAddr {
    let found = || async { (StatusCode::FOUND, [("location", "/echo")]) };
    let away = |Path(port): Path<u16>| async move { Redirect::temporary(&format!("http://127.0.0.1:{port}/echo")) };
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/hop/{n}", any(countdown))
        .route("/found", any(found))
        .route("/away/{port}", any(away))
        .route("/loop", any(|| async { Redirect::temporary("/loop") }))
        .route("/nowhere", any(|| async { StatusCode::FOUND }));
    serve(router).await
}

const HEADERS: [(&str, &str); 4] = [("Authorization", "a"), ("Cookie", "c"), ("X-Api-Key", "k"), ("Accept", "x/y")];

fn post(url: String) -> Value {
    let headers: serde_json::Map<_, _> =
        HEADERS.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({"url": url, "method": "POST", "headers": headers, "body": "b"})
}

#[tokio::test]
async fn five_hops_are_followed_and_six_are_not() {
    let at = target().await;
    let client = Client::local();
    assert_eq!(client.send(json!({"url": format!("http://{at}/hop/5")})).await["body"], "arrived");
    let refused = client.send(json!({"url": format!("http://{at}/hop/6")})).await;
    assert_eq!(refused, json!({"code": "REFUSED", "message": "more than 5 redirects"}));
    assert_eq!(client.verdict(&format!("http://{at}/loop")).await, "REFUSED");
}

#[tokio::test]
async fn a_redirect_without_a_location_is_the_response() {
    let at = target().await;
    assert_eq!(Client::local().verdict(&format!("http://{at}/nowhere")).await, 302);
}

#[tokio::test]
async fn a_post_that_was_found_elsewhere_becomes_a_get() {
    let at = target().await;
    let answer = Client::local().send(post(format!("http://{at}/found"))).await;
    let expected = json!({"method": "GET", "headers": ["accept", "authorization", "cookie", "x-api-key"], "body": ""});
    assert_eq!(answer["json"], expected);
}

#[tokio::test]
async fn another_origin_gets_the_body_and_no_credentials() {
    let (first, second) = (target().await, target().await);
    let answer = Client::local().send(post(format!("http://{first}/away/{}", second.port()))).await;
    assert_eq!(answer["json"], json!({"method": "POST", "headers": ["accept"], "body": "b"}));
    let answer = Client::local().send(post(format!("http://{first}/away/{}", first.port()))).await;
    let all = json!(["accept", "authorization", "cookie", "x-api-key"]);
    assert_eq!(answer["json"], json!({"method": "POST", "headers": all, "body": "b"}));
}
