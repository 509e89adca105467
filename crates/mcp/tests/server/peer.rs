//! The other side of the door: a client that says exactly what a test tells it to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::{HttpOptions, RequestScope, Service};

pub(crate) const MODERN: &str = "2026-07-28";

/// Nothing in these tests takes that long unless it hangs.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}

/// A request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A request that says it is modern.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request(id, method, params)
}

pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    request("hello", "initialize", json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client }))
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Whether everything in `expected` is in `found`; `"*"` stands for anything, `null` for nothing.
pub(crate) fn assert_fits(found: &Value, expected: &Value) {
    assert!(fits(found, expected), "\nfound    {found}\nexpected {expected}");
}

fn fits(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (_, Value::String(any)) if any == "*" => !found.is_null(),
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(key, expected)| fits(found.get(key).unwrap_or(&Value::Null), expected))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| fits(found, expected))
        }
        _ => found == expected,
    }
}

/// What comes out of a pipe.
pub(crate) struct Reading(BufReader<ReadHalf<UnixStream>>);

impl Reading {
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        soon(self.0.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}"))
    }
}

/// A client at the other end of a pipe.
pub(crate) struct Pipe {
    reader: Option<Reading>,
    pub(crate) writer: WriteHalf<UnixStream>,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
    pub(crate) shutdown: CancellationToken,
}

impl Pipe {
    pub(crate) fn open(service: Arc<dyn Service>) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (server_reads, server_writes) = tokio::io::split(theirs);
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(toolgate_mcp::server::serve_stdio(
            service,
            RequestScope::default(),
            server_reads,
            server_writes,
            shutdown.clone(),
        ));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: Some(Reading(BufReader::new(reader))), writer, server, shutdown }
    }

    /// One that a legacy client has been greeted on.
    pub(crate) async fn legacy(service: Arc<dyn Service>) -> Self {
        let mut pipe = Self::open(service);
        pipe.ask(initialize("2025-11-25")).await;
        pipe.send(notification("notifications/initialized", json!({}))).await;
        pipe
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        soon(self.writer.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Value {
        self.reader.as_mut().unwrap().receive().await
    }

    /// The reading end alone, so that writing may go on elsewhere.
    pub(crate) fn split_off(&mut self) -> Reading {
        self.reader.take().unwrap()
    }

    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.receive().await
    }

    /// Nothing more comes.
    pub(crate) async fn falls_silent(mut self) -> bool {
        soon(self.writer.shutdown()).await.unwrap();
        let mut rest = String::new();
        soon(self.split_off().0.read_to_string(&mut rest)).await.unwrap();
        rest.is_empty()
    }
}

/// A server on a port of its own.
pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) shutdown: CancellationToken,
}

impl Host {
    pub(crate) async fn start(service: Arc<dyn Service>) -> Self {
        Self::start_with(service, HttpOptions::default()).await
    }

    pub(crate) async fn start_with(service: Arc<dyn Service>, options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shutdown = options.shutdown.clone();
        Self::serve(listener, address, shutdown, toolgate_mcp::server::router(service, options))
    }

    /// With a layer in front of the endpoint.
    pub(crate) async fn start_behind(
        service: Arc<dyn Service>,
        layer: impl FnOnce(axum::Router) -> axum::Router,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let options = HttpOptions::default();
        let shutdown = options.shutdown.clone();
        Self::serve(listener, address, shutdown, layer(toolgate_mcp::server::router(service, options)))
    }

    fn serve(listener: TcpListener, address: String, shutdown: CancellationToken, router: axum::Router) -> Self {
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shutdown }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn post(&self, body: &Value) -> Ask {
        Ask::new(self, "POST", body.to_string()).header("content-type", "application/json")
    }

    /// A modern request with all the headers it needs.
    pub(crate) fn post_modern(&self, body: &Value) -> Ask {
        let method = body["method"].as_str().unwrap().to_owned();
        let ask = self.post(body).header("mcp-protocol-version", MODERN).header("mcp-method", &method);
        match body["params"]["name"].as_str().or(body["params"]["uri"].as_str()) {
            Some(name) => ask.header("mcp-name", name),
            None => ask,
        }
    }

    /// A legacy session, by its name.
    pub(crate) async fn session(&self) -> String {
        let answer = self.post(&initialize("2025-11-25")).send().await;
        answer.header("mcp-session-id").unwrap()
    }

    pub(crate) fn ask(&self, verb: &str) -> Ask {
        Ask::new(self, verb, String::new())
    }
}

/// A request of HTTP/1.0, so that the body of the answer is all that comes until the end.
pub(crate) struct Ask {
    address: String,
    verb: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Ask {
    fn new(host: &Host, verb: &str, body: String) -> Self {
        let headers = vec![("accept".to_owned(), "application/json, text/event-stream".to_owned())];
        let (address, path) = (host.address.clone(), "/mcp".to_owned());
        Self { address, verb: verb.to_owned(), path, headers, body }
    }

    /// Adds a header; `host`, `accept` and `content-type` replace the usual one.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        if matches!(name, "host" | "accept" | "content-type") {
            self.headers.retain(|(present, _)| present != name);
        }
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn session(self, name: &str) -> Self {
        self.header("mcp-session-id", name)
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// Sends the request; the answer is read as it comes.
    pub(crate) async fn open(mut self) -> Answer {
        if !self.headers.iter().any(|(name, _)| name == "host") {
            self.headers.push(("host".to_owned(), self.address.clone()));
        }
        let mut text = format!("{} {} HTTP/1.0\r\ncontent-length: {}\r\n", self.verb, self.path, self.body.len());
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        soon(writer.write_all(format!("{text}\r\n").as_bytes())).await.unwrap();
        soon(writer.write_all(self.body.as_bytes())).await.unwrap();
        Answer::read(BufReader::new(reader), writer).await
    }

    /// Sends the request and reads the whole answer.
    pub(crate) async fn send(self) -> Answer {
        let mut answer = self.open().await;
        soon(answer.reader.read_to_string(&mut answer.body)).await.unwrap();
        answer
    }
}

/// An answer, or the beginning of one.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    reader: BufReader<tokio::net::tcp::OwnedReadHalf>,
    _writer: tokio::net::tcp::OwnedWriteHalf,
}

impl Answer {
    async fn read(
        mut reader: BufReader<tokio::net::tcp::OwnedReadHalf>,
        _writer: tokio::net::tcp::OwnedWriteHalf,
    ) -> Self {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            soon(reader.read_line(&mut line)).await.unwrap();
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let status = head.first().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = head.iter().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Self { status: status.unwrap_or(0), headers, body: String::new(), reader, _writer }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(present, _)| present == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").as_deref() == Some("text/event-stream")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {:?}", self.status, self.body))
    }

    /// The messages of a whole stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The next message of a stream that is still open; none at its end.
    pub(crate) async fn next_event(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if soon(self.reader.read_line(&mut line)).await.unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data.trim()).ok();
            }
        }
    }
}
