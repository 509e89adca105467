//! Durable runs as tasks, for clients that have the extension.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::RequestScope;

use crate::support::{TEST_TIMEOUT, World, first_text, fixture};

/// A client of 2026-07-28 at the other end of a pipe.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    capabilities: Value,
}

impl Client {
    fn open(world: &World, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let (agent, shutdown) = (Arc::new(world.agent.0.clone()), CancellationToken::new());
        tokio::spawn(toolgate_mcp::server::serve_stdio(agent, RequestScope::default(), reader, writer, shutdown));
        let (reader, writer) = tokio::io::split(ours);
        Client { lines: BufReader::new(reader).lines(), writer, capabilities }
    }

    async fn send(&mut self, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await.expect("in time");
        serde_json::from_str(&line.unwrap().expect("a message")).unwrap()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        self.next().await
    }

    async fn chain(&mut self, code: &str) -> Value {
        let arguments = json!({ "code": code, "durable": true });
        self.ask("tools/call", json!({ "name": "call_tool_chain", "arguments": arguments })).await["result"].take()
    }

    /// The task once it has a status that is not this one.
    async fn task(&mut self, id: &Value, not: &str) -> Value {
        loop {
            let task = self.ask("tasks/get", json!({ "taskId": id })).await["result"].take();
            assert_eq!((&task["resultType"], &task["taskId"]), (&json!("complete"), id), "{task}");
            if task["status"] != not {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn extension() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

#[tokio::test]
async fn a_durable_run_that_takes_longer_is_a_task() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let mut client = Client::open(&world, extension());
    let found = client.ask("server/discover", json!({})).await;
    assert!(found["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{found}");

    // A busy machine may take longer than the moment after which a run is a task.
    let mut quick = client.chain("return 6 * 7").await;
    for _ in 0..20 {
        if quick["resultType"] == "complete" {
            break;
        }
        quick = client.chain("return 6 * 7").await;
    }
    assert_eq!((&quick["resultType"], first_text(&quick)), (&json!("complete"), "42".to_owned()), "{quick}");

    let slow = "console.log('here'); await sleep(5000); return { n: 12345678901234567890n.toString() }";
    let task = client.chain(slow).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert!(task["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')) && task["ttlMs"].is_u64(), "{task}");
    let ended = client.task(&task["taskId"], "working").await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert!(first_text(&ended["result"]).contains("12345678901234567890"), "{ended}");
    assert_eq!(ended["result"]["content"][1]["text"], "console:\nhere", "{ended}");

    let failing = client.chain("await sleep(5000); throw new Error('no')").await;
    let ended = client.task(&failing["taskId"], "working").await;
    assert_eq!((&ended["status"], &ended["result"]["isError"]), (&json!("completed"), &json!(true)), "{ended}");

    let endless = client.chain("await sleep(500000); return 1").await;
    let acknowledged = client.ask("tasks/cancel", json!({ "taskId": endless["taskId"] })).await;
    assert_eq!(acknowledged["result"], json!({ "resultType": "complete" }));
    let ended = client.task(&endless["taskId"], "working").await;
    assert_eq!(ended["status"], "cancelled", "{ended}");

    let none = client.ask("tasks/get", json!({ "taskId": "none" })).await;
    assert_eq!(none["error"]["code"], -32602, "{none}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_without_the_extension_gets_no_task() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let mut client = Client::open(&world, json!({}));
    let result = client.chain("await sleep(1200); return 1").await;
    assert_eq!((&result["resultType"], first_text(&result)), (&json!("complete"), "1".to_owned()), "{result}");
    let refused = client.ask("tasks/get", json!({ "taskId": "any" })).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_task_asks_a_person_by_forms() {
    let settings = json!({ "policy": [{ "tool": "f.echo", "do": "ask", "reason": "echoes are checked" }] });
    let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
    let mut capabilities = extension();
    capabilities["elicitation"] = json!({ "form": {} });
    let mut client = Client::open(&world, capabilities);
    let task = client.chain("await sleep(5000); return (await f.echo({ n: 1 })).n").await;
    assert_eq!(task["resultType"], "task", "{task}");
    let asking = client.task(&task["taskId"], "working").await;
    assert_eq!(asking["status"], "input_required", "{asking}");
    let requests = asking["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert!(request["params"]["message"].as_str().is_some_and(|it| it.contains("echoes are checked")), "{asking}");
    let filled = json!({ key: { "action": "accept", "content": { "decision": "approve", "arguments": "{\"n\":2}" } } });
    let update = json!({ "taskId": task["taskId"], "inputResponses": filled });
    assert_eq!(client.ask("tasks/update", update).await["result"], json!({ "resultType": "complete" }));
    let ended = loop {
        let ended = client.task(&task["taskId"], "working").await;
        if ended["status"] != "input_required" {
            break ended;
        }
    };
    assert_eq!((&ended["status"], first_text(&ended["result"])), (&json!("completed"), "2".to_owned()), "{ended}");
    let told = ended["result"]["content"][1]["text"].as_str().unwrap_or_default();
    assert!(told.starts_with("warnings:\n") && told.contains("a person changed the arguments of f.echo"), "{ended}");
    world.gateway.shut_down().await;
}

/// A client may ask for a task as soon as it has its id, so the id is sent after the run is stored.
#[tokio::test]
async fn a_task_is_told_of_when_its_run_is_kept() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let file = folder.path().join("runs.db");
    let world = World::at(folder, json!({}), json!({ "runs": { "store": file } }));
    let mut client = Client::open(&world, extension());
    client.chain("return 1").await;
    // Another process writes to the store, for longer than a run may take to be answered as if it were no task.
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); \
                  c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.readline(); c.execute('ROLLBACK')";
    let mut locker = Command::new("python3");
    let mut locker =
        locker.args(["-c", script]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(locker.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    let arguments = json!({ "code": "await sleep(500000); return 1", "durable": true });
    client.send("tools/call", json!({ "name": "call_tool_chain", "arguments": arguments })).await;
    let early = tokio::time::timeout(Duration::from_millis(1500), client.lines.next_line()).await;
    assert!(early.is_err(), "there is no run yet: {early:?}");
    locker.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let task = client.next().await["result"].take();
    assert_eq!(task["resultType"], "task", "{task}");
    let found = client.ask("tasks/get", json!({ "taskId": task["taskId"] })).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
    client.ask("tasks/cancel", json!({ "taskId": task["taskId"] })).await;
    locker.wait().unwrap();
    world.gateway.shut_down().await;
}
