//! A Redis of its own for the gateway's sessions, which is killed and started again.
//!
//! It keeps nothing on disk, so that a killed one forgets every session.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::processes::Guard;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// A running Redis; killed when dropped.
pub(crate) struct Redis {
    child: Child,
    guard: Option<Guard>,
    port: u16,
}

impl Redis {
    /// `None` where there is no `redis-server` on the search path.
    pub(crate) fn start() -> anyhow::Result<Option<Self>> {
        let known = Command::new("redis-server").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !known.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr())?;
        Self::start_at(free.port()).map(Some)
    }

    fn start_at(port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("redis-server does not start")?;
        let mut redis = Self { guard: Guard::of(&child).ok(), child, port };
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = redis.child.try_wait()? {
                bail!("redis-server ended: {status}");
            }
            if since.elapsed() > START_TIMEOUT {
                bail!("redis-server does not answer");
            }
            std::thread::sleep(PROBE_INTERVAL);
        }
        Ok(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        drop(self.guard.take());
        let _ = self.child.wait();
    }

    /// One at the same address, after a kill.
    pub(crate) fn start_again(&mut self) -> anyhow::Result<()> {
        *self = Self::start_at(self.port)?;
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
