//! A gateway in a process of its own, over a Unix socket, with counting servers behind it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::processes::{Guard, Process};

/// The counting servers.
pub(crate) const SERVERS: [&str; 2] = ["first", "second"];
/// A function that gives the id of its argument back, for sessions.
pub(crate) const ECHO: &str = "echo";
/// The size of the results that are kept: some hundred of those that programs leave, so that they are all there before the end of a
/// soak's warm-up.
const RESULT_STORE: &str = "8MB";
/// How long a gateway may take to start or to end, also on a machine that does much else.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The files of a gateway: configuration, socket, the list of effects, state.
#[derive(Clone)]
pub(crate) struct Files {
    folder: Arc<tempfile::TempDir>,
    /// Tells gateways of one configuration apart.
    number: usize,
}

impl Files {
    /// The gateway keeps its sessions in this Redis, or in memory.
    pub(crate) fn new(program: &Path, redis: Option<&str>) -> anyhow::Result<Self> {
        let echo = json!({ "tool": format!("{}.read", SERVERS[0]), "read_only": true });
        let limits = json!({ "result_store": RESULT_STORE });
        let store = redis.unwrap_or("memory");
        Self::with(program, &json!({ "functions": { ECHO: echo }, "store": store, "limits": limits }))
    }

    /// The files of gateways that keep durable runs in this store: a PostgreSQL, or a file when absent. Calls of `apply` of the
    /// second server are asked about.
    pub(crate) fn durable(program: &Path, store: Option<&str>) -> anyhow::Result<Self> {
        let policy = json!([{ "tool": format!("{}.apply", SERVERS[1]), "do": "ask" }]);
        let mut settings = json!({ "policy": policy, "runs": { "unknown_calls": "end" } });
        if let Some(store) = store {
            settings["runs"]["store"] = json!(store);
        }
        Self::with(program, &settings)
    }

    fn with(program: &Path, settings: &Value) -> anyhow::Result<Self> {
        let files = Files { folder: Arc::new(tempfile::tempdir()?), number: 0 };
        let counter = json!({ "command": program, "args": ["chaos", "--counter", files.effects()] });
        let servers: serde_json::Map<_, _> = SERVERS.iter().map(|name| ((*name).to_owned(), counter.clone())).collect();
        std::fs::write(files.at("toolgate.json"), json!({ "mcpServers": servers, "toolgate": settings }).to_string())?;
        Ok(files)
    }

    /// The files of another gateway of the same configuration and state.
    pub(crate) fn beside(&self, number: usize) -> Self {
        Files { number, ..self.clone() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file to which servers write each effect.
    pub(crate) fn effects(&self) -> PathBuf {
        self.at("effects")
    }

    fn socket(&self) -> PathBuf {
        self.at(&format!("socket{}", self.number))
    }

    /// A new connection to the gateway.
    pub(crate) fn connect(&self) -> std::io::Result<Connection> {
        Ok(Connection(BufReader::new(self.open()?)))
    }

    /// The same before anything is spoken over it.
    pub(crate) fn open(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(stream)
    }
}

/// A running gateway. It is killed when this is dropped.
pub(crate) struct Gateway {
    child: Child,
    /// Kills it if this process is killed.
    guard: Option<Guard>,
}

impl Gateway {
    /// Starts the gateway and waits until it answers.
    pub(crate) fn start(program: &Path, files: &Files) -> anyhow::Result<Self> {
        let address = format!("unix:{}", files.socket().display());
        let log = std::fs::File::options().create(true).append(true).open(files.at("log"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--log", "error", "--http", &address, "--config"]).arg(files.at("toolgate.json"));
        let home = files.folder.path();
        command.env("HOME", home).env("XDG_STATE_HOME", home).env("XDG_CACHE_HOME", home).env("XDG_CONFIG_HOME", home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().context("the gateway does not start")?;
        let mut gateway = Gateway { guard: Guard::of(&child).ok(), child };
        let since = Instant::now();
        while files.connect().and_then(|mut connection| connection.get("/readyz")).is_err() {
            if let Some(status) = gateway.child.try_wait()? {
                let log = std::fs::read_to_string(files.at("log")).unwrap_or_default();
                bail!("the gateway ended ({status}): {log}");
            }
            if since.elapsed() > START_TIMEOUT {
                bail!("the gateway does not answer");
            }
            std::thread::sleep(PROBE_INTERVAL);
        }
        Ok(gateway)
    }

    pub(crate) fn process(&self) -> Option<Process> {
        Process::of(self.child.id())
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
        drop(self.guard.take());
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let since = Instant::now();
        while self.child.try_wait()?.is_none() {
            if since.elapsed() > START_TIMEOUT {
                bail!("the gateway did not end after SIGTERM");
            }
            std::thread::sleep(PROBE_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A connection that speaks HTTP/1.1, one request after the other.
pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(crate) fn get(&mut self, path: &str) -> std::io::Result<(u16, Value)> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// The status and the body of an answer.
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        self.post_as(path, body, None)
    }

    /// The same with a token.
    pub(crate) fn post_as(&mut self, path: &str, body: &Value, token: Option<&str>) -> std::io::Result<(u16, Value)> {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.post_with(path, body, &token)
    }

    /// The same under an idempotency key.
    pub(crate) fn post_once(&mut self, path: &str, body: &Value, key: &str) -> std::io::Result<(u16, Value)> {
        self.post_with(path, body, &format!("Idempotency-Key: {key}\r\n"))
    }

    /// The same with headers, each with its line break.
    pub(crate) fn post_with(&mut self, path: &str, body: &Value, headers: &str) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/json\r\n");
        self.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    fn ask(&mut self, request: &str) -> std::io::Result<(u16, Value)> {
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length, mut line) = (0, BodyLength::Known(0), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or_default();
            } else if let Some(value) = lower.strip_prefix("content-length:") {
                length = BodyLength::Known(value.trim().parse().map_err(std::io::Error::other)?);
            } else if lower.starts_with("transfer-encoding: chunked") {
                length = BodyLength::Chunks;
            } else if line == "\r\n" {
                break;
            }
        }
        let body = match length {
            BodyLength::Known(length) => {
                let mut body = vec![0; length];
                self.0.read_exact(&mut body)?;
                body
            }
            BodyLength::Chunks => read_chunks(&mut self.0)?,
        };
        Ok((status, serde_json::from_slice(last_message(&body)).map_err(std::io::Error::other)?))
    }
}

/// How the length of a body is told.
enum BodyLength {
    Known(usize),
    Chunks,
}

/// A body in chunks, put together.
fn read_chunks(from: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
        let start = body.len();
        // Each chunk ends with a line break.
        body.resize(start + length + 2, 0);
        from.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}

/// The last message of a body: all of it, or the data of the last of its events.
fn last_message(body: &[u8]) -> &[u8] {
    let lines = body.split(|byte| *byte == b'\n');
    lines.rev().find_map(|line| line.strip_prefix(b"data: ")).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_events_in_chunks_ends_with_its_reply() {
        let events = "data: {\"method\":\"m\"}\n\n:\n\nevent: message\ndata: {\"id\":1}\n\n";
        let (head, tail) = events.split_at(17);
        let chunks = format!("{:x}\r\n{head}\r\n{:X}\r\n{tail}\r\n0\r\n\r\n", head.len(), tail.len());
        let body = read_chunks(&mut chunks.as_bytes()).expect("a body");
        assert_eq!((body.as_slice(), last_message(&body)), (events.as_bytes(), &b"{\"id\":1}"[..]));
        assert_eq!(last_message(b"{}"), b"{}");
        assert!(read_chunks(&mut &b"5\r\nab"[..]).is_err());
    }
}
