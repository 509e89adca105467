//! Host functions are tools too: described, found and typed like those of backends.

use serde_json::{Value, json};
use toolgate_mcp::server::{RequestScope, Service, ToolCall, ToolMode};
use toolgate_wire::{Access, CallRate, CallerScope};

use crate::support::{TEST_TIMEOUT, World, call, first_text, fixture};

async fn world() -> World {
    let functions = json!({
        "api.stock": {
            "tool": "f.echo", "description": "Tells the stock of an article.", "read_only": true,
            "schema": { "type": "object", "required": ["article"], "properties": { "article": { "type": "string" } } },
            "returns": { "type": "object", "properties": { "article": { "type": "string" } } },
        },
        "plain": { "tool": "f.echo" },
    });
    World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions })).await
}

const SIGNATURE: &str = "api.stock(argument: { article: string }): Promise<{ article?: string }>";

#[tokio::test]
async fn an_agent_learns_of_host_functions_wherever_it_looks() {
    let world = world().await;
    let tools = world.agent.tools(&crate::support::scope(ToolMode::Code));
    let chain = tools.iter().find(|tool| tool["name"] == "call_tool_chain").unwrap();
    let described = chain["description"].as_str().unwrap();
    assert!(described.contains(&format!("  await {SIGNATURE} — Tells the stock of an article.")), "{described}");
    let found = world.text("search_tools", json!({ "task_description": "the stock of an article" })).await;
    assert!(found.starts_with(SIGNATURE), "{found}");
    let about: Value =
        serde_json::from_str(&world.text("tool_info", json!({ "tool_name": "api.stock", "detail": "full" })).await)
            .unwrap();
    assert_eq!((&about["function"], &about["signature"]), (&json!("api.stock"), &json!(SIGNATURE)));
    assert_eq!(about["input_schema"]["required"], json!(["article"]));
    for code in ["return __getToolInterface('api.stock')", "const n = 'api.stock'; return __getToolInterface(n)"] {
        let interface = world.chain(code).await;
        assert_eq!(interface["name"], "api.stock", "{code}: {interface}");
        assert_eq!(interface["input_schema"]["required"], json!(["article"]), "{code}");
    }
    // The first is answered without an interpreter.
    let all = world.chain("return __interfaces").await;
    assert_eq!(all, world.chain("const all = __interfaces; return all").await);
    assert_eq!(all.as_object().unwrap().keys().collect::<Vec<_>>(), ["f", "api", "plain"]);
    assert_eq!(all["api"]["stock"]["input_schema"]["required"], json!(["article"]));
    assert_eq!(world.chain("return __interfaces.plain.name").await, "plain");
    assert_eq!(world.chain("return Object.keys(__interfaces.api)").await, json!(["stock"]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_is_declared_of_a_function_holds() {
    let world = world().await;
    let result =
        world.call("call_tool_chain", json!({ "code": "const a = 'x'; return await api.stock({ article: a })" })).await;
    let report = &result["_meta"]["toolgate/report"];
    assert_eq!(report["safe_to_retry"], true, "{report}");
    assert_eq!(first_text(&result), r#"{"article":"x"}"#);
    let other =
        world.call("call_tool_chain", json!({ "code": "const a = 'x'; return await plain({ article: a })" })).await;
    assert_eq!(other["_meta"]["toolgate/report"]["safe_to_retry"], false, "{other}");
    world.gateway.shut_down().await;
}

/// Where a tool declares no result, a function that is the tool shows what was learned, as the tool does.
#[tokio::test]
async fn a_function_that_is_a_tool_shows_what_was_learned_of_the_tool() {
    let functions = json!({
        "again": { "tool": "f.echo" },
        "own": { "tool": "f.echo", "returns": { "type": "string" } },
    });
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions })).await;
    let signature = async |name: &str| -> String {
        let about = world.text("tool_info", json!({ "tool_name": name, "detail": "full" })).await;
        serde_json::from_str::<Value>(&about).unwrap()["signature"].as_str().unwrap().to_owned()
    };
    assert!(signature("again").await.ends_with("Promise<unknown>"), "nothing was learned yet");
    world.chain("for (let n = 0; n < 5; n++) await f.echo({ n }); return 1").await;
    let shown = tokio::time::timeout(TEST_TIMEOUT, async {
        loop {
            let shown = signature("again").await;
            if shown.contains("learned from its results") {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    });
    let shown = shown.await.unwrap();
    assert!(shown.ends_with("Promise<{ n: number } /* learned from its results */>"), "{shown}");
    assert!(signature("own").await.ends_with("Promise<string>"), "what the configuration says comes first");
    // It is shown, and no program is refused for it.
    assert_eq!(world.chain("const a = await again({ n: 1 }); return a.other ?? 'none'").await, "none");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_function_that_is_a_tool_has_the_types_of_the_tool() {
    let functions = json!({
        "typed": { "tool": "f.fresh" },
        "own": { "tool": "f.fresh", "description": "Mine.", "returns": { "type": "string" } },
    });
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions })).await;
    let about = async |name: &str| -> Value {
        serde_json::from_str(&world.text("tool_info", json!({ "tool_name": name, "detail": "full" })).await).unwrap()
    };
    let before = about("typed").await;
    assert_eq!(before["signature"], "typed(argument?: Record<string, unknown>): Promise<unknown>", "{before}");
    let mut news = world.gateway.bridge().catalog_handle().subscribe();
    let grown = json!({
        "name": "fresh", "description": "Takes a note.",
        "inputSchema": { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" }, "note": { "type": "string" } } },
        "outputSchema": {
            "type": "object", "required": ["id"],
            "properties": {
                "id": { "$ref": "#/$defs/n" },
                "definitions": { "$ref": "#/$defs/base", "properties": { "extra": { "type": "integer" } } },
            },
            "$defs": { "n": { "type": "integer" }, "base": { "type": "object", "properties": { "a": { "type": "string" } } } },
        },
    });
    world.chain(&format!("return await f.grow({grown})")).await;
    news.wait_for(|catalog| catalog.tools().any(|tool| tool.tool().name == "fresh")).await.unwrap();
    let typed = about("typed").await;
    let signature = "typed(argument: { id: number; note?: string }): \
                     Promise<{ id: number; definitions?: { extra?: number } & { a?: string } }>";
    assert_eq!((&typed["signature"], &typed["description"]), (&json!(signature), &json!("Takes a note.")), "{typed}");
    let own = about("own").await;
    let signature = "own(argument: { id: number; note?: string }): Promise<string>";
    assert_eq!((&own["signature"], &own["description"]), (&json!(signature), &json!("Mine.")), "{own}");
    // The bridge checks the arguments, as of the tool itself.
    let code = "const wrong = 'x'; try { await typed({ id: wrong }) } catch (e) { return e.code }";
    assert_eq!(world.chain(code).await, "INVALID_ARGUMENTS");
    world.gateway.shut_down().await;
}

/// The function reaches its tool for a caller that may use few others: an error must not list those.
#[tokio::test]
async fn a_function_whose_tool_is_gone_names_no_tool() {
    let functions = json!({ "gone": { "tool": "f.fresh" }, "near": { "tool": "f.ech" } });
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions })).await;
    let caller = CallerScope { tools: Access::only(["f.fresh", "f.ech"]), ..CallerScope::default() };
    let scope = RequestScope { caller, ..RequestScope::default() };
    for function in ["gone", "near"] {
        let code = format!("try {{ await {function}({{}}) }} catch (e) {{ return [e.message] }}");
        let asked = ToolCall { scope: scope.clone(), ..call("call_tool_chain", json!({ "code": code })) };
        let told: Value = serde_json::from_str(&first_text(&world.agent.call(asked).await.unwrap())).unwrap();
        let gone = "the backend no longer has the tool that this function calls: change `tool` of the function in the configuration";
        assert_eq!(told, json!([gone]), "{function}");
    }
    world.gateway.shut_down().await;
}

/// A call of such a function is a call of its caller in everything but the right to the tool.
#[tokio::test]
async fn a_function_that_is_a_tool_counts_in_the_rate_of_its_caller() {
    let world = world().await;
    let caller = CallerScope { name: "key".to_owned(), rate: CallRate::per_minute(1), ..CallerScope::default() };
    let scope = RequestScope { caller, ..RequestScope::default() };
    let code =
        "const one = await plain({ a: 1 }); try { return await plain({ a: 2 }) } catch (e) { return [one.a, e.code] }";
    let asked = ToolCall { scope, ..call("call_tool_chain", json!({ "code": code })) };
    let told: Value = serde_json::from_str(&first_text(&world.agent.call(asked).await.unwrap())).unwrap();
    assert_eq!(told, json!([1, "RATE_LIMITED"]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn functions_do_not_crowd_out_tools() {
    let functions: serde_json::Map<String, Value> = (0..12)
        .map(|n| (format!("echo{n}"), json!({ "tool": "f.echo", "description": "Gives an echo back." })))
        .collect();
    let world = World::up_with(json!({ "f": fixture(&[]) }), json!({ "functions": functions })).await;
    let found = async |task: &str, limit: u32| {
        world.text("search_tools", json!({ "task_description": task, "limit": limit })).await
    };
    // A tool whose name was asked for comes first.
    for task in ["echo", "f.echo", "call `echo`"] {
        assert!(found(task, 1).await.starts_with("f.echo("), "{task}: {}", found(task, 1).await);
    }
    let hits = found("give an echo back", 10).await;
    let functions = hits.lines().filter(|line| line.starts_with("echo")).count();
    assert!((1..=3).contains(&functions) && hits.contains("f.echo("), "{hits}");
    assert!(found("call echo7", 10).await.lines().any(|line| line.starts_with("echo7(")), "the one that is named");
    world.gateway.shut_down().await;
}
