//! Tools, resources and prompts.

use serde_json::{Value, json};
use toolgate_mcp::server::{Completion, Fault, PromptCall, RequestScope, Service, ToolCall, ToolMode};
use toolgate_wire::{Access, CallerScope};

use crate::support::{World, call, first_text, fixture, object, resource};

async fn world() -> World {
    let settings = json!({
        "functions": { "repeat": { "tool": "f.echo", "description": "Says it again." } },
        "backends": { "f": { "tags": ["test"], "allow": ["echo", "say", "fail", "progress", "picture", "large", "order", "refuse"] } },
    });
    let mut server = fixture(&[]);
    server["env"] = json!({ "API_KEY": "very secret" });
    World::up_with(json!({ "f": server }), settings).await
}

/// The value without what differs from run to run.
fn masked(mut value: Value, varying: &[String]) -> Value {
    for pointer in varying {
        *value.pointer_mut(pointer).unwrap() = json!("[varies]");
    }
    value
}

#[tokio::test]
async fn the_list_of_tools_is_always_the_same() {
    let world = world().await;
    let tools = world.agent.tools(&RequestScope::default());
    assert_eq!(tools, world.agent.tools(&RequestScope::default()));
    insta::assert_json_snapshot!("tools", tools);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn search_info_list_and_keys_teach_how_to_call() {
    let world = world().await;
    let mut texts = Vec::new();
    for (tool, arguments) in [
        ("search_tools", json!({ "task_description": "echo", "limit": 1 })),
        ("search_tools", json!({ "task_description": "echo", "limit": 1, "brief": false, "tag": "test" })),
        ("search_tools", json!({ "task_description": "echo", "tag": "other" })),
        ("tool_info", json!({ "tool_name": "echo" })),
        ("tool_info", json!({ "tool_name": "f.echo", "detail": "full" })),
        ("tool_info", json!({ "tool_name": "f.ecoh" })),
        ("list_tools_meta", json!({ "page_size": 3 })),
        ("get_required_keys_for_tool", json!({ "tool_name": "f.echo" })),
    ] {
        texts.push(format!("== {tool} {arguments}\n{}", world.text(tool, arguments.clone()).await));
    }
    let all = texts.join("\n");
    assert!(!all.contains("very secret"));
    insta::assert_snapshot!("answers", all);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn pages_hold_every_tool_once() {
    let world = world().await;
    let mut names = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let text = world.text("list_tools_meta", json!({ "page_size": 3, "cursor": cursor })).await;
        let scope: Value = serde_json::from_str(&text).unwrap();
        names.extend(scope["tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap().to_owned()));
        cursor = scope["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let expected =
        ["echo", "fail", "large", "order", "picture", "progress", "refuse", "say"].map(|it| format!("f.{it}"));
    assert_eq!(names, expected);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_wrong_argument_is_a_result_that_names_it() {
    let world = world().await;
    for (tool, arguments, expected) in [
        ("call_tool_chain", json!({}), "code: is missing; it must be a string"),
        (
            "call_tool_chain",
            json!({ "code": "1", "timeout": 0 }),
            "timeout: must be a whole number from 1 to 600000, got 0",
        ),
        (
            "search_tools",
            json!({ "task_description": "x", "limit": 1000 }),
            "limit: must be a whole number from 1 to 100, got 1000",
        ),
        (
            "tool_info",
            json!({ "tool_name": "echo", "detail": "all" }),
            "detail: must be one of brief, full, got \"all\"",
        ),
        ("list_tools_meta", json!({ "cursor": "zzz" }), "cursor: is not one of ours; leave it out for the first page"),
        ("read_result", json!({ "result_id": "x" }), "result_id: "),
        ("read_result", json!({ "result_id": "x", "lines": "b-a" }), "lines: not a line range"),
    ] {
        let result = world.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}");
        assert!(first_text(&result).starts_with(expected), "{tool}: {}", first_text(&result));
    }
    let unknown = world.agent.call(call("nope", json!({}))).await;
    assert_eq!(unknown, Err(Fault::NotFound("there is no tool named nope".into())));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_chain_returns_its_value_its_console_and_its_report() {
    let world = world().await;
    let code = "console.log('looking'); console.error('hm');
                const [a, b] = await Promise.all([f.echo({ n: 1 }), f.echo({ n: 2 })]);
                return { sum: a.n + b.n }";
    let result = world.call("call_tool_chain", json!({ "code": code })).await;
    let report = "/_meta/toolgate~1report";
    let varying =
        ["/executionId", "/executionMs", "/usage", "/calls/0/ms", "/calls/1/ms"].map(|it| format!("{report}{it}"));
    insta::assert_json_snapshot!("chain", masked(result, &varying));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_failed_chain_explains_itself() {
    let world = world().await;
    let result = world
        .call("call_tool_chain", json!({ "code": "console.log('before');\nconst x = await f.fail({});\nreturn x" }))
        .await;
    assert_eq!(result["isError"], true);
    insta::assert_snapshot!("failure", first_text(&result));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn pictures_come_back_as_pictures() {
    let world = world().await;
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let one = world.call("call_tool_chain", json!({ "code": "return await f.picture({})" })).await;
    assert_eq!(one["content"], json!([image]));
    let code = "const all = await Promise.all([f.picture({}), f.picture({})]); return ['two', ...all]";
    let two = world.call("call_tool_chain", json!({ "code": code })).await;
    assert_eq!(two["content"], json!([{ "type": "text", "text": "two" }, image, image]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn every_call_and_what_it_says_is_reported_while_it_runs() {
    let world = world().await;
    let (sender, mut receiver) = tokio::sync::mpsc::channel(64);
    let asked = ToolCall {
        progress: Some(sender),
        ..call("call_tool_chain", json!({ "code": "await f.progress({}); return f.echo({})" }))
    };
    world.agent.call(asked).await.unwrap();
    let mut lines = Vec::new();
    let mut last = 0.0;
    while let Some(progress) = receiver.recv().await {
        assert!(progress.progress > last);
        last = progress.progress;
        let message = progress.message.unwrap();
        lines.push(message.split(" (").next().unwrap().to_owned());
    }
    lines.sort();
    let expected = [
        "1/3 step 1",
        "2/3 step 2",
        "3/3 step 3",
        "f.echo finished",
        "f.echo started",
        "f.progress finished",
        "f.progress started",
    ];
    assert_eq!(lines, expected);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_is_left_out_can_be_read_and_computed_on() {
    let world = world().await;
    let code = "return Array.from({ length: 3000 }, (_, n) => ({ id: n, name: 'row ' + n, open: n % 2 === 0 }))";
    let result = world.call("call_tool_chain", json!({ "code": code, "max_output_size": 2000 })).await;
    assert!(first_text(&result).len() <= 2000);
    let id = result["_meta"]["toolgate/report"]["output"]["result_id"].as_str().unwrap().to_owned();
    assert!(first_text(&result).contains(&id));
    let part = world.text("read_result", json!({ "result_id": id, "path": "[2999].name" })).await;
    assert_eq!(part, "row 2999");
    let found = world.text("read_result", json!({ "result_id": id, "search": "row 1234" })).await;
    assert!(found.contains("[1234].name"), "{found}");
    for (arguments, expected) in [
        (json!({ "result_id": id, "path": "nope" }), "path: no nope: the result has the items [0] to [2999]"),
        (json!({ "result_id": id, "path": "[0].id", "lines": "99999" }), "lines: no line 99999: there are 1 lines"),
        (json!({ "result_id": id, "path": "[0", "lines": "5" }), "path: not a key path"),
        (json!({ "result_id": "res_00112233445566778899aabbccddeeff", "path": "[0]" }), "result_id: no result res_"),
    ] {
        let refused = world.text("read_result", arguments).await;
        assert!(refused.starts_with(expected), "{refused}");
    }
    let backwards = |part: Value| world.text("read_result", part);
    let rows = backwards(json!({ "result_id": id, "path": "[2-1]" })).await;
    assert_eq!(rows, backwards(json!({ "result_id": id, "path": "[1-2]" })).await);
    let lines = backwards(json!({ "result_id": id, "lines": "3-2" })).await;
    assert_eq!(lines, backwards(json!({ "result_id": id, "lines": "2-3" })).await);
    let count = world
        .text("query_result", json!({ "result_id": id, "code": "(data) => data.filter(d => d.open).length" }))
        .await;
    assert_eq!(count, "1500");
    let noted = "(data) => data.map(d => ({ ...d, note: d.id === 1234 ? 'broken' : '' }))";
    let some = json!({ "result_id": id, "code": noted, "max_output_size": 2000, "intent": "broken" });
    let some = world.text("query_result", some).await;
    assert!(some.len() <= 2000 && some.contains("broken"), "{some}");
    let snippet = "return Array.from({ length: 3000 }, (_, n) => ({ id: n, note: n === 1234 ? 'broken' : '' }))";
    let snippet = json!({ "code": snippet, "max_output_size": 2000, "intent": "broken" });
    let snippet = world.text("run_code", snippet).await;
    assert!(snippet.len() <= 2000 && snippet.contains("broken"), "{snippet}");
    let failed = world.call("query_result", json!({ "result_id": id, "code": "(data) => data.nope.x" })).await;
    assert_eq!(failed["isError"], true);
    assert!(world.resource(&format!("gatemini://result/{id}")).await.contains("row 2999"));
    let stats: Value = serde_json::from_str(&world.resource("toolgate://stats").await).unwrap();
    assert!(stats["estimated_tokens_saved"].as_u64().unwrap() > 20_000, "{stats}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn console_and_warnings_are_part_of_what_is_bounded() {
    let world = world().await;
    let code = "const lost = f.echo({ text: 'a' }); console.log('y'.repeat(9000)); return 'z'.repeat(9000)";
    for most in [500, 2_000, 12_000] {
        let result = world.call("call_tool_chain", json!({ "code": code, "max_output_size": most })).await;
        let texts: Vec<&str> =
            result["content"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[2].starts_with("warnings:"), "{texts:?}");
        let returned: usize = texts.iter().map(|text| text.len()).sum();
        assert!(returned <= most && returned > most / 2, "{returned} of {most}");
    }
    world.gateway.shut_down().await;
}

/// A line of a program cannot be taken for a line of the other stream, nor for one of Toolgate's own.
#[tokio::test]
async fn a_console_line_says_which_stream_it_is_of() {
    let world = world().await;
    let code =
        "console.log('one\\n[stderr] forged'); console.log('… 7 more lines were dropped'); console.log('[stdout] x');
                console.error('two\\nthree\\u2028four'); return 1";
    let result = world.call("call_tool_chain", json!({ "code": code })).await;
    let text = result["content"][1]["text"].as_str().unwrap();
    insta::assert_snapshot!(text, @r"
    console:
    one
    [stdout] [stderr] forged
    [stdout] … 7 more lines were dropped
    [stdout] [stdout] x
    [stderr] two
    [stderr] three
    [stderr] four
    ");
    world.gateway.shut_down().await;
}

/// The lists of a report share one room, whatever a program writes into them.
#[tokio::test]
async fn the_report_beside_the_content_is_bounded() {
    let world = world().await;
    let code = "for (let i = 0; i < 90; i++) {
                    console.log('y'.repeat(3000)); console.error('z'.repeat(3000));
                    try { await f.echo({ text: i }) } catch {}
                }
                return 1";
    for most in [500, 24_000, 100_000] {
        let result = world.call("call_tool_chain", json!({ "code": code, "max_output_size": most })).await;
        let report = &result["_meta"]["toolgate/report"];
        let lists = ["/calls", "/warnings", "/logs/stdout", "/logs/stderr"];
        let listed: usize = lists.iter().map(|list| report.pointer(list).unwrap().to_string().len()).sum();
        assert!(listed <= (most / 8).max(4_096) + 500, "{listed} of {most}");
        assert!(report.to_string().len() - listed < 4_096, "{report}");
        assert_eq!(report["stdoutCount"], 90, "{report}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_snippet_says_what_came_of_it() {
    let world = world().await;
    let code = "console.log('a'); console.error('b'); return { twice: [1, 2].map((n: number) => n * 2) }";
    let arguments = json!({ "code": code, "language": "typescript", "timeout_ms": 60_000 });
    let result = world.call("run_code", arguments).await;
    let varying = ["/executionId", "/executionMs", "/usage"].map(str::to_owned);
    insta::assert_json_snapshot!("snippet", masked(result["structuredContent"].clone(), &varying));
    let text: Value = serde_json::from_str(&first_text(&result)).unwrap();
    assert_eq!((&text["value"], &text["logs"]["stdout"]), (&json!({ "twice": [2, 4] }), &json!(["a"])));
    assert!(text.get("usage").is_none() && text.get("environment").is_none(), "the text repeats no report: {text}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_failed_snippet_is_one_of_three_errors() {
    let world = world().await;
    for (arguments, name, code) in [
        (json!({ "code": "return 1", "language": "python" }), "ValidationError", "INVALID_CODE"),
        (json!({ "code": "return (" }), "ValidationError", "SYNTAX"),
        (json!({ "code": "throw new Error('no')" }), "VMError", "RUNTIME"),
        (json!({ "code": "for (;;) {}", "timeout_ms": 1 }), "TimeoutError", "TIMEOUT"),
        (json!({ "code": "return tools.f.echo({})" }), "VMError", "RUNTIME"),
    ] {
        let result = world.call("run_code", arguments.clone()).await;
        let report = &result["structuredContent"];
        assert_eq!((&report["errorName"], &report["code"]), (&json!(name), &json!(code)), "{arguments}: {report}");
        assert!(report["error"].is_string(), "{report}");
        assert_eq!(result["isError"], true);
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_tool_can_be_a_function_under_a_name_of_the_users() {
    let world = world().await;
    let snippet = world.call("run_code", json!({ "code": "return await repeat({ n: 5 })" })).await;
    assert_eq!(snippet["structuredContent"]["result"], json!({ "n": 5 }), "{snippet}");
    assert_eq!(world.chain("return await repeat({ n: 6 })").await, json!({ "n": 6 }));
    let scope = RequestScope {
        caller: CallerScope { backends: Access::only(["other"]), ..CallerScope::default() },
        ..RequestScope::default()
    };
    let confined = ToolCall { scope, ..call("run_code", json!({ "code": "return typeof repeat" })) };
    let confined = world.agent.call(confined).await.unwrap();
    assert_eq!(confined["structuredContent"]["result"], "undefined");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn who_may_not_use_a_backend_does_not_learn_of_it() {
    let world = world().await;
    let scope = RequestScope {
        caller: CallerScope { backends: Access::only(["other"]), ..CallerScope::default() },
        ..RequestScope::default()
    };
    for (tool, arguments) in [
        ("search_tools", json!({ "task_description": "echo" })),
        ("tool_info", json!({ "tool_name": "echo" })),
        ("tool_info", json!({ "tool_name": "f.ech" })),
        ("list_tools_meta", json!({})),
        ("call_tool_chain", json!({ "code": "return __interfaces" })),
    ] {
        let asked = ToolCall { scope: scope.clone(), ..call(tool, arguments) };
        let result = world.agent.call(asked).await.unwrap();
        assert!(!first_text(&result).contains("f.echo") && !first_text(&result).contains("say"), "{tool}: {result}");
    }
    for uri in ["toolgate://backends", "toolgate://tools", "toolgate://overview"] {
        let contents = world.agent.read(resource(uri, &scope)).await.unwrap();
        assert!(!contents[0]["text"].as_str().unwrap().contains("f.echo"), "{uri}");
        assert!(!contents[0]["text"].as_str().unwrap().contains("\"f\""), "{uri}");
    }
    for uri in ["toolgate://backend/f", "toolgate://tool/f.echo"] {
        assert!(world.agent.read(resource(uri, &scope)).await.is_err(), "{uri}");
    }
    for uri in ["toolgate://backend/{name}", "toolgate://tool/{name}"] {
        let reference = json!({ "type": "ref/resource", "uri": uri });
        let asked = Completion { reference, argument: "name".into(), scope: scope.clone(), ..Completion::default() };
        assert_eq!(world.agent.complete(asked).await.unwrap(), Vec::<String>::new(), "{uri}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn who_may_not_use_a_tool_does_not_learn_of_it() {
    let world = world().await;
    let caller = CallerScope { tools: Access::only(["f.say", "f.fail"]), ..CallerScope::default() };
    let scope = RequestScope { caller, ..RequestScope::default() };
    for (tool, arguments) in [
        ("search_tools", json!({ "task_description": "echo" })),
        ("tool_info", json!({ "tool_name": "echo" })),
        ("tool_info", json!({ "tool_name": "f.ech" })),
        ("get_required_keys_for_tool", json!({ "tool_name": "f.echo" })),
        ("list_tools_meta", json!({})),
        ("call_tool_chain", json!({ "code": "return [__interfaces, Object.keys(f), typeof repeat]" })),
    ] {
        let result = world.agent.call(ToolCall { scope: scope.clone(), ..call(tool, arguments) }).await.unwrap();
        let text = first_text(&result).replace("no tool named f.echo", "").replace("no tool named echo", "");
        assert!(!text.contains("echo"), "{tool}: {result}");
    }
    for uri in ["toolgate://backend/f", "toolgate://tools", "toolgate://overview"] {
        let contents = world.agent.read(resource(uri, &scope)).await.unwrap();
        assert!(!contents[0]["text"].as_str().unwrap().contains("f.echo"), "{uri}");
        assert!(!contents[0]["text"].as_str().unwrap().contains("\"echo\""), "{uri}");
    }
    assert!(world.agent.read(resource("toolgate://tool/f.echo", &scope)).await.is_err());
    let direct = RequestScope { mode: ToolMode::Direct, ..scope.clone() };
    let names = world.agent.tool_names(&direct);
    assert_eq!(names, ["f__fail", "f__say"]);
    let named = ToolCall { scope: direct, ..call("f__echo", json!({})) };
    assert!(matches!(world.agent.call(named).await, Err(Fault::NotFound(_))));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn every_listed_resource_can_be_read_under_both_schemes() {
    let world = world().await;
    world.chain("return await f.echo({ n: 1 })").await;
    for listed in world.agent.resources(&RequestScope::default()).await.unwrap() {
        let uri = listed["uri"].as_str().unwrap();
        let contents = world.agent.read(resource(uri, &RequestScope::default())).await.unwrap();
        assert_eq!(contents[0]["mimeType"], listed["mimeType"], "{uri}");
        let alias = uri.replace("toolgate://", "gatemini://");
        assert_eq!(world.agent.read(resource(&alias, &RequestScope::default())).await.unwrap()[0]["uri"], alias);
    }
    let backend: Value = serde_json::from_str(&world.resource("toolgate://backend/f").await).unwrap();
    assert_eq!((&backend["state"], &backend["server"]["name"]), (&json!("ready"), &json!("fixture")));
    let recent: Value = serde_json::from_str(&world.resource("toolgate://recent").await).unwrap();
    assert_eq!(recent["recent"][0]["calls"], json!([{ "name": "f.echo", "state": "applied" }]));
    for uri in ["toolgate://", "toolgate://nope", "toolgate://guide/nope", "file:///etc/passwd", "toolgate://tool/"] {
        assert!(
            matches!(world.agent.read(resource(uri, &RequestScope::default())).await, Err(Fault::NotFound(_))),
            "{uri}"
        );
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn prompts_and_completions_lead_the_way() {
    let world = world().await;
    for prompt in world.agent.prompts(&RequestScope::default()).await.unwrap() {
        let name = prompt["name"].as_str().unwrap().into();
        let call = PromptCall { name, arguments: object(json!({ "task": "count" })), ..PromptCall::default() };
        assert!(world.agent.prompt(call).await.unwrap()["messages"][0]["content"]["text"].is_string());
    }
    let missing = PromptCall { name: "find_tool".into(), ..PromptCall::default() };
    assert!(matches!(world.agent.prompt(missing).await, Err(Fault::InvalidParams(_))));
    let complete = async |uri: &str, argument: &str, typed: &str| {
        let reference = json!({ "type": "ref/resource", "uri": uri });
        let asked = Completion { reference, argument: argument.into(), typed: typed.into(), ..Completion::default() };
        world.agent.complete(asked).await.unwrap()
    };
    assert_eq!(complete("toolgate://backend/{name}", "name", "").await, ["f"]);
    assert_eq!(complete("toolgate://tool/{name}", "name", "f.p").await, ["f.picture", "f.progress"]);
    assert_eq!(complete("toolgate://guide/{topic}", "topic", "re").await, ["results"]);
    assert_eq!(complete("toolgate://result/{id}", "id", "").await, Vec::<String>::new());
    world.gateway.shut_down().await;
}
