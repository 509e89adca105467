//! SIGTERM under load: runs in flight finish or are aborted with their ledger, clients are told, and no process is left.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Long enough for every run to end by an abort only.
const ENDLESS: &str = "await mark(); await new Promise(resolve => setTimeout(resolve, 600_000))";

/// A running `toolgate serve --http`.
struct Server {
    child: Child,
    at: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Programs have a function `mark`, which posts to this URL.
    async fn start(mark: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = env!("CARGO_BIN_EXE_toolgate");
        let config = json!({
            "mcpServers": { "demo": { "command": program, "args": ["demo"] } },
            "toolgate": {
                "functions": { "mark": { "url": mark, "timeout": "1m" } },
                "sandbox": { "limits": { "chain": { "timeout": "10m" } } },
                "http": { "auth": "none" },
                "limits": { "shutdown_grace": "5s" },
                "cache": { "enabled": false },
            },
        });
        let file = folder.path().join("toolgate.json");
        std::fs::write(&file, config.to_string()).expect("written");
        let mut child = Command::new(program)
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let line = lines.next_line().await.expect("readable").expect("an address");
        let at = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        let at = at.parse().expect("an address");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Server { child, at, _folder: folder }
    }

    /// Sends a request; the answer's JSON comes later.
    fn post(&self, path: &'static str, body: Value, headers: &'static str) -> tokio::task::JoinHandle<Value> {
        let at = self.at;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(at).await.expect("connected");
            let body = body.to_string();
            let head =
                format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}");
            let request = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            // Chunks have their length on a line of its own.
            let json = answer.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{answer}"));
            serde_json::from_str(json).expect("JSON")
        })
    }

    fn mcp(&self, code: &str) -> tokio::task::JoinHandle<Value> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "shutdown", "version": "1" },
        });
        let params = json!({ "name": "call_tool_chain", "arguments": { "code": code }, "_meta": meta });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = "accept: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
                       mcp-name: call_tool_chain\r\n";
        self.post("/mcp", request, headers)
    }

    /// Runs a program by WebSocket; its report comes later.
    fn websocket(&self, code: &'static str) -> tokio::task::JoinHandle<Value> {
        let request = format!("ws://{}/v1/run/ws", self.at).into_client_request().expect("a request");
        tokio::spawn(async move {
            let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("connected");
            socket.send(Message::text(json!({ "code": code }).to_string())).await.expect("sent");
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                let message: Value = serde_json::from_str(&text).expect("JSON");
                if let Some(report) = message.get("report") {
                    return report.clone();
                }
            }
            json!("no report")
        })
    }
}

/// The processes below one, with the time at which each began: a number may be given again.
fn descendants(of: u32) -> Vec<(u32, String)> {
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.into_iter().skip(1).filter_map(|pid| Some((pid, began(pid)?))).collect()
}

/// When a process that is not a zombie began.
fn began(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (fields.first() != Some(&"Z")).then(|| fields.get(19).map(|at| (*at).to_owned()))?
}

/// A request that has arrived, to be answered.
async fn marked(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut head = [0; 4096];
    let read = stream.read(&mut head).await.expect("a request");
    assert!(head[..read].starts_with(b"POST"));
    stream
}

async fn answer(mut stream: TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
}

fn check_aborted(door: &str, report: &Value) {
    assert_eq!(report["code"], json!("ABORTED"), "{door}: {report}");
    assert_eq!(report["calls"][0]["name"], json!("mark"), "{door}: {report}");
    assert_eq!(report["safe_to_retry"], json!(false), "{door}: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sigterm_under_load_ends_every_run_with_its_report() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let mark = format!("http://{}/", listener.local_addr().expect("an address"));
    let mut server = Server::start(&mark).await;
    let endless = json!({ "code": ENDLESS });
    let (http, websocket, mcp) = (server.post("/v1/run", endless, ""), server.websocket(ENDLESS), server.mcp(ENDLESS));
    for _ in 0..3 {
        answer(marked(&listener).await).await;
    }
    let finishing = server.post("/v1/run", json!({ "code": "await mark(); return 'done'" }), "");
    let last = marked(&listener).await;
    let pid = server.child.id().expect("it runs");
    let below = descendants(pid);
    assert!(below.len() >= 2, "a zygote and a backend at least: {below:?}");
    Command::new("kill").arg(pid.to_string()).status().await.expect("kill runs");
    // No new connection is accepted, and a run that ends within the grace period has its answer.
    while TcpStream::connect(server.at).await.is_ok() {
        tokio::task::yield_now().await;
    }
    answer(last).await;
    assert_eq!(finishing.await.expect("an answer")["value"], json!("done"));
    check_aborted("/v1/run", &http.await.expect("an answer"));
    check_aborted("WebSocket", &websocket.await.expect("a report"));
    let reply = mcp.await.expect("an answer");
    check_aborted("/mcp", &reply["result"]["_meta"]["toolgate/report"]);
    let status = tokio::time::timeout(Duration::from_secs(60), server.child.wait()).await.expect("it ends");
    assert!(status.expect("a status").success());
    let left: Vec<_> = below.iter().filter(|(pid, since)| began(*pid).as_ref() == Some(since)).collect();
    assert!(left.is_empty(), "{left:?}");
}
