//! `toolgate doctor --client` as a client meets it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

struct Server {
    child: Child,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Server {
    fn start(capabilities: Value) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        let command = command.args(["doctor", "--client"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut server = Server { child, input, lines };
        let about = json!({ "name": "tester", "version": "3" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": about });
        server.ask(json!({ "id": 0, "method": "initialize", "params": hello }));
        server
    }

    fn ask(&mut self, mut message: Value) -> Value {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.input, "{message}").expect("it reads");
        let line = self.lines.next().expect("an answer").expect("readable");
        serde_json::from_str(&line).expect("JSON")
    }

    fn check(&mut self) -> Value {
        self.ask(json!({ "id": 1, "method": "tools/call", "params": { "name": "check_client", "arguments": {} } }))
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn text(message: &Value) -> String {
    message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_client_is_told_what_it_did() {
    let mut server = Server::start(json!({ "elicitation": {} }));
    let question = server.check();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let told = server.ask(json!({ "id": question["id"], "result": { "action": "decline" } }));
    // A slow machine takes its time: how fast it was is told either way.
    assert!(text(&told).starts_with("tester 3, 2025-06-18.\n"), "{told}");
    assert!(text(&told).contains("declined"), "{told}");
    let question = server.check();
    let told =
        server.ask(json!({ "id": question["id"], "result": { "action": "accept", "content": { "seen": true } } }));
    assert!(text(&told).contains("It shows forms: this one was answered after"), "{told}");
    server.end();
    let mut server = Server::start(json!({}));
    assert!(text(&server.check()).contains("It declares no forms"));
    server.end();
}
