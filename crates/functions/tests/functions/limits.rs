//! Every cap stops what goes beyond it, and lets pass what does not.

use crate::support::{Client, serve_bytes, serve_raw};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Notify};
use tokio::time::Instant;
use toolgate_functions::CallContext;
use toolgate_functions::http::HttpLimits;
use toolgate_wire::ByteBudget;

fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

async fn check(limits: HttpLimits, answer: Vec<u8>, expected: Value) {
    let at = serve_bytes(answer).await;
    assert_eq!(Client::limited(limits).verdict(&format!("http://{at}/")).await, expected);
}

#[tokio::test]
async fn a_response_body_may_have_exactly_its_cap() {
    let limits = HttpLimits { response_body: 1000, ..HttpLimits::default() };
    check(limits.clone(), response("", &[b'x'; 1000]), json!(200)).await;
    check(limits.clone(), response("", &[b'x'; 1001]), json!("TOO_LARGE")).await;
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    check(limits, chunked.to_vec(), json!(200)).await;
}

#[tokio::test]
async fn bodies_of_unknown_size_wait_for_each_other() {
    const CALLS: usize = 6;
    const BODY_BYTES: usize = 3 << 20;
    let all = Arc::new(Barrier::new(CALLS));
    let talk = move |mut stream: TcpStream, request: String| {
        let all = all.clone();
        async move {
            if request.starts_with("GET /together") {
                all.wait().await;
            }
            let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{BODY_BYTES:x}\r\n");
            let _ = stream.write_all((head + &"x".repeat(BODY_BYTES) + "\r\n0\r\n\r\n").as_bytes()).await;
        }
    };
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let client = Client::local();
    let send = async |budget: &ByteBudget, path: &str| {
        let context = CallContext { budget: budget.clone(), ..CallContext::default() };
        let answer = client.send_within(context, json!({ "url": format!("http://{at}/{path}") })).await;
        answer.get("code").or(answer.get("status")).cloned()
    };
    // One is smaller than the largest body that may come, counted twice; the other has room for two of them.
    for budget in [7 << 20, 25 << 20].map(|bytes| ByteBudget::new("this run", bytes)) {
        let one = || send(&budget, "together");
        let sent: [_; CALLS] = tokio::join!(one(), one(), one(), one(), one(), one()).into();
        assert_eq!(sent, [(); CALLS].map(|()| Some(json!(200))));
        assert_eq!(budget.used(), 0);
    }
    let small = ByteBudget::new("this run", 4 << 20);
    assert_eq!(send(&small, "alone").await, Some(json!("OVER_BUDGET")));
}

#[tokio::test]
async fn an_endless_body_stops_at_the_cap() {
    let talk = |mut stream: TcpStream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
    };
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let answer = Client::local().send(json!({"url": format!("http://{at}/")})).await;
    let message = "the response body is larger than 5242880 bytes (after decompression)";
    assert_eq!(answer, json!({"code": "TOO_LARGE", "message": message}));
}

/// The fixture is 16 MB of zeros.
#[tokio::test]
async fn a_bomb_stops_at_the_cap() {
    let bomb = response("content-encoding: gzip\r\n", include_bytes!("../fixtures/zeros-16mb.gz"));
    check(HttpLimits::default(), bomb.clone(), json!("TOO_LARGE")).await;
    // That it is the cap that stops it and not the decoder.
    check(HttpLimits { response_body: 16 * 1024 * 1024, ..HttpLimits::default() }, bomb, json!(200)).await;
}

/// A decoder of these holds a window of up to 1 GB (`br`) and 128 MB (`zstd`), whatever the cap of the body is. Each fixture is 16 MB of
/// zeros.
#[tokio::test]
async fn encodings_whose_windows_are_large_are_not_decoded() {
    for (encoding, bomb) in [
        ("br", &include_bytes!("../fixtures/zeros-16mb.br")[..]),
        ("zstd", include_bytes!("../fixtures/zeros-16mb.zst")),
    ] {
        let at = serve_bytes(response(&format!("content-encoding: {encoding}\r\n"), bomb)).await;
        let answer = Client::local().send(json!({"url": format!("http://{at}/")})).await;
        assert_eq!((&answer["status"], &answer["headers"]["content-encoding"]), (&json!(200), &json!(encoding)));
        let body = answer["body"].as_str().expect("text or Base64");
        assert!(body.len() <= bomb.len() * 2, "{encoding}: {} bytes", body.len());
    }
}

#[tokio::test]
async fn compression_that_lies_is_an_error() {
    let lie = response("content-encoding: gzip\r\n", b"this is not compressed");
    check(HttpLimits::default(), lie, json!("UNAVAILABLE")).await;
}

#[tokio::test]
async fn response_headers_are_bounded_in_number_and_size() {
    let many = |n: usize| (0..n).map(|n| format!("x-{n}: v\r\n")).collect::<String>();
    check(HttpLimits::default(), response(&many(90), b""), json!(200)).await;
    check(HttpLimits::default(), response(&many(200), b""), json!("TOO_LARGE")).await;
    let large = |bytes: usize| format!("x-a: {}\r\n", "v".repeat(bytes));
    check(HttpLimits::default(), response(&large(60_000), b""), json!(200)).await;
    check(HttpLimits::default(), response(&large(70_000), b""), json!("TOO_LARGE")).await;
    check(HttpLimits::default(), response(&large(2_000_000), b""), json!("TOO_LARGE")).await;
}

#[tokio::test]
async fn a_request_body_over_the_cap_is_never_sent() {
    let (at, reached) = serve_raw("127.0.0.1:0", |_, _| async {}).await;
    let body = "x".repeat(1024 * 1024 + 1);
    let answer = Client::local().send(json!({"url": format!("http://{at}/"), "method": "POST", "body": body})).await;
    assert_eq!(answer["code"], "TOO_LARGE");
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

/// Servers that make one wait: silent, within the head, within the body, one byte at a time, over many redirects.
async fn check_slow<F, T>(talk: F)
where
    F: Fn(TcpStream, String) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let limits = HttpLimits { time: Duration::from_millis(150), redirects: usize::MAX, ..HttpLimits::default() };
    let start = Instant::now();
    let answer = Client::limited(limits).send(json!({"url": format!("http://{at}/")})).await;
    assert_eq!(answer, json!({"code": "TIMEOUT", "message": "no complete response within 150 ms"}));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

async fn hold(stream: TcpStream) {
    std::future::pending::<()>().await;
    drop(stream);
}

async fn drip(mut stream: TcpStream, start: &[u8], drop: &[u8]) {
    let _ = stream.write_all(start).await;
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while stream.write_all(drop).await.is_ok() {
        tick.tick().await;
    }
}

#[tokio::test]
async fn time_covers_the_whole_exchange() {
    check_slow(|stream, _| hold(stream)).await;
    check_slow(|stream, _| drip(stream, b"HTTP/1.1 200 OK\r\nx: ", b"y")).await;
    check_slow(|stream, _| drip(stream, b"HTTP/1.1 200 OK\r\n\r\n", b"y")).await;
    check_slow(|stream, _| drip(stream, b"", b"HTTP/1.1 100 Continue\r\n\r\n")).await;
    check_slow(|mut stream: TcpStream, _| async move {
        let _ =
            stream.write_all(b"HTTP/1.1 307 x\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    })
    .await;
}

#[tokio::test]
async fn the_runs_deadline_comes_before_the_requests_own_time() {
    let (at, _) = serve_raw("127.0.0.1:0", |stream, _| hold(stream)).await;
    let context = CallContext { deadline: Some(Instant::now() + Duration::from_millis(50)), ..CallContext::default() };
    let answer = Client::local().send_within(context, json!({"url": format!("http://{at}/")})).await;
    assert_eq!(answer["code"], "TIMEOUT");
}

#[tokio::test]
async fn cancelling_the_run_ends_the_request_and_its_connection() {
    let (arrived, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (on_arrival, on_close) = (arrived.clone(), gone.clone());
    let talk = move |mut stream: TcpStream, _| {
        let (arrived, gone) = (on_arrival.clone(), on_close.clone());
        async move {
            arrived.notify_one();
            let mut rest = [0; 1];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut rest).await;
            gone.notify_one();
        }
    };
    let (at, _) = serve_raw("127.0.0.1:0", talk).await;
    let context = CallContext::default();
    let cancel = context.cancel.clone();
    let request =
        tokio::spawn(
            async move { Client::local().send_within(context, json!({"url": format!("http://{at}/")})).await },
        );
    arrived.notified().await;
    cancel.cancel();
    assert_eq!(request.await.expect("no panic")["code"], "ABORTED");
    tokio::time::timeout(Duration::from_secs(5), gone.notified()).await.expect("the connection was closed");
}
