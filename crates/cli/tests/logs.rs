//! The log of `toolgate serve --http`: one line for each run, and none of what programs say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value, json};

struct Server {
    child: Child,
    stderr: Option<BufReader<ChildStderr>>,
    /// What came before the address.
    early: Vec<String>,
    address: String,
    token: String,
    /// With the token; removed at the end.
    _state: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(options: &[&str]) -> Self {
        Self::over(&["--demo"], options)
    }

    fn over(servers: &[&str], options: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["serve", "--http", "127.0.0.1:0"])
            .args(servers)
            .args(options)
            .env("XDG_STATE_HOME", state.path())
            .env_remove("TOOLGATE_LOG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (mut line, mut early) = (String::new(), Vec::new());
        while !line.contains("listening at http://") {
            early.push(std::mem::take(&mut line));
            assert!(stderr.read_line(&mut line).expect("readable") > 0, "no address: {early:?}");
        }
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        let token = std::fs::read_to_string(state.path().join("toolgate/http-token")).expect("a token");
        let (address, token) = (address.to_owned(), token.trim().to_owned());
        Server { child, stderr: Some(stderr), early, address, token, _state: state }
    }

    fn run(&self, code: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let body = json!({ "code": code }).to_string();
        let head = format!("POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n", self.token);
        let rest =
            format!("Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{rest}{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }

    /// The next line with this text, and all before it.
    fn line_with(&mut self, text: &str) -> (String, String) {
        if let Some(at) = self.early.iter().position(|line| line.contains(text)) {
            return (self.early.remove(at), String::new());
        }
        let mut before = String::new();
        for line in self.stderr.as_mut().expect("open").lines() {
            let line = line.expect("readable");
            if line.contains(text) {
                return (line, before);
            }
            before.push_str(&line);
        }
        panic!("no line with {text}: {before}");
    }
}

#[test]
fn every_run_is_one_json_line_without_what_the_program_says() {
    let mut server = Server::start(&["--log-format", "json", "--log", "debug"]);
    let code = "console.log('hidden words'); await demo.list_issues({ limit: 1 }); throw new Error('hidden words')";
    let report = server.run(code);
    let (line, before) = server.line_with("\"toolgate::run\"");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    for (field, value) in [
        ("id", report["executionId"].clone()),
        ("level", json!("info")),
        ("message", json!("run")),
        ("door", json!("http")),
        ("caller", json!("local")),
        ("route", json!("script")),
        ("engine", json!("quickjs")),
        ("calls", json!(1)),
        ("outcome", json!("RUNTIME")),
    ] {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert!(line["ms"].is_f64() && line["time"].is_string(), "{line}");
    let (call, between) = server.line_with("\"toolgate::call\"");
    assert!(call.contains("demo.list_issues") && call.contains("applied"), "{call}");
    for text in [before, between, call, line.to_string()] {
        assert!(!text.contains("hidden words") && !text.contains(&server.token), "{text}");
    }
}

#[test]
fn without_options_every_run_is_one_line_of_text() {
    let mut server = Server::start(&[]);
    let report = server.run("return 1");
    let (line, before) = server.line_with("toolgate::run");
    assert!(line.contains(report["executionId"].as_str().expect("an id")) && line.contains("outcome=\"ok\""), "{line}");
    assert!(!before.contains("INFO"), "{before}");
}

#[test]
fn a_closed_standard_error_disturbs_no_run() {
    let mut server = Server::start(&["--log", "debug"]);
    drop(server.stderr.take());
    for number in 0..5 {
        assert_eq!(server.run(&format!("return {number}"))["value"], json!(number));
    }
}

#[test]
fn a_server_that_does_not_come_up_is_a_line_and_so_is_one_that_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("toolgate.json");
    let config = json!({
        "mcpServers": {
            "dead": { "command": "/no/such/program" },
            "unset": { "command": "x", "env": { "KEY": "${TOOLGATE_NOT_SET_ANYWHERE}" } },
            "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] },
        },
        "toolgate": { "cache": { "enabled": false } },
    });
    std::fs::write(&file, config.to_string()).expect("written");
    let file = file.to_str().expect("UTF-8");
    let mut server = Server::over(&["--config", file], &["--log-format", "json", "--log", "info"]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let (line, _) = server.line_with("\"toolgate::backend\"");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let known = (text("backend"), text("level"), text("message"));
        // A server may need a second try on a loaded machine.
        if text("message").contains("started again") || seen.contains(&known) {
            continue;
        }
        match text("backend").as_str() {
            "dead" => assert!(text("reason").contains("/no/such/program"), "{line}"),
            "unset" => assert!(text("reason").contains("TOOLGATE_NOT_SET_ANYWHERE"), "{line}"),
            _ => assert_eq!(text("server"), "toolgate-demo", "{line}"),
        }
        seen.push(known);
    }
    seen.sort();
    let expected = [("dead", "warn", "does not come up"), ("demo", "info", "ready"), ("unset", "warn", "not started")];
    let expected = expected.map(|(backend, level, text)| (backend.to_owned(), level.to_owned(), text.to_owned()));
    assert_eq!(seen, expected);
}
