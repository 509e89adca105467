//! The log of `toolgate serve --http`: one line for each run, and none of what programs say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value, json};

struct Server {
    child: Child,
    stderr: Option<BufReader<ChildStderr>>,
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
        let state = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["serve", "--demo", "--http", "127.0.0.1:0"])
            .args(options)
            .env("XDG_STATE_HOME", state.path())
            .env_remove("TOOLGATE_LOG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("an address");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        let token = std::fs::read_to_string(state.path().join("toolgate/http-token")).expect("a token");
        let (address, token) = (address.to_owned(), token.trim().to_owned());
        Server { child, stderr: Some(stderr), address, token, _state: state }
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
