//! Durable runs as an agent has them: `durable: true`, `run_status`, `fix_run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;
use toolgate_journal::store::Prune;
use toolgate_mcp::server::RequestScope;
use toolgate_run::durable::ListRuns;

use crate::run_views::{ended, holds, report};
use crate::support::{World, call, first_text, fixture};

/// A program that appends lines to a file, which are its effects.
pub(crate) fn appending(file: &Path, lines: &[&str], then: &str) -> String {
    let file = json!(file.to_str().unwrap());
    let appends = lines.iter().map(|line| format!("await f.append({{ file: {file}, line: {} }});", json!(line)));
    format!("{} {then}", appends.collect::<String>())
}

pub(crate) fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

pub(crate) fn run_id(result: &Value) -> String {
    result["_meta"]["toolgate/report"]["executionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_durable_run_is_answered_and_its_result_can_be_asked_for_again() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let result = world.call("call_tool_chain", json!({ "code": "return 6 * 7", "durable": true })).await;
    assert_eq!(first_text(&result), "42", "{result}");
    let status = world.call("run_status", json!({ "run_id": run_id(&result) })).await;
    assert!(first_text(&status).contains("has ended"), "{status}");
    assert_eq!(status["content"][1]["text"], "42", "{status}");
    assert_eq!(run_id(&status), run_id(&result), "the report is there too");
    let listed = world.text("run_status", json!({})).await;
    assert!(listed.contains(&run_id(&result)) && listed.contains("return 6 * 7"), "{listed}");
    let none = world.call("run_status", json!({ "run_id": "none" })).await;
    assert!(none["isError"] == true && first_text(&none).contains("no run"), "{none}");
    world.gateway.shut_down().await;
}

/// What is told of a run is no longer than other results, and what is left out of its value can be read.
#[tokio::test]
async fn long_results_of_durable_runs_are_cut_and_kept() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "throw new Error('broken')");
    let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    let long = "return Array.from({ length: 20000 }, (_, n) => ({ id: n, name: 'row ' + n }))";
    let code = appending(&file, &["one"], long);
    let short = json!({ "run_id": run_id(&failed), "code": code, "max_output_size": 900 });
    let short = world.text("fix_run", short).await;
    assert!(short.len() <= 900, "{short}");
    let fixed = world.call("fix_run", json!({ "run_id": run_id(&failed), "code": code })).await;
    let status = world.call("run_status", json!({ "run_id": run_id(&fixed) })).await;
    for (result, at) in [(&fixed, 0), (&status, 1)] {
        let text = result["content"][at]["text"].as_str().unwrap();
        assert!(text.len() <= 24_000, "{}", text.len());
        let id = text.split("[Full result: ").nth(1).and_then(|rest| rest.split(' ').next());
        let id = id.unwrap_or_else(|| panic!("it says where the rest is: {}", &text[text.len() - 400..]));
        let part = world.text("read_result", json!({ "result_id": id, "path": "[19999].name" })).await;
        assert_eq!(part, "row 19999");
    }
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

/// A correction that fails is corrected in turn: what the first run did is kept, although the record of the second has only a part.
#[tokio::test]
async fn a_correction_of_a_correction_keeps_the_effects_of_the_first_run() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one", "one", "two"], "throw new Error('broken')");
    let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    let broken = appending(&file, &["one"], "throw new Error('broken again')");
    let failed = world.call("fix_run", json!({ "run_id": run_id(&failed), "code": broken })).await;
    assert!(first_text(&failed).contains("fix_run"), "the hint names this run: {failed}");

    let other = appending(&file, &["other"], "return 1");
    let refused = world.text("fix_run", json!({ "run_id": run_id(&failed), "code": other })).await;
    assert!(refused.contains("nothing new is sent") && refused.contains("two"), "{refused}");

    let corrected = appending(&file, &["two", "one", "one", "three"], "return 'all'");
    let fixed = world.call("fix_run", json!({ "run_id": run_id(&failed), "code": corrected })).await;
    assert_eq!(first_text(&fixed), "all", "{fixed}");
    assert_eq!(lines(&file), ["one", "one", "two", "three"], "each as often as the first run made it");

    let again = appending(&file, &["one", "one", "two", "three"], "return 'again'");
    let fixed = world.call("fix_run", json!({ "run_id": run_id(&fixed), "code": again })).await;
    assert_eq!(first_text(&fixed), "again", "{fixed}");
    assert_eq!(lines(&file), ["one", "one", "two", "three"]);
    world.gateway.shut_down().await;
}

/// A client that does not get the answer corrects the same run again: what the first correction did is kept.
#[tokio::test]
async fn a_run_that_is_corrected_again_has_each_effect_once() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "throw new Error('broken')");
    let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    let corrected = appending(&file, &["one", "two"], "return 'all'");
    for _ in 0..3 {
        let fixed = world.call("fix_run", json!({ "run_id": run_id(&failed), "code": corrected })).await;
        assert_eq!(first_text(&fixed), "all", "{fixed}");
        assert_eq!(lines(&file), ["one", "two"], "each once");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_run_that_is_corrected_twice_at_one_time_has_each_effect_once() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "throw new Error('broken')");
    let failed = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    let corrected = appending(&file, &["one", "two"], "return 'all'");
    let fix = || world.call("fix_run", json!({ "run_id": run_id(&failed), "code": corrected }));
    let (one, other, third) = tokio::join!(fix(), fix(), fix());
    let texts = [&one, &other, &third].map(first_text);
    assert!(texts.iter().any(|text| *text == "all"), "{texts:?}");
    assert!(texts.iter().all(|text| *text == "all" || text.contains("is corrected by the run")), "{texts:?}");
    assert_eq!(lines(&file), ["one", "two"], "each once");
    world.gateway.shut_down().await;
}

/// A correction, after the store has forgotten the run that it corrects. Answers of `echo` have so many bytes.
async fn correction_of_a_forgotten_run(world: &World, file: &Path, bytes: usize) -> String {
    let echo = format!("await f.echo({{ text: 'x'.repeat({bytes}) }});");
    let broken = format!("{echo} {}", appending(file, &["one", "two"], "throw new Error('broken')"));
    let first = world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await;
    let broken = appending(file, &["one"], "throw new Error('broken again')");
    let second = world.call("fix_run", json!({ "run_id": run_id(&first), "code": broken })).await;
    let runs = world.gateway.runner().durable().await.unwrap();
    let store = runs.journal().store();
    // Runs are forgotten from the oldest on: of two, the first.
    let newest = runs.journal().row(&run_id(&second)).await.unwrap().unwrap().bytes;
    store.prune(Prune { older_than: None, max_bytes: Some(newest) }).await.unwrap();
    assert!(runs.journal().row(&run_id(&first)).await.unwrap().is_none());
    assert_eq!(lines(file), ["one", "two"]);
    run_id(&second)
}

/// A correction has what it keeps in its own record.
#[tokio::test]
async fn a_correction_is_corrected_without_the_record_of_the_first_run() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let second = correction_of_a_forgotten_run(&world, &file, 1).await;
    let calls = appending(&file, &["one", "two", "three"], "return 'all'");
    let corrected = format!("await f.echo({{ text: 'x' }}); {calls}");
    let fixed = world.call("fix_run", json!({ "run_id": second, "code": corrected })).await;
    assert_eq!(first_text(&fixed), "all", "{fixed}");
    assert_eq!(lines(&file), ["one", "two", "three"], "each once");
    world.gateway.shut_down().await;
}

/// More than is stored with a correction: what a forgotten run did is not known then, and nothing is sent.
#[tokio::test]
async fn a_correction_that_keeps_much_of_a_forgotten_run_is_not_corrected() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let file = world.folder.path().join("effects");
    let second = correction_of_a_forgotten_run(&world, &file, 1_200_000).await;
    let corrected = appending(&file, &["one", "two"], "return 'all'");
    let refused = world.call("fix_run", json!({ "run_id": second, "code": corrected })).await;
    assert!(refused["isError"] == true && first_text(&refused).contains("forgotten"), "{refused}");
    assert_eq!(lines(&file), ["one", "two"]);
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
    assert!(key(0).len() == 36 && key(0) == meta(0), "{charged}");
    assert_ne!(key(0), key(1), "each call has its own");
    assert_eq!((key(2).as_str(), meta(2).len()), ("own", 36), "a program that names one has its way");
    let plain = world.text("call_tool_chain", json!({ "code": "return await f.charge({ amount: 1 })" })).await;
    assert!(!plain.contains("idempotency"), "without durability there are none: {plain}");
    world.gateway.shut_down().await;
}

/// A client at the other end of a pipe that has called `call_tool_chain` with this program, as a durable run.
async fn client_with_a_run(world: &World, code: &str) -> DuplexStream {
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let (agent, shutdown) = (Arc::new(world.agent.0.clone()), CancellationToken::new());
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
    holds("lines", || lines(file).len() >= count).await;
}

/// The report of the only run.
async fn only_report(world: &World) -> Value {
    let runs = world.gateway.runner().durable().await.unwrap();
    let run = runs.list(ListRuns { most: 1, ..ListRuns::default() }).await.unwrap().runs.remove(0).run;
    report(&ended(&runs, &run).await)
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

/// A model that did not ask for a durable run can correct its program all the same: what the run did is kept in memory.
#[tokio::test]
async fn a_volatile_run_that_failed_is_corrected_and_keeps_its_effects() {
    let world = World::up(json!({ "f": fixture(&["--reads", "echo"]) })).await;
    let file = world.folder.path().join("effects");
    let reading = format!("const read = await f.echo({{ text: 'r' }}); {}", appending(&file, &["one", "two"], ""));
    let failed = world.call("call_tool_chain", json!({ "code": format!("{reading} return missing.field") })).await;
    let (id, text) = (run_id(&failed), first_text(&failed));
    assert!(text.contains(&format!("fix_run({{ run_id: \"{id}\"")) && text.contains("2 effects"), "{text}");
    assert!(!failed["_meta"]["toolgate/report"]["hint"].to_string().contains("fix_run"), "the report is every door's");

    let other = appending(&file, &["other"], "return 1");
    let refused = world.text("fix_run", json!({ "run_id": id, "code": other })).await;
    assert!(refused.contains("nothing new is sent") && refused.contains("two"), "{refused}");
    assert_eq!(lines(&file), ["one", "two"]);

    // A correction that fails in turn is corrected in turn: of its own effects and of those that it did not call again.
    let again = appending(&file, &["one"], "throw new Error('broken again')");
    let failed = world.call("fix_run", json!({ "run_id": id, "code": again })).await;
    assert!(first_text(&failed).contains(&run_id(&failed)), "{failed}");
    let warnings = failed["_meta"]["toolgate/report"]["warnings"].to_string();
    assert!(warnings.contains("not called by this one") && warnings.contains("two"), "{warnings}");
    let corrected = appending(&file, &["two", "one", "three"], "return 'all'");
    let fixed = world.call("fix_run", json!({ "run_id": run_id(&failed), "code": corrected })).await;
    assert_eq!(first_text(&fixed), "all", "{fixed}");
    assert_eq!(lines(&file), ["one", "two", "three"], "each once");

    // One call alone is no other path to the tool.
    let one = appending(&file, &["one"], "").replace("await", "return await");
    let fixed = world.call("fix_run", json!({ "run_id": id, "code": one })).await;
    assert!(fixed["_meta"]["toolgate/report"]["warnings"].to_string().contains("two"), "{fixed}");
    let json = json!({ "tool": "f.append", "arguments": { "file": file, "line": "json" } }).to_string();
    let refused = world.text("fix_run", json!({ "run_id": id, "code": json })).await;
    assert!(refused.contains("needs a program"), "{refused}");
    assert_eq!(lines(&file), ["one", "two", "three"]);
    world.gateway.shut_down().await;
}

/// A program of one call is answered without an interpreter, and what it did is kept all the same.
#[tokio::test]
async fn a_program_of_one_call_that_failed_is_corrected_and_keeps_its_effect() {
    let settings = json!({ "sandbox": { "limits": { "chain": { "result": 2 } } } });
    let world = World::up_with(json!({ "f": fixture(&[]) }), settings).await;
    let file = world.folder.path().join("effects");
    let one = appending(&file, &["one"], "").replace("await", "return await");
    let failed = world.call("call_tool_chain", json!({ "code": one })).await;
    let report = &failed["_meta"]["toolgate/report"];
    assert_eq!((&report["path"], &report["code"]), (&json!("one_call"), &json!("OUTPUT_TOO_LARGE")), "{failed}");
    let id = run_id(&failed);
    assert!(first_text(&failed).contains(&format!("fix_run({{ run_id: \"{id}\"")), "{failed}");
    let fixed = world.call("fix_run", json!({ "run_id": id, "code": appending(&file, &["one"], "return 1") })).await;
    assert_eq!(first_text(&fixed), "1", "{fixed}");
    assert_eq!(lines(&file), ["one"], "the call is not made again");
    world.gateway.shut_down().await;
}

/// A correction whose client is gone ends, and what it did is known when the first run is corrected again.
#[tokio::test]
async fn what_a_cancelled_correction_of_a_volatile_run_did_is_not_done_again() {
    for is_dropped in [false, true] {
        let world = World::up(json!({ "f": fixture(&[]) })).await;
        let file = world.folder.path().join("effects");
        let broken = appending(&file, &["one"], "return missing.field");
        let id = run_id(&world.call("call_tool_chain", json!({ "code": broken })).await);
        let waiting = appending(&file, &["one", "two"], "await sleep(500000); return 'never'");
        let fix = call("fix_run", json!({ "run_id": id, "code": waiting, "timeout": 600_000 }));
        let (agent, cancel) = (world.agent.clone(), fix.cancel.clone());
        let fixing = tokio::spawn(async move { agent.call(fix).await });
        has_lines(&file, 2).await;
        // Its answer may come after its line is in the file; a call without one is not made again.
        tokio::time::sleep(Duration::from_millis(500)).await;
        if is_dropped {
            fixing.abort();
            assert!(fixing.await.is_err_and(|error| error.is_cancelled()));
        } else {
            cancel.cancel();
            let ended = fixing.await.unwrap().unwrap();
            assert!(first_text(&ended).contains("ABORTED"), "{ended}");
        }
        let corrected = appending(&file, &["one", "two", "three"], "return 'all'");
        let fixed = world.call("fix_run", json!({ "run_id": id, "code": corrected })).await;
        assert_eq!(first_text(&fixed), "all", "{fixed}");
        assert_eq!(lines(&file), ["one", "two", "three"], "each once");
        world.gateway.shut_down().await;
    }
}

/// What only read, and what returned, leaves nothing to be kept.
#[tokio::test]
async fn a_volatile_run_without_effects_has_nothing_to_be_kept() {
    let world = World::up(json!({ "f": fixture(&["--reads", "echo"]) })).await;
    let file = world.folder.path().join("effects");
    let read = world.call("call_tool_chain", json!({ "code": "await f.echo({}); return missing.field" })).await;
    let written = world.call("call_tool_chain", json!({ "code": appending(&file, &["one"], "return 1") })).await;
    for result in [&read, &written] {
        assert!(!first_text(result).contains("fix_run"), "{result}");
        let none = world.call("fix_run", json!({ "run_id": run_id(result), "code": "return 1" })).await;
        assert!(none["isError"] == true && first_text(&none).contains("no run"), "{none}");
    }
    world.gateway.shut_down().await;
}

/// More than is kept of one run: the text says what to do the next time.
#[tokio::test]
async fn a_volatile_run_whose_effects_do_not_fit_is_told_how_to_keep_them() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let code = "await f.append({ file: '/dev/null', line: 'x'.repeat(1200000) }); return missing.field";
    let failed = world.call("call_tool_chain", json!({ "code": code })).await;
    let text = first_text(&failed);
    assert!(text.contains("durable: true") && !text.contains("run_id:"), "{text}");
    world.gateway.shut_down().await;
}
