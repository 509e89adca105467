//! A collector gets what was sent, and one that is away costs spans and no time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_telemetry::{Collector, Metric, Span, SpanId, SpanKind, Telemetry, TraceId};

/// A collector, and the path, the key and the body of every request that it gets.
fn collector() -> (Collector, Receiver<(String, String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let (mut first, mut key, mut length) = (String::new(), String::new(), 0);
            reader.read_line(&mut first).expect("a request");
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                match line.trim().split_once(": ") {
                    Some(("Content-Length", value)) => length = value.parse().expect("a length"),
                    Some(("x-key", value)) => key = value.to_owned(),
                    Some(_) => {}
                    None => break,
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("answered");
            if sender.send((path, key, serde_json::from_slice(&body).expect("JSON"))).is_err() {
                return;
            }
        }
    });
    let headers = vec![("x-key".to_owned(), "secret".to_owned())];
    (Collector { host: "127.0.0.1".into(), port, path: "/otlp".into(), headers, service: "test".into() }, requests)
}

fn span() -> Span {
    Span {
        trace_id: TraceId::parse("0af7651916cd43dd8448eb211c80319c").expect("an id"),
        span_id: SpanId::parse("b7ad6b7169203331").expect("an id"),
        parent: SpanId::parse("00f067aa0ba902b7"),
        tracestate: Some("a=b".into()),
        name: "tools/call find".into(),
        kind: SpanKind::Client,
        began: UNIX_EPOCH + Duration::from_secs(1),
        took: Duration::from_millis(5),
        attributes: vec![("mcp.method.name", "tools/call".into())],
        error: Some("TIMEOUT".into()),
    }
}

#[test]
fn spans_and_histograms_arrive_as_otlp() {
    let (collector, requests) = collector();
    let telemetry = Telemetry::start(collector).expect("a thread");
    telemetry.spans(vec![span()]);
    telemetry.duration(Metric::ClientOperation, Duration::from_millis(15), &[("gen_ai.tool.name", "find".into())]);
    while !telemetry.flush() {}
    let (path, key, traces) = requests.recv().expect("traces");
    assert_eq!((path.as_str(), key.as_str()), ("/otlp/v1/traces", "secret"));
    let resource = &traces["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0], json!({"key": "service.name", "value": {"stringValue": "test"}}));
    let expected = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "parentSpanId": "00f067aa0ba902b7",
        "traceState": "a=b", "name": "tools/call find", "kind": 3,
        "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1005000000",
        "attributes": [{"key": "mcp.method.name", "value": {"stringValue": "tools/call"}}],
        "status": {"code": 2, "message": "TIMEOUT"},
    });
    assert_eq!(resource["scopeSpans"][0]["spans"][0], expected);
    let (path, _, metrics) = requests.recv().expect("metrics");
    assert_eq!(path, "/otlp/v1/metrics");
    let metric = &metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
    assert_eq!((&metric["name"], &metric["unit"]), (&json!("mcp.client.operation.duration"), &json!("s")));
    let point = &metric["histogram"]["dataPoints"][0];
    assert_eq!((&point["count"], &point["bucketCounts"][1]), (&json!("1"), &json!("1")));
}

#[test]
fn a_collector_that_is_away_costs_spans_and_no_time() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let collector =
        Collector { host: "127.0.0.1".into(), port, path: String::new(), headers: vec![], service: "test".into() };
    let telemetry = Telemetry::start(collector).expect("a thread");
    for _ in 0..40_000 {
        telemetry.spans(vec![span()]);
    }
    while !telemetry.flush() {}
    assert_eq!(telemetry.lost(), 40_000);
}
