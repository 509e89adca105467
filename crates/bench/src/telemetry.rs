//! What logs, audit, traces and metrics cost: the same program through two gateways, one with all of them and one with none.
//!
//! Both run side by side, and each sample asks one right after the other, so that what else the machine does hits both.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use super::gateway::{Folder, Peer};
use super::meter::{Meter, Samples};

/// Twenty calls of a tool, one after another.
const PROGRAM: &str =
    "let last; for (let n = 1; n <= 20; n++) last = await demo.get_issue({ number: n }); return last.number";

/// A gateway with its folder, and with the collector that it sends to.
struct Measured {
    gateway: Peer,
    _folder: Folder,
}

impl Measured {
    fn start(name: &str, settings: &Value, log: &[&str]) -> anyhow::Result<Self> {
        let folder = Folder::new(name)?;
        let demo = json!({ "demo": { "command": std::env::current_exe()?, "args": ["demo"] } });
        let config = folder.config_with(&demo, settings)?;
        let gateway = Peer::start(&folder, &[&["serve", "--config", &config], log].concat())?;
        Ok(Measured { gateway, _folder: folder })
    }

    fn without() -> anyhow::Result<Self> {
        Self::start("quiet", &json!({}), &["--log", "error"])
    }

    fn with_everything() -> anyhow::Result<Self> {
        let telemetry = json!({ "endpoint": format!("http://{}", collector()?) });
        let audit = json!({ "enabled": true, "arguments": true });
        Self::start("telling", &json!({ "telemetry": telemetry, "audit": audit }), &["--log", "debug"])
    }

    fn run(&mut self) -> anyhow::Result<f64> {
        let call = json!({ "name": "call_tool_chain", "arguments": { "code": PROGRAM } });
        let (took, answer) = self.gateway.timed("tools/call", &call)?;
        anyhow::ensure!(answer["isError"] != Value::Bool(true), "the program failed: {answer}");
        Ok(took)
    }
}

/// The address of a collector that takes everything and keeps nothing, until this process ends.
fn collector() -> anyhow::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || take(stream));
        }
    });
    Ok(address)
}

/// Answers each request of a connection.
fn take(mut stream: TcpStream) -> Option<()> {
    let mut waiting = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = waiting.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            read_more(&mut stream, &mut waiting)?;
        };
        let head = String::from_utf8_lossy(&waiting[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        while waiting.len() < end + length.unwrap_or(0) {
            read_more(&mut stream, &mut waiting)?;
        }
        waiting.drain(..end + length.unwrap_or(0));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}").ok()?;
    }
}

fn read_more(stream: &mut TcpStream, into: &mut Vec<u8>) -> Option<()> {
    let mut part = [0; 16 << 10];
    let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
    into.extend_from_slice(&part[..read]);
    Some(())
}

/// The program without any of it.
pub(super) fn off(meter: &Meter) -> anyhow::Result<Samples> {
    let mut quiet = Measured::without()?;
    meter.sample_in_a_row(|| quiet.run())
}

/// The program with all of it.
pub(super) fn on(meter: &Meter) -> anyhow::Result<Samples> {
    let mut telling = Measured::with_everything()?;
    meter.sample_in_a_row(|| telling.run())
}

/// The time with all of it, in percent of the time without.
pub(super) fn cost(meter: &Meter) -> anyhow::Result<Samples> {
    let (mut quiet, mut telling) = (Measured::without()?, Measured::with_everything()?);
    let mut quiet_first = false;
    meter.sample_in_a_row(|| {
        quiet_first = !quiet_first;
        let (without, with) = if quiet_first {
            let without = quiet.run()?;
            (without, telling.run()?)
        } else {
            let with = telling.run()?;
            (quiet.run()?, with)
        };
        Ok(100.0 * with / without)
    })
}
