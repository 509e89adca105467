//! Traces and metrics of a served run, as a collector gets them, and the context that a server behind gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// However loaded the machine is.
const LONGEST: Duration = Duration::from_secs(120);

/// The port of a collector, and the path and body of every request that it gets.
fn collector() -> (u16, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).expect("a request");
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                match line.trim().split_once(": ") {
                    Some(("Content-Length", value)) => length = value.parse().expect("a length"),
                    Some(_) => {}
                    None => break,
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("answered");
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = sender.send((path, serde_json::from_slice(&body).expect("JSON")));
        }
    });
    (port, requests)
}

/// A server over standard input and output whose one tool returns `_meta` of the call. In shell, so that it needs nothing.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"meta","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*)
      parent=$(printf '%s' "$line" | sed -n 's/.*"traceparent":"\([^"]*\)".*/\1/p')
      baggage=$(printf '%s' "$line" | sed -n 's/.*"baggage":"\([^"]*\)".*/\1/p')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"traceparent":"%s","baggage":"%s"}}}\n' "$id" "$parent" "$baggage" ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done
"#;

/// What `serve` answers to one program over standard input and output, with this trace context.
fn run(telemetry: Value, code: &str, meta: Value) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({
        "mcpServers": { "s": { "command": "sh", "args": ["-c", SERVER] } },
        "toolgate": { "telemetry": telemetry },
    });
    let file = folder.path().join("config.json");
    std::fs::write(&file, config.to_string()).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["serve", "--config"])
        .arg(&file)
        .env("HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let client = json!({"name": "tester", "version": "7"});
    let call = json!({"name": "call_tool_chain", "arguments": {"code": code}, "_meta": meta});
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 42, "method": "tools/call", "params": call}),
    ] {
        writeln!(stdin, "{message}").expect("sent");
    }
    let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    let answer = lines.find_map(|line| {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        (message["id"] == 42).then_some(message)
    });
    // The end of its input ends it, once it has sent its last spans.
    drop(stdin);
    child.wait().expect("ended");
    answer.expect("an answer")
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let pairs = of["attributes"].as_array().expect("attributes").iter();
    pairs
        .map(|pair| {
            let value = pair["value"]["stringValue"].as_str().or(pair["value"]["intValue"].as_str());
            (pair["key"].as_str().expect("a key").to_owned(), value.expect("a value").to_owned())
        })
        .collect()
}

#[test]
fn a_collector_gets_every_name_of_the_conventions() {
    let (port, requests) = collector();
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "a=b", "baggage": "user=ada"});
    let code = "const seen = await s.meta({}); try { await s.nothing({}) } catch {} return seen";
    let answer = run(json!({"endpoint": format!("http://127.0.0.1:{port}")}), code, meta);
    let said = answer.to_string();

    let (mut spans, mut metrics) = (Vec::new(), Vec::new());
    while spans.len() < 4 || metrics.len() < 2 {
        let (path, body) = requests.recv_timeout(LONGEST).expect("a request");
        match path.as_str() {
            "/v1/traces" => {
                let found = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
                spans.extend(found.as_array().expect("spans").clone());
            }
            _ => {
                metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics").clone()
            }
        }
    }
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    assert!(spans.iter().all(|span| span["traceId"] == TRACE && span["traceState"] == "a=b"), "{spans:#?}");

    let server = named("tools/call call_tool_chain");
    assert_eq!((&server["kind"], &server["parentSpanId"]), (&json!(2), &json!(PARENT)));
    let expected = [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "call_tool_chain"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "42"),
        ("network.transport", "pipe"),
    ];
    let found = attributes(server);
    for (key, value) in expected {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key} in {found:?}");
    }
    assert!(found.contains_key("mcp.session.id"), "{found:?}");

    let inside = named("run");
    assert_eq!((&inside["kind"], &inside["parentSpanId"]), (&json!(1), &server["spanId"]));
    let client = named("tools/call meta");
    assert_eq!((&client["kind"], &client["parentSpanId"]), (&json!(3), &inside["spanId"]));
    let found = attributes(client);
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "meta"),
        ("gen_ai.operation.name", "execute_tool"),
        ("network.transport", "pipe"),
        ("mcp.protocol.version", "2025-11-25"),
        ("toolgate.backend", "s"),
    ] {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key} in {found:?}");
    }
    let failed = named("tools/call nothing");
    assert_eq!((&failed["status"]["code"], attributes(failed)["error.type"].as_str()), (&json!(2), "UNKNOWN_TOOL"));

    // The server behind is told the trace, the run's span as the parent, and the baggage.
    let passed_on = format!("00-{TRACE}-{}-01", inside["spanId"].as_str().expect("an id"));
    assert!(said.contains(&passed_on) && said.contains("user=ada"), "{said}");

    let names: Vec<&Value> = metrics.iter().map(|metric| &metric["name"]).collect();
    assert_eq!(names, ["mcp.server.operation.duration", "mcp.client.operation.duration"]);
    for metric in &metrics {
        assert_eq!(metric["unit"], "s");
        let point = &metric["histogram"]["dataPoints"][0];
        assert!(point["explicitBounds"].is_array() && attributes(point).contains_key("mcp.method.name"), "{point}");
    }
}

#[test]
fn without_a_collector_the_clients_context_is_passed_on_as_it_is() {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let meta = json!({"traceparent": parent, "baggage": "user=ada"});
    let said = run(json!({}), "return await s.meta({})", meta).to_string();
    assert!(said.contains(&parent) && said.contains("user=ada"), "{said}");
    let said = run(json!({}), "return await s.meta({})", json!({"traceparent": "00-nonsense"})).to_string();
    assert!(!said.contains("nonsense"), "{said}");
}
