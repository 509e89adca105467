//! The audit log and the log file of `serve`, as a person finds them afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

fn toolgate(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.args(arguments).env("XDG_STATE_HOME", state).env("HOME", state).current_dir(state);
    command.env_remove("TOOLGATE_LOG").env_remove("TOOLGATE_LOG_FILE");
    command
}

fn output(state: &Path, arguments: &[&str]) -> Output {
    toolgate(state, arguments).output().expect("the binary starts")
}

/// A server that is ended at the end.
struct Server(Child, String);

impl Server {
    fn start(state: &Path, config: &Path) -> Self {
        let config = config.to_str().expect("text");
        let mut child = toolgate(state, &["serve", "--config", config, "--http", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("an address");
        // Read on, so that its log lines do not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        Server(child, address.to_owned())
    }

    fn run(&self, code: &str) -> Value {
        self.post("/v1/run", "alice-key", "", &json!({ "code": code }))
    }

    fn post(&self, path: &str, key: &str, more: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.1).expect("connected");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n{more}\
             Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }

    /// Ends it as a user does, and waits.
    fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
        self.0.wait().expect("ended");
    }
}

fn write_config(folder: &Path, audit: Value) -> std::path::PathBuf {
    let hash: String = ring::digest::digest(&ring::digest::SHA256, b"alice-key")
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let config = json!({
        "mcpServers": { "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } },
        "toolgate": { "audit": audit, "functions": { "notes": { "tool": "demo.list_notes" } }, "http": { "keys": [{ "name": "alice", "hash": format!("sha256:{hash}") }] } },
    });
    let file = folder.join("config.json");
    std::fs::write(&file, config.to_string()).expect("written");
    file
}

fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_call_is_in_the_audit_log_and_a_change_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log/audit.jsonl");
    let config = write_config(folder.path(), json!({ "enabled": true, "file": file, "arguments": true }));
    let server = Server::start(folder.path(), &config);
    let code = "const note = await demo.create_note({ name: 'a', text: 'b' }); await demo.list_issues({}); return note";
    let report = server.run(code);
    assert_eq!(report["ok"], true, "{report}");
    server.run("return await demo.create_note({ name: 1 })");
    server.end();

    let all = records(&file);
    let of = |event: &str| all.iter().filter(|record| record["event"] == event).collect::<Vec<_>>();
    let begun = of("call-begins");
    assert_eq!(begun[0]["target"], "demo.create_note");
    assert!(!begun.iter().any(|record| record["target"] == "demo.list_issues"), "a call that only reads has no effect");
    let calls = of("call");
    let first = calls[0];
    assert_eq!(
        (&first["who"], &first["run"], &first["call"], &first["target"], &first["outcome"]),
        (&json!("alice"), &report["executionId"], &json!(1), &json!("demo.create_note"), &json!("applied"))
    );
    assert_eq!(first["digest"], toolgate_audit::digest(r#"{"name":"a","text":"b"}"#));
    assert_eq!(first["digest"], begun[0]["digest"]);
    assert_eq!(first["arguments"], json!({ "name": "a", "text": "b" }));
    assert!(first["decision"].is_string() && first.get("rule").is_some() && first.get("reviewer").is_some(), "{first}");
    let runs = of("run");
    assert_eq!((runs.len(), &runs[0]["program"]), (2, &json!(toolgate_audit::digest(code))));

    let config = config.to_str().expect("text");
    let verified = output(folder.path(), &["audit", "verify", "--config", config, "--json"]);
    assert!(verified.status.success(), "{verified:?}");
    let verified: Value = serde_json::from_slice(&verified.stdout).expect("JSON");
    assert_eq!((&verified["ok"], &verified["lines"]), (&json!(true), &json!(all.len())));
    let head = verified["head"].as_str().expect("a hash").to_owned();
    let path = file.to_str().expect("text");
    assert!(output(folder.path(), &["audit", "verify", path, "--expect", &head]).status.success());

    let text = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text.replacen("\"alice\"", "\"mallory\"", 1)).expect("written");
    let broken = output(folder.path(), &["audit", "verify", path]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("was changed, added or removed"), "{broken:?}");
    let kept: Vec<&str> = text.lines().collect();
    std::fs::write(&file, kept[..kept.len() - 1].join("\n") + "\n").expect("written");
    assert!(output(folder.path(), &["audit", "verify", path]).status.success(), "the rest is a chain of its own");
    assert_eq!(output(folder.path(), &["audit", "verify", path, "--expect", &head]).status.code(), Some(1));
}

#[test]
fn calls_without_a_program_are_in_the_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let config = write_config(folder.path(), json!({ "enabled": true, "file": file }));
    let path = config.to_str().expect("text");
    let note = |name: &str| json!({ "name": name, "text": "b" });
    for arguments in [vec!["call", "demo.create_note", &note("a").to_string()], vec!["call", "demo.list_notes"]] {
        let called = output(folder.path(), &[&arguments[..], &["--config", path]].concat());
        assert!(called.status.success(), "{called:?}");
    }
    let learned = output(folder.path(), &["types", "learn", "demo", "--config", path]);
    assert!(learned.status.success(), "{learned:?}");
    let by_command = records(&file);
    let server = Server::start(folder.path(), &config);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (tool, arguments) in [("demo__create_note", note("c")), ("demo__list_notes", json!({}))] {
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = server.post("/mcp?mode=direct", "alice-key", &headers, &call);
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
    let session = server.post("/v1/sessions", "alice-key", "", &json!({ "functions": ["notes"] }));
    let url = session["url"].as_str().expect("a URL");
    let called = format!("{}/notes", &url[url.find("/rpc/").expect("a path")..]);
    server.post(&called, session["token"].as_str().expect("a token"), "", &json!({ "args": [] }));
    server.end();

    let shown = |records: &[Value], event: &str| -> Vec<String> {
        let of = records.iter().filter(|record| record["event"] == event);
        of.map(|record| {
            let read_only =
                record["readOnly"].as_bool().map_or("", |read_only| if read_only { " reads" } else { " writes" });
            let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}{read_only}", text("who"), text("door"), text("target"))
        })
        .collect()
    };
    assert_eq!(shown(&by_command, "call-begins"), ["local cli demo.create_note"]);
    let calls = shown(&by_command, "call");
    assert_eq!(calls[..2], ["local cli demo.create_note writes", "local cli demo.list_notes reads"]);
    assert!(calls.len() > 2 && calls[2..].iter().all(|call| call.ends_with(" reads")), "{calls:?}");
    let by_client = &records(&file)[by_command.len()..];
    assert_eq!(shown(by_client, "call-begins")[0], "alice direct demo.create_note");
    let calls = shown(by_client, "call");
    assert_eq!(calls[..2], ["alice direct demo.create_note writes", "alice direct demo.list_notes reads"]);
    assert!(calls[2].starts_with("alice rpc notes"), "{calls:?}");
    let begun = by_client.iter().find(|record| record["event"] == "call-begins").expect("begun");
    let call = by_client.iter().find(|record| record["event"] == "call").expect("a call");
    assert_eq!((&begun["digest"], &begun["run"]), (&call["digest"], &call["run"]));
}

#[test]
fn arguments_are_digests_unless_they_are_asked_for_and_a_log_that_cannot_be_written_is_told_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = write_config(folder.path(), json!({ "enabled": true }));
    let server = Server::start(folder.path(), &config);
    server.run("return await demo.create_note({ name: 'private matter', text: 'b' })");
    server.end();
    let text = std::fs::read_to_string(folder.path().join("toolgate/audit.jsonl")).expect("the usual place");
    assert!(text.contains("\"digest\":\"sha256:") && !text.contains("private matter"), "{text}");

    let config = write_config(folder.path(), json!({ "enabled": true, "file": "/proc/nowhere/audit.jsonl" }));
    let refused = output(folder.path(), &["list", "--config", config.to_str().expect("text")]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("the audit log cannot be written: /proc/nowhere/audit.jsonl: "), "{refused:?}");
}

#[test]
fn logs_shows_what_processes_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = output(folder.path(), &["logs"]);
    assert!(none.status.success() && String::from_utf8_lossy(&none.stderr).contains("no log lines"), "{none:?}");
    let config = write_config(folder.path(), json!({}));
    let server = Server::start(folder.path(), &config);
    let ids = ["return 1", "return (", "return 'secret value'"].map(|code| server.run(code)["executionId"].clone());
    server.end();
    let shown = |arguments: &[&str]| {
        let output = output(folder.path(), &[&["logs"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = shown(&[]);
    assert!(ids.iter().all(|id| text.contains(id.as_str().expect("an id"))), "{text}");
    assert!(text.contains("toolgate::run: run") && !text.contains("secret value"), "{text}");
    let last = shown(&["-n", "1", "--json"]);
    let last: Value = serde_json::from_str(last.trim()).expect("one line");
    assert_eq!((&last["id"], &last["level"]), (&ids[2], &json!("info")));
    assert_eq!(shown(&["--level", "warn"]), "");
    let off = toolgate(folder.path(), &["logs"]).env("TOOLGATE_LOG_FILE", "off").output().expect("it starts");
    assert_eq!(off.status.code(), Some(2));
}
