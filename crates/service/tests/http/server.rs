//! Slow clients, many clients, and the end.

use crate::harness::{Case, cases};
use crate::processes;
use crate::support::{Setup, hold, http, key, read, start};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use toolgate_service::{ServerLimits, ServiceLimits};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        an_incomplete_request_head_times_out,
        an_incomplete_body_times_out,
        a_client_that_reads_nothing_is_disconnected,
        a_slow_reader_gets_the_whole_reply,
        an_idle_connection_is_closed_for_a_new_one,
        bodies_share_one_memory_budget,
        the_bodies_of_one_key_leave_memory_to_others,
        the_event_streams_of_one_key_leave_some_to_others,
        a_connection_serves_many_requests,
        ten_thousand_idle_connections_delay_no_run,
        a_shutdown_lets_runs_finish,
        a_shutdown_aborts_what_does_not_finish,
        the_port_is_free_after_the_shutdown,
    ]
}

async fn an_incomplete_request_head_times_out() {
    let server = ServerLimits { head_time: Duration::from_millis(200), ..ServerLimits::default() };
    let server = start(Setup { server, ..Setup::default() }).await;
    let mut slow = Vec::new();
    for part in ["", "POST", "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-A: "] {
        let mut stream = TcpStream::connect(server.at).await.expect("connected");
        stream.write_all(part.as_bytes()).await.expect("sent");
        slow.push(stream);
    }
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
    for mut stream in slow {
        let mut answer = Vec::new();
        // The end comes by itself, with or without words.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
    }
}

async fn an_incomplete_body_times_out() {
    let service = ServiceLimits { body_time: Duration::from_millis(100), ..ServiceLimits::default() };
    let server = start(Setup { service, ..Setup::default() }).await;
    let request = server.ask("POST", "/v1/run").header("Content-Type", "application/json");
    let mut slow = request.header("Content-Length", "100").begin().await;
    slow.write_all(b"{").await.expect("sent");
    assert_eq!(read(slow).await.refusal(), "408 REQUEST_TIMEOUT");
}

/// More than socket buffers hold.
const LARGE: &str = "return 'x'.repeat(14_000_000)";

async fn a_client_that_reads_nothing_is_disconnected() {
    // With one place, the next client is served only when the first is gone.
    let limits = ServerLimits { connections: 1, reader_time: Duration::from_millis(200), ..ServerLimits::default() };
    let server = start(Setup { server: limits, ..Setup::default() }).await;
    let body = json!({"code": LARGE}).to_string();
    // The system may let a buffer of its own grow to more than the answer.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(64 << 10).expect("a buffer");
    let connection = socket.connect(server.at).await.expect("connected");
    let mut first = server.ask("POST", "/v1/run").json(&body).begin_over(connection).await;
    first.readable().await.expect("the answer begins");
    loop {
        let mut next = TcpStream::connect(server.at).await.expect("connected");
        let sent = next.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        let mut answer = Vec::new();
        let _ = next.read_to_end(&mut answer).await;
        if sent.is_ok() && answer.starts_with(b"HTTP/1.1 200") {
            break;
        }
    }
    let mut got = Vec::new();
    let _ = first.read_to_end(&mut got).await;
    assert!(got.len() < 14_000_000, "{}", got.len());
}

async fn a_slow_reader_gets_the_whole_reply() {
    let limits = ServerLimits { reader_time: Duration::from_millis(200), ..ServerLimits::default() };
    let server = start(Setup { server: limits, ..Setup::default() }).await;
    let body = json!({"code": LARGE}).to_string();
    let mut stream = server.ask("POST", "/v1/run").json(&body).begin().await;
    let (mut got, mut piece) = (0, vec![0; 512 * 1024]);
    loop {
        match stream.read(&mut piece).await.expect("readable") {
            0 => break,
            bytes => got += bytes,
        }
        // Slow on purpose: longer in all than the reader's time, and never idle for as long.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(got > 14_000_000, "{got}");
}

async fn an_idle_connection_is_closed_for_a_new_one() {
    let server =
        start(Setup { server: ServerLimits { connections: 2, ..Default::default() }, ..Setup::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.at).await.expect("connected");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
        assert!(stream.read(&mut [0; 512]).await.expect("an answer") > 0);
        idle.push(stream);
    }
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
    let first = idle.first_mut().expect("five");
    assert_eq!(first.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

async fn bodies_share_one_memory_budget() {
    let service = ServiceLimits { memory: 1024 * 1024, ..ServiceLimits::default() };
    let server = start(Setup { service, ..Setup::default() }).await;
    let large = json!({"code": "return 1", "context": {"a": "x".repeat(2 * 1024 * 1024)}}).to_string();
    let refused = server.ask("POST", "/v1/run").json(&large).send().await;
    assert_eq!((refused.refusal().as_str(), refused.header("retry-after")), ("503 UNAVAILABLE", Some("1")));
    let refused = server.ask("POST", "/v1/run").json(&json!({"code": LARGE}).to_string()).send().await;
    assert_eq!(refused.refusal(), "503 UNAVAILABLE");
    // It is given back each time.
    for _ in 0..20 {
        let body = json!({"code": "return 1", "context": {"a": "x".repeat(200 * 1024)}});
        assert_eq!(server.run(body).await["result"], json!(1));
    }
}

async fn the_bodies_of_one_key_leave_memory_to_others() {
    let service = ServiceLimits { memory: 1024 * 1024, ..ServiceLimits::default() };
    let server = start(Setup { http: http(vec![key("greedy"), key("other")]), service, ..Setup::default() }).await;
    // Bodies whose ends do not come: the greedy key has as many as it gets.
    let mut unfinished = Vec::new();
    for _ in 0..12 {
        let request = server.ask("POST", "/v1/run").bearer("greedy-key").header("Content-Type", "application/json");
        let mut stream = request.header("Content-Length", "200000").begin().await;
        let _ = stream.write_all(&[b' '; 150_000]).await;
        unfinished.push(Box::pin(read(stream)));
    }
    let (refused, _, _unfinished) = futures_util::future::select_all(unfinished).await;
    assert_eq!(refused.refusal(), "503 UNAVAILABLE");
    let body = json!({"code": "return 1", "context": {"a": "x".repeat(200 * 1024)}}).to_string();
    for _ in 0..3 {
        let answer = server.ask("POST", "/v1/run").bearer("other-key").json(&body).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(server.ask("GET", "/v1/tools").bearer("other-key").send().await.status, 200);
}

async fn the_event_streams_of_one_key_leave_some_to_others() {
    let server = start(Setup { http: http(vec![key("greedy"), key("other")]), ..Setup::default() }).await;
    let open = async |bearer: &str| {
        let mut stream = server.ask("GET", "/v1/events").bearer(bearer).begin().await;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        (String::from_utf8_lossy(&head).into_owned(), stream)
    };
    let mut streams = Vec::new();
    let refused = loop {
        let (head, stream) = open("greedy-key").await;
        if head != "HTTP/1.1 200" {
            break head;
        }
        streams.push(stream);
    };
    assert_eq!((refused.as_str(), streams.len()), ("HTTP/1.1 503", 64));
    assert_eq!(open("other-key").await.0, "HTTP/1.1 200");
}

async fn a_connection_serves_many_requests() {
    let server = start(Setup::default()).await;
    let mut stream = TcpStream::connect(server.at).await.expect("connected");
    for n in 0..5 {
        let body = json!({"code": format!("return {n}")}).to_string();
        let head = format!(
            "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
        let mut answer = String::new();
        while !answer.contains("warnings") {
            let mut piece = [0; 4096];
            let bytes = stream.read(&mut piece).await.expect("readable");
            answer.push_str(&String::from_utf8_lossy(&piece[..bytes]));
        }
        assert!(answer.contains(&format!("\"result\":{n}")), "{answer}");
    }
}

async fn ten_thousand_idle_connections_delay_no_run() {
    let server = ServerLimits { head_time: Duration::from_secs(60), ..ServerLimits::default() };
    let server = start(Setup { server, ..Setup::default() }).await;
    let crowd = processes::start(format!("idle 10000 {}", server.at)).await;
    assert_eq!(crowd.line, "10000", "this system gives too few descriptors (ulimit -Hn)");
    let mut times = Vec::new();
    for _ in 0..50 {
        let since = Instant::now();
        assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
        times.push(since.elapsed());
    }
    times.sort();
    assert!(times[25] < Duration::from_millis(200), "half of the runs took longer than {:?}", times[25]);
    crowd.stop().await;
}

async fn a_shutdown_lets_runs_finish() {
    let mut hold = hold();
    let functions = [hold.function.clone()].into_iter().collect();
    let mut server = start(Setup { functions, ..Setup::default() }).await;
    let run = server.ask("POST", "/v1/run").json(r#"{"code": "return hold()"}"#).begin().await;
    let mut idle = TcpStream::connect(server.at).await.expect("connected");
    hold.began.recv().await.expect("it began");
    server.shutdown.begin.cancel();
    // Who idles is sent away, and nobody new is let in.
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(server.at).await.is_err());
    hold.release.notify_one();
    assert_eq!(read(run).await.json()["result"], json!("released"));
    (&mut server.served).await.expect("no panic").expect("served");
}

async fn a_shutdown_aborts_what_does_not_finish() {
    let mut hold = hold();
    let mut server = start(Setup {
        functions: [hold.function.clone()].into_iter().collect(),
        server: ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() },
        ..Setup::default()
    })
    .await;
    let run = server.ask("POST", "/v1/run").json(r#"{"code": "return hold()"}"#).begin().await;
    hold.began.recv().await.expect("it began");
    server.shutdown.begin.cancel();
    let answer = read(run).await;
    assert_eq!((answer.status, &answer.json()["code"]), (200, &json!("ABORTED")), "{answer:?}");
    (&mut server.served).await.expect("no panic").expect("served");
}

async fn the_port_is_free_after_the_shutdown() {
    // Any other process of this machine may be given the port at once, so one of a few tries counts.
    for _ in 0..5 {
        let mut server = start(Setup::default()).await;
        assert_eq!(server.get("/healthz").await.status, 200);
        server.shutdown.begin.cancel();
        (&mut server.served).await.expect("no panic").expect("served");
        let is_free = tokio::net::TcpListener::bind(server.at).await.is_ok();
        if is_free && TcpStream::connect(server.at).await.is_err() {
            return;
        }
    }
    panic!("the port is still taken");
}
