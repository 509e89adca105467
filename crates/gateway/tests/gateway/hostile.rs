//! Backends that mean harm or know no measure.

use serde_json::{Value, json};
use toolgate_mcp::server::{RequestScope, Service, ToolCall, ToolMode};

use crate::support::{World, call, fixture, scope};

#[tokio::test]
async fn hostile_names_and_descriptions_are_data_everywhere() {
    let world =
        World::up(json!({ "f": fixture(&["--hostile"]), "__proto__": fixture(&[]), "then": fixture(&[]) })).await;
    // Every tool can be called by its own name, and none of them calls another.
    let code = "const names = Object.keys(__interfaces.f); return names.length";
    assert!(world.chain(code).await.as_u64().unwrap() > 20);
    assert_eq!(world.chain("return await f['no schema']({ n: 1 })").await, json!({ "n": 1 }));
    assert_eq!(world.chain("return await tools['__proto__']['echo']({ n: 2 })").await, json!({ "n": 2 }));
    assert_eq!(world.chain("return await tools.then_.echo({ n: 3 })").await, json!({ "n": 3 }));
    let odd = json!({ "tool": "f.a\n\u{1b}[2J`${x}`", "arguments": { "n": 4 } });
    assert_eq!(world.chain(&odd.to_string()).await, json!({ "n": 4 }));
    // Whatever is said about them stays on one line and holds no control characters.
    for uri in ["toolgate://tools", "toolgate://overview"] {
        let text = world.resource(uri).await;
        assert!(!text.contains('\u{1b}') && !text.contains('\0'), "{uri}");
    }
    let types = toolgate_catalog::types::declaration(&world.gateway.catalog());
    assert!(!types.contains('\u{1b}'), "{types}");
    for tool in world.agent.tools(&scope(ToolMode::Direct)) {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        let name = tool["name"].as_str().unwrap();
        assert!(name.len() <= 64 && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it)), "{name}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn two_thousand_tools_are_all_there() {
    let world = World::up(json!({ "many": fixture(&["--tools", "2000"]) })).await;
    assert!(world.gateway.catalog().tool_count() >= 2000);
    assert_eq!(world.chain("return await many.tool_1999({ n: 1 })").await, json!({ "n": 1 }));
    let found = world.text("search_tools", json!({ "task_description": "tool_1234", "limit": 1 })).await;
    assert!(found.contains("many.tool_1234"), "{found}");
    let direct = world.agent.tools(&scope(ToolMode::Direct));
    let names: std::collections::HashSet<&str> = direct.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names.len(), world.gateway.catalog().tool_count());
    let asked = ToolCall { scope: scope(ToolMode::Direct), ..call("many__tool_7", json!({ "n": 7 })) };
    assert_eq!(world.agent.call(asked).await.unwrap()["structuredContent"], json!({ "n": 7 }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn arguments_of_any_shape_are_refused_and_never_panic() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let odd = [
        json!(null),
        json!([]),
        json!({}),
        json!(-1),
        json!(1e308),
        json!("\0\u{1b}"),
        json!("x".repeat(100_000)),
        json!([[]]),
    ];
    for tool in world.agent.tools(&RequestScope::default()) {
        let name = tool["name"].as_str().unwrap();
        let fields: Vec<String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().cloned().collect();
        for value in &odd {
            let arguments: Value = fields.iter().map(|field| (field.clone(), value.clone())).collect();
            let result = world.agent.call(call(name, arguments)).await.unwrap();
            assert!(result["content"][0]["text"].is_string(), "{name}");
        }
    }
    world.gateway.shut_down().await;
}
