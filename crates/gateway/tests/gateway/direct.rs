//! The backends' own tools, passed through.

use serde_json::{Value, json};
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::{Fault, RequestScope, Service, ToolCall, ToolMode};
use toolgate_wire::{Access, CallerScope};

use crate::support::{World, call, fixture, object, scope};

async fn direct(world: &World, tool: &str, arguments: Value) -> Result<Value, Fault> {
    world.agent.call(ToolCall { scope: scope(ToolMode::Direct), ..call(tool, arguments) }).await
}

#[tokio::test]
async fn results_come_as_the_backend_sent_them() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let echoed = direct(&world, "f__echo", json!({ "n": 1 })).await.unwrap();
    let expected =
        json!({ "content": [{ "type": "text", "text": "see structuredContent" }], "structuredContent": { "n": 1 } });
    assert_eq!(echoed, expected);
    let hologram = direct(&world, "f__hologram", json!({})).await.unwrap();
    assert_eq!(hologram["content"], json!([{ "type": "hologram", "beams": 3 }]));
    let failed = direct(&world, "f__fail", json!({})).await.unwrap();
    assert_eq!(failed, json!({ "content": [{ "type": "text", "text": "no such record" }], "isError": true }));
    let refused = direct(&world, "f__refuse", json!({})).await;
    let data = Some(json!({ "field": "x" }));
    assert_eq!(refused, Err(Fault::Rejected { code: -32602, message: "bad arguments".into(), data }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_view_lists_and_calls_only_its_own_tools() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let names = |view: ToolMode| -> Vec<String> {
        let tools = world.agent.tools(&scope(view));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (code, direct_names, both) = (names(ToolMode::Code), names(ToolMode::Direct), names(ToolMode::Both));
    assert!(code.iter().all(|name| !name.contains("__")) && direct_names.iter().all(|name| name.starts_with("f__")));
    assert_eq!(both, [code, direct_names].concat());
    assert!(direct(&world, "call_tool_chain", json!({ "code": "1" })).await.is_err());
    assert!(world.agent.call(call("f__echo", json!({}))).await.is_err());
    let confined = RequestScope {
        mode: ToolMode::Direct,
        caller: CallerScope { backends: Access::only([]), ..CallerScope::default() },
    };
    assert_eq!(world.agent.tools(&confined), Vec::<Value>::new());
    let asked = ToolCall { scope: confined, ..call("f__echo", json!({})) };
    assert!(world.agent.call(asked).await.is_err());
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn cancelling_reaches_the_backend() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let (sender, mut progress) = tokio::sync::mpsc::channel(4);
    let busy = ToolCall { scope: scope(ToolMode::Direct), progress: Some(sender), ..call("f__busy", json!({})) };
    let cancel = busy.cancel.clone();
    let ending = tokio::spawn(world.agent.call(busy));
    assert_eq!(progress.recv().await.unwrap().message.as_deref(), Some("begun"));
    cancel.cancel();
    assert_eq!(ending.await.unwrap().unwrap()["isError"], true);
    let heard = direct(&world, "f__was_cancelled", json!({})).await.unwrap();
    assert_eq!(heard["content"][0]["text"], "busy");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_prefix_comes_and_goes_with_the_configuration() {
    let servers = || json!({ "f": fixture(&[]) });
    let world = World::up_with(servers(), json!({ "backends": { "f": { "prefix": false } } })).await;
    let echoed = direct(&world, "echo", json!({ "n": 1 })).await.unwrap();
    assert_eq!(echoed["structuredContent"], json!({ "n": 1 }));
    assert!(direct(&world, "f__echo", json!({})).await.is_err());
    world.gateway.reload(world.config(servers(), json!({}))).await;
    assert!(direct(&world, "f__echo", json!({})).await.is_ok());
    assert!(direct(&world, "echo", json!({})).await.is_err());
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_failure_comes_with_all_that_it_came_with() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let failure = json!({ "content": [
        { "type": "text", "text": "{\"code\":7}" },
        { "type": "image", "data": "AA==", "mimeType": "image/png" },
    ], "isError": true });
    assert_eq!(direct(&world, "f__fail", failure.clone()).await, Ok(failure));
    let recent: Value = serde_json::from_str(&world.resource("toolgate://recent").await).unwrap();
    assert_eq!(recent["recent"][0]["calls"][0]["state"], "failed");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_question_reaches_only_a_client_that_may_be_asked() {
    let world = World::up(json!({ "f": fixture(&["--era", "modern"]) })).await;
    let declared = object(json!({ "elicitation": { "form": {} }, "tasks": {} }));
    let partner = || Some(InteractiveClient::new(&declared, &object(json!({ "requestState": "s", "other": 1 }))));
    let ask = async |tool: &str, partner: Option<InteractiveClient>| {
        let asked = ToolCall { scope: scope(ToolMode::Direct), interactive_client: partner, ..call(tool, json!({})) };
        world.agent.call(asked).await.unwrap()
    };
    let question = ask("f__input", partner()).await;
    assert_eq!(question["resultType"], "input_required");
    assert_eq!(question["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(ask("f__input", None).await["isError"], true);
    let meta = ask("f__meta", partner()).await["structuredContent"].clone();
    let told = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*told, json!({ "elicitation": { "form": {} } }), "what we can't serve is not declared");
    let meta = ask("f__meta", None).await["structuredContent"].clone();
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_first_list_waits_for_backends_that_are_on_their_way() {
    let world = World::with(json!({ "f": fixture(&[]) }), json!({}));
    assert_eq!(world.agent.tools(&scope(ToolMode::Direct)), Vec::<Value>::new());
    world.agent.prepared(&scope(ToolMode::Direct)).await.unwrap();
    assert!(!world.agent.tools(&scope(ToolMode::Direct)).is_empty());
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_first_call_waits_for_its_backend() {
    let world = World::with(json!({ "f": fixture(&[]) }), json!({}));
    assert!(direct(&world, "f__echo", json!({ "n": 1 })).await.is_ok());
    world.gateway.shut_down().await;
}
