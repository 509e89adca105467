//! `sandbox.reuse: same_caller` from the configuration to the report: the next run of a key has the worker of the run before, and
//! the run of another key has not.

#[path = "../../engine/tests/support/rewinding.rs"]
mod rewinding;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rewinding::permits_rewinding;
use serde_json::{Value, json};

/// A running `toolgate serve --http` with the keys `ada-key` and `grace-key`.
struct Server {
    child: Child,
    at: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(sandbox: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = ["ada", "grace"].map(|name| json!({ "name": name, "hash": hash(&format!("{name}-key")) }));
        let settings = json!({ "sandbox": sandbox, "http": { "keys": keys }, "cache": { "enabled": false } });
        let file = folder.path().join("toolgate.json");
        std::fs::write(&file, json!({ "mcpServers": {}, "toolgate": settings }).to_string()).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&file)
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines.find_map(|line| line.ok()?.split("http://").nth(1)?.split(',').next().map(str::to_owned));
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, at: address.expect("an address"), _folder: folder }
    }

    /// The value of a program, and whether its process had run another one before.
    fn run(&self, key: &str, code: &str) -> (Value, bool) {
        let body = json!({ "code": code, "engine": "quickjs" }).to_string();
        let mut stream = TcpStream::connect(&self.at).expect("connected");
        let head = format!("POST /v1/run HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}-key\r\n", self.at);
        let length = body.len();
        let head =
            format!("{head}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let report = answer.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{answer}"));
        let report: Value = serde_json::from_str(report).expect("JSON");
        assert_eq!(report["ok"], true, "{report}");
        (report["value"].clone(), report["isolation"]["rewound"] == true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hash(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

const LEAVE: &str = "globalThis.left = 1; return 1";
const TYPE_OF_LEFT: &str = "return typeof left";

#[test]
fn a_worker_is_used_again_for_the_same_key_only() {
    if !permits_rewinding() {
        return;
    }
    let server = Server::start(&json!({ "reuse": "same_caller" }));
    assert_eq!(server.run("ada", LEAVE), (json!(1), false));
    assert_eq!(server.run("ada", TYPE_OF_LEFT), (json!("undefined"), true));
    assert_eq!(server.run("grace", TYPE_OF_LEFT), (json!("undefined"), false));
    assert_eq!(server.run("grace", TYPE_OF_LEFT), (json!("undefined"), true));
    assert_eq!(server.run("ada", TYPE_OF_LEFT), (json!("undefined"), true));
}

#[test]
fn without_the_setting_every_run_has_a_fresh_process() {
    let server = Server::start(&json!({}));
    for _ in 0..3 {
        assert_eq!(server.run("ada", TYPE_OF_LEFT), (json!("undefined"), false));
    }
}
