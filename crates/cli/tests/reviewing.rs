//! What people do about calls over HTTP: see the rules, ask why, decide, look at what was done; and every field of it in the
//! audit log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// An answer of the service.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }
}

/// A service with rules, keys and an audit log, ended with this.
struct Service {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(policy: Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config.json");
        let key = |name: &str, backends: Value| {
            let digest = toolgate_audit::digest(&format!("{name}-key"));
            json!({ "name": name, "hash": digest, "backends": backends })
        };
        let keys = json!([key("agent", Value::Null), key("carol", Value::Null), key("narrow", json!(["nothing"]))]);
        let keys: Vec<Value> = keys.as_array().expect("a list").iter().map(without_nulls).collect();
        let content = json!({
            "mcpServers": { "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } },
            "toolgate": { "audit": { "enabled": true }, "policy": policy, "http": { "keys": keys } },
        });
        std::fs::write(&config, content.to_string()).expect("written");
        let mut child = command(folder.path())
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&config)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("a line") > 0, "the service ended");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        Service { child, address: address.to_owned(), folder }
    }

    fn ask(&self, who: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {who}-key\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Begins a durable run and waits until it has this status.
    fn begin(&self, who: &str, code: &str, until: &str) -> Value {
        let begun = self.ask(who, "POST", "/v1/runs", Some(json!({ "code": code })));
        assert_eq!(begun.status, 202, "{}", begun.body);
        self.reach(who, begun.json()["runId"].as_str().expect("an id"), until)
    }

    fn reach(&self, who: &str, run: &str, until: &str) -> Value {
        loop {
            let state = self.ask(who, "GET", &format!("/v1/runs/{run}?wait=20"), None).json();
            if state["status"] == until && (until != "paused" || state["pending"].is_array()) {
                return state;
            }
            assert_ne!(state["status"], "done", "{state}");
        }
    }

    /// The calls of a run in the audit log, once its end is there.
    fn audited(&self, run: &str) -> Vec<Value> {
        loop {
            let text = std::fs::read_to_string(self.audit()).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let own: Vec<Value> = lines.filter(|line| line["run"] == run).collect();
            if own.iter().any(|line| line["event"] == "run") {
                return own.into_iter().filter(|line| line["event"] == "call").collect();
            }
            std::thread::yield_now();
        }
    }

    fn audit(&self) -> PathBuf {
        self.folder.path().join("toolgate/audit.jsonl")
    }
}

fn without_nulls(value: &Value) -> Value {
    let fields = value.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn command(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.env("XDG_STATE_HOME", state).env("HOME", state).current_dir(state);
    command.env_remove("TOOLGATE_LOG").env_remove("TOOLGATE_LOG_FILE");
    command
}

fn rules() -> Value {
    json!([
        { "tool": "demo.create_note", "do": "ask", "reason": "look at it", "approvers": ["carol"] },
        { "tool": "demo.delete_note", "do": "deny" },
        { "tool": "demo.*", "annotations": { "readOnly": true }, "do": "allow" },
    ])
}

#[test]
fn every_field_of_a_call_is_in_the_audit_log_also_after_pauses_and_of_calls_made_together() {
    let service = Service::start(rules());
    let code = "await demo.list_issues({ limit: 1 });\n\
                const made = await Promise.allSettled(['a', 'b'].map(name => demo.create_note({ name, text: 'x' })));\n\
                await demo.create_note({ name: 'c', text: 'x' });\n\
                return made.map(it => it.status)";
    let paused = service.begin("agent", code, "paused");
    assert_eq!(paused["code"], code, "the program is shown to the person who decides");
    let run = paused["runId"].as_str().expect("an id").to_owned();
    let call = |state: &Value, name: &str| {
        let calls = state["pending"].as_array().expect("a list");
        calls.iter().find(|call| call["arguments"]["name"] == name).expect("the call")["callId"].clone()
    };
    let (a, b) = (call(&paused, "a"), call(&paused, "b"));
    let path = format!("/v1/runs/{run}/decisions");
    let decide =
        |who: &str, decisions: Value| service.ask(who, "POST", &path, Some(json!({ "decisions": decisions }))).status;
    assert_eq!(decide("agent", json!([{ "callId": a, "decision": "approve" }])), 400, "not an approver");
    let waiting = service.ask("carol", "GET", "/v1/pending", None).json();
    assert_eq!((&waiting["runs"][0]["runId"], &waiting["runs"][0]["caller"]), (&json!(run), &json!("agent")));
    assert_eq!(service.ask("agent", "GET", "/v1/pending", None).json()["runs"], json!([]), "it may not decide");
    let edited = json!({ "name": "b", "text": "edited" });
    let decisions = json!([
        { "callId": a, "decision": "deny", "reason": "no" },
        { "callId": b, "decision": "edit", "arguments": edited },
    ]);
    assert_eq!(decide("carol", decisions), 200);
    let c = loop {
        let state = service.reach("agent", &run, "paused");
        if state["pending"][0]["arguments"]["name"] == "c" {
            break call(&state, "c");
        }
    };
    assert_eq!(decide("carol", json!([{ "callId": c, "decision": "approve" }])), 200);
    let report = service.reach("agent", &run, "done")["report"].clone();
    assert_eq!(report["value"], json!(["rejected", "fulfilled"]), "{report}");

    let calls = service.audited(&run);
    let shown: Vec<Value> = calls
        .iter()
        .map(|it| {
            json!([it["call"], it["target"], it["rule"], it["decision"], it["verdict"], it["reviewer"], it["outcome"]])
        })
        .collect();
    let note = "demo.create_note";
    assert_eq!(
        json!(shown),
        json!([
            [1, "demo.list_issues", "policy[2]", "allow", null, null, "applied"],
            [2, note, "policy[0]", "ask", "denied", "carol", "not_sent"],
            [3, note, "policy[0]", "ask", "edited", "carol", "applied"],
            [4, note, "policy[0]", "ask", "approved", "carol", "applied"],
        ])
    );
    let digest = |value: Value| json!(toolgate_audit::digest(&value.to_string()));
    let digests: Vec<&Value> = calls.iter().map(|it| &it["digest"]).collect();
    let of = |name: &str| digest(json!({ "name": name, "text": "x" }));
    assert_eq!(digests, [&digest(json!({ "limit": 1 })), &of("a"), &of("b"), &of("c")]);
    assert_eq!(calls[2]["sentDigest"], digest(edited));
    for it in &calls {
        assert_eq!((&it["who"], &it["run"], &it["door"]), (&json!("agent"), &json!(run), &json!("http")));
        assert_eq!(it["durable"], true, "{it}");
        assert!(it.get("client").is_some() && it.get("arguments").is_none(), "{it}");
    }
    assert_eq!(report["calls"][3]["decision"]["reviewer"], "carol", "the report has the same");
    let show = |args: &[&str]| {
        let shown = command(service.folder.path()).args(["audit", "show"]).arg(service.audit()).args(args).output();
        String::from_utf8(shown.expect("started").stdout).expect("text")
    };
    let lines = show(&["--run", &run, "--json"]);
    let last: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!((lines.lines().count(), &last["call"]), (4, &json!(4)), "the last one comes first");
    let table = show(&["--tool", "create_note", "-n", "2"]);
    assert!(table.contains("ask policy[0] approved") && table.contains("carol"), "{table}");
    assert_eq!(table.lines().count(), 3, "{table}");

    let replayed = service.ask("agent", "POST", &format!("/v1/runs/{run}/replay"), None).json();
    assert_eq!((&replayed["same"], &replayed["report"]["value"]), (&json!(true), &report["value"]), "{replayed}");
    assert_eq!(service.audited(&run).len(), 4, "a repetition calls nothing");
    let cassette = service.ask("agent", "GET", &format!("/v1/runs/{run}/cassette"), None);
    assert!(
        cassette.head.contains("application/x-ndjson") && cassette.head.contains("attachment"),
        "{}",
        cassette.head
    );
    let file = service.folder.path().join("run.jsonl");
    // The body is sent in chunks or whole; lines are JSON either way.
    let lines: Vec<&str> = cassette.body.lines().filter(|line| line.starts_with('{')).collect();
    std::fs::write(&file, lines.join("\n") + "\n").expect("written");
    let again = command(service.folder.path()).arg("replay").arg(&file).arg("--assert").output().expect("started");
    assert!(again.status.success(), "{again:?}");
    for path in [format!("/v1/runs/{run}/cassette"), format!("/v1/runs/{run}")] {
        assert_eq!(service.ask("narrow", "GET", &path, None).status, 404, "{path}");
    }
}

#[test]
fn rules_are_shown_and_explained_to_whom_they_are_about() {
    let service = Service::start(rules());
    // Its tools are known once a program has called one.
    service.ask("agent", "POST", "/v1/run", Some(json!({ "code": "return await demo.list_notes({})" })));
    let policy = service.ask("agent", "GET", "/v1/policy", None).json();
    let listed: Vec<Value> =
        policy["rules"].as_array().expect("a list").iter().map(|it| json!([it["rule"], it["do"]])).collect();
    assert_eq!(json!(listed), json!([["policy[1]", "deny"], ["policy[0]", "ask"], ["policy[2]", "allow"]]));
    assert_eq!((&policy["default"], &policy["remembered"]), (&json!("allow"), &json!([])));
    assert_eq!(service.ask("narrow", "GET", "/v1/policy", None).json()["rules"], json!([]));

    let explain = |who: &str, tool: &str| {
        let answer = service.ask(who, "POST", "/v1/policy/explain", Some(json!({ "tool": tool, "arguments": {} })));
        let it = answer.json();
        json!([it["known"], it["do"], it["rule"], it["reason"], it["rules"].as_array().map(Vec::len)])
    };
    assert_eq!(explain("agent", "demo.create_note"), json!([true, "ask", "policy[0]", "look at it", 2]));
    assert_eq!(explain("agent", "demo.delete_note"), json!([true, "deny", "policy[1]", "policy[1] denies it", 2]));
    assert_eq!(explain("agent", "demo.list_notes"), json!([true, "allow", "policy[2]", "policy[2] allows it", 1]));
    for tool in ["demo.create_note", "demo.delete_note", "demo.list_notes"] {
        assert_eq!(explain("narrow", tool), explain("narrow", "demo.no_such_tool"), "a tool of others is no tool");
    }
    assert_eq!(explain("narrow", "demo.create_note"), json!([false, "allow", null, "no rule is about it", 0]));
    let said = command(service.folder.path())
        .args(["policy", "explain", "demo.create_note({ name: 'n', text: 't' })", "--json", "--config"])
        .arg(service.folder.path().join("config.json"))
        .output()
        .expect("started");
    let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(
        (&said["do"], &said["rule"], &said["reason"]),
        (&json!("ask"), &json!("policy[0]"), &json!("look at it"))
    );

    let wrong = service.ask("agent", "POST", "/v1/policy/explain", Some(json!({ "tool": "" })));
    assert_eq!((wrong.status, &wrong.json()["error"]["pointer"]), (400, &json!("/tool")));
    assert_eq!(service.ask("agent", "DELETE", "/v1/policy/remembered/none", None).status, 404);
}

#[test]
fn an_approval_that_is_remembered_is_seen_and_taken_back_by_its_caller() {
    let service = Service::start(json!([{ "tool": "demo.create_note", "do": "ask" }]));
    let code = "return (await demo.create_note({ name: 'n', text: 'x' })).name";
    let paused = service.begin("agent", code, "paused");
    let (run, call) = (paused["runId"].as_str().expect("an id"), &paused["pending"][0]["callId"]);
    let decision = json!({ "decisions": [{ "callId": call, "decision": "approve", "remember": "always" }] });
    assert_eq!(service.ask("agent", "POST", &format!("/v1/runs/{run}/decisions"), Some(decision)).status, 200);
    assert_eq!(service.reach("agent", run, "done")["report"]["calls"][0]["decision"]["verdict"], "approved");
    let again = service.begin("agent", code, "done");
    assert_eq!(again["report"]["calls"][0]["decision"]["verdict"], "remembered", "{again}");
    assert_eq!(service.ask("carol", "GET", "/v1/policy", None).json()["remembered"], json!([]));
    let kept = service.ask("agent", "GET", "/v1/policy", None).json()["remembered"].clone();
    assert_eq!((&kept[0]["tool"], &kept[0]["forGood"]), (&json!("demo.create_note"), &json!(true)), "{kept}");
    let path = format!("/v1/policy/remembered/{}", kept[0]["id"].as_str().expect("an id"));
    assert_eq!(service.ask("carol", "DELETE", &path, None).status, 404, "it is not hers");
    assert_eq!(service.ask("agent", "DELETE", &path, None).status, 204);
    service.begin("agent", code, "paused");
}
