//! The samples of docs/HTTP.md are answers of the service.
//!
//! In the document, `<!-- POST /v1/run -->` precedes the body of a request, and `<!-- answer -->` its answer; names behind
//! the word are the only fields that are shown. What differs from run to run or from machine to machine has a fixed value.
//! `UPDATE_DOCUMENTS=1 cargo test -p toolgate --test http_document` writes the answers anew.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};

/// The width above which a list or an object is laid out over several lines.
const WIDTH: usize = 110;

struct Server {
    child: Child,
    address: String,
    token: String,
    /// Configuration and token; removed at the end.
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let program = env!("CARGO_BIN_EXE_toolgate");
        let config = json!({
            "mcpServers": { "demo": { "command": program, "args": ["demo"] } },
            "toolgate": { "functions": { "quote": { "url": "http://127.0.0.1:9/" } }, "cache": { "enabled": false } },
        });
        let file = state.path().join("toolgate.json");
        std::fs::write(&file, config.to_string()).expect("written");
        let mut child = Command::new(program)
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&file)
            .env("XDG_STATE_HOME", state.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("an address");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        let token = std::fs::read_to_string(state.path().join("toolgate/http-token")).expect("a token");
        Server { child, address: address.to_owned(), token: token.trim().to_owned(), _folder: state }
    }

    fn ask(&self, method_and_path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let head = format!(
            "{method_and_path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

/// Fixed values for what is measured, random or different on another machine; `isolation` must have the same fields.
fn fixed(answer: &mut Value) {
    for (pointer, value) in [
        ("/executionMs", json!(17.4)),
        ("/calls/0/ms", json!(10.4)),
        ("/usage", json!({ "cpuMs": 0.6, "memoryBytes": 411_937, "queuedMs": 0.2 })),
        ("/executionId", json!("95943b8084dfadeae36bf0ca218fdf13")),
        ("/output/resultId", json!("res_b19845bfcbe6fe0ccd112a50b6074609")),
        ("/token", json!("717abceb8df9c3fe45a6b6c93f0099b5")),
        ("/expiresAt", json!(1_794_795_003_917_u64)),
        ("/url", json!("http://127.0.0.1:7878/rpc/95943b8084dfadeae36bf0ca218fdf13")),
    ] {
        if let Some(found) = answer.pointer_mut(pointer) {
            *found = value;
        }
    }
    let isolation = json!({
        "mode": "process", "seccomp": true, "landlock": 7, "noNewPrivs": true, "noExecMemory": true,
        "namespaces": ["net", "ipc", "uts"], "privateUser": true,
    });
    for (name, value) in answer.get_mut("isolation").and_then(Value::as_object_mut).into_iter().flatten() {
        *value = isolation.get(name).unwrap_or_else(|| panic!("a new field of isolation: {name}")).clone();
    }
    if let Some(text) = answer.pointer_mut("/output/text") {
        let start: String = text.as_str().unwrap_or_default().chars().take(70).collect();
        *text = json!(format!("{start}…"));
    }
}

/// JSON as a person would lay it out: on one line where it fits.
fn laid_out(value: &Value, indent: usize) -> String {
    let line = one_line(value);
    let inner = " ".repeat(indent + 2);
    let items: Vec<String> = match value {
        _ if line.len() + indent <= WIDTH => return line,
        Value::Array(items) => items.iter().map(|item| inner.clone() + &laid_out(item, indent + 2)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, it)| format!("{inner}{}: {}", json!(name), laid_out(it, indent + 2))).collect()
        }
        _ => return line,
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    format!("{open}\n{}\n{}{close}", items.join(",\n"), " ".repeat(indent))
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, it)| format!("{}: {}", json!(name), one_line(it))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Only the named fields, in the order of the answer; all without names.
fn shown(answer: Value, names: &[&str]) -> Value {
    match answer {
        Value::Object(fields) if !names.is_empty() => {
            fields.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect::<Map<_, _>>().into()
        }
        answer => answer,
    }
}

/// The content of an HTML comment that is a whole line.
fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

/// The document with fresh answers, and how many there are.
fn refreshed(document: &str, server: &Server) -> (String, usize) {
    let (mut fresh, mut count, mut answer) = (String::new(), 0, None);
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        fresh.push_str(line);
        fresh.push('\n');
        let Some(said) = comment(line) else { continue };
        let block = |lines: &mut std::str::Lines<'_>| -> String {
            assert_eq!(lines.next(), Some("```json"), "after {line}");
            lines.take_while(|line| *line != "```").collect::<Vec<_>>().join("\n")
        };
        let text = if let Some(names) = said.strip_prefix("answer") {
            block(&mut lines);
            count += 1;
            let names: Vec<_> = names.split_whitespace().collect();
            laid_out(&shown(answer.take().expect("a request before its answer"), &names), 0)
        } else {
            let request = block(&mut lines);
            let mut found = server.ask(said, &request);
            fixed(&mut found);
            answer = Some(found);
            request
        };
        fresh.push_str(&format!("```json\n{text}\n```\n"));
    }
    (fresh, count)
}

#[test]
fn the_samples_are_answers_of_the_service() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HTTP.md");
    let document = std::fs::read_to_string(&path).expect("the document");
    let (fresh, count) = refreshed(&document, &Server::start());
    assert!(count >= 5, "{count} samples");
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        std::fs::write(&path, &fresh).expect("written");
        return;
    }
    for (now, then) in fresh.lines().zip(document.lines()) {
        assert_eq!(now, then, "run it with UPDATE_DOCUMENTS=1");
    }
    assert_eq!(fresh.len(), document.len());
}
