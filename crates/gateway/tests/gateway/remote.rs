//! Resources and prompts of servers reached by HTTP, passed through, in both eras.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_mcp::protocol::Era;
use toolgate_mcp::server::{Change, Completion, Fault, PromptCall, Service, ToolMode};

use crate::server::Server;
use crate::support::{TEST_TIMEOUT, World, fixture, object, resource, scope};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A gateway before an HTTP server, with another server beside it.
async fn world(era: Era) -> (Arc<Server>, World) {
    let server = Server::start(era).await;
    let world = World::up(json!({ "f": fixture(&["--offers", "ant"]), "web": { "url": server.url } })).await;
    (server, world)
}

async fn read(world: &World, uri: &str) -> Result<Value, Fault> {
    world.agent.read(resource(uri, &scope(ToolMode::Direct))).await.map(|contents| contents[0]["text"].clone())
}

async fn prompt(world: &World) -> Value {
    let (name, arguments) = ("web__greet".to_owned(), object(json!({ "whom": "you" })));
    let call = PromptCall { name, arguments, scope: scope(ToolMode::Direct), ..PromptCall::default() };
    world.agent.prompt(call).await.unwrap()["messages"][0]["content"]["text"].clone()
}

async fn complete(world: &World) -> Vec<String> {
    let reference = json!({ "type": "ref/resource", "uri": "web://item/{id}" });
    let (argument, typed, scope) = ("id".to_owned(), "ty".to_owned(), scope(ToolMode::Direct));
    world.agent.complete(Completion { reference, argument, typed, scope, ..Completion::default() }).await.unwrap()
}

#[tokio::test]
async fn what_an_http_server_has_is_listed_and_asked_of_it() {
    for era in ERAS {
        let (server, world) = world(era).await;
        let listed = world.agent.resources(&scope(ToolMode::Direct)).await.unwrap();
        let uris: Vec<_> = listed.iter().filter_map(|entry| entry["uri"].as_str()).collect();
        assert!(["ant://one", "web://one", "web://two"].iter().all(|uri| uris.contains(uri)), "{uris:?}");
        for uri in ["web://one", "web://item/größe"] {
            assert_eq!(read(&world, uri).await, Ok(json!("from the web")), "{era} {uri}");
        }
        assert!(matches!(read(&world, "net://one").await, Err(Fault::NotFound(_))));
        assert_eq!(prompt(&world).await, "greet you");
        assert_eq!(complete(&world).await, ["ty"]);
        let headers = server.last("prompts/get").unwrap().headers;
        let named = (era == Era::Modern).then_some("greet");
        assert_eq!(headers.get("mcp-name").map(String::as_str), named, "{era}");
        world.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn a_changed_list_of_an_http_server_is_passed_on() {
    for era in ERAS {
        let (server, world) = world(era).await;
        let mut changes = world.agent.changes();
        assert!(matches!(read(&world, "more://one").await, Err(Fault::NotFound(_))));
        server.grow("more://one");
        let told = async {
            while read(&world, "more://one").await.is_err() {
                while changes.recv().await.unwrap().change != Change::Resources {}
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, told).await.expect("in time");
        world.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn changes_of_a_watched_resource_of_an_http_server_are_passed_on() {
    for era in ERAS {
        let (server, world) = world(era).await;
        let mut changes = world.agent.changes();
        let _watch = world.agent.watch(resource("web://one", &scope(ToolMode::Direct))).await.unwrap();
        for uri in ["web://two", "ant://one", "web://one/part"] {
            server.tell("notifications/resources/updated", &json!({ "uri": uri }));
        }
        let told = async {
            loop {
                let news = changes.recv().await.unwrap();
                if let (Change::Resource(uri), Some(backend)) = (news.change, news.backend) {
                    return (backend, uri);
                }
            }
        };
        let told = tokio::time::timeout(TEST_TIMEOUT, told).await.expect("in time");
        assert_eq!(told, ("web".into(), "web://one".to_owned()), "{era}");
        world.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_session_is_asked_again() {
    let (server, world) = world(Era::Legacy).await;
    for _ in 0..2 {
        server.forget_sessions();
        assert_eq!(read(&world, "web://one").await, Ok(json!("from the web")));
        server.forget_sessions();
        assert_eq!(prompt(&world).await, "greet you");
        server.forget_sessions();
        assert_eq!(complete(&world).await, ["ty"]);
    }
    assert!(server.times("initialize") >= 7);
    world.gateway.shut_down().await;
}
