//! Durable runs as an agent has them: `durable: true`, `run_status`, `fix_run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;
use toolgate_gateway::run::durable::{ListRuns, RunStatus};
use toolgate_mcp::server::RequestScope;

use crate::support::{World, first_text, fixture};

/// A program that appends lines to a file, which are its effects.
fn appending(file: &Path, lines: &[&str], then: &str) -> String {
    let file = json!(file.to_str().unwrap());
    let appends = lines.iter().map(|line| format!("await f.append({{ file: {file}, line: {} }});", json!(line)));
    format!("{} {then}", appends.collect::<String>())
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn run_id(result: &Value) -> String {
    result["_meta"]["toolgate/report"]["executionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_durable_run_is_answered_and_its_result_can_be_asked_for_again() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let result = world.call("call_tool_chain", json!({ "code": "return 6 * 7", "durable": true })).await;
    assert_eq!(first_text(&result), "42", "{result}");
    let status = world.text("run_status", json!({ "run_id": run_id(&result) })).await;
    assert!(status.contains("has ended") && status.contains(r#""value":42"#), "{status}");
    let listed = world.text("run_status", json!({})).await;
    assert!(listed.contains(&run_id(&result)), "{listed}");
    let none = world.call("run_status", json!({ "run_id": "none" })).await;
    assert!(none["isError"] == true && first_text(&none).contains("no run"), "{none}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_corrected_program_keeps_the_effects_of_the_run_that_failed() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one", "two"], "return missing.field");
    let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    assert_eq!(failed["isError"], true);
    let (id, text) = (run_id(&failed), first_text(&failed));
    assert!(text.contains("fix_run"), "the hint names it: {text}");
    assert_eq!(lines(&file), ["one", "two"]);

    let other = appending(&file, &["other"], "return 1");
    let refused = world.text("fix_run", json!({ "run_id": id, "code": other })).await;
    assert!(refused.contains("nothing new is sent") && refused.contains("two"), "{refused}");
    assert_eq!(lines(&file), ["one", "two"], "nothing new is sent before what was done is called");

    let corrected = appending(&file, &["one", "two", "three"], "return 'all'");
    let fixed = world.call("fix_run", json!({ "run_id": id, "code": corrected })).await;
    assert_eq!(first_text(&fixed), "all", "{fixed}");
    assert_eq!(lines(&file), ["one", "two", "three"], "each once");

    let fewer = appending(&file, &["one"], "return 'less'");
    let fixed = world.call("fix_run", json!({ "run_id": id, "code": fewer })).await;
    assert!(fixed["_meta"]["toolgate/report"]["warnings"].to_string().contains("not called by this one"), "{fixed}");
    assert_eq!(lines(&file), ["one", "two", "three"]);
    let none = world.call("fix_run", json!({ "run_id": "none", "code": "return 1" })).await;
    assert_eq!(none["isError"], true, "{none}");
    world.gateway.shut_down().await;
}

/// How many programs are broken and fixed: 100, or as many as a long run asks for.
fn broken_programs() -> usize {
    std::env::var("TOOLGATE_BROKEN_PROGRAMS").ok().and_then(|number| number.parse().ok()).unwrap_or(100)
}

#[tokio::test]
async fn programs_broken_after_a_write_are_fixed_without_a_second_write() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    for number in 0..broken_programs() {
        let file = world.folder.path().join(format!("effects{number}"));
        let names: Vec<String> = (0..1 + number % 4).map(|line| format!("{number}.{line}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let broken = appending(&file, &names, "throw new Error('broken')");
        let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
        let corrected = appending(&file, &names, "return 'fixed'");
        let fixed = world.text("fix_run", json!({ "run_id": run_id(&failed), "code": corrected })).await;
        assert_eq!((fixed.as_str(), lines(&file)), ("fixed", names.iter().map(ToString::to_string).collect()));
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn calls_have_idempotency_keys_of_their_own() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let code = "return [await f.charge({ amount: 1 }), await f.charge({ amount: 1 }), \
                await f.charge({ amount: 1, idempotency_key: 'own' })]";
    let text = world.text("call_tool_chain", json!({ "code": code, "durable": true })).await;
    let charged: Value = serde_json::from_str(&text).unwrap();
    let key = |at: usize| charged[at]["arguments"]["idempotency_key"].as_str().unwrap_or_default().to_owned();
    let meta = |at: usize| charged[at]["meta"]["toolgate/idempotency-key"].as_str().unwrap_or_default().to_owned();
    assert!(key(0).len() == 32 && key(0) == meta(0), "{charged}");
    assert_ne!(key(0), key(1), "each call has its own");
    assert_eq!((key(2).as_str(), meta(2).len()), ("own", 32), "a program that names one has its way");
    let plain = world.text("call_tool_chain", json!({ "code": "return await f.charge({ amount: 1 })" })).await;
    assert!(!plain.contains("idempotency"), "without durability there are none: {plain}");
    world.gateway.shut_down().await;
}

/// A client at the other end of a pipe that has called `call_tool_chain` with this program, as a durable run.
async fn client_with_a_run(world: &World, code: &str) -> DuplexStream {
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let (agent, shutdown) = (Arc::new(world.agent.clone()), CancellationToken::new());
    tokio::spawn(toolgate_mcp::server::serve_stdio(agent, RequestScope::default(), reader, writer, shutdown));
    let call = json!({ "name": "call_tool_chain", "arguments": { "code": code, "durable": true, "timeout": 600_000 } });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ];
    for message in messages {
        ours.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    ours
}

/// Waits until the file has so many lines.
async fn has_lines(file: &Path, count: usize) {
    while lines(file).len() < count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The report of the only run.
async fn only_report(world: &World) -> Value {
    let runs = world.gateway.runner().durable().await.unwrap();
    let run = runs.list(ListRuns { most: 1, ..ListRuns::default() }).await.unwrap().runs.remove(0).run;
    loop {
        let view = runs.wait(&run, None, Duration::from_secs(1)).await.unwrap();
        if view.summary.status == RunStatus::Done {
            return serde_json::from_str(view.report.unwrap().get()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_run_goes_on_when_its_connection_is_lost_and_ends_when_it_is_cancelled() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let waiting = appending(&file, &["one"], "await sleep(500000); return 'never'");
    let mut client = client_with_a_run(&world, &waiting).await;
    has_lines(&file, 1).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    client.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
    let report = only_report(&world).await;
    assert_eq!((&report["code"], &report["safe_to_retry"]), (&json!("ABORTED"), &json!(false)), "{report}");
    world.gateway.shut_down().await;

    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    // Long enough that the connection is gone before the second effect.
    let waits = format!("await sleep(1500); {}", appending(&file, &["two"], "return 'done'"));
    let client = client_with_a_run(&world, &appending(&file, &["one"], &waits)).await;
    has_lines(&file, 1).await;
    drop(client);
    let report = only_report(&world).await;
    assert_eq!(report["value"], "done", "{report}");
    assert_eq!(lines(&file), ["one", "two"]);
    world.gateway.shut_down().await;
}
