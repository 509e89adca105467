//! Clients of earlier revisions that show forms: a person is asked while the client's request is open.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::{RequestScope, ToolMode};

use crate::support::{TEST_TIMEOUT, World, first_text, fixture, scope};

/// A client of 2025-06-18 at the other end of a pipe.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Client {
    async fn open(world: &World, capabilities: Value) -> Self {
        Self::open_in(world, capabilities, RequestScope::default()).await
    }

    async fn open_in(world: &World, capabilities: Value, scope: RequestScope) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let (agent, shutdown) = (Arc::new(world.agent.0.clone()), CancellationToken::new());
        tokio::spawn(toolgate_mcp::server::serve_stdio(agent, scope, reader, writer, shutdown));
        let (reader, writer) = tokio::io::split(ours);
        let mut client = Client { lines: BufReader::new(reader).lines(), writer };
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": about });
        client.send(json!({ "id": 0, "method": "initialize", "params": hello })).await;
        assert_eq!(client.next().await["result"]["protocolVersion"], "2025-06-18");
        client.send(json!({ "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message that is no notification.
    async fn next(&mut self) -> Value {
        loop {
            let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await.expect("in time").unwrap();
            let message: Value = serde_json::from_str(&line.expect("a message")).unwrap();
            if !message["id"].is_null() {
                return message;
            }
        }
    }

    async fn begin(&mut self, arguments: Value) {
        let params = json!({ "name": "call_tool_chain", "arguments": arguments });
        self.send(json!({ "id": 1, "method": "tools/call", "params": params })).await;
    }

    /// Answers a question, and gives what comes next.
    async fn answer(&mut self, question: &Value, action: &str, content: Value) -> Value {
        assert_eq!(question["method"], "elicitation/create", "{question}");
        self.send(json!({ "id": question["id"], "result": { "action": action, "content": content } })).await;
        self.next().await
    }
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

async fn asking() -> World {
    let policy = json!([{ "tool": "f.echo", "do": "ask", "reason": "echoes are checked" }]);
    World::up_with(json!({ "f": fixture(&[]) }), json!({ "policy": policy })).await
}

#[tokio::test]
async fn a_person_is_asked_by_the_forms_of_the_client() {
    let world = asking().await;
    let mut client = Client::open(&world, forms()).await;
    let code = "const a = await f.echo({ n: 1 }); const b = await f.echo({ n: 2 }).catch(e => e.code); return [a.n, b]";
    client.begin(json!({ "code": code })).await;
    let question = client.next().await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("f.echo (echoes are checked)\narguments: {\"n\":1}"), "{message}");
    assert!(question["params"].get("mode").is_none(), "the revision has no such word: {question}");
    let edited = json!({ "decision": "approve", "arguments": "{\"n\":10}" });
    let question = client.answer(&question, "accept", edited).await;
    let done = client.answer(&question, "accept", json!({ "decision": "deny", "reason": "enough" })).await;
    let value: Value = serde_json::from_str(&first_text(&done["result"])).unwrap();
    assert_eq!((&done["id"], value), (&json!(1), json!([10, "DENIED"])), "{done}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn an_answer_that_no_person_gave_leaves_the_run_paused() {
    let world = asking().await;
    let mut client = Client::open(&world, forms()).await;
    client.begin(json!({ "code": "return (await f.echo({ n: 1 })).n" })).await;
    let question = client.next().await;
    let told = client.answer(&question, "cancel", Value::Null).await;
    assert!(first_text(&told["result"]).contains("is paused"), "{told}");
    // A person takes longer, and then a decline counts.
    client.begin(json!({ "code": "return (await f.echo({ n: 1 })).n" })).await;
    let question = client.next().await;
    tokio::time::sleep(Duration::from_millis(260)).await;
    let told = client.answer(&question, "decline", Value::Null).await;
    assert!(first_text(&told["result"]).contains("the person declined"), "{told}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn after_eight_rounds_the_client_is_told_that_the_run_is_paused() {
    let world = asking().await;
    let mut client = Client::open(&world, forms()).await;
    client.begin(json!({ "code": "for (let n = 0; n < 25; n++) await f.echo({ n }); return 1" })).await;
    let (mut message, mut rounds) = (client.next().await, 0);
    while message["method"] == "elicitation/create" {
        rounds += 1;
        message = client.answer(&message, "accept", json!({ "decision": "approve" })).await;
    }
    assert_eq!(rounds, 8);
    assert!(first_text(&message["result"]).contains("is paused"), "{message}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_person_is_asked_about_a_call_in_direct_mode() {
    let world = asking().await;
    let mut client = Client::open_in(&world, forms(), scope(ToolMode::Direct)).await;
    let call = json!({ "name": "f__echo", "arguments": { "n": 1 } });
    client.send(json!({ "id": 1, "method": "tools/call", "params": call })).await;
    let question = client.next().await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("f.echo (echoes are checked)\narguments: {\"n\":1}"), "{message}");
    let done = client.answer(&question, "accept", json!({ "decision": "approve" })).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "n": 1 }), "{done}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_without_forms_is_asked_nothing() {
    let world = asking().await;
    let mut client = Client::open(&world, json!({})).await;
    client.begin(json!({ "code": "return (await f.echo({ n: 1 })).n" })).await;
    let told = client.next().await;
    assert!(first_text(&told["result"]).contains("is paused"), "{told}");
    world.gateway.shut_down().await;
}

/// Both ends are of earlier revisions: the server asks inside its call, and the client shows the form.
#[tokio::test]
async fn the_question_of_a_server_reaches_the_client() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let mut client = Client::open(&world, forms()).await;
    let file = json!(world.folder.path().join("said").to_str().unwrap());
    client.begin(json!({ "code": format!("return await f.asks_back({{ file: {file} }})"), "durable": true })).await;
    let question = client.next().await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("f asks: Who is meant?"), "{question}");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["name"]), "{question}");
    let done = client.answer(&question, "accept", json!({ "name": "Cleo" })).await;
    assert_eq!(first_text(&done["result"]), "hello Cleo", "{done}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_that_opens_urls_is_sent_to_the_page() {
    let world = asking().await;
    world.gateway.runner().set_page("http://127.0.0.1:7878/".to_owned());
    let mut client = Client::open(&world, json!({ "elicitation": { "url": {} } })).await;
    client.begin(json!({ "code": "return (await f.echo({ n: 1 })).n" })).await;
    let question = client.next().await;
    let params = &question["params"];
    assert_eq!(
        (&params["mode"], &params["url"]),
        (&json!("url"), &json!("http://127.0.0.1:7878/#/pending")),
        "{question}"
    );
    let told = client.answer(&question, "decline", json!({})).await;
    assert!(first_text(&told["result"]).contains("is paused"), "declining to open it decides nothing: {told}");
    world.gateway.shut_down().await;
}
