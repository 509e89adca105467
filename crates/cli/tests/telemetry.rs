//! Traces and metrics of a served run, as a collector gets them, and the context that a server behind gets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

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
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = sender.send((path, serde_json::from_slice(&body).expect("JSON")));
            // Answered last: once a process has ended, everything that it sent is there.
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("answered");
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

/// What `serve` answers over standard input and output to these messages, by their ids; it ends once it has answered all.
fn answers(server: &str, telemetry: Value, options: &[&str], messages: &[Value]) -> BTreeMap<i64, Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({
        "mcpServers": { "s": { "command": "sh", "args": ["-c", server] } },
        "toolgate": { "telemetry": telemetry },
    });
    let file = folder.path().join("config.json");
    std::fs::write(&file, config.to_string()).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["serve", "--config"])
        .arg(&file)
        .args(options)
        .env("HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let cancelled: Vec<&Value> = messages.iter().map(|message| &message["params"]["requestId"]).collect();
    let asked = messages.iter().filter(|message| message["id"].is_i64() && !cancelled.contains(&&message["id"]));
    let expected = asked.count();
    for message in messages {
        writeln!(stdin, "{message}").expect("sent");
    }
    let mut answers = BTreeMap::new();
    let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    while answers.len() < expected {
        let message: Value = serde_json::from_str(&lines.next().expect("an answer")).expect("JSON");
        if let Some(id) = message["id"].as_i64() {
            answers.insert(id, message);
        }
    }
    // The end of its input ends it, once it has sent its last spans.
    drop(stdin);
    child.wait().expect("ended");
    answers
}

fn initialize(meta: &Value) -> Value {
    let client = json!({"name": "tester", "version": "7"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// What `serve` answers to one program, with this trace context.
fn run(telemetry: Value, code: &str, meta: Value) -> Value {
    let call = json!({"name": "call_tool_chain", "arguments": {"code": code}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 42, "method": "tools/call", "params": call});
    answers(SERVER, telemetry, &[], &[initialize(&meta), call]).remove(&42).expect("an answer")
}

/// All spans of a process that has ended, and its last metrics.
fn gathered(requests: &Receiver<(String, Value)>) -> (Vec<Value>, Vec<Value>) {
    let (mut spans, mut metrics) = (Vec::<Value>::new(), Vec::new());
    for (path, body) in requests.try_iter() {
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
    (spans, metrics)
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

    let (spans, metrics) = gathered(&requests);
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
        ("mcp.protocol.version", "2025-11-25"),
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

/// A server with a tool, a resource and a prompt, which returns the trace that each request belongs to.
const OFFERING_SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  trace=$(printf '%s' "$line" | sed -n 's/.*"traceparent":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"meta","inputSchema":{"type":"object"}}]}' ;;
    *'"resources/list"'*) result='{"resources":[{"uri":"note://one","name":"one"}]}' ;;
    *'"resources/templates/list"'*) result='{"resourceTemplates":[]}' ;;
    *'"prompts/list"'*) result='{"prompts":[{"name":"greet"}]}' ;;
    *'"tools/call"'*) result='{"content":[],"structuredContent":{"trace":"'$trace'"}}' ;;
    *'"resources/read"'*) result='{"contents":[{"uri":"note://one","text":"'$trace'"}]}' ;;
    *'"prompts/get"'*) result='{"messages":[{"role":"user","content":{"type":"text","text":"'$trace'"}}]}' ;;
    *'"completion/complete"'*) result='{"completion":{"values":["'$trace'"]}}' ;;
    *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[test]
fn every_request_at_the_door_is_a_server_span() {
    let (port, requests) = collector();
    let trace = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "a=b", "baggage": "user=ada"});
    let modern = json!({
        "traceparent": trace["traceparent"], "tracestate": "a=b",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |name: &str, arguments: Value| ("tools/call", json!({"name": name, "arguments": arguments}));
    let prompt = json!({"type": "ref/prompt", "name": "s__greet"});
    // The method and the parameters of each request, the name of its span, and why it fails.
    let sent = [
        (("tools/list", json!({})), "tools/list", None),
        (("resources/list", json!({})), "resources/list", None),
        (("resources/templates/list", json!({})), "resources/templates/list", None),
        (("resources/read", json!({"uri": "note://one?token=hidden"})), "resources/read", None),
        (("prompts/list", json!({})), "prompts/list", None),
        (("prompts/get", json!({"name": "s__greet"})), "prompts/get s__greet", None),
        (
            ("completion/complete", json!({"ref": prompt, "argument": {"name": "a", "value": ""}})),
            "completion/complete",
            None,
        ),
        (call("search_tools", json!({"task_description": "meta"})), "tools/call search_tools", None),
        (call("tool_info", json!({"tool_name": "s.meta"})), "tools/call tool_info", None),
        (call("s__meta", json!({})), "tools/call s__meta", None),
        (
            call("call_tool_chain", json!({"code": "throw new Error('x')"})),
            "tools/call call_tool_chain",
            Some("tool_error"),
        ),
        (call("invented", json!({})), "tools/call", Some("-32602")),
        (("ping", json!({})), "ping", None),
        (("server/discover", json!({})), "server/discover", None),
        (("invented/method", json!({})), "_OTHER", Some("-32601")),
        (("logging/setLevel", json!({})), "logging/setLevel", Some("-32602")),
    ];
    let mut messages = vec![initialize(&trace)];
    for (id, ((method, params), ..)) in (2..).zip(&sent) {
        let mut params = params.clone();
        params["_meta"] = if *method == "server/discover" { modern.clone() } else { trace.clone() };
        messages.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
    let waits = json!({"name": "call_tool_chain", "arguments": {"code": "await new Promise(() => setTimeout(() => {}, 60000))"}});
    messages.push(json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": waits}));
    messages.push(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}));
    let endpoint = json!({"endpoint": format!("http://127.0.0.1:{port}")});
    let answers = answers(OFFERING_SERVER, endpoint, &["--mode", "both"], &messages);
    let (spans, metrics) = gathered(&requests);

    let served: BTreeMap<String, &Value> = spans
        .iter()
        .filter(|span| span["kind"] == 2)
        .map(|span| (attributes(span)["jsonrpc.request.id"].clone(), span))
        .collect();
    assert_eq!(served.len(), messages.len() - 1, "each request is one span: {spans:#?}");
    for (id, ((method, params), name, error)) in (2..).zip(&sent) {
        let span = served[&id.to_string()];
        assert_eq!(span["name"], *name, "{span:#?}");
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &json!(PARENT)), "{span:#?}");
        assert_eq!(span["traceState"], "a=b", "{span:#?}");
        let found = attributes(span);
        let expects = |key: &str, value: Option<&str>| {
            assert_eq!(found.get(key).map(String::as_str), value, "{key} of {span:#?}");
        };
        expects("mcp.method.name", Some(if *name == "_OTHER" { "_OTHER" } else { method }));
        expects("error.type", *error);
        expects("network.transport", Some("pipe"));
        let revision = if *method == "server/discover" { "2026-07-28" } else { "2025-11-25" };
        expects("mcp.protocol.version", Some(revision));
        expects("gen_ai.tool.name", params["name"].as_str().filter(|_| *method == "tools/call"));
        expects("gen_ai.operation.name", (*method == "tools/call").then_some("execute_tool"));
        expects("gen_ai.prompt.name", params["name"].as_str().filter(|_| *method == "prompts/get"));
        expects("mcp.resource.uri", (*method == "resources/read").then_some("note://one"));
        expects("rpc.response.status_code", error.filter(|error| error.starts_with('-')));
        assert!(found.contains_key("mcp.session.id"), "{span:#?}");
        assert_eq!(span["status"]["code"] == 2, error.is_some(), "{span:#?}");
    }
    assert_eq!(attributes(served["99"])["error.type"], "cancelled");
    assert_eq!(
        (&served["1"]["name"], attributes(served["1"])["mcp.protocol.version"].as_str()),
        (&json!("initialize"), "2025-11-25")
    );

    // A request that is passed on is a CLIENT span inside, of which the server behind is told.
    for (id, name) in [(5, "resources/read"), (7, "prompts/get greet"), (8, "completion/complete")] {
        let server = served[&id.to_string()];
        let client = spans.iter().find(|span| span["kind"] == 3 && span["name"] == name);
        let client = client.unwrap_or_else(|| panic!("{name}: {spans:#?}"));
        assert_eq!(client["parentSpanId"], server["spanId"], "{client:#?}");
        assert_eq!(attributes(client)["toolgate.backend"], "s");
        let told = format!("00-{TRACE}-{}-01", client["spanId"].as_str().expect("an id"));
        assert!(answers[&id].to_string().contains(&told), "{told} in {}", answers[&id]);
    }
    let direct = format!("00-{TRACE}-{}-01", served["11"]["spanId"].as_str().expect("an id"));
    assert!(answers[&11].to_string().contains(&direct), "{direct} in {}", answers[&11]);
    let client = spans.iter().find(|span| span["kind"] == 3 && span["name"] == "tools/call meta").expect("a call");
    assert_eq!(client["parentSpanId"], served["11"]["spanId"]);

    let durations = metrics.iter().find(|metric| metric["name"] == "mcp.server.operation.duration").expect("durations");
    let points = durations["histogram"]["dataPoints"].as_array().expect("points");
    let counted: Vec<BTreeMap<String, String>> = points.iter().map(attributes).collect();
    for ((method, _), name, _) in &sent {
        let method = if *name == "_OTHER" { "_OTHER" } else { method };
        assert!(counted.iter().any(|point| point["mcp.method.name"] == method), "{method} in {counted:#?}");
    }
    let tools: BTreeSet<&str> =
        counted.iter().filter_map(|it| it.get("gen_ai.tool.name").map(String::as_str)).collect();
    assert_eq!(tools, BTreeSet::from(["call_tool_chain", "s__meta", "search_tools", "tool_info"]), "no invented name");
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

/// `serve --http` with the server and a function of its tool.
struct HttpServer {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl HttpServer {
    fn start(telemetry: Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = json!({
            "mcpServers": { "s": { "command": "sh", "args": ["-c", SERVER] } },
            "toolgate": {
                "telemetry": telemetry, "http": { "auth": "none" }, "functions": { "metaOf": { "tool": "s.meta" } },
            },
        });
        let file = folder.path().join("config.json");
        std::fs::write(&file, config.to_string()).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&file)
            .env("HOME", folder.path())
            .env("XDG_STATE_HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = stderr.by_ref().lines().map(|line| line.expect("text"));
        let address = lines.find_map(|line| Some(line.split("http://").nth(1)?.split(',').next()?.to_owned()));
        // Read on, so that its log lines do not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        HttpServer { child, address: address.expect("an address"), _folder: folder }
    }

    /// The answer to a request in this trace.
    fn post(&self, path: &str, token: &str, trace: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let body = body.to_string();
        let accepted = "Accept: application/json, text/event-stream";
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{accepted}\r\n");
        let context = format!("traceparent: 00-{trace}-{PARENT}-01\r\ntracestate: a=b\r\nbaggage: user=ada\r\n");
        let token = format!("Authorization: Bearer {token}\r\n");
        let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(format!("{head}{context}{token}{rest}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }

    /// The last message of a run over a WebSocket in this trace.
    fn over_websocket(&self, trace: &str, body: &Value) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut request = format!("ws://{}/v1/run/ws", self.address).into_client_request().expect("an address");
            let parent = format!("00-{trace}-{PARENT}-01").parse().expect("a header");
            request.headers_mut().insert("traceparent", parent);
            let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("connected");
            socket.send(Message::text(body.to_string())).await.expect("sent");
            loop {
                let message = socket.next().await.expect("a report").expect("a message");
                let Message::Text(text) = message else { continue };
                let message: Value = serde_json::from_str(&text).expect("JSON");
                if let Some(report) = message.get("report") {
                    return report.clone();
                }
            }
        })
    }

    /// Ends it as a user does, once it has sent its last spans.
    fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
        self.child.wait().expect("ended");
    }
}

#[test]
fn a_request_over_http_is_a_span_with_its_transport() {
    let (port, requests) = collector();
    let server = HttpServer::start(json!({"endpoint": format!("http://127.0.0.1:{port}")}));
    server.post("/mcp", "", TRACE, &initialize(&json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")})));
    server.end();
    let (spans, _) = gathered(&requests);
    let span = spans.iter().find(|span| span["name"] == "initialize").expect("gathered");
    assert_eq!((&span["kind"], &span["traceId"], &span["parentSpanId"]), (&json!(2), &json!(TRACE), &json!(PARENT)));
    let found = attributes(span);
    assert_eq!((found["network.transport"].as_str(), found["jsonrpc.request.id"].as_str()), ("tcp", "1"));
    assert!(found.contains_key("mcp.session.id"), "{found:?}");
}

/// The id of the trace of one door.
fn trace_of(door: u8) -> String {
    format!("{TRACE:.30}{door:02x}")
}

#[test]
fn a_run_belongs_to_the_trace_in_the_headers_of_its_request() {
    let (port, requests) = collector();
    let server = HttpServer::start(json!({"endpoint": format!("http://127.0.0.1:{port}")}));
    let program = json!({ "code": "return await s.meta({})" });
    let [run, compute, durable, websocket, rpc] = [1, 2, 3, 4, 5].map(trace_of);

    let passed_on = server.post("/v1/run", "", &run, &program)["value"].clone();
    assert_eq!(passed_on["baggage"], "user=ada", "{passed_on}");
    server.post("/v1/compute", "", &compute, &json!({ "code": "data => data.length", "data": [1, 2] }));
    server.post("/v1/runs", "", &durable, &program);
    let over_websocket = server.over_websocket(&websocket, &program)["value"].clone();
    let session = server.post("/v1/sessions", "", &rpc, &json!({ "functions": ["metaOf"] }));
    let (id, token) = (session["executionId"].as_str().expect("an id"), session["token"].as_str().expect("a token"));
    let called = server.post(&format!("/rpc/{id}/metaOf"), token, &rpc, &json!({ "args": [{}] }));
    // There is no run, so the context is passed on as it came.
    assert_eq!(called["result"]["traceparent"], format!("00-{rpc}-{PARENT}-01"), "{called}");

    let mut spans: BTreeMap<String, Value> = BTreeMap::new();
    while spans.len() < 4 {
        let (path, body) = requests.recv_timeout(LONGEST).expect("a request");
        let found = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().filter(|_| path == "/v1/traces");
        for span in found.into_iter().flatten().filter(|span| span["name"] == "run") {
            spans.insert(span["traceId"].as_str().expect("an id").to_owned(), span.clone());
        }
    }
    assert_eq!(spans.keys().collect::<Vec<_>>(), [&run, &compute, &durable, &websocket]);
    assert!(spans.values().all(|span| span["parentSpanId"] == PARENT), "{spans:#?}");
    assert_eq!(spans[&run]["traceState"], "a=b");
    // The server behind is told the trace, with the run's span as the parent.
    for (trace, passed_on) in [(&run, passed_on), (&websocket, over_websocket)] {
        let span = spans[trace]["spanId"].as_str().expect("an id");
        assert_eq!(passed_on["traceparent"], format!("00-{trace}-{span}-01"), "{passed_on}");
    }
    server.end();
}
