//! A client for each door.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::TOOLGATE;
use crate::programs::Program;

/// Which configuration the doors are of.
#[derive(Clone, Copy)]
pub(crate) enum Setting<'a> {
    /// The demo server alone.
    Demo,
    /// The one that is found in the configuration folder of this home folder.
    Home(&'a Path),
}

fn command(setting: Setting<'_>, args: &[&str]) -> Command {
    let mut command = Command::new(TOOLGATE);
    command.args(args);
    match setting {
        Setting::Demo => command.arg("--demo"),
        Setting::Home(home) => {
            for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
                command.env_remove(name);
            }
            command.env("HOME", home).current_dir(home)
        }
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// `toolgate run`.
pub(crate) struct CommandLine;

impl CommandLine {
    pub(crate) async fn run(program: &Program) -> Value {
        let timeout = program.timeout_ms.map(|ms| format!("{ms}ms"));
        let mut args = vec!["run", "-", "--json"];
        args.extend(timeout.iter().flat_map(|timeout| ["--timeout", timeout.as_str()]));
        Self::report(Setting::Demo, &args, program.code).await
    }

    /// The report of a command that gets this on its standard input.
    pub(crate) async fn report(setting: Setting<'_>, args: &[&str], input: &str) -> Value {
        let mut child = command(setting, args).spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("piped");
        let code = input.to_owned();
        tokio::spawn(async move {
            let _ = stdin.write_all(code.as_bytes()).await;
        });
        let output = child.wait_with_output().await.expect("the binary ends");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            json!({ "usage error": said, "exit": output.status.code() })
        })
    }
}

/// `toolgate serve`.
pub(crate) struct McpStdio {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl McpStdio {
    pub(crate) async fn start(setting: Setting<'_>) -> Self {
        let mut child = command(setting, &["serve"]).spawn().expect("the binary starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut door = McpStdio { _child: child, input, output, id: 0 };
        door.ask("initialize", initialize()).await;
        door.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        door
    }

    async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.expect("written");
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let line = self.output.next_line().await.expect("readable").expect("a line");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    pub(crate) async fn run(&mut self, program: &Program) -> Value {
        report_of(self.ask("tools/call", call(program)).await)
    }

    /// The answer to a call of a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}

fn initialize() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "doors", "version": "1" } })
}

fn call(program: &Program) -> Value {
    let mut arguments = json!({ "code": program.code });
    // The report beside the value is bounded, too, and shorter for MCP clients unless they ask.
    arguments["max_output_size"] = json!(200_000);
    if let Some(ms) = program.timeout_ms {
        arguments["timeout"] = json!(ms);
    }
    json!({ "name": "call_tool_chain", "arguments": arguments })
}

pub(crate) fn report_of(mut message: Value) -> Value {
    match message.pointer_mut("/result/_meta/toolgate~1report").map(Value::take) {
        Some(report) => report,
        None => message,
    }
}

/// `toolgate serve --http`.
pub(crate) struct HttpDoor {
    _child: Child,
    at: SocketAddr,
    token: String,
    /// With the token; removed at the end.
    _state: tempfile::TempDir,
}

impl HttpDoor {
    pub(crate) async fn start(setting: Setting<'_>) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let mut command = command(setting, &["serve", "--http", "127.0.0.1:0"]);
        let mut child = command.env("XDG_STATE_HOME", state.path()).spawn().expect("the binary starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let at = loop {
            let line = said.next_line().await.expect("readable").expect("an address");
            if let Some((_, rest)) = line.split_once("http://") {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap_or(rest.len());
                break rest[..end].parse().expect("an address");
            }
        };
        // A service with configured keys makes no token.
        let token = std::fs::read_to_string(state.path().join("toolgate/http-token")).unwrap_or_default();
        tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        HttpDoor { _child: child, at, token: token.trim().to_owned(), _state: state }
    }

    /// What is asked from now on is asked with this key; the one before.
    pub(crate) fn use_key(&mut self, key: &str) -> String {
        std::mem::replace(&mut self.token, key.to_owned())
    }

    /// Posts JSON; gives the answer's JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value, headers: &str) -> Value {
        self.request("POST", path, &body.to_string(), headers).await
    }

    /// Gets the JSON at a path.
    pub(crate) async fn get(&self, path: &str) -> Value {
        self.request("GET", path, "", "").await
    }

    async fn request(&self, method: &str, path: &str, body: &str, headers: &str) -> Value {
        let mut stream = TcpStream::connect(self.at).await.expect("connected");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}connection: close\r\n\
             authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            joined(body)
        } else {
            body.to_owned()
        };
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"))
    }

    fn body_of(program: &Program) -> Value {
        let mut body = json!({ "code": program.code });
        if let Some(ms) = program.timeout_ms {
            body["timeoutMs"] = json!(ms);
        }
        body
    }

    pub(crate) async fn run(&self, program: &Program) -> Value {
        self.post("/v1/run", &Self::body_of(program), "").await
    }

    pub(crate) async fn run_by_socket(&self, program: &Program) -> Value {
        self.ask_by_socket(&Self::body_of(program)).await
    }

    /// The report of a run of this request over the WebSocket.
    pub(crate) async fn ask_by_socket(&self, body: &Value) -> Value {
        let address = format!("ws://{}/v1/run/ws", self.at);
        let mut request = address.into_client_request().expect("a request");
        let bearer = format!("Bearer {}", self.token).parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("a socket");
        socket.send(Message::text(body.to_string())).await.expect("sent");
        while let Some(message) = socket.next().await {
            let Ok(Message::Text(text)) = message else { continue };
            let mut message: Value = serde_json::from_str(&text).expect("JSON");
            if message.get("report").is_some() || message.get("error").is_some() {
                return match message.get_mut("report").map(Value::take) {
                    Some(report) => report,
                    None => message,
                };
            }
        }
        json!("no report")
    }
}

/// The chunks of a body, put together.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        if size == 0 {
            break;
        }
        body.push_str(&rest[..size]);
        chunks = &rest[size + 2..];
    }
    body
}

/// `/mcp` of the same process, in the modern era.
pub(crate) struct McpHttp<'a>(&'a HttpDoor);

impl<'a> McpHttp<'a> {
    pub(crate) fn new(door: &'a HttpDoor) -> Self {
        McpHttp(door)
    }

    pub(crate) async fn run(&self, program: &Program) -> Value {
        report_of(self.send(call(program)).await)
    }

    /// The answer to a call of a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.send(json!({ "name": tool, "arguments": arguments })).await
    }

    /// The answer to a call of a backend's own tool.
    pub(crate) async fn direct(&self, tool: &str, arguments: &Value) -> Value {
        self.send_to("/mcp?mode=direct", json!({ "name": tool, "arguments": arguments })).await
    }

    async fn send(&self, params: Value) -> Value {
        self.send_to("/mcp", params).await
    }

    async fn send_to(&self, path: &str, mut params: Value) -> Value {
        let name = params["name"].as_str().expect("a name").to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "doors", "version": "1" },
        });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = format!(
            "accept: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n"
        );
        self.0.post(path, &request, &headers).await
    }
}
