//! The policy of the configuration, at every way to a backend that a client has.

use serde_json::{Value, json};
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::{Fault, PromptCall, Service, ToolCall, ToolMode};

use crate::support::{World, call, first_text, fixture, object, resource, scope};

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

/// A call in direct mode by a client that shows forms, with these answers.
async fn direct_with_forms(world: &World, tool: &str, arguments: Value, answers: Value) -> Value {
    let client = InteractiveClient::new(&object(json!({ "elicitation": {} })), &object(answers));
    let call = ToolCall { scope: scope(ToolMode::Direct), interactive_client: Some(client), ..call(tool, arguments) };
    world.agent.call(call).await.unwrap()
}

/// What a client sends back whose person filled in the form so.
fn filled(asked: &Value, content: Value) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let responses = json!({ key: { "action": "accept", "content": content } });
    json!({ "requestState": asked["requestState"], "inputResponses": responses })
}

/// The call is not kept: a signed handle binds the person's answer to exactly this call.
#[tokio::test]
async fn a_rule_asks_in_direct_mode_by_the_forms_of_the_client() {
    let settings = json!({ "policy": [{ "tool": "f.echo", "do": "ask", "reason": "echoes are checked" }] });
    let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
    let echo = async |n: u32, answers: Value| direct_with_forms(&world, "f__echo", json!({ "n": n }), answers).await;
    let approve = json!({ "decision": "approve" });
    let asked = echo(1, json!({})).await;
    let message = asked["inputRequests"]["call_1"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("f.echo (echoes are checked)\narguments: {\"n\":1}"), "{message}");
    assert!(asked["requestState"].as_str().unwrap().len() < 200);
    let done = echo(1, filled(&asked, approve.clone())).await;
    assert_eq!(done["structuredContent"], json!({ "n": 1 }), "{done}");
    // The answer to one call does not answer another, and a handle that was not signed here answers no call.
    for (n, answers) in
        [(2, filled(&asked, approve.clone())), (1, json!({ "requestState": "AAAA", "inputResponses": {} }))]
    {
        assert_eq!(echo(n, answers).await["resultType"], "input_required");
    }
    let edited = echo(1, filled(&asked, json!({ "decision": "approve", "arguments": "{\"n\":10}" }))).await;
    assert_eq!(edited["structuredContent"], json!({ "n": 10 }), "{edited}");
    let denied = echo(1, filled(&asked, json!({ "decision": "deny", "reason": "not now" }))).await;
    assert_eq!(
        (&denied["isError"], &denied["content"][0]["text"]),
        (&json!(true), &json!("a person denied f.echo: not now"))
    );
    // An approval that is remembered answers the next call.
    let asked = echo(3, json!({})).await;
    let session = json!({ "decision": "approve", "remember": "session" });
    assert_eq!(echo(3, filled(&asked, session)).await["structuredContent"], json!({ "n": 3 }));
    assert_eq!(echo(4, json!({})).await["structuredContent"], json!({ "n": 4 }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_without_forms_is_told_what_to_do_in_direct_mode() {
    let policy = json!([{ "tool": "f.echo", "when": "args.n < 5", "do": "ask" }, { "tool": "f.echo", "do": "ask", "approvers": ["boss"] }]);
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "policy": policy })).await;
    let without = direct(&world, "f__echo", json!({ "n": 1 })).await.unwrap();
    // Nor is a person asked who may not decide.
    let other = direct_with_forms(&world, "f__echo", json!({ "n": 9 }), json!({})).await;
    for denied in [without, other] {
        let text = denied["content"][0]["text"].as_str().unwrap();
        assert!(denied["isError"] == true && text.contains("This call cannot wait for one"), "{denied}");
    }
    world.gateway.shut_down().await;
}

/// The person approves the call, and then answers the server: each once.
#[tokio::test]
async fn a_server_asks_after_the_approval_of_a_direct_call() {
    let settings = json!({ "policy": [{ "tool": "f.asks_back", "do": "ask" }] });
    let world = World::up_with(json!({ "f": fixture(&["--era", "modern"]) }), settings).await;
    let file = world.folder.path().join("said");
    let asks = async |answers: Value| direct_with_forms(&world, "f__asks_back", json!({ "file": file }), answers).await;
    let approval = asks(json!({})).await;
    let question = asks(filled(&approval, json!({ "decision": "approve" }))).await;
    assert_eq!(question["inputRequests"]["who"]["params"]["message"], "Who is meant?", "{question}");
    assert!(!file.exists(), "nothing is done before the answer");
    let done = asks(filled(&question, json!({ "name": "Ann" }))).await;
    assert_eq!(done["content"][0]["text"], "hello Ann", "{done}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Ann\n");
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
        ..PromptCall::default()
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

/// An agent cannot get around a rule by adding the same server under another name: not as a program, and what it has added before
/// there were rules is asked about, whatever the server says of its tools.
#[tokio::test]
async fn a_backend_that_an_agent_adds_is_asked_about() {
    let servers = json!({ "f": fixture(&[]) });
    let allowing = json!({ "allow_runtime_registration": true });
    let world = World::up_with(servers.clone(), allowing.clone()).await;
    let named = |name: &str| {
        let mut arguments = fixture(&["--reads", "echo"]);
        arguments["name"] = json!(name);
        arguments
    };
    world.call("register_manual", named("g")).await;
    let rules = |rules: Value| {
        let mut settings = allowing.clone();
        settings["policy"] = rules;
        world.config(servers.clone(), settings)
    };
    let code = "return await g.echo({ n: 1 })";
    let deny = json!({ "tool": "f.*", "do": "deny" });
    for more in [
        json!({ "tool": "f.none", "do": "deny" }),
        json!({ "tool": "*", "do": "allow" }),
        json!({ "tool": "*", "annotations": ["readOnly"], "do": "allow" }),
    ] {
        world.gateway.reload(rules(json!([deny, more]))).await;
        let waits = world.call("call_tool_chain", json!({ "code": code })).await;
        let pending = &waits["_meta"]["toolgate/report"]["paused"]["pending"][0];
        assert_eq!((&pending["backend"], &pending["tool"]), (&json!("g"), &json!("echo")), "{more}: {waits}");
    }
    let refused = world.call("register_manual", named("h")).await;
    assert!(refused["isError"] == true && first_text(&refused).contains("toolgate add h"), "{refused}");
    assert!(world.gateway.catalog().backend("h").is_none());
    // A rule that names the backend is the user's word.
    world.gateway.reload(rules(json!([deny, { "tool": "g.*", "do": "allow" }]))).await;
    assert_eq!(world.chain(code).await, json!({ "n": 1 }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_configured_server_is_not_added_under_another_name_where_there_are_rules() {
    let servers = json!({ "f": fixture(&[]), "bank": { "url": "http://127.0.0.1:9/mcp" } });
    let settings = json!({ "allow_runtime_registration": true, "policy": [{ "tool": "bank.pay", "do": "deny" }] });
    let world = World::with(servers, settings);
    let refused = world.call("register_manual", json!({ "name": "b2", "url": "http://127.0.0.1:9/mcp/?x=1" })).await;
    assert!(first_text(&refused).starts_with("url: is that of the backend 'bank'"), "{refused}");
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
