//! Servers whose tools are known start when something of them is needed.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_backends::BackendState;
use toolgate_mcp::server::{Service, ToolMode};

use crate::support::{TEST_TIMEOUT, World, fixture, scope};

fn servers() -> Value {
    json!({ "a": fixture(&[]), "b": fixture(&[]) })
}

/// A second gateway in the folder that a first one left its cache in.
async fn again(settings: Value) -> World {
    let first = World::up(servers()).await;
    assert!(first.pid("a").is_some() && first.pid("b").is_some(), "without a cache all start");
    let folder = Arc::clone(&first.folder);
    first.gateway.shut_down().await;
    World::at(folder, servers(), settings)
}

fn is_idle(world: &World, name: &str) -> bool {
    let backend = world.gateway.backend(name).expect("a backend");
    backend.state() == BackendState::Idle && backend.stats().pid.is_none()
}

#[tokio::test]
async fn only_the_server_that_is_called_is_started() {
    let world = again(json!({})).await;
    assert!(is_idle(&world, "a") && is_idle(&world, "b"));
    let found = world.text("search_tools", json!({ "task_description": "echo", "limit": 20 })).await;
    assert!(found.contains("a.echo") && found.contains("b.echo"), "{found}");
    let rows: Value = serde_json::from_str(&world.resource("toolgate://backends").await).expect("JSON");
    assert_eq!((&rows["backends"][0]["state"], &rows["backends"][0]["from_cache"]), (&json!("idle"), &json!(true)));
    let health: Value = serde_json::from_str(&world.resource("toolgate://health").await).expect("JSON");
    assert_eq!(health["status"], "ok");
    assert!(is_idle(&world, "a") && is_idle(&world, "b"), "asking about tools starts nothing");

    assert_eq!(world.chain("return (await a.echo({ n: 5 })).n").await, json!(5));
    assert!(world.gateway.backend("a").expect("a backend").state().is_ready());
    assert!(is_idle(&world, "b"));
    assert_eq!(world.chain("const r = await b.echo({ n: 6 }); return r.n + 1").await, json!(7));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_tool_that_the_cache_does_not_know_starts_the_server() {
    let world = again(json!({})).await;
    let failed = world.call("call_tool_chain", json!({ "code": "return await a.no_such_tool({})" })).await;
    assert_eq!(failed["isError"], true);
    assert!(world.gateway.backend("a").expect("a backend").state().is_ready(), "{failed}");
    assert!(is_idle(&world, "b"));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn eager_servers_start_at_once_and_a_restart_starts_an_idle_one() {
    let world = again(json!({ "backends": { "a": { "start": "eager" } } })).await;
    let backend = world.gateway.backend("a").expect("a backend");
    let up = async { backend.watch().wait_for(BackendState::is_ready).await.map(drop) };
    tokio::time::timeout(TEST_TIMEOUT, up).await.expect("it starts").expect("it lives");
    assert!(is_idle(&world, "b"));
    let idle = world.gateway.backend("b").expect("a backend");
    idle.restart();
    let up = async { idle.watch().wait_for(BackendState::is_ready).await.map(drop) };
    tokio::time::timeout(TEST_TIMEOUT, up).await.expect("it starts").expect("it lives");
    world.gateway.shut_down().await;

    let all = again(json!({ "start": "eager" })).await;
    for name in ["a", "b"] {
        assert_ne!(all.gateway.backend(name).expect("a backend").state(), BackendState::Idle);
    }
    all.gateway.shut_down().await;
}

#[tokio::test]
async fn a_saved_configuration_can_make_an_idle_server_eager() {
    let world = again(json!({})).await;
    let eager = world.config(servers(), json!({ "backends": { "b": { "start": "eager" } } }));
    world.gateway.reload(eager).await;
    let backend = world.gateway.backend("b").expect("a backend");
    let up = async { backend.watch().wait_for(BackendState::is_ready).await.map(drop) };
    tokio::time::timeout(TEST_TIMEOUT, up).await.expect("it starts").expect("it lives");
    assert!(is_idle(&world, "a"));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn in_direct_mode_the_list_of_prompts_starts_them_and_a_tool_starts_its_own() {
    let world = again(json!({})).await;
    let direct = scope(ToolMode::Direct);
    assert!(world.agent.tool_names(&direct).contains(&"a__echo".to_owned()));
    assert!(is_idle(&world, "a"));
    world.agent.prompts(&direct).await.expect("a list");
    for name in ["a", "b"] {
        assert!(world.gateway.backend(name).expect("a backend").state().is_ready(), "{name}");
    }
    world.gateway.shut_down().await;
}
