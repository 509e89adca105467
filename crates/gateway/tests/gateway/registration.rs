//! Backends that an agent adds.

use serde_json::{Value, json};
use toolgate_mcp::server::{RequestScope, Service, ToolCall};
use toolgate_wire::{Access, CallerScope};

use crate::support::{World, call, first_text, fixture, members};

fn named(name: &str, server: &Value) -> Value {
    let mut arguments = server.clone();
    arguments["name"] = json!(name);
    arguments
}

async fn allowing() -> World {
    World::up_with(json!({ "my-search": fixture(&[]) }), json!({ "allow_runtime_registration": true })).await
}

#[tokio::test]
async fn without_leave_there_is_no_such_tool() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    assert!(world.agent.call(call("register_manual", named("x", &fixture(&[])))).await.is_err());
    let names = world.agent.tools(&RequestScope::default());
    assert!(names.iter().all(|tool| !tool["name"].as_str().unwrap().ends_with("register_manual")));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn an_added_backend_serves_until_it_is_removed() {
    let world = allowing().await;
    let answer: Value =
        serde_json::from_str(&world.text("register_manual", named("extra", &fixture(&[]))).await).unwrap();
    assert_eq!(answer["registered"], "extra");
    assert_eq!(world.chain("return await extra.echo({ n: 1 })").await, json!({ "n": 1 }));
    let group = world.pid("extra").unwrap();
    world.call("deregister_manual", json!({ "name": "extra" })).await;
    assert_eq!(members(group), Vec::<u32>::new());
    assert!(world.gateway.catalog().backend("extra").is_none());
    let again = world.call("deregister_manual", json!({ "name": "my-search" })).await;
    assert_eq!(again["isError"], true);
    assert_eq!(world.chain("return await my_search.echo({ n: 2 })").await, json!({ "n": 2 }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_nested_forms_mean_the_same() {
    let world = allowing().await;
    let server = |key: &str| json!({ key: { "transport": "stdio", "command": fixture(&[])["command"], "args": fixture(&[])["args"] } });
    for (name, template) in [
        ("flat", named("flat", &fixture(&[]))),
        ("typed", {
            let config = json!({ "mcpServers": server("inner") });
            json!({ "name": "typed", "call_template_type": "mcp", "config": config })
        }),
        ("keyed", json!({ "mcpServers": server("keyed") })),
    ] {
        let answer = world.text("register_manual", json!({ "manual_call_template": template })).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["registered"], name);
        assert_eq!(world.chain(&format!("return await {name}.echo({{ n: 1 }})")).await, json!({ "n": 1 }));
        world.call("deregister_manual", json!({ "manual_name": name })).await;
        assert!(world.gateway.catalog().backend(name).is_none());
    }
    for (template, expected) in [
        (json!([]), "manual_call_template: must be an object"),
        (json!({ "name": "x", "call_template_type": "http" }), "manual_call_template.call_template_type: must be mcp"),
        (json!({ "name": "x" }), "manual_call_template.command: is missing"),
        (json!({ "command": "a" }), "manual_call_template.name: is missing"),
        (json!({ "name": "x", "command": 5 }), "manual_call_template.command: must be a string, got 5"),
        (json!({ "name": "x", "comand": "a" }), "manual_call_template.comand: there is no such argument"),
        (
            json!({ "config": { "mcpServers": {} } }),
            "manual_call_template.config.mcpServers: must be an object with one",
        ),
    ] {
        let result = world.call("register_manual", json!({ "manual_call_template": template })).await;
        assert!(first_text(&result).starts_with(expected), "{template}: {result}");
    }
    let both = json!({ "name": "x", "manual_call_template": { "name": "y", "command": "a" } });
    assert!(first_text(&world.call("register_manual", both).await).starts_with("name: there is no such argument"));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_configured_backend_can_not_be_replaced_under_any_spelling() {
    let world = allowing().await;
    for name in ["my-search", "my_search", "my.search", "my search"] {
        let result = world.call("register_manual", named(name, &fixture(&[]))).await;
        assert!(first_text(&result).contains("is taken by the backend 'my-search'"), "{name}: {result}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_can_not_be_added_says_why_and_leaves_nothing() {
    let world = allowing().await;
    for (arguments, expected) in [
        (json!({ "name": "x" }), "command: is missing"),
        (json!({ "name": "x", "command": "a", "url": "http://b" }), "command, url: give one"),
        (json!({ "name": "x", "url": "ftp://b" }), "url: "),
        (json!({ "name": "x", "url": "http://127.0.0.1:9/mcp", "headers": { "a": "b\nc" } }), "headers: "),
        (json!({ "name": "x", "command": "toolgate", "args": ["serve"] }), "command: starts Toolgate inside of itself"),
        (json!({ "name": "x", "command": "toolgate", "args": ["approve", "r", "1"] }), "command: names Toolgate's own"),
        (
            json!({ "name": "x", "command": "sh", "args": ["-c", "toolgate approve r 1"] }),
            "command: names Toolgate's own",
        ),
        (json!({ "name": " ", "command": "a" }), "name: "),
        (json!({ "name": "x", "command": "/no/such/program" }), "'x' did not come up"),
    ] {
        let result = world.call("register_manual", arguments.clone()).await;
        assert!(first_text(&result).starts_with(expected), "{arguments}: {result}");
    }
    assert!(world.gateway.catalog().backend("x").is_none() && world.gateway.backend("x").is_none());
    let scope = RequestScope {
        caller: CallerScope { backends: Access::only(["my-search"]), ..CallerScope::default() },
        ..RequestScope::default()
    };
    let confined = ToolCall { scope, ..call("register_manual", named("x", &fixture(&[]))) };
    assert_eq!(world.agent.call(confined).await.unwrap()["isError"], true);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_file_takes_a_name_back() {
    let world = allowing().await;
    world.call("register_manual", named("extra", &fixture(&[]))).await;
    let group = world.pid("extra").unwrap();
    let servers = json!({ "my-search": fixture(&[]), "extra": fixture(&["--tools", "1"]) });
    world.gateway.reload(world.config(servers, json!({ "allow_runtime_registration": true }))).await;
    assert_eq!(members(group), Vec::<u32>::new());
    assert_eq!(world.chain("return await extra.tool_0({ n: 1 })").await, json!({ "n": 1 }));
    world.gateway.shut_down().await;
}
