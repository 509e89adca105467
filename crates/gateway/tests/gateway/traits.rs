//! What the configuration says that a tool does: policy, ledger, `query_tools` and clients all know it, and so does a run that goes
//! on after a crash.

use serde_json::{Value, json};
use toolgate_bridge::{Access, ScopedCatalog};

use crate::support::{World, fixture};

/// Settings that say this of the tools of the server `f`.
fn saying(tools: Value) -> Value {
    json!({ "backends": { "f": { "tools": tools } } })
}

/// The annotations that everything reads.
fn annotations(world: &World, tool: &str) -> Value {
    let catalog = world.gateway.catalog();
    let view = ScopedCatalog::new(&catalog, &Access::All, &Access::All);
    view.tool("f", tool).unwrap().tool().raw()["annotations"].clone()
}

/// Whether the ledger of a run says of its call that it only reads.
async fn reads_in_ledger(world: &World, code: &str) -> bool {
    let result = world.call("call_tool_chain", json!({ "code": code })).await;
    let calls = &result["_meta"]["toolgate/report"]["calls"];
    assert_eq!(calls.as_array().map(Vec::len), Some(1), "{result}");
    calls[0]["readOnly"].as_bool().unwrap_or_else(|| panic!("{calls}"))
}

#[tokio::test]
async fn what_the_configuration_says_of_a_tool_holds_everywhere() {
    let (servers, code) = (json!({ "f": fixture(&[]) }), "return await f.echo({ text: 'a' })");
    let said = saying(json!({ "e*": { "read_only": true }, "append": { "idempotent": true, "destructive": false } }));
    let world = World::up_with(servers.clone(), said).await;
    assert_eq!(annotations(&world, "append"), json!({ "destructiveHint": false, "idempotentHint": true }));
    assert!(reads_in_ledger(&world, code).await);
    let query = world.call("query_tools", json!({ "code": code })).await;
    assert_ne!(query["isError"], true, "{query}");
    let info = world.text("tool_info", json!({ "tool_name": "f.append", "detail": "full" })).await;
    assert!(info.contains("idempotentHint"), "clients see it: {info}");

    // Without a restart of the server, and back to what the server says.
    let pid = world.pid("f");
    world.gateway.reload(world.config(servers.clone(), saying(json!({ "echo": { "read_only": false } })))).await;
    assert!(!reads_in_ledger(&world, code).await);
    let query = world.text("query_tools", json!({ "code": code })).await;
    assert!(query.contains("not known to change nothing"), "{query}");
    world.gateway.reload(world.config(servers, json!({}))).await;
    assert_eq!((annotations(&world, "append"), world.pid("f")), (Value::Null, pid));
    world.gateway.shut_down().await;
}

/// The server says that it only reads, and its user knows better.
#[tokio::test]
async fn the_configuration_takes_precedence_over_the_server() {
    let servers = json!({ "f": fixture(&["--reads", "append"]) });
    let world = World::up_with(servers.clone(), json!({})).await;
    assert_eq!(annotations(&world, "append")["readOnlyHint"], true);
    world.gateway.reload(world.config(servers, saying(json!({ "append": { "read_only": false } })))).await;
    assert_eq!(annotations(&world, "append")["readOnlyHint"], false);
    let refused =
        world.text("query_tools", json!({ "code": "return await f.append({ file: '/dev/null', line: 'a' })" })).await;
    assert!(refused.contains("not known to change nothing"), "{refused}");
    world.gateway.shut_down().await;
}
