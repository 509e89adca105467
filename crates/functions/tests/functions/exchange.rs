//! What is sent and what comes back.

use crate::support::{Client, serve, serve_bytes, serve_raw};
use axum::Router;
use axum::routing::any;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

async fn answering(head: &str, body: &[u8]) -> String {
    let mut bytes =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    format!("http://{}/", serve_bytes(bytes).await)
}

async fn check(head: &str, body: &[u8], expected: Value) {
    let url = answering(head, body).await;
    let Value::Object(mut answer) = Client::local().send(json!({ "url": url })).await else { panic!("an object") };
    answer.remove("headers");
    assert_eq!(Value::Object(answer), expected, "{head}");
}

#[tokio::test]
async fn a_response_is_data_whatever_its_status() {
    check("200 OK\r\ncontent-type: application/json", b"{\"a\":[1]}", json!({"status": 200, "json": {"a": [1]}})).await;
    check("404 Not Found\r\ncontent-type: text/plain", b"no", json!({"status": 404, "body": "no"})).await;
    check("500 Oops", b"", json!({"status": 500, "body": ""})).await;
    check(
        "200 OK\r\ncontent-type: image/png",
        b"\x89\xff",
        json!({"status": 200, "body": "if8=", "encoding": "base64"}),
    )
    .await;
}

#[tokio::test]
async fn a_head_has_no_body_to_decode() {
    for encoding in ["gzip", "br", "zstd"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 99\r\n\r\n");
        let at = serve_bytes(head.into_bytes()).await;
        let answer = Client::local().send(json!({"url": format!("http://{at}/"), "method": "HEAD"})).await;
        assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("")), "{answer}");
    }
}

#[tokio::test]
async fn fetch_takes_the_url_first() {
    let at = serve(Router::new().route("/", any(|body: String| async move { format!("got {body}") }))).await;
    let url = format!("http://{at}/");
    let client = Client::local();
    assert_eq!(client.fetch(json!([url, {"method": "PUT", "body": [1]}])).await["body"], "got [1]");
    assert_eq!(client.fetch(json!([url])).await["body"], "got ");
}

#[tokio::test]
async fn the_wire_carries_nothing_of_ours_and_cookies_are_not_kept() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = heads.clone();
    let talk = move |mut stream: tokio::net::TcpStream, head: String| {
        kept.lock().expect("not poisoned").push(head);
        async move {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await;
        }
    };
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let client = Client::local();
    for _ in 0..2 {
        let answer = client.send(json!({"url": format!("http://{at}/p?q#f"), "headers": {"X-A": "1"}})).await;
        assert_eq!(answer["headers"]["set-cookie"], "a=1");
    }
    let heads = heads.lock().expect("not poisoned");
    let lines = |head: &String| {
        let mut lines: Vec<_> = head.trim().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let agent = concat!("user-agent: toolgate/", env!("CARGO_PKG_VERSION"));
    let host = format!("host: {at}");
    let expected = ["GET /p?q HTTP/1.1", "accept-encoding: gzip", "accept: */*", &host, agent, "x-a: 1"];
    assert_eq!(lines(&heads[0]), expected);
    assert_eq!(lines(&heads[0]), lines(&heads[1]));
}

/// The `content-length` that a server receives.
async fn length_of(method: &str, body: Value) -> Option<String> {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = heads.clone();
    let talk = move |mut stream: tokio::net::TcpStream, head: String| {
        kept.lock().expect("not poisoned").push(head);
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    };
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let answer = Client::local().send(json!({"url": format!("http://{at}/"), "method": method, "body": body})).await;
    assert_eq!(answer["status"], 200, "{answer}");
    let heads = heads.lock().expect("not poisoned");
    heads[0].lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned))
}

#[tokio::test]
async fn a_method_that_has_a_body_sends_the_length_of_an_empty_one() {
    for method in ["POST", "PUT", "PATCH"] {
        for (body, expected) in [(json!(null), "0"), (json!(""), "0"), (json!("ab"), "2")] {
            assert_eq!(length_of(method, body.clone()).await.as_deref(), Some(expected), "{method} {body}");
        }
    }
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        assert_eq!(length_of(method, json!(null)).await, None, "{method}");
    }
}

/// Runs other tests of this file again in an environment that names a proxy: it must never hear of them.
#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    let (proxy, reached) = serve_raw("127.0.0.1:0", |_, _| async {}).await;
    let proxy = format!("http://{proxy}/");
    let mut tests = tokio::process::Command::new(std::env::current_exe().expect("a path"));
    tests.args(["--exact", "exchange::fetch_takes_the_url_first", "trusted::an_answer_is_json_or_text_or_nothing"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        tests.env(name, &proxy);
    }
    let output = tests.env_remove("no_proxy").env_remove("NO_PROXY").output().await.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("2 passed"), "{text}");
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the proxy was asked");
}

#[tokio::test]
async fn a_server_that_speaks_no_http_is_an_error() {
    for answer in
        [&b"SSH-2.0-x\r\n"[..], b"", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"]
    {
        let at = serve_bytes(answer.to_vec()).await;
        let verdict = Client::local().verdict(&format!("http://{at}/")).await;
        assert_eq!(verdict, "UNAVAILABLE", "{:?}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn nobody_listening_is_an_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    assert_eq!(Client::local().verdict(&format!("http://{free}/")).await, "UNAVAILABLE");
}
