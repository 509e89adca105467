//! The jailed compiler as a language server.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::frame::{FrameReader, encode};

/// `RLIMIT_DATA` of the process, in bytes. It holds 60 MB after a check, and at most 384 MB before its garbage collector
/// works harder.
const MEMORY: u64 = 1 << 30;
/// Memory in bytes that a process may keep between checks.
const MAX_RESIDENT: u64 = 420 << 20;

/// How to start a program in a jail: another start of a program of ours under a name that makes it the jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailCommand {
    /// The program of ours.
    pub program: PathBuf,
    /// The name that makes it a jail for a program that reads its own folder.
    pub name: &'static str,
    /// The layers to leave off, as the jail reads them.
    pub without: String,
}

/// A running language server. Dropping this value ends it.
pub(crate) struct LanguageServer {
    child: Child,
    stream: UnixStream,
    reader: FrameReader,
    requests: u64,
}

impl LanguageServer {
    /// Starts the compiler. The thread must live as long as the process: the jail ends with the thread that started it.
    pub(crate) fn start(jail: &JailCommand, compiler: &Path, deadline: Instant) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(&jail.program)
            .arg0(jail.name)
            .args([jail.without.as_str(), &MEMORY.to_string()])
            .arg(compiler)
            .args(["--lsp", "--stdio"])
            .env_clear()
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = LanguageServer { child, stream: ours, reader: FrameReader::default(), requests: 0 };
        let options = json!({
            "processId": null, "rootUri": null, "capabilities": {},
            "initializationOptions": { "disablePushDiagnostics": true },
        });
        server.request("initialize", options, deadline)?;
        server.notify("initialized", json!({}), deadline)?;
        Ok(server)
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value, deadline: Instant) -> io::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }), deadline)
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, method: &str, params: Value, deadline: Instant) -> io::Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }), deadline)?;
        loop {
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            let mut message = self.reader.next(&mut self.stream)?;
            if message.get("method").is_some() {
                self.answer(&message, deadline)?;
            } else if message["id"] == json!(id) {
                let answer = message.get_mut("result").map(Value::take);
                return answer.ok_or_else(|| io::Error::other("the language server refused a request"));
            }
        }
    }

    /// The server asks for settings, of which there are none, and announces what it watches.
    fn answer(&mut self, message: &Value, deadline: Instant) -> io::Result<()> {
        let Some(id) = message.get("id") else { return Ok(()) };
        let count = message["params"]["items"].as_array().map(Vec::len);
        let result = count.map_or(Value::Null, |count| json!(vec![Value::Null; count.min(100)]));
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }), deadline)
    }

    fn send(&mut self, message: &Value, deadline: Instant) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(&encode(message))
    }

    /// Whether it holds so much memory that the next check should have another process.
    pub(crate) fn is_worn(&self) -> bool {
        let statistics = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap_or_default();
        let pages = statistics.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        pages * 4096 > MAX_RESIDENT
    }

    /// Whether the process is gone.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for LanguageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time until a deadline, which a socket needs to be more than nothing.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
