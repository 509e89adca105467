//! What is known about the effect of a failed call, and which hosts egress permits.

use crate::support::{Client, Liar, serve, serve_raw};
use axum::Router;
use axum::response::Redirect;
use axum::routing::{any, post};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use toolgate_functions::endpoint::{EndpointMethod, HttpEndpoint};
use toolgate_functions::http::{AllowList, Egress, HttpLimits};
use toolgate_functions::{CallContext, FailedEffect, FunctionError};
use url::Url;

fn check(error: &FunctionError, expected: (&str, FailedEffect)) {
    assert_eq!((error.code_text(), error.effect), expected, "{error}");
}

fn posting(url: String) -> Value {
    json!({"url": url, "method": "POST", "body": "x"})
}

/// A server that reads a request and closes.
async fn closing() -> SocketAddr {
    serve_raw("127.0.0.1:0", |stream, _| async move { drop(stream) }).await.0
}

/// A server that reads a request and never answers.
async fn silent() -> SocketAddr {
    let hold = |stream: TcpStream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    };
    serve_raw("127.0.0.1:0", hold).await.0
}

/// An address where nothing listens.
async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("an address")
}

#[tokio::test]
async fn a_request_that_was_sent_and_not_answered_is_unknown() {
    let limits = HttpLimits { time: Duration::from_millis(300), ..HttpLimits::default() };
    let client = Client::limited(limits);
    let lost = client.fail(posting(format!("http://{}/", closing().await))).await;
    check(&lost, ("UNAVAILABLE", FailedEffect::Unknown));
    let late = client.fail(posting(format!("http://{}/", silent().await))).await;
    check(&late, ("TIMEOUT", FailedEffect::Unknown));
}

#[tokio::test]
async fn a_request_without_a_connection_is_not_sent() {
    let found = Client::local().fail(posting(format!("http://{}/", nowhere().await))).await;
    check(&found, ("UNAVAILABLE", FailedEffect::NotSent));
}

#[tokio::test]
async fn a_refusal_of_the_guard_is_not_sent() {
    let client = Client::local();
    check(&client.fail(posting("http://10.0.0.1/".to_owned())).await, ("REFUSED", FailedEffect::NotSent));
    let named = Client::new(&[], Liar::saying(&[&["10.0.0.1"]]), HttpLimits::default());
    check(&named.fail(posting("http://inner.test/".to_owned())).await, ("REFUSED", FailedEffect::NotSent));
}

#[tokio::test]
async fn a_refusal_after_a_redirect_is_unknown() {
    let router = Router::new().route("/", post(|| async { Redirect::temporary("http://10.0.0.1/") }));
    let at = serve(router).await;
    check(&Client::local().fail(posting(format!("http://{at}/"))).await, ("REFUSED", FailedEffect::Unknown));
}

#[tokio::test]
async fn a_call_of_a_run_that_has_ended_is_not_sent() {
    let context = CallContext::default();
    context.cancel.cancel();
    let client = Client::local();
    let found = client.fail_within(context, posting(format!("http://{}/", closing().await))).await;
    check(&found, ("ABORTED", FailedEffect::NotSent));
}

#[tokio::test]
async fn egress_permits_the_listed_hosts_only() {
    let away = || async { Redirect::temporary("http://other.test/") };
    let router = Router::new().route("/", any(|| async { "here" })).route("/away", any(away));
    let at = serve(router).await;
    let hosts = AllowList::parse(&["api.test", "*.corp.test"]).expect("a list");
    let client = Client::local().through(Egress::Hosts(hosts));
    let url = |host: &str, path: &str| format!("http://{host}:{}{path}", at.port());
    for host in ["api.test", "a.corp.test"] {
        assert_eq!(client.send(json!({"url": url(host, "/")})).await["status"], json!(200), "{host}");
    }
    for host in ["other.test", "corp.test", "api.test.evil.test", "127.0.0.1"] {
        check(&client.fail(posting(url(host, "/"))).await, ("REFUSED", FailedEffect::NotSent));
    }
    check(&client.fail(posting(url("api.test", "/away"))).await, ("REFUSED", FailedEffect::Unknown));
    // A network permits its addresses, and no names that resolve to them.
    let hosts = AllowList::parse(&["127.0.0.0/8"]).expect("a list");
    let client = Client::local().through(Egress::Hosts(hosts));
    assert_eq!(client.send(json!({"url": url("127.0.0.1", "/")})).await["status"], json!(200));
    check(&client.fail(posting(url("api.test", "/"))).await, ("REFUSED", FailedEffect::NotSent));
}

#[tokio::test]
async fn an_endpoint_tells_what_is_known_about_its_effect() {
    let router = Router::new().route("/", any(|| async { axum::http::StatusCode::INTERNAL_SERVER_ERROR }));
    let (broken, lost, gone) = (serve(router).await, closing().await, nowhere().await);
    for (at, effect) in [(broken, FailedEffect::Failed), (lost, FailedEffect::Unknown), (gone, FailedEffect::NotSent)] {
        let endpoint = HttpEndpoint {
            effect: toolgate_functions::endpoint::DeclaredEffect::Unknown,
            name: "order".to_owned(),
            description: String::new(),
            params: vec![],
            result: json!(true),
            url: Url::parse(&format!("http://{at}/")).expect("a URL"),
            method: EndpointMethod::Post,
            headers: Default::default(),
            timeout: Duration::from_secs(30),
        };
        let function = endpoint.into_function().expect("a signature");
        assert!(!function.reads_only("[]"));
        let found = function.call(CallContext::default(), vec![]).await.expect_err("a failure");
        assert_eq!(found.effect, effect, "{found}");
    }
}
