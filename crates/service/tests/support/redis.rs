//! A real Redis for tests, started by the test that needs it.

use std::net::TcpListener;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A `redis-server` of this test alone.
pub(crate) struct Redis {
    process: Child,
    /// Where it listens.
    pub(crate) port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        // Between the choice of a free port and its use another test may take it.
        for _ in 0..10 {
            let free =
                TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
            if let Some(redis) = Self::start_at(free.port()).await {
                return redis;
            }
        }
        panic!("redis-server would not start on any of ten ports");
    }

    /// Starts, and waits for the line that says it is ready.
    pub(crate) async fn start_at(port: u16) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("redis-server must be installed (Debian package `redis-server`) and on the PATH");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains("Ready to accept connections") {
                // Its pipe is read on, or it would block on a full one.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Some(Self { process, port, _dir: dir });
            }
        }
        None
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it at once, and tells where it was.
    pub(crate) async fn kill(mut self) -> u16 {
        self.process.kill().await.expect("killed");
        self.port
    }
}
