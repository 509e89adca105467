//! `toolgate serve` as a process that can be killed, and requests to it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A running `toolgate serve --http`.
pub(crate) struct Server {
    child: Child,
    at: SocketAddr,
}

/// An answer of the service.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: Value,
}

impl Server {
    /// Starts the binary with this configuration.
    pub(crate) async fn start(config: &Path) -> Self {
        Self::start_with(config, &[]).await
    }

    /// The same with more variables in its environment.
    pub(crate) async fn start_with(config: &Path, environment: &[(&str, &Path)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["serve", "--http", "127.0.0.1:0", "--log", "off", "--config"])
            .arg(config)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let at = loop {
            let line = lines.next_line().await.expect("readable").expect("an address");
            if let Some(at) = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()) {
                break at.parse().expect("an address");
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Server { child, at }
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn end(mut self) {
        let pid = self.child.id().expect("it runs").to_string();
        Command::new("kill").arg(pid).status().await.expect("kill");
        self.child.wait().await.expect("ended");
    }

    /// Sends a request; `None` when the server is gone.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &str, body: Option<&Value>) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.at).await.ok()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}");
        let request = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        // Chunks have their length on a line of its own.
        let json = answer.lines().find(|line| line.starts_with('{'))?;
        Some(Answer { status, json: serde_json::from_str(json).ok()? })
    }

    /// The answer to a `GET`, head and body; `None` when the server is gone.
    pub(crate) async fn text(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.at).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Begins a durable run under a key; returns its id.
    pub(crate) async fn begin(&self, code: &str, key: &str) -> Option<String> {
        let body = json!({ "code": code, "durable": true });
        let answer = self.ask("POST", "/v1/runs", &format!("Idempotency-Key: {key}\r\n"), Some(&body)).await?;
        assert_eq!(answer.status, 202, "{answer:?}");
        Some(answer.json["runId"].as_str().expect("an id").to_owned())
    }

    /// The report of a run once it has ended; `None` when the server is gone.
    pub(crate) async fn report(&self, run: &str) -> Option<Value> {
        loop {
            let answer = self.ask("GET", &format!("/v1/runs/{run}?wait=60"), "", None).await?;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.json["status"] == "done" {
                return Some(answer.json["report"].clone());
            }
        }
    }
}
