//! Hostile clients of the HTTP service: large, deep and slow bodies, long headers, thousands of connections. All of them together
//! cost the gateway at most the bytes that bodies may have in flight and 16 MB; each case is answered within the time of a body, that
//! of a run and 100 ms, and so is the request after it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bar::Bar;
use crate::client::User;

/// Clients at one time.
const CLIENTS: usize = 6;
const MB: usize = 1 << 20;
/// What the bodies of all clients of a door, and what is made of them, may take at one time.
const BODY_BYTES: u64 = 128 << 20;
/// What an open connection takes: its buffers, and what the kernel and the runtime know of it.
const CONNECTION_BYTES: u64 = 64 << 10;
/// What a request may take: the 30 s in which its body must come, and the time of its run.
const DEADLINE: Duration = Duration::from_secs(30 + 60);
const READ_TIMEOUT: Duration = Duration::from_secs(120);

fn connect(socket: &Path) -> Option<UnixStream> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a socket");
    stream.set_write_timeout(Some(READ_TIMEOUT)).expect("a socket");
    Some(stream)
}

/// The beginning of the answer to a request; a service may answer and close before it has read all of it.
fn post(socket: &Path, path: &str, header: &str, body: &[u8]) -> String {
    let mut stream = connect(socket).expect("the service listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Connection: close\r\nContent-Length: {}\r\n{header}\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.take(1 << 20).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status codes that several clients get for the same request at one time.
fn post_together(socket: &Path, path: &str, header: &str, body: &[u8]) -> Vec<u16> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| post(socket, path, header, body))).collect();
        let status = |answer: String| answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        clients.into_iter().map(|client| status(client.join().expect("no panic"))).collect()
    })
}

pub(crate) struct Service {
    child: Child,
    socket: PathBuf,
    _user: User,
}

impl Service {
    fn start() -> Self {
        let user = User::new();
        user.configure(&serde_json::json!({ "sandbox": { "limits": { "chain": { "timeout": "60s" } } } }));
        Self::of(user)
    }

    /// A service with a user's configuration.
    pub(crate) fn of(user: User) -> Self {
        let socket = user.folder().join("socket");
        let listen = format!("unix:{}", socket.display());
        let config = user.config().display().to_string();
        let mut command = user.command(&["serve", "--config", &config, "--http", &listen]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let since = Instant::now();
        while connect(&socket).is_none() {
            assert!(since.elapsed() < READ_TIMEOUT, "the service does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let service = Service { child, socket, _user: user };
        service.works("the start");
        service
    }

    /// The answer to a request without a body.
    pub(crate) fn ask(&self, method: &str, path: &str) -> String {
        let mut answer = String::new();
        let _ = self.open(method, path).read_to_string(&mut answer);
        answer
    }

    /// A request without a body, whose answer is read as it comes.
    pub(crate) fn open(&self, method: &str, path: &str) -> UnixStream {
        let mut stream = connect(&self.socket).expect("the service listens");
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    pub(crate) fn end(mut self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill");
        assert!(told.success());
        assert!(self.child.wait().expect("it ends").success());
    }

    fn works(&self, case: &str) {
        let answer = post(&self.socket, "/v1/run", "", br#"{"code":"return 1 + 1"}"#);
        assert!(answer.contains(r#""result":2"#), "{case}: {answer}");
    }

    /// Sends a body of all clients at one time; each gets one of these status codes, or 408: a busy machine may not have read the
    /// body in its time.
    fn check(&self, case: &str, path: &str, body: &[u8], expected: &[u16]) {
        let bar = Bar::of(self.child.id());
        let got = post_together(&self.socket, path, "", body);
        assert!(got.iter().all(|status| *status == 408 || expected.contains(status)), "{case}: {got:?}");
        bar.check(case, BODY_BYTES, 0, DEADLINE);
        self.works(case);
    }
}

fn tool_call(arguments: &[u8]) -> Vec<u8> {
    let begin = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_chain","arguments":"#;
    [begin, arguments, b"}}"].concat()
}

fn in_context(value: &[u8]) -> Vec<u8> {
    [br#"{"code":"return 1","context":{"a":"#, value, b"}}"].concat()
}

#[test]
fn bodies_of_any_size_and_shape_are_bounded() {
    let service = Service::start();
    let ones = [b"[".as_slice(), &b"1,".repeat(8 * MB - 200), b"1]"].concat();
    let deep = b"[".repeat(8 * MB);
    let text = [br#"{"code":""#.as_slice(), &b"x".repeat(15 * MB), br#""}"#].concat();
    let refused = [400, 413, 503];
    service.check("16 MB of numbers at /mcp", "/mcp", &tool_call(&ones), &refused);
    service.check("16 MB of text at /mcp", "/mcp", &tool_call(&text), &refused);
    service.check("nesting at /mcp", "/mcp", &tool_call(&deep), &refused);
    service.check("16 MB of text at /v1/run", "/v1/run", &text, &[200, 400, 413, 503]);
    service.check("16 MB of numbers at /v1/run", "/v1/run", &in_context(&ones), &[200, 400, 413, 503]);
    service.check("nesting at /v1/run", "/v1/run", &in_context(&deep), &refused);
    service.check("17 MB at /v1/run", "/v1/run", &b" ".repeat(17 * MB), &[413]);
    service.end();
}

/// Bodies of lists of small values, which take up to seventy times their text as trees.
#[test]
fn fields_that_are_lists_or_values_of_any_shape_are_bounded() {
    let service = Service::start();
    let lists = [b"[".as_slice(), &b"[[]],".repeat(3 * MB - 200), b"1]"].concat();
    let names = [b"[".as_slice(), &b"\"\",".repeat(5 * MB - 200), b"\"\"]"].concat();
    let objects = [b"[".as_slice(), &b"{},".repeat(5 * MB - 200), b"{}]"].concat();
    let body = |before: &[u8], value: &[u8], after: &[u8]| [before, value, after].concat();
    let refused = [400, 413, 503];
    let check = |path: &str, body: Vec<u8>| service.check(path, path, &body, &refused);
    check("/v1/policy/explain", body(br#"{"tool":"demo.list_notes","arguments":{"a":"#, &lists, b"}}"));
    check("/v1/run", body(br#"{"code":"return 1","functions":"#, &names, b"}"));
    check("/v1/runs", body(br#"{"code":"return 1","functions":"#, &names, b"}"));
    check("/v1/sessions", body(br#"{"functions":"#, &names, b"}"));
    check("/v1/runs/none/decisions", body(br#"{"decisions":"#, &objects, b"}"));
    check("/v1/runs/none/decisions", body(br#"{"decisions":[{"callId":1,"remember":"#, &lists, b"}]}"));
    check("/v1/backends/demo/login", body(br#"{"scopes":"#, &names, b"}"));
    service.end();
}

/// An intent is read by its words, and all of them would be compared with each other.
#[test]
fn a_long_intent_is_refused_at_every_door() {
    let service = Service::start();
    let words: String = (0..40_000).map(|at| format!("w{at} ")).collect();
    let run = serde_json::json!({ "code": "return 'x y '.repeat(2000)", "intent": words });
    let compute = serde_json::json!({ "code": "(data) => data.repeat(2000)", "data": "x y ", "intent": words });
    for (path, body) in [("/v1/run", &run), ("/v1/compute", &compute)] {
        let answer = post(&service.socket, path, "", body.to_string().as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\"pointer\":\"/intent\""), "{path}: {answer}");
    }
    service.works("long intents");
    service.end();
    let user = User::new();
    let mut client = user.serve();
    for tool in ["call_tool_chain", "query_tools", "run_code"] {
        let answer = client.ask("tools/call", serde_json::json!({ "name": tool, "arguments": run }));
        assert!(answer.to_string().contains("intent: has at most 2000 characters"), "{tool}: {answer}");
    }
    client.leave();
    let (code, _, errors) = user.run_program("return 'x y '.repeat(2000)", &["--intent", &words[..100_000]]);
    assert!(code == 2 && errors.contains("has at most 2000 characters"), "{code}: {errors}");
}

/// Replies and notifications repeat the id of a request and its progress token.
#[test]
fn long_ids_and_progress_tokens_are_not_repeated() {
    let service = Service::start();
    let long = "x".repeat(15 * MB);
    let call = |id: &str, token: &str| {
        let meta = serde_json::json!({
            "progressToken": token,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        });
        let arguments = serde_json::json!({ "code": crate::client::COUNT });
        let params = serde_json::json!({ "name": "call_tool_chain", "arguments": arguments, "_meta": meta });
        let request = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        request.to_string().into_bytes()
    };
    let header = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: call_tool_chain\r\n";
    for (case, body) in [("an id of 15 MB", call(&long, "t")), ("a token of 15 MB", call("1", &long))] {
        let answer = post(&service.socket, "/mcp", header, &body);
        assert!(answer.len() < 64 << 10, "{case}: {} bytes", answer.len());
        let bar = Bar::of(service.child.id());
        let got = post_together(&service.socket, "/mcp", header, &body);
        assert!(got.iter().all(|status| [200, 400, 408, 413, 503].contains(status)), "{case}: {got:?}");
        bar.check(case, BODY_BYTES, 0, DEADLINE);
        service.works(case);
    }
    service.end();
}

/// Clients that ask for large replies and read only their beginning.
#[test]
fn replies_that_clients_do_not_read_count_in_their_bytes() {
    const UNREAD: usize = 12;
    /// What a caller may have in flight, and the connection to the server.
    const REPLY_BYTES: u64 = (128 + 128) << 20;
    let user = User::new();
    let script = user.write("server.py", include_str!("server.py"));
    let server = serde_json::json!({ "command": "python3", "args": [script, "large"] });
    std::fs::write(user.config(), serde_json::json!({ "mcpServers": { "bad": server } }).to_string()).expect("written");
    let service = Service::of(user);
    let meta = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    });
    let params = serde_json::json!({ "name": "bad__attack", "arguments": {}, "_meta": meta });
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST /mcp?mode=direct HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: bad__attack\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let bar = Bar::of(service.child.id());
    let begun: Vec<UnixStream> = std::thread::scope(|scope| {
        let begin = || {
            let mut stream = connect(&service.socket).expect("the service listens");
            stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("an answer begins");
            assert_eq!(&status, b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&status));
            stream
        };
        let clients: Vec<_> = (0..UNREAD).map(|_| scope.spawn(begin)).collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    service.works("replies that are not read");
    drop(begun);
    bar.check("replies that are not read", REPLY_BYTES, 0, READ_TIMEOUT * 5);
    service.works("replies that are not read");
    service.end();
}

#[test]
fn results_of_many_values_are_bounded() {
    let service = Service::start();
    // The tree of each would take 100 MB.
    let ones = [b"[".as_slice(), &b"1,".repeat(3 * MB / 2), b"1]"].concat();
    let body = [br#"{"code":"return context.a","maxHeapMB":256,"context":{"a":"#.as_slice(), &ones, b"}}"].concat();
    let whole = post(&service.socket, "/v1/run", "", &body);
    assert!(whole.contains(r#""ok":true,"value":[1,1"#), "{}", &whole[..whole.len().min(500)]);
    service.check("results of 3 MB of numbers at /v1/run", "/v1/run", &body, &[200, 503]);
    service.end();
}

/// Reads of a large result that is nested deeply, of all clients at one time.
#[test]
fn reading_parts_of_a_deep_result_holds_up_no_other_request() {
    const DEPTH: usize = 900;
    const READS: usize = 12;
    let service = Service::start();
    let program =
        format!("let it = new Array(400000).fill(1.5); for (let i = 0; i < {DEPTH}; i++) it = [it]; return it");
    let body = serde_json::json!({ "code": program, "maxOutputSize": 1_000, "maxHeapMB": 256 }).to_string();
    let answer = post(&service.socket, "/v1/run", "", body.as_bytes());
    let id = answer.split("\"resultId\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let id = id.unwrap_or_else(|| panic!("{}", &answer[..answer.len().min(500)]));
    let path = format!("/v1/results/{id}?path={}%5B7%5D", "%5B0%5D".repeat(DEPTH));
    let search = format!("/v1/results/{id}?search=zebra");
    let bar = Bar::of(service.child.id());
    std::thread::scope(|scope| {
        for (address, expected) in [(&path, r#""text":"1.5""#), (&search, "0 matches")] {
            for _ in 0..READS {
                let service = &service;
                scope.spawn(move || {
                    let read = service.ask("GET", address);
                    assert!(read.contains(expected), "{address}: {read}");
                });
            }
        }
        service.works("reads of a deep result");
    });
    bar.check("reads of a deep result", BODY_BYTES, 0, DEADLINE);
    service.end();
}

#[test]
fn long_headers_are_refused_unread() {
    let service = Service::start();
    let bar = Bar::of(service.child.id());
    let header = format!("X-Long: {}\r\n", "x".repeat(16 * MB));
    let got = post_together(&service.socket, "/v1/run", &header, b"{}");
    // The connection may be closed before the answer is read.
    assert!(got.iter().all(|status| [431, 0].contains(status)), "{got:?}");
    bar.check("long headers", 0, 0, DEADLINE);
    service.works("long headers");
    service.end();
}

#[test]
fn thousands_of_connections_and_bodies_that_never_end_are_bounded() {
    let service = Service::start();
    // As many as this process may have open.
    let head = b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 16000000\r\n\r\n{";
    for (case, begin, most) in [("idle", &b""[..], 2_000), ("bodies that never end", &head[..], 400)] {
        let bar = Bar::of(service.child.id());
        let mut open = Vec::new();
        while open.len() < most
            && let Some(mut stream) = connect(&service.socket)
        {
            let _ = stream.write_all(begin);
            open.push(stream);
        }
        let count = open.len() as u64;
        assert!(count > 100, "{case}: {count} connections");
        // One of them makes room for the request that shows that the service still answers.
        open.truncate(open.len() - 10);
        service.works(case);
        drop(open);
        bar.check(case, count * CONNECTION_BYTES, count * CONNECTION_BYTES, DEADLINE);
        service.works(case);
    }
    service.end();
}
