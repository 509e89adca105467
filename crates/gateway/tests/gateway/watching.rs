//! What clients hear of, over a pipe: changes of the lists that they see and of the resources that they watch.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::{RequestScope, ToolCall, ToolMode};
use toolgate_wire::{Access, CallerScope};

use crate::support::{TEST_TIMEOUT, World, call, fixture, scope};

const UPDATED: &str = "notifications/resources/updated";

/// A client at the other end of a pipe.
struct Client {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Client {
    async fn legacy(world: &World, scope: RequestScope) -> Self {
        let mut client = Self::open(world, scope);
        client.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} })).await;
        client
    }

    /// A modern one that listens for changes of these resources; and what it is told it will hear of.
    async fn modern(world: &World, scope: RequestScope, uris: &[&str]) -> (Self, Value) {
        let mut client = Self::open(world, scope);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        let wanted = json!({ "resourceSubscriptions": uris });
        client.send("subscriptions/listen", json!({ "_meta": meta, "notifications": wanted })).await;
        let accepted = client.receive().await["params"]["notifications"]["resourceSubscriptions"].take();
        (client, accepted)
    }

    fn open(world: &World, scope: RequestScope) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        tokio::spawn(toolgate_mcp::server::serve_stdio(
            Arc::new(world.agent.0.clone()),
            scope,
            reader,
            writer,
            CancellationToken::new(),
        ));
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    async fn send(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": "id", "method": method, "params": params });
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = timeout(TEST_TIMEOUT, self.lines.next_line()).await.expect("in time").unwrap().expect("a message");
        serde_json::from_str(&line).unwrap()
    }

    /// The answer; what is told meanwhile is passed over.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        loop {
            let message = self.receive().await;
            if message["id"] == "id" {
                return message;
            }
        }
    }

    async fn subscribe(&mut self, uri: &str) -> Value {
        self.ask("resources/subscribe", json!({ "uri": uri })).await
    }

    /// The next resource that it is told of.
    async fn updated(&mut self) -> String {
        loop {
            let message = self.receive().await;
            if message["method"] == UPDATED {
                return message["params"]["uri"].as_str().unwrap().to_owned();
            }
        }
    }

    /// Waits until it is told of this resource. Others may be told of once more than they changed.
    async fn hears_of(&mut self, uri: &str) {
        while self.updated().await != uri {}
    }

    /// The next two, sorted: what changes at once is told in any order.
    async fn two_updated(&mut self) -> [String; 2] {
        let mut uris = [self.updated().await, self.updated().await];
        uris.sort();
        uris
    }
}

async fn tool(world: &World, name: &str, arguments: Value) -> Value {
    let asked = ToolCall { scope: scope(ToolMode::Direct), ..call(name, arguments) };
    world.agent.call(asked).await.unwrap()
}

async fn touch(world: &World, backend: &str, uris: &[&str]) {
    tool(world, &format!("{backend}__touch"), json!({ "uris": uris })).await;
}

/// Waits until the backend is asked to tell of just these.
async fn watches(world: &World, backend: &str, expected: &[&str]) {
    let asked = async {
        while tool(world, &format!("{backend}__watches"), json!({})).await["structuredContent"]["uris"]
            != json!(expected)
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, asked).await.expect("in time");
}

/// A backend of each era.
fn servers() -> Value {
    json!({ "a": fixture(&["--offers", "ant"]), "b": fixture(&["--offers", "bee", "--era", "modern"]) })
}

#[tokio::test]
async fn what_is_not_there_is_not_watched() {
    let world = World::up(servers()).await;
    let mut client = Client::legacy(&world, scope(ToolMode::Direct)).await;
    let long = format!("ant://item/{}", "x".repeat(10_000));
    for (uri, message) in [
        ("cat://one", "there is no resource cat://one"),
        ("", "there is no resource "),
        ("toolgate://nope", "there is no resource toolgate://nope"),
        ("link://from-a-tool\n\u{1b}[2J", "there is no resource link://from-a-tool \u{fffd}[2J"),
        ("ant://item/refused", "not that one"),
    ] {
        let refused = client.subscribe(uri).await;
        assert_eq!(refused["error"]["message"], message, "{refused}");
        assert_eq!(refused["error"]["code"], -32002);
    }
    assert_eq!(client.subscribe(&long).await["error"]["code"], -32002);
    let refused = client.subscribe("bee://item/refused").await;
    assert_eq!(refused["error"]["message"], "the server does not report changes of this resource");
    for uri in ["ant://one", "ant://item/7", "bee://two", "toolgate://health"] {
        assert_eq!(client.subscribe(uri).await["result"], json!({}), "{uri}");
    }
    let mut coder = Client::legacy(&world, scope(ToolMode::Code)).await;
    assert_eq!(coder.subscribe("ant://one").await["error"]["code"], -32002);
    assert_eq!(coder.subscribe("toolgate://health").await["result"], json!({}));
    let wanted = ["ant://one", "cat://one", "ant://item/refused", "bee://item/refused", "toolgate://stats"];
    let (_client, accepted) = Client::modern(&world, scope(ToolMode::Direct), &wanted).await;
    assert_eq!(accepted, json!(["ant://one", "toolgate://stats"]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_backend_that_tells_of_nothing_is_not_watched() {
    let world = World::up(json!({ "a": fixture(&["--offers", "ant", "--untold"]) })).await;
    let mut client = Client::legacy(&world, scope(ToolMode::Direct)).await;
    let refused = client.subscribe("ant://one").await;
    assert_eq!(refused["error"]["message"], "a does not tell of changes of its resources");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn changes_reach_those_who_watch_until_they_leave() {
    let world = World::up(servers()).await;
    for (backend, scheme) in [("a", "ant"), ("b", "bee")] {
        let [one, two, item] = ["one", "two", "item/7"].map(|name| format!("{scheme}://{name}"));
        let mut legacy = Client::legacy(&world, scope(ToolMode::Direct)).await;
        legacy.subscribe(&one).await;
        legacy.subscribe(&item).await;
        let (mut modern, _) = Client::modern(&world, scope(ToolMode::Both), &[&one, &two]).await;
        watches(&world, backend, &[&item, &one, &two]).await;
        touch(&world, backend, &[&one, &two, &item]).await;
        assert_eq!(legacy.two_updated().await, [item.as_str(), &one]);
        assert_eq!(modern.two_updated().await, [one.as_str(), &two]);
        legacy.ask("resources/unsubscribe", json!({ "uri": item })).await;
        watches(&world, backend, &[&one, &two]).await;
        drop(modern);
        watches(&world, backend, &[&one]).await;
        drop(legacy);
        watches(&world, backend, &[]).await;
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_hears_only_of_backends_that_it_may_use() {
    let world = World::up(servers()).await;
    let only = |name: &str| RequestScope {
        mode: ToolMode::Direct,
        caller: CallerScope { backends: Access::only([name]), ..CallerScope::default() },
    };
    let (mut first, mut second) = (Client::legacy(&world, only("a")).await, Client::legacy(&world, only("b")).await);
    assert_eq!(second.subscribe("ant://one").await["error"]["code"], -32002);
    for client in [&mut first, &mut second] {
        assert_eq!(client.subscribe("shared://all").await["result"], json!({}));
    }
    second.subscribe("bee://one").await;
    touch(&world, "a", &["shared://all"]).await;
    assert_eq!(first.updated().await, "shared://all");
    touch(&world, "b", &["bee://one"]).await;
    assert_eq!(second.updated().await, "bee://one");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_hears_of_the_lists_that_its_view_shows() {
    let world = World::up(servers()).await;
    let mut coder = Client::legacy(&world, scope(ToolMode::Code)).await;
    let mut direct = Client::legacy(&world, scope(ToolMode::Direct)).await;
    tool(&world, "a__grow_resource", json!({ "name": "three" })).await;
    while direct.receive().await["method"] != "notifications/resources/list_changed" {}
    tool(&world, "a__grow", json!({ "name": "fresh" })).await;
    assert_eq!(coder.receive().await["method"], "notifications/tools/list_changed");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_is_watched_stays_watched_when_its_backend_comes_back() {
    let world = World::up(servers()).await;
    let mut client = Client::legacy(&world, scope(ToolMode::Direct)).await;
    for (backend, uri) in [("a", "ant://one"), ("b", "bee://one")] {
        client.subscribe(uri).await;
        tool(&world, &format!("{backend}__crash"), json!({})).await;
        // It may have changed while nobody could tell.
        client.hears_of(uri).await;
        watches(&world, backend, &[uri]).await;
        touch(&world, backend, &[uri]).await;
        client.hears_of(uri).await;
    }
    let changed = json!({ "a": fixture(&["--offers", "ant", "--tools", "1"]), "b": servers()["b"] });
    world.gateway.reload(world.config(changed, json!({}))).await;
    client.hears_of("ant://one").await;
    watches(&world, "a", &["ant://one"]).await;
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_flood_of_changes_is_a_few_and_those_that_nobody_asked_for_are_none() {
    let world = World::up(servers()).await;
    for (backend, scheme) in [("a", "ant"), ("b", "bee")] {
        let (watched, last) = (format!("{scheme}://one"), format!("{scheme}://two"));
        let mut client = Client::legacy(&world, scope(ToolMode::Direct)).await;
        client.subscribe(&watched).await;
        client.subscribe(&last).await;
        let uris = [&watched, "ant://unasked/{n}", "bee://unasked/{n}", "toolgate://health", ""];
        tool(&world, &format!("{backend}__touch"), json!({ "uris": uris, "times": 5_000 })).await;
        touch(&world, backend, &[&last]).await;
        let mut heard = 0;
        loop {
            let uri = client.updated().await;
            if uri == last {
                break;
            }
            assert_eq!(uri, watched);
            heard += 1;
        }
        assert!((1..500).contains(&heard), "{heard}");
    }
    world.gateway.shut_down().await;
}
