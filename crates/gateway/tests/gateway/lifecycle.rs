//! Starts, crashes, changes and ends.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use toolgate_backends::BackendState;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::Gateway;
use toolgate_mcp::server::{Change, Service};
use toolgate_run::Readiness;
use toolgate_wire::CallerScope;

use crate::support::{TEST_TIMEOUT, TreeAgent, World, call, first_text, fixture, members};

const STILL_STARTING: &str = "Backend 'slow' is still starting. Tool 'echo' is cached but the backend hasn't connected \
                              yet. Try again shortly.";

#[tokio::test]
async fn a_cached_gateway_answers_before_any_backend_is_up() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let gate = folder.path().join("gate");
    let servers = json!({ "slow": fixture(&["--gate", gate.to_str().unwrap()]) });
    std::fs::write(&gate, "").unwrap();
    let first = World::at(folder.clone(), servers.clone(), json!({}));
    first.gateway.settled(TEST_TIMEOUT, |_| true).await;
    assert_eq!(first.chain("return await slow.echo({ n: 1 })").await, json!({ "n": 1 }));
    first.gateway.shut_down().await;

    std::fs::remove_file(&gate).unwrap();
    let second = World::at(folder, servers, json!({}));
    let found = second.text("search_tools", json!({ "task_description": "echo" })).await;
    assert!(found.contains("slow.echo"), "{found}");
    let early = call("call_tool_chain", json!({ "code": "return await slow.echo({ n: 2 })", "timeout": 4000 }));
    let early = second.agent.call(early).await.unwrap();
    assert_eq!(early["isError"], true);
    assert!(first_text(&early).contains(STILL_STARTING), "{early}");
    assert_eq!(early["_meta"]["toolgate/report"]["safe_to_retry"], true);

    // A call that may wait gets its answer as soon as the backend is up.
    let waiting = second.chain("return await slow.echo({ n: 3 })");
    let opening = async { std::fs::write(&gate, "").unwrap() };
    assert_eq!(tokio::join!(waiting, opening).0, json!({ "n": 3 }));
    second.gateway.shut_down().await;
}

/// A misspelt name of a tool is no name of a backend, so nothing was waited for before the run.
#[tokio::test]
async fn a_hint_about_a_tool_waits_for_the_backend_that_has_it() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let gate = folder.path().join("gate");
    let world = World::at(folder, json!({ "slow": fixture(&["--gate", gate.to_str().unwrap()]) }), json!({}));
    let failing = world.call("call_tool_chain", json!({ "code": "return await ecoh({ n: 1 })" }));
    let opening = async { std::fs::write(&gate, "").unwrap() };
    let text = first_text(&tokio::join!(failing, opening).0);
    assert!(text.contains("Did you mean `slow.echo({…})`?"), "{text}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_cached_tool_that_is_denied_now_is_not_shown() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let first = World::at(folder.clone(), json!({ "f": fixture(&[]) }), json!({}));
    first.gateway.settled(TEST_TIMEOUT, |_| true).await;
    first.gateway.shut_down().await;
    let denied = json!({ "backends": { "f": { "deny": ["echo", "cr*"] } } });
    let second = World::at(folder, json!({ "f": fixture(&[]) }), denied);
    let catalog = second.gateway.catalog();
    assert!(catalog.tool("f", "say").is_some());
    assert!(catalog.tool("f", "echo").is_none() && catalog.tool("f", "crash").is_none());
    let text = second.text("call_tool_chain", json!({ "code": "return await f.echo({})" })).await;
    assert!(text.contains("echo") && !text.contains("structuredContent"), "{text}");
    second.gateway.shut_down().await;
}

/// A waiting thread holds the snapshot that it looks at, while others replace it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_backends_never_stops_those_who_change_the_catalog() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let done = Arc::new(AtomicBool::new(false));
    let (gateway, ended) = (world.gateway.clone(), done.clone());
    let writer = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            gateway.bridge().catalog_handle().update(Clone::clone);
        }
    });
    for _ in 0..5_000 {
        for until in [Readiness::Known, Readiness::Ready] {
            world.gateway.wait_for_named("f", &CallerScope::default(), until, Duration::from_secs(20)).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_saved_configuration_restarts_only_what_changed() {
    let servers = json!({ "same": fixture(&[]), "other": fixture(&[]), "gone": fixture(&[]), "tuned": fixture(&[]) });
    let world = World::up(servers).await;
    let (same, other, tuned) = (world.pid("same"), world.pid("other"), world.pid("tuned"));
    let gone = world.pid("gone").unwrap();
    let servers = json!({
        "same": fixture(&[]), "other": fixture(&["--tools", "3"]), "new": fixture(&[]), "tuned": fixture(&[]),
        "off": { "command": "nothing", "disabled": true },
    });
    let settings = json!({ "backends": { "tuned": { "deny": ["fail"], "tags": ["quiet"], "timeout": "1s" } } });
    let changes = world.gateway.reload(world.config(servers, settings)).await;
    let names = |names: &[toolgate_config::values::BackendName]| {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&changes.added), "new");
    assert_eq!(names(&changes.removed), "gone");
    assert_eq!(names(&changes.changed), "other");
    assert_eq!(names(&changes.retuned), "tuned");
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    assert_eq!(world.pid("same"), same);
    assert_eq!(world.pid("tuned"), tuned);
    assert_ne!(world.pid("other"), other);
    assert_eq!(members(gone), Vec::<u32>::new());
    let catalog = world.gateway.catalog();
    assert!(catalog.tool("other", "tool_2").is_some() && catalog.tool("new", "echo").is_some());
    assert!(catalog.tool("tuned", "fail").is_none() && catalog.tool("tuned", "echo").is_some());
    assert_eq!(catalog.backend("tuned").unwrap().tags(), ["quiet"]);
    let late = world.chain("return await tuned.hang({})").await;
    assert!(late.as_str().unwrap().contains("no answer within 1000 ms"), "{late}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_crash_fails_its_call_and_the_chain_goes_on() {
    let world = World::up(json!({ "f": fixture(&[]), "other": fixture(&[]) })).await;
    let code = "let code; try { await f.crash({}) } catch (error) { code = [error.name, error.code, error.backend] }
                const other = await other.echo({ n: 1 });
                return { code, other, again: await f.echo({ n: 2 }) }";
    let code = code.replace("const other =", "const there =").replace("other,", "other: there,");
    let expected = json!({ "code": ["ToolError", "CRASHED", "f"], "other": { "n": 1 }, "again": { "n": 2 } });
    assert_eq!(world.chain(&code).await, expected);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_cancelled_chain_is_cancelled_at_the_backend_which_stays_usable() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let hanging = call("call_tool_chain", json!({ "code": "console.log(1); return await f.busy({})" }));
    let cancel = hanging.cancel.clone();
    let (sender, mut progress) = tokio::sync::mpsc::channel(16);
    let hanging = world.agent.call(toolgate_mcp::server::ToolCall { progress: Some(sender), ..hanging });
    let ending = tokio::spawn(hanging);
    let begun = async { while progress.recv().await.unwrap().message.as_deref() != Some("1 begun") {} };
    timeout(TEST_TIMEOUT, begun).await.unwrap();
    let since = std::time::Instant::now();
    cancel.cancel();
    let ended = ending.await.unwrap().unwrap();
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(ended["_meta"]["toolgate/report"]["code"], "ABORTED", "{ended}");
    assert_eq!(world.chain("return await f.was_cancelled({})").await, json!("busy"));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn shutting_down_leaves_no_process() {
    let world = World::up(json!({ "a": fixture(&["--grandchild"]), "b": fixture(&["--stubborn"]) })).await;
    let groups = [world.pid("a").unwrap(), world.pid("b").unwrap()];
    assert!(groups.iter().all(|group| !members(*group).is_empty()));
    world.gateway.shut_down().await;
    assert!(groups.iter().all(|group| members(*group).is_empty()));
}

#[tokio::test]
async fn a_changed_list_of_tools_is_passed_on() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let mut changes = world.agent.changes();
    world.chain("return await f.grow({ name: 'fresh_tool' })").await;
    let told = async { while changes.recv().await.unwrap().change != Change::Tools {} };
    timeout(TEST_TIMEOUT, told).await.unwrap();
    assert_eq!(world.chain("return await f.fresh_tool({ n: 1 })").await, json!({ "n": 1 }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_backend_that_cannot_start_is_explained_and_the_others_serve() {
    let world = World::up(json!({ "good": fixture(&[]), "bad": { "command": "/no/such/program" } })).await;
    assert_eq!(world.chain("return await good.echo({ n: 1 })").await, json!({ "n": 1 }));
    let text = world.chain("return await bad.anything({})").await;
    assert!(text.as_str().unwrap().contains("toolgate://backend/bad"), "{text}");
    // The call has started it again.
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    let health: Value = serde_json::from_str(&world.resource("toolgate://health").await).unwrap();
    assert_eq!((&health["status"], &health["backends"]), (&json!("degraded"), &json!({ "failed": 1, "ready": 1 })));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_call_to_a_backend_that_failed_is_an_error_that_a_program_can_handle() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let script = folder.path().join("server");
    let late = json!({ "command": script.to_str().unwrap() });
    let world = World::at(folder, json!({ "late": late, "f": fixture(&[]) }), json!({}));
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    let code = "const all = await Promise.allSettled([f.echo({ n: 1 }), late['ec' + 'ho']({ n: 2 })]);
                return all.map(one => one.value ?? [one.reason.name, one.reason.code, one.reason.data.state])";
    assert_eq!(world.chain(code).await, json!([{ "n": 1 }, ["ToolError", "FAILED_TO_START", "failed"]]));

    // Its program is there now: one of the next calls starts it again.
    write_server(&script);
    call_until_started(&world, "return await late['ec' + 'ho']({ n: 3 })").await;
    world.gateway.shut_down().await;
}

/// Makes a call until its backend is started again. The call that starts it waits for it: any call before has left it as it was.
async fn call_until_started(world: &World, code: &str) {
    let late = world.gateway.backend("late").unwrap();
    let called = async {
        loop {
            let answer = world.chain(code).await;
            if answer == json!({ "n": 3 }) {
                return;
            }
            assert!(matches!(late.state(), BackendState::Failed { .. }), "{answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TEST_TIMEOUT, called).await.expect("a call starts a failed backend again");
}

#[tokio::test]
async fn a_call_that_starts_a_failed_backend_in_vain_says_why() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let script = folder.path().join("server");
    let servers = json!({ "late": { "command": script.to_str().unwrap() } });
    let world = World::at(folder, servers, json!({ "limits": { "start_timeout": "1s" } }));
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    // Its program is there now, and never answers.
    write_program(&script, "exec sleep 1000");
    let code = "return await late['ec' + 'ho']({}).catch(error => [error.code, error.message, error.data.reason])";
    let told = async {
        loop {
            let told = world.chain(code).await;
            // Before it is started again, the reason is the old one.
            if !told[1].as_str().unwrap().contains("can't run") {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = timeout(TEST_TIMEOUT, told).await.expect("a call starts it again");
    assert_eq!(told[0], "FAILED_TO_START", "{told}");
    assert!(told[2].as_str().unwrap().contains("did not come up within 1000 ms"), "{told}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_call_that_ends_before_a_backend_is_started_again_says_why_it_failed_before() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let script = folder.path().join("server");
    let world = World::at(folder, json!({ "late": { "command": script.to_str().unwrap() } }), json!({}));
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    write_program(&script, "exec sleep 1000");
    let code = "return await late['ec' + 'ho']({}).catch(error => [error.code, error.message])";
    let told = async {
        loop {
            let told = world.call("call_tool_chain", json!({ "code": code, "timeout": 4000 })).await;
            let told: Value = serde_json::from_str(&first_text(&told)).unwrap_or_else(|_| panic!("{told}"));
            if told[0] != "FAILED_TO_START" {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = timeout(TEST_TIMEOUT, told).await.expect("a call starts it again");
    assert_eq!(told[0], "NOT_READY", "{told}");
    let message = told[1].as_str().unwrap();
    assert!(message.contains("still starting") && message.contains("Its last start failed: can't run"), "{told}");
    world.gateway.shut_down().await;
}

/// Neither a search nor a call as JSON takes a backend that failed for one without tools.
#[tokio::test]
async fn a_search_and_a_call_as_json_tell_of_a_backend_that_failed() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let script = folder.path().join("server");
    let late = json!({ "command": script.to_str().unwrap() });
    let world = World::at(folder, json!({ "late": late }), json!({}));
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    for brief in [true, false] {
        let arguments = json!({ "task_description": "write a poem", "brief": brief });
        let text = world.text("search_tools", arguments).await;
        assert!(text.contains("nothing fits among the tools that are known"), "{text}");
        assert!(text.contains("not running: late") && !text.contains("try other words"), "{text}");
    }
    let call = json!({ "tool": "late.echo", "arguments": { "n": 3 } }).to_string();
    let refused = world.call("call_tool_chain", json!({ "code": call })).await;
    let report = &refused["_meta"]["toolgate/report"];
    assert_eq!((&report["code"], &report["calls"][0]["errorCode"]), (&json!("RUNTIME"), &json!("FAILED_TO_START")));

    write_server(&script);
    call_until_started(&world, &call).await;
    world.gateway.shut_down().await;
}

/// Makes the program of a server that could not be started.
fn write_server(script: &std::path::Path) {
    let real = fixture(&[])["args"][0].as_str().unwrap().to_owned();
    write_program(script, &format!("exec python3 '{real}'"));
}

/// Makes a program of the shell, all at once.
fn write_program(script: &std::path::Path, command: &str) {
    let draft = script.with_extension("draft");
    std::fs::write(&draft, format!("#!/bin/sh\n{command}\n")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&draft, script).unwrap();
}

/// A gateway that follows this file and runs the commands in it.
async fn world_with_commands(file: &std::path::Path, folder: &Arc<tempfile::TempDir>) -> World {
    let env = toolgate_config::Env::new(Some(folder.path().to_owned()), folder.path()).running_commands();
    let config = toolgate_config::load(file, &env).unwrap();
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
    let gateway = Gateway::start(config, engine);
    let (gate, every) = (toolgate_config::trust::Gate::Open, Duration::from_millis(50));
    let watched = toolgate_config::watch::watch(gateway.config(), env, gate, every, gateway.read_again());
    gateway.follow_file(watched);
    gateway.settled(TEST_TIMEOUT, |_| true).await;
    World { agent: TreeAgent(Agent::new(Arc::clone(&gateway))), gateway, folder: Arc::clone(folder) }
}

#[tokio::test]
async fn a_server_that_is_lost_is_started_with_what_its_command_prints_now() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let (file, value) = (folder.path().join("toolgate.json"), folder.path().join("value"));
    let mut server = fixture(&[]);
    // The command counts its runs, after it has read the value.
    let runs = folder.path().join("runs");
    let line = format!("cat {} && echo x >> {}", value.display(), runs.display());
    server["env"] = json!({ "TOKEN": format!("${{cmd:{line}}}") });
    let text = json!({ "mcpServers": { "f": server }, "toolgate": { "secrets": { "commands": true } } });
    std::fs::write(&file, text.to_string()).unwrap();
    std::fs::write(&value, "first").unwrap();
    let world = world_with_commands(&file, &folder).await;
    let token = async || world.chain("const r = await f.environment({}); return r.env.TOKEN").await;
    let run_count = || std::fs::read_to_string(&runs).unwrap().lines().count();
    let first_reading = async {
        while run_count() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // The watch reads the file once by itself. That must not be the reading that finds the second value.
    timeout(TEST_TIMEOUT, first_reading).await.expect("the watch reads the file");
    assert_eq!(token().await, "first");
    std::fs::write(&value, "second").unwrap();
    assert_eq!(token().await, "first", "a server that is up keeps its values");
    world.chain("return await f.crash({})").await;
    let renewed = async {
        while token().await != "second" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TEST_TIMEOUT, renewed).await.expect("the command runs again");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_server_that_refuses_its_token_is_started_with_what_its_command_prints_now() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let (file, value) = (folder.path().join("toolgate.json"), folder.path().join("value"));
    // Both kinds of servers that are asked by HTTP. Each counts the runs of its command.
    let origin = token_server(&value).await;
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, r#"{"openapi":"3.1.0","paths":{"/read":{"get":{"operationId":"read"}}}}"#).unwrap();
    let authorization = |name: &str| {
        let runs = folder.path().join(name);
        format!("Bearer ${{cmd:cat {} && echo x >> {}}}", value.display(), runs.display())
    };
    let servers = json!({
        "web": { "url": format!("{origin}/mcp"), "headers": { "Authorization": authorization("web") } },
        "pets": {
            "type": "openapi", "spec": document, "base": origin, "allowHosts": ["127.0.0.1"],
            "headers": { "Authorization": authorization("pets") },
        },
    });
    let text = json!({ "mcpServers": servers, "toolgate": { "secrets": { "commands": true } } });
    std::fs::write(&file, text.to_string()).unwrap();
    std::fs::write(&value, "first").unwrap();
    let world = world_with_commands(&file, &folder).await;
    let run_count = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
    let first_reading = async {
        while ["web", "pets"].iter().any(|name| run_count(name) < 2) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // The watch reads the file once by itself. That must not be the reading that finds the second value.
    timeout(TEST_TIMEOUT, first_reading).await.expect("the watch reads the file");
    for name in ["web", "pets"] {
        std::fs::write(&value, "first").unwrap();
        answers(&world, name, "first").await;
        std::fs::write(&value, "second").unwrap();
        let runs = run_count(name);
        answers(&world, name, "second").await;
        assert!(run_count(name) > runs, "{name}");
    }
    world.gateway.shut_down().await;
}

/// Calls a server until it answers with this token.
async fn answers(world: &World, name: &str, token: &str) {
    let mut answer = Value::Null;
    let answered = async {
        while answer != json!({ "token": token }) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer = world.chain(&format!("return await {name}.read({{}})")).await;
        }
    };
    let in_time = timeout(TEST_TIMEOUT, answered).await.is_ok();
    assert!(in_time, "{name} does not take {token}: {answer}");
}

/// An MCP server and an API that take the token in this file and no other. Returns their origin.
async fn token_server(value: &std::path::Path) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let value = value.to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_with_token(stream, value.clone()));
        }
    });
    origin
}

async fn answer_with_token(mut stream: tokio::net::TcpStream, value: std::path::PathBuf) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut received = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk).await else { return };
        received.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&received).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head, body.to_owned());
        }
    };
    let token = std::fs::read_to_string(&value).unwrap();
    let read = json!({ "token": token });
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => Some(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "t", "version": "1" },
        })),
        Some("tools/list") => Some(json!({ "tools": [{ "name": "read", "inputSchema": { "type": "object" } }] })),
        Some("tools/call") => Some(json!({ "content": [], "structuredContent": read })),
        _ => None,
    };
    let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
    match result {
        Some(result) => reply["result"] = result,
        None => reply["error"] = json!({ "code": -32601, "message": "no such method" }),
    }
    let (status, body) = match () {
        () if !head.lines().any(|line| line == format!("authorization: bearer {token}")) => (401, "go away".to_owned()),
        () if head.starts_with("get /read") => (200, read.to_string()),
        () if head.starts_with("get") => (405, String::new()),
        () if message.get("id").is_none() => (202, String::new()),
        () => (200, reply.to_string()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
    let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await;
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_told() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let pid = world.pid("f");
    let (sender, states) = tokio::sync::watch::channel(toolgate_config::watch::State {
        config: world.gateway.config(),
        problems: Vec::new(),
    });
    world.gateway.follow_file(states);
    let mut changes = world.agent.changes();
    let problems = toolgate_config::load(std::path::Path::new("/no/such/file"), &toolgate_config::Env::of_process());
    sender.send_modify(|state| state.problems = problems.unwrap_err());
    let told = async { while changes.recv().await.unwrap().change != Change::Resource("toolgate://health".into()) {} };
    timeout(TEST_TIMEOUT, told).await.unwrap();
    let health: Value = serde_json::from_str(&world.resource("toolgate://health").await).unwrap();
    assert_eq!(health["configuration_problems"].as_array().unwrap().len(), 1);
    assert_eq!(world.pid("f"), pid);
    world.gateway.shut_down().await;
}
