//! The audit log and the log file of `serve`, as a person finds them afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};
use toolgate_audit::{AuditLog, AuditSettings};

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
struct Server {
    child: Child,
    address: String,
    /// What it writes to standard error, up to its end.
    lines: JoinHandle<Vec<String>>,
}

impl Server {
    fn start(state: &Path, config: &Path) -> Self {
        Self::serve(&mut toolgate(state, &["serve", "--config", config.to_str().expect("text")]))
    }

    fn serve(command: &mut Command) -> Self {
        let command = command.args(["--http", "127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut early = Vec::new();
        let address = loop {
            let line = stderr.next().unwrap_or_else(|| panic!("no address: {early:?}")).expect("a line");
            let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).map(str::to_owned);
            early.push(line);
            if let Some(address) = address {
                break address;
            }
        };
        // Read on, so that its log lines do not fill the pipe.
        let lines = std::thread::spawn(move || early.into_iter().chain(stderr.map_while(Result::ok)).collect());
        Server { child, address, lines }
    }

    fn run(&self, code: &str) -> Value {
        self.post("/v1/run", "alice-key", "", &json!({ "code": code }))
    }

    fn post(&self, path: &str, key: &str, more: &str, body: &Value) -> Value {
        serde_json::from_str(&self.ask("POST", path, key, more, &body.to_string())).expect("JSON")
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.ask("GET", path, "alice-key", "", "")).expect("JSON")
    }

    fn ask(&self, method: &str, path: &str, key: &str, more: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n{more}\
             Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        body.to_owned()
    }

    /// Calls a tool as an MCP client of 2026-07-28.
    fn call_tool(&self, path: &str, tool: &str, arguments: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = self.post(path, "alice-key", &headers, &call);
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        answer
    }

    /// Ends it as a user does, and waits. Returns what it wrote to standard error.
    fn end(mut self) -> Vec<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
        self.child.wait().expect("ended");
        self.lines.join().expect("read")
    }
}

fn write_config(folder: &Path, audit: Value) -> std::path::PathBuf {
    write_config_with(folder, audit, &json!([]))
}

fn write_config_with(folder: &Path, audit: Value, policy: &Value) -> std::path::PathBuf {
    let hash: String = ring::digest::digest(&ring::digest::SHA256, b"alice-key")
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let config = json!({
        "mcpServers": { "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } },
        "toolgate": { "audit": audit, "policy": policy, "functions": { "notes": { "tool": "demo.list_notes" } }, "http": { "keys": [{ "name": "alice", "hash": format!("sha256:{hash}") }] } },
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
    for (tool, arguments) in [("demo__create_note", note("c")), ("demo__list_notes", json!({}))] {
        server.call_tool("/mcp?mode=direct", tool, &arguments);
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

#[test]
fn calls_in_archives_are_shown_also_before_a_new_file_is_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log/audit.jsonl");
    let path = file.to_str().expect("text");
    let show = |more: &[&str]| output(folder.path(), &[&["audit", "show", path], more].concat());
    let none = show(&[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no audit log at"), "{none:?}");

    // Each record is larger than the file may be, so each makes it an archive.
    let log = AuditLog::open(AuditSettings { file: file.clone(), max_bytes: 1, keep: 20 }).expect("opened");
    for number in 1..=12 {
        let target = if number == 1 { "demo.create_note" } else { "demo.list_notes" };
        let record = json!({ "event": "call", "run": "r", "call": number, "target": target });
        log.record(record.as_object().cloned().unwrap_or_else(Map::new));
        while !log.flush() {}
    }
    drop(log);
    assert!(!file.exists() && folder.path().join("log/audit.jsonl.12").exists(), "the last record is in an archive");
    let calls = |more: &[&str]| -> Vec<Value> {
        let shown = show(&[&["--json"], more].concat());
        assert!(shown.status.success(), "{shown:?}");
        let lines = String::from_utf8(shown.stdout).expect("text");
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["call"].clone()).collect()
    };
    assert_eq!(json!(calls(&[])), json!([12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]));
    assert_eq!(json!(calls(&["-n", "3"])), json!([12, 11, 10]));
    assert_eq!(json!(calls(&["--tool", "create_note"])), json!([1]), "the oldest archive has it");
    let table = show(&["--tool", "create_note"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("demo.create_note"), "{table:?}");
    let other = show(&["--tool", "nothing"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("no such call"), "{other:?}");
    assert!(output(folder.path(), &["audit", "verify", path]).status.success());
}

/// Ends a server, starts it again, and waits until it has made the call of this run that waits for a person.
fn approve_after_restart(server: Server, folder: &Path, config: &Path, run: &str) -> Server {
    server.end();
    let server = Server::start(folder, config);
    let state = server.get(&format!("/v1/runs/{run}"));
    let decisions = json!({ "decisions": [{ "callId": state["pending"][0]["callId"], "decision": "approve" }] });
    server.post(&format!("/v1/runs/{run}/decisions"), "alice-key", "", &decisions);
    while server.get(&format!("/v1/runs/{run}?wait=20"))["status"] != "done" {}
    server
}

#[test]
fn a_durable_run_has_the_door_that_it_came_by_also_in_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let rules = json!([{ "tool": "demo.create_note", "do": "ask" }]);
    let config = write_config_with(folder.path(), json!({ "enabled": true, "file": file }), &rules);
    let mut server = Server::start(folder.path(), &config);
    let code = "return await demo.create_note({ name: 'a', text: 'b' })";
    let mut runs = Vec::new();
    for door in ["call_tool_chain", "http"] {
        match door {
            "http" => drop(server.post("/v1/runs", "alice-key", "", &json!({ "code": code }))),
            tool => drop(server.call_tool("/mcp", tool, &json!({ "code": code, "durable": true }))),
        }
        let run = loop {
            let pending = server.get("/v1/pending");
            if let Some(run) = pending["runs"][0]["runId"].as_str() {
                break run.to_owned();
            }
        };
        server = approve_after_restart(server, folder.path(), &config, &run);
        let listed = server.get(&format!("/v1/history?door={door}"));
        assert_eq!(listed["runs"][0]["executionId"], json!(run), "{listed}");
        let metrics = server.ask("GET", "/metrics", "alice-key", "", "");
        assert!(metrics.contains(&format!("toolgate_runs_total{{door=\"{door}\"")), "{metrics}");
        runs.push((door, run));
    }
    server.end();

    let logged = output(folder.path(), &["logs", "--json"]).stdout;
    let logged: Vec<Value> = String::from_utf8(logged)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|line: &Value| line["target"] == "toolgate::run")
        .collect();
    let audited = records(&file);
    for (door, run) in &runs {
        let of_run: Vec<&Value> = audited.iter().filter(|record| record["run"] == **run).collect();
        assert!(of_run.iter().all(|record| record["door"] == *door), "{of_run:?}");
        for event in ["call-begins", "call", "run"] {
            assert!(of_run.iter().any(|record| record["event"] == event), "{event}: {of_run:?}");
        }
        let ended = of_run.iter().filter(|record| record["event"] != "call-begins");
        assert!(ended.into_iter().all(|record| record["durable"] == true), "{of_run:?}");
        let line = logged.iter().find(|line| line["id"] == **run).expect("a log line");
        assert_eq!((&line["door"], &line["durable"]), (&json!(door), &json!(true)), "{line}");
    }
}

#[test]
fn with_json_every_line_of_serve_is_json_and_names_are_plain_strings() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["serve", "--demo", "--log", "debug", "--log-format", "json"];
    let server = Server::serve(&mut toolgate(folder.path(), &options));
    let token = std::fs::read_to_string(folder.path().join("toolgate/http-token")).expect("a token");
    let code = json!({ "code": "await demo.list_issues({ limit: 1 }); return 1" });
    let report = server.post("/v1/run", token.trim(), "", &code);
    assert_eq!(report["ok"], true, "{report}");
    let lines = server.end();
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let lines: Vec<Value> = lines.iter().map(read).collect();
    for said in ["listening at http://", "clients send the bearer token in "] {
        let begins = |line: &&Value| line["message"].as_str().is_some_and(|message| message.starts_with(said));
        let line = lines.iter().find(begins).unwrap_or_else(|| panic!("{said}: {lines:?}"));
        assert!(line["level"] == "info" && line["time"].is_string() && line["target"].is_string(), "{line}");
    }
    let call = lines.iter().find(|line| line["target"] == "toolgate::call").expect("a line for the call");
    assert_eq!(call["name"], "demo.list_issues");
}

#[test]
fn a_log_file_that_cannot_be_opened_is_told_once_and_no_folder_is_made_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = write_config(folder.path(), json!({}));
    let missing = folder.path().join("missing/toolgate.log");
    for file in ["/proc/x/y", missing.to_str().expect("text")] {
        let options = ["serve", "--config", config.to_str().expect("text")];
        let server = Server::serve(toolgate(folder.path(), &options).env("TOOLGATE_LOG_FILE", file));
        server.run("return 1");
        let told: Vec<String> = server.end().into_iter().filter(|line| line.contains("log file")).collect();
        assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains(file), "{told:?}");
    }
    assert!(!folder.path().join("missing").exists());
    let server = Server::start(folder.path(), &config);
    server.run("return 1");
    assert!(!server.end().iter().any(|line| line.contains("log file")));
    assert!(folder.path().join("toolgate/toolgate.log").exists(), "the usual folder is made");
}
