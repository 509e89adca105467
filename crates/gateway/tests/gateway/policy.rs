//! The policy of the configuration, at every way to a backend that a client has.

use serde_json::{Value, json};
use toolgate_mcp::server::{Fault, PromptCall, Service, ToolCall, ToolMode};

use crate::support::{World, call, fixture, object, resource, scope};

fn deny(tool: &str) -> Value {
    json!({ "policy": [{ "tool": tool, "do": "deny", "reason": "not here" }] })
}

async fn direct(world: &World, tool: &str, arguments: Value) -> Result<Value, Fault> {
    world.agent.call(ToolCall { scope: scope(ToolMode::Direct), ..call(tool, arguments) }).await
}

#[tokio::test]
async fn a_rule_holds_in_direct_mode_as_in_a_program() {
    let settings = json!({ "policy": [
        { "tool": "f.echo", "when": "args.n > 1", "do": "deny", "reason": "too many" },
        { "tool": "f.fail", "profiles": ["direct"], "do": "deny" },
    ] });
    let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
    let allowed = direct(&world, "f__echo", json!({ "n": 1 })).await.unwrap();
    assert_eq!(allowed["structuredContent"], json!({ "n": 1 }));
    let denied = direct(&world, "f__echo", json!({ "n": 2 })).await.unwrap();
    assert_eq!(denied["isError"], true);
    assert_eq!(denied["content"][0]["text"], "f.echo is denied by the policy: too many");
    let other = direct(&world, "f__fail", json!({})).await.unwrap();
    assert_eq!(other["content"][0]["text"], "f.fail is denied by the policy: policy[1] denies it");
    let text = world.chain("try { await f.echo({ n: 2 }) } catch (e) { return e.code + ' ' + e.message }").await;
    assert_eq!(text, "DENIED f.echo is denied by the policy: too many");
    let failed = world.chain("try { await f.fail({}) } catch (e) { return e.code }").await;
    assert_eq!(failed, "TOOL_FAILED", "the second rule is about direct calls");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_function_that_is_a_tool_is_decided_about_as_that_tool() {
    let functions = json!({ "repeat": { "tool": "f.echo" } });
    let policy =
        json!([{ "tool": "f.echo", "when": "args.n > 1 && caller == 'local' && profile == 'chain'", "do": "deny" }]);
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions, "policy": policy })).await;
    assert_eq!(world.chain("return await repeat({ n: 1 })").await, json!({ "n": 1 }));
    let denied = world.chain("try { await repeat({ n: 2 }) } catch (e) { return [e.code, e.message] }").await;
    assert_eq!(denied, json!(["DENIED", "f.echo is denied by the policy: policy[0] denies it"]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn resources_and_prompts_of_a_denied_backend_are_denied_too() {
    let servers = json!({ "a": fixture(&["--offers", "ant"]), "b": fixture(&["--offers", "bee"]) });
    let world = World::up_with(servers, deny("a.*")).await;
    let direct = scope(ToolMode::Direct);
    assert!(world.agent.read(resource("bee://one", &direct)).await.is_ok());
    let denied = world.agent.read(resource("ant://one", &direct)).await;
    assert_eq!(denied, Err(Fault::InvalidParams("a.resources/read is denied by the policy: not here".into())));
    let prompt = |name: &str| PromptCall {
        name: name.to_owned(),
        arguments: object(json!({})),
        scope: direct.clone(),
        caller: 1,
        interactive_client: None,
    };
    let names = world.agent.prompts(&direct).await.unwrap();
    let of = |backend: &str| {
        let names = names.iter().filter_map(|prompt| prompt["name"].as_str());
        names.into_iter().find(|name| name.starts_with(backend)).unwrap().to_owned()
    };
    assert!(world.agent.prompt(prompt(&of("b__"))).await.is_ok());
    let denied = world.agent.prompt(prompt(&of("a__"))).await;
    assert!(matches!(denied, Err(Fault::InvalidParams(message)) if message.contains("is denied by the policy")));
    world.gateway.shut_down().await;
}

/// An agent cannot get around a rule by adding the same server under another name.
#[tokio::test]
async fn a_backend_that_an_agent_adds_is_asked_about() {
    let mut settings = deny("f.*");
    settings["allow_runtime_registration"] = json!(true);
    let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
    let mut arguments = fixture(&[]);
    arguments["name"] = json!("g");
    world.call("register_manual", arguments).await;
    let code = "try { return await g.echo({ n: 1 }) } catch (e) { return [e.code, e.message.split(':')[0]] }";
    assert_eq!(world.chain(code).await, json!(["DENIED", "a person must approve g.echo"]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_saved_policy_holds_from_the_next_call_on() {
    let servers = json!({ "f": fixture(&[]) });
    let world = World::up(servers.clone()).await;
    let code = "try { return await f.echo({ n: 1 }) } catch (e) { return e.code }";
    assert_eq!(world.chain(code).await, json!({ "n": 1 }));
    let pid = world.pid("f");
    world.gateway.reload(world.config(servers.clone(), deny("f.echo"))).await;
    assert_eq!(world.chain(code).await, "DENIED");
    world.gateway.reload(world.config(servers, json!({}))).await;
    assert_eq!(world.chain(code).await, json!({ "n": 1 }));
    assert_eq!(world.pid("f"), pid, "the backend goes on meanwhile");
    world.gateway.shut_down().await;
}
