//! Staged runs whose programs call tools by the names of host functions: the rules of the tools hold.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_run::durable::{CallDecision, DecisionKind, PendingView, RunStatus};

use crate::support::{World, fixture};

/// `peek` only reads, `note` may change something.
async fn world(policy: Value) -> World {
    let functions = json!({ "peek": { "tool": "f.order" }, "note": { "tool": "f.echo" } });
    let settings = json!({ "functions": functions, "policy": policy });
    World::up_with(json!({ "f": fixture(&["--reads", "order"]) }), settings).await
}

async fn begun(world: &World, code: &str) -> String {
    let told = world.call("call_tool_chain", json!({ "code": code, "stage": true })).await;
    let run = &told["_meta"]["toolgate/report"]["paused"]["runId"];
    run.as_str().unwrap_or_else(|| panic!("it is not paused: {told}")).to_owned()
}

/// What a run waits for; `Err` with its report where it has ended.
async fn waits(world: &World, run: &str) -> Result<Vec<PendingView>, Value> {
    let runs = world.gateway.runner().durable().await.unwrap();
    loop {
        let view = runs.wait(run, Some(""), Duration::from_secs(1)).await.unwrap();
        match view.summary.status {
            RunStatus::Done => return Err(serde_json::from_str(view.report.unwrap().get()).unwrap()),
            RunStatus::Paused if !view.pending.is_empty() => return Ok(view.pending),
            RunStatus::Paused | RunStatus::Running => {}
        }
    }
}

async fn approve(world: &World, run: &str, pending: &[PendingView]) {
    let decisions = pending.iter().map(|it| CallDecision {
        call_id: it.call_id,
        decision: DecisionKind::Approve,
        arguments: None,
        reason: None,
        remember: None,
        by: String::new(),
        at: 0,
    });
    let runs = world.gateway.runner().durable().await.unwrap();
    runs.decide(run, Some(""), decisions.collect()).await.unwrap();
}

fn shown(pending: &[PendingView]) -> Vec<(&str, &str, bool)> {
    pending.iter().map(|it| (it.tool.as_str(), it.reason.as_str(), it.staged.is_some())).collect()
}

const CODE: &str = "const written = await note({ n: 1 }); const seen = await peek({}); return [written, seen]";

#[tokio::test]
async fn a_rule_that_asks_about_a_tool_makes_its_function_a_line_of_the_review() {
    let policy = json!([
        { "tool": "f.order", "do": "ask", "reason": "orders are seen by few" },
        { "tool": "f.echo", "do": "ask", "reason": "notes are checked" },
    ]);
    let world = world(policy).await;
    let run = begun(&world, CODE).await;
    let lines = waits(&world, &run).await.unwrap();
    assert_eq!(shown(&lines), [("note", "notes are checked", true), ("peek", "orders are seen by few", true)]);
    approve(&world, &run, &lines).await;
    // Nothing is asked once more.
    let report = waits(&world, &run).await.unwrap_err();
    assert_eq!((&report["value"][0], &report["value"][1]["a"]), (&json!({ "n": 1 }), &json!(1)), "{report}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_rule_that_denies_a_tool_denies_its_function_in_a_rehearsal() {
    let world = world(json!([{ "tool": "f.echo", "do": "deny", "reason": "no notes" }])).await;
    let code = "try { await note({ n: 1 }) } catch (e) { return [e.code, await peek({})] }";
    let told = world.call("call_tool_chain", json!({ "code": code, "stage": true })).await;
    let report = &told["_meta"]["toolgate/report"];
    // Nothing is left to review.
    assert_eq!((&report["paused"], &report["calls"][0]["state"]), (&Value::Null, &json!("not_sent")), "{told}");
    assert!(told.to_string().contains("DENIED"), "{told}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_rule_stages_programs_that_call_its_tool_by_the_name_of_a_function() {
    let world = world(json!([{ "tool": "f.echo", "do": "ask", "stage": true }])).await;
    let told = world.call("call_tool_chain", json!({ "code": CODE, "durable": true })).await;
    let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap_or_else(|| panic!("{told}"));
    let lines = waits(&world, run).await.unwrap();
    assert_eq!(lines.iter().map(|it| (it.tool.as_str(), it.staged.is_some())).collect::<Vec<_>>(), [("note", true)]);
    // A function that is another tool is not.
    let other = world
        .call("call_tool_chain", json!({ "code": "const q = {}; return (await peek(q)).a", "durable": true }))
        .await;
    assert_eq!(crate::support::first_text(&other), "1", "{other}");
    world.gateway.shut_down().await;
}

/// The rehearsal does not know what the store has counted today: a rule that asks because of it asks when the read is made. The
/// rehearsal ends there, and the read waits after the review.
#[tokio::test]
async fn a_read_that_turns_out_to_need_approval_ends_the_rehearsal() {
    let policy =
        json!([{ "tool": "f.order", "when": "counts.day >= 1", "do": "ask", "reason": "the second of a day" }]);
    for read in ["peek({})", "f.order({})"] {
        let world = world(policy.clone()).await;
        let first = world.chain("const q = {}; return await f.order(q)").await;
        assert_eq!(first["a"], 1, "{first}");
        let code = format!("await f.echo({{ n: 1 }}); return (await {read}).a");
        let run = begun(&world, &code).await;
        let lines = waits(&world, &run).await.unwrap();
        assert_eq!(shown(&lines), [("echo", "the run is staged", true)], "{read}");
        approve(&world, &run, &lines).await;
        let question = waits(&world, &run).await.unwrap();
        assert_eq!(shown(&question), [("order", "the second of a day", false)], "{read}");
        approve(&world, &run, &question).await;
        let report = waits(&world, &run).await.unwrap_err();
        assert_eq!(report["value"], 1, "{read}: {report}");
        world.gateway.shut_down().await;
    }
}

/// A run that goes on from its record counts a function as the tool that it is.
#[tokio::test]
async fn the_calls_of_a_function_count_for_its_tool_after_a_pause() {
    let policy = json!([
        { "tool": "f.order", "do": "ask" },
        { "tool": "f.echo", "do": "allow", "limits": "2 a run" },
    ]);
    let world = world(policy).await;
    let code = "const out = []; for (let n = 0; n < 4; n++) { \
                try { out.push((await note({ n })).n) } catch (e) { out.push(e.code) } \
                if (n == 1) await f.order({}) } return out";
    let told = world.call("call_tool_chain", json!({ "code": code, "durable": true })).await;
    let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
    // Another gateway goes on from the record.
    let folder = std::sync::Arc::clone(&world.folder);
    world.gateway.shut_down().await;
    let again = World::at(
        folder,
        json!({ "f": fixture(&["--reads", "order"]) }),
        json!({
            "functions": { "peek": { "tool": "f.order" }, "note": { "tool": "f.echo" } },
            "policy": [{ "tool": "f.order", "do": "ask" }, { "tool": "f.echo", "do": "allow", "limits": "2 a run" }],
        }),
    );
    again.gateway.settled(crate::support::TEST_TIMEOUT, |_| true).await;
    let question = waits(&again, &run).await.unwrap();
    approve(&again, &run, &question).await;
    let report = waits(&again, &run).await.unwrap_err();
    assert_eq!(report["value"], json!([0, 1, "DENIED", "DENIED"]), "{report}");
    again.gateway.shut_down().await;
}
