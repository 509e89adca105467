//! What agents are offered beside the servers' tools: instructions, switches, reading chains, data sources, bounds.

use serde_json::{Value, json};
use toolgate_mcp::server::{RequestScope, ResourceCall, Service, ToolCall};
use toolgate_wire::{Access, CallerScope};

use crate::support::{TEST_TIMEOUT, World, call, first_text, fixture};

fn names(world: &World, scope: &RequestScope) -> Vec<String> {
    world.agent.tool_names(scope)
}

fn has(world: &World, tool: &str) -> bool {
    names(world, &RequestScope::default()).iter().any(|name| name == tool)
}

#[tokio::test]
async fn instructions_name_the_backends_with_a_phrase_each() {
    let mut described = fixture(&[]);
    described["description"] = json!("Echoes, pictures and failures.");
    let world = World::up_with(
        json!({ "plain": fixture(&[]), "told": described }),
        json!({ "backends": { "plain": { "allow": ["echo", "say"] } } }),
    )
    .await;
    let text = world.agent.instructions(&RequestScope::default());
    assert!(text.contains("\n- plain: echo, say\n- told: Echoes, pictures and failures."), "{text}");
    assert!(text.contains("call_tool_chain {code}") && text.len() <= 2_000, "{text}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_chain_that_only_reads_is_held_to_it_at_the_bridge() {
    let settings = json!({ "functions": { "repeat": { "tool": "f.say" }, "look": { "tool": "f.echo" } } });
    let world = World::up_with(json!({ "f": fixture(&["--reads", "echo"]) }), settings).await;
    let tool = world.agent.tool("query_tools", &RequestScope::default()).expect("it is listed");
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(tool["annotations"]["destructiveHint"], false);
    assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true, "also where no configuration of the client says so");

    let run = async |code: &str| world.call("query_tools", json!({ "code": code })).await;
    assert_eq!(first_text(&run("return (await f.echo({ n: 7 })).n").await), "7");
    assert_eq!(first_text(&run("return (await look({ n: 8 })).n").await), "8");
    // One call, a script, JSON, a function under another name: each is refused before it is sent.
    for code in [
        "return await f.say({ text: 'x' })",
        "const a = await f.echo({ n: 1 }); return await f.say({ text: String(a.n) })",
        "{\"tool\": \"f.say\", \"arguments\": {\"text\": \"x\"}}",
        "return await repeat({ text: 'x' })",
        "return await tools.f['say']({ text: 'x' })",
    ] {
        let refused = run(code).await;
        assert_eq!(refused["isError"], true, "{code}: {refused}");
        assert!(first_text(&refused).contains("use call_tool_chain"), "{code}: {refused}");
        let report = &refused["_meta"]["toolgate/report"];
        let last = report["calls"].as_array().and_then(|calls| calls.last()).expect("a call");
        assert_eq!((&last["state"], &last["errorCode"]), (&json!("not_sent"), &json!("READ_ONLY")), "{report}");
        assert_eq!(report["safe_to_retry"], true, "{report}");
    }
    let caught = run("try { await f.say({ text: 'x' }) } catch (error) { return error.code }").await;
    assert_eq!(first_text(&caught), "READ_ONLY");
    assert!(
        !world
            .call("call_tool_chain", json!({ "code": "return await f.say({ text: 'x' })" }))
            .await
            .to_string()
            .contains("READ_ONLY")
    );
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn tools_of_toolgate_can_be_switched_off() {
    let world = World::up_with(json!({}), json!({})).await;
    assert!(has(&world, "query_tools") && !has(&world, "run_code") && !has(&world, "compute"));
    let unlisted = world.call("run_code", json!({ "code": "return 6 * 7" })).await;
    assert_eq!(unlisted["structuredContent"]["result"], 42, "a client that knows of it may call it");
    world.gateway.shut_down().await;

    let off =
        World::up_with(json!({}), json!({ "egress": "all", "tools": { "run_code": false, "query_tools": false } }))
            .await;
    assert!(!has(&off, "query_tools") && !has(&off, "run_code"));
    for tool in ["query_tools", "run_code"] {
        assert!(off.agent.call(call(tool, json!({ "code": "return 1" }))).await.is_err(), "{tool}");
    }
    off.gateway.shut_down().await;

    let on = World::up_with(json!({}), json!({ "tools": { "run_code": true } })).await;
    assert!(has(&on, "run_code"));
    on.gateway.shut_down().await;
}

#[tokio::test]
async fn the_weather_function_can_be_switched_on_and_off_alone() {
    for (settings, expected) in [
        (json!({ "egress": "all" }), "function"),
        (json!({ "egress": "all", "weather": { "enabled": false } }), "undefined"),
        (json!({ "weather": { "enabled": true } }), "function"),
        (json!({ "weather": { "enabled": false, "base_url": "http://127.0.0.1:9" } }), "undefined"),
        (json!({}), "undefined"),
    ] {
        let world = World::up_with(json!({}), settings.clone()).await;
        let found = world.chain("return typeof globalThis.api?.getWeather").await;
        assert_eq!(found, json!(expected), "{settings}");
        world.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn data_of_the_configuration_is_computed_on_where_it_is() {
    let folder = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    let rows: Vec<Value> = (0..5_000).map(|n| json!({ "name": format!("Customer {n}"), "risk": n % 100 })).collect();
    std::fs::write(folder.path().join("customers.json"), json!(rows).to_string()).expect("a file");
    std::fs::write(folder.path().join("events.jsonl"), "{\"n\":1}\n\n{\"n\":2}\n").expect("a file");
    let data = json!({
        "customers": { "file": "customers.json", "description": "One record per customer: name, risk from 0 to 99." },
        "events": { "file": "./events.jsonl" },
        "lost": { "file": "nowhere.json" },
    });
    let world = World::at(folder, json!({}), json!({ "data": data }));
    let tool = world.agent.tool("compute", &RequestScope::default()).expect("it is listed");
    let description = tool["description"].as_str().expect("a description");
    for phrase in
        ["- customers: One record per customer", "\n- events", "Computation Delegation", "arrow function MUST be sent"]
    {
        assert!(description.contains(phrase), "{phrase}: {description}");
    }
    assert_eq!(tool["annotations"]["readOnlyHint"], true);

    let compute = async |arguments: Value| world.call("compute", arguments).await;
    let code = "(data) => data.filter(d => d.risk > 97).length";
    assert_eq!(first_text(&compute(json!({ "data": "customers", "code": code })).await), "100");
    let all = json!({ "data": "customers", "code": "(data) => data", "max_output_size": 700 });
    let all = compute(all).await;
    assert!(first_text(&all).len() <= 700 && first_text(&all).contains("res_"), "{all}");
    assert_eq!(
        first_text(&compute(json!({ "data": "events", "code": "(d) => d.map(e => e.n)" })).await)
            .replace(char::is_whitespace, ""),
        "[1,2]"
    );
    for (arguments, expected) in [
        (json!({ "code": code }), "data: must be one of: customers, events, lost"),
        (json!({ "data": "other", "code": code }), "data: must be one of: customers, events, lost"),
        (json!({ "data": "lost", "code": code }), "data: lost: No such file"),
        (json!({ "data": "events", "code": "(d) => fetch('x')" }), "RUNTIME: ReferenceError: fetch is not defined"),
    ] {
        let refused = compute(arguments.clone()).await;
        assert_eq!(refused["isError"], true, "{arguments}");
        assert!(first_text(&refused).contains(expected), "{arguments}: {refused}");
        assert!(!refused.to_string().contains("nowhere.json"), "no path: {refused}");
    }
    // A key that names functions has the data that it names.
    let scope = |functions: Access| RequestScope {
        caller: CallerScope { functions, ..CallerScope::default() },
        ..RequestScope::default()
    };
    assert!(!names(&world, &scope(Access::only(["price"]))).contains(&"compute".to_owned()));
    let events = scope(Access::only(["data.events"]));
    assert!(!world.agent.tool("compute", &events).expect("listed").to_string().contains("customers"));
    let asked = ToolCall { scope: events, ..call("compute", json!({ "data": "customers", "code": code })) };
    assert!(first_text(&world.agent.call(asked).await.expect("a result")).starts_with("data: must be one of: events"));
    let none = ToolCall {
        scope: scope(Access::only(["price"])),
        ..call("compute", json!({ "data": "events", "code": code }))
    };
    assert!(
        first_text(&world.agent.call(none).await.expect("a result")).starts_with("data: you have none to compute on")
    );
    world.gateway.shut_down().await;
}

/// A pipe has no length and may never end: nothing opens it.
#[cfg(unix)]
#[tokio::test]
async fn data_is_read_from_regular_files_within_a_bound() {
    let folder = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    let pipe = folder.path().join("pipe.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let long = std::fs::File::create(folder.path().join("long.json")).expect("a file");
    long.set_len((256 << 20) + 1).expect("a sparse file");
    let data = json!({ "pipe": { "file": "pipe.json" }, "long": { "file": "long.json" } });
    let world = World::at(folder, json!({}), json!({ "data": data }));
    for (name, expected) in [
        ("pipe", "data: pipe: it is no regular file"),
        ("long", "data: long: its file has more than 268435456 bytes, and no more are read"),
    ] {
        let asked = world.call("compute", json!({ "data": name, "code": "(data) => 1" }));
        let refused = tokio::time::timeout(TEST_TIMEOUT, asked).await.expect("nothing waits for the file");
        assert_eq!((&refused["isError"], first_text(&refused).as_str()), (&json!(true), expected), "{refused}");
    }
    world.gateway.shut_down().await;
}

/// A key is set if it has a value; a server that needs configuration is found by its name and by its identifier.
#[tokio::test]
async fn required_keys_say_what_is_set() {
    let mut server = fixture(&[]);
    server["env"] = json!({ "FULL": "x", "EMPTY": "", "DEFAULT": "${NOT_SET_IN_THIS_TEST:-}" });
    let mut unset = fixture(&[]);
    unset["env"] = json!({ "TOKEN": "${NOT_SET_IN_THIS_TEST}", "FULL": "secret of a server", "EMPTY": "" });
    let mut fileless = fixture(&[]);
    fileless["env"] = json!({
        "ALL": "x", "FILE": "${file:/no/such/file}", "OUTPUT": "a ${cmd:false} ${file:/no/such/file}",
        "TOKEN": "${NOT_SET_IN_THIS_TEST}",
    });
    let remote = json!({
        "url": "https://1.1.1.1/mcp", "headers": { "X-Key": "${file:/no/such/file}", "X.b": "${file:/no/such/file}" },
        "auth": { "clientId": "me", "clientSecret": "${file:/no/such/file}" },
    });
    let world = World::up(json!({ "f": server, "my-unset": unset, "my.fileless": fileless, "remote": remote })).await;
    let keys = async |tool: &str| -> Value {
        let text = world.text("get_required_keys_for_tool", json!({ "tool_name": tool })).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    };
    let found = keys("f.echo").await;
    let set = |name: &str| {
        let all = found["keys"].as_array().expect("keys");
        all.iter().find(|key| key["name"] == name).map(|key| key["set"].clone())
    };
    assert_eq!(
        (set("FULL"), set("EMPTY"), set("DEFAULT")),
        (Some(json!(true)), Some(json!(false)), Some(json!(false))),
        "{found}"
    );
    for tool in ["my-unset.echo", "my_unset.echo"] {
        let found = keys(tool).await;
        assert_eq!(found["keys"][0]["name"], "NOT_SET_IN_THIS_TEST", "{found}");
        assert_eq!(found["keys"][0]["set"], false, "{found}");
        let configured = json!([
            { "name": "EMPTY", "kind": "variable", "set": false },
            { "name": "FULL", "kind": "variable", "set": true },
        ]);
        assert_eq!(found["keys"].as_array().map(|keys| json!(keys[1..])), Some(configured), "what it has is told too");
        assert!(!found.to_string().contains("secret of a server"), "{found}");
    }
    let key = |name: &str, kind: &str, set: bool| json!({ "name": name, "kind": kind, "set": set });
    let found = keys("my.fileless.echo").await;
    let expected = json!([
        key("NOT_SET_IN_THIS_TEST", "variable", false),
        key("FILE", "variable", false),
        key("OUTPUT", "variable", false),
        key("ALL", "variable", true),
    ]);
    assert_eq!(found["keys"], expected, "{found}");
    let found = keys("remote.echo").await;
    let expected =
        json!([key("X-Key", "header", false), key("X.b", "header", false), key("clientSecret", "credential", false)]);
    assert_eq!(found["keys"], expected, "{found}");
    world.gateway.shut_down().await;
}

/// The limits that it names are those in force.
#[tokio::test]
async fn the_description_of_snippets_has_the_configured_limits() {
    let description = |world: &World| {
        let tool = world.agent.tool("run_code", &RequestScope::default()).expect("it is listed");
        tool["description"].as_str().expect("a description").to_owned()
    };
    let functions = json!({ "look": { "tool": "f.echo" } });
    for (limits, expected) in [
        (json!({}), "At most 5 seconds; the code has at most 12,000 characters."),
        (
            json!({ "timeout": "1500ms", "code": 1_048_576 }),
            "At most 1.5 seconds; the code has at most 1,048,576 characters.",
        ),
    ] {
        let settings = json!({ "functions": functions, "sandbox": { "limits": { "snippet": limits } } });
        let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
        assert!(description(&world).contains(expected), "{}", description(&world));
        world.gateway.shut_down().await;
    }
}

/// Every tool that runs a program: the answer has the report, and the audit log has the client.
#[tokio::test]
async fn every_run_has_its_report_and_its_client() {
    let folder = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    std::fs::write(folder.path().join("events.json"), "[1, 2]").expect("a file");
    let audit = folder.path().join("audit.jsonl");
    let settings =
        json!({ "data": { "events": { "file": "events.json" } }, "audit": { "enabled": true, "file": audit } });
    let world = World::at(folder, json!({}), settings);
    let kept = world.call("call_tool_chain", json!({ "code": "return 'x'.repeat(90_000)" })).await;
    let id = kept["_meta"]["toolgate/report"]["output"]["result_id"].as_str().expect("it is kept").to_owned();
    let tools = [
        ("call_tool_chain", json!({ "code": "return 1" })),
        ("query_tools", json!({ "code": "return 1" })),
        ("run_code", json!({ "code": "return 1" })),
        ("compute", json!({ "code": "(data) => data.length" })),
        ("compute", json!({ "code": "(data) => data.no.such" })),
        ("query_result", json!({ "result_id": id, "code": "(data) => data.length" })),
        ("query_result", json!({ "result_id": id, "code": "(data) => data.no.such" })),
    ];
    for (name, arguments) in &tools {
        let origin = toolgate_mcp::RequestOrigin { client: Some(format!("client of {name}")), ..Default::default() };
        let asked = ToolCall { origin, ..call(name, arguments.clone()) };
        let result = world.agent.call(asked).await.expect("a result");
        let report = result.get("structuredContent").unwrap_or(&result["_meta"]["toolgate/report"]);
        assert!(report["executionMs"].is_number() && report["isolation"].is_object(), "{name}: {result}");
        assert_eq!(report["ok"].as_bool(), Some(result["isError"] != true), "{name}: {result}");
    }
    world.gateway.shut_down().await;
    let log = std::fs::read_to_string(audit).expect("an audit log");
    for (name, _) in &tools {
        let line = log.lines().filter(|line| line.contains(&format!("client of {name}")));
        let expected = tools.iter().filter(|(other, _)| other == name).count();
        assert_eq!(line.count(), expected, "{name}: {log}");
    }
}

#[tokio::test]
async fn answers_have_24_kb_unless_configured() {
    let code = json!({ "code": "return 'line of text\\n'.repeat(20_000)" });
    let world = World::up_with(json!({}), json!({})).await;
    let text = world.text("call_tool_chain", code.clone()).await;
    assert!((20_000..=24_000).contains(&text.len()), "{}", text.len());
    assert!(text.contains("[Full result: res_"), "{text}");
    let id = text.split("[Full result: ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id").to_owned();
    let read = world.text("read_result", json!({ "result_id": id })).await;
    assert!((20_000..=24_000).contains(&read.len()), "{}", read.len());
    for most in [256, 300] {
        let console = "console.log('a'.repeat(500)); return 'b'.repeat(90_000)";
        let result = world.call("call_tool_chain", json!({ "code": console, "max_output_size": most })).await;
        assert!(first_text(&result).contains("[Full result: res_"), "{result}");
    }
    world.gateway.shut_down().await;
    let configured = World::up_with(json!({}), json!({ "output": { "max_output_size": "100KB" } })).await;
    assert!(configured.text("call_tool_chain", code).await.len() > 90_000);
    configured.gateway.shut_down().await;
}

#[tokio::test]
async fn a_snippet_goes_through_the_output_pipeline() {
    let world = World::up_with(json!({}), json!({})).await;
    let code =
        "return { rows: Array.from({ length: 2000 }, (_, n) => ({ id: n, name: 'row ' + n, note: 'x'.repeat(20) })) }";
    let result = world.call("run_code", json!({ "code": code })).await;
    assert!(first_text(&result).len() <= 24_000, "{}", first_text(&result).len());
    let report = &result["structuredContent"];
    let shown = report["result"].as_str().expect("a text");
    for phrase in ["rows (2000 items", "each with keys: id, name, note", "rows > [0]", "[1999] id=1999"] {
        assert!(shown.contains(phrase), "{phrase}: {shown}");
    }
    let id = report["output"]["result_id"].as_str().expect("an id");
    let count = world.text("query_result", json!({ "result_id": id, "code": "(d) => d.rows.length" })).await;
    assert_eq!(count, "2000");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_picture_inside_an_object_is_shown_beside_it() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let code = "const shot = await f.picture({}); return { title: 'home', shot: shot.content[0] }";
    let result = world.call("call_tool_chain", json!({ "code": code })).await;
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    assert_eq!(result["content"][1], image, "{result}");
    let text: Value = serde_json::from_str(&first_text(&result)).expect("JSON");
    assert_eq!(text, json!({ "title": "home", "shot": "[image 1: image/png, 0.0 KB, shown below]" }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn statistics_are_also_of_the_session_that_asks() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let run = |session: u64| {
        let asked =
            ToolCall { caller: session, ..call("call_tool_chain", json!({ "code": "return await f.echo({ n: 1 })" })) };
        world.agent.call(asked)
    };
    run(5).await.expect("a result");
    run(5).await.expect("a result");
    run(6).await.expect("a result");
    for (session, runs) in [(5, 2), (6, 1), (7, 0)] {
        let asked = ResourceCall { uri: "toolgate://stats".to_owned(), caller: session, ..ResourceCall::default() };
        let contents = world.agent.read(asked).await.expect("statistics");
        let stats: Value = serde_json::from_str(contents[0]["text"].as_str().expect("a text")).expect("JSON");
        assert_eq!(
            (&stats["session"]["runs"], &stats["session"]["tool_calls"]),
            (&json!(runs), &json!(runs)),
            "{stats}"
        );
        assert_eq!(stats["runs"], 3);
    }
    world.gateway.shut_down().await;
}
