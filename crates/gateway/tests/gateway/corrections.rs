//! Chains of corrections by `fix_run`: of volatile and of durable runs, in any order. No effect is made twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_functions::HostFunction;
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_run::durable::{DurableRuns, DurableSettings, LocalCaller};
use toolgate_run::{Durability, FixedEnvironment, RunRequest, Runner};
use toolgate_wire::Profile;

use crate::counting_store::CountingStore;
use crate::durable::{appending, lines, run_id};
use crate::support::{Random, World, first_text, fixture};

/// Makes the run of a program durable: a rule asks about the tools of this backend, which the program does not call.
const NAMES_ASKER: &str = "// asker\n";
/// Corrections of a chain.
const STEPS: usize = 5;

async fn world() -> World {
    let policy = json!([{ "tool": "asker.*", "do": "ask", "reason": "it is checked" }]);
    World::up_with(json!({ "f": fixture(&[]), "asker": fixture(&[]) }), json!({ "policy": policy })).await
}

async fn fix(world: &World, run: &str, code: &str) -> Value {
    world.call("fix_run", json!({ "run_id": run, "code": code })).await
}

/// How many chains are tried: 20, or as many as a long run asks for.
fn chains() -> u64 {
    std::env::var("TOOLGATE_CORRECTION_CHAINS").ok().and_then(|number| number.parse().ok()).unwrap_or(20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_chain_of_corrections_has_an_effect_twice() {
    let world = world().await;
    for seed in 1..=chains() {
        chain(&world, seed).await;
    }
    world.gateway.shut_down().await;
}

/// A run that failed and corrections of it: each of any run before it, volatile or durable, at times twice at one time.
async fn chain(world: &World, seed: u64) {
    let mut random = Random::new(seed);
    let file = world.folder.path().join(format!("effects{seed}"));
    let broken = appending(&file, &["0"], "throw new Error('broken')");
    let first = json!({ "code": broken, "durable": random.below(2) == 0 });
    let mut runs = vec![run_id(&world.call("call_tool_chain", first.clone()).await)];
    let mut history = format!("seed {seed}: {first}");
    for step in 1..=STEPS {
        let of = runs[random.below(runs.len())].clone();
        let mut called = lines(&file);
        // One that does not call what was done sends nothing new.
        let is_whole = random.below(8) > 0;
        if !is_whole {
            called.remove(random.below(called.len()));
        }
        called.push(step.to_string());
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        let then = if random.below(3) == 0 { "return 'ended'" } else { "throw new Error('broken')" };
        let asker = if random.below(2) == 0 { NAMES_ASKER } else { "" };
        let code = format!("{asker}{}", appending(&file, &called, then));
        let results = if random.below(4) == 0 {
            let (one, other) = tokio::join!(fix(world, &of, &code), fix(world, &of, &code));
            vec![one, other]
        } else {
            vec![fix(world, &of, &code).await]
        };
        history.push_str(&format!("\n{of}: {code}"));
        let (done, mut once) = (lines(&file), lines(&file));
        once.sort();
        once.dedup();
        assert_eq!(done.len(), once.len(), "{done:?} has a line twice; {history}");
        let is_new = done.contains(&step.to_string());
        assert_eq!(is_new, is_whole, "{done:?}: what is new is sent after all that was done; {history}\n{results:?}");
        let is_correctable = |result: &&Value| first_text(result).contains("fix_run({ run_id: ");
        runs.extend(results.iter().filter(is_correctable).map(run_id));
    }
}

/// The correction waits for a person. A program without questions is not sent beside it.
#[tokio::test]
async fn a_volatile_run_whose_durable_correction_waits_is_not_corrected_beside_it() {
    let world = world().await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "return missing.field");
    let failed = run_id(&world.call("call_tool_chain", json!({ "code": broken })).await);
    let asking = appending(&file, &["one", "two"], "return await asker.echo({ n: 1 })");
    let paused = fix(&world, &failed, &asking).await;
    assert!(first_text(&paused).contains("is paused"), "{paused}");
    let other = appending(&file, &["one", "two", "three"], "return 'all'");
    let answer = fix(&world, &failed, &other).await;
    assert!(first_text(&answer).contains("is paused"), "the correction that waits is the answer: {answer}");
    assert_eq!(lines(&file), ["one", "two"], "each once");
    world.gateway.shut_down().await;
}

/// What the durable correction of a volatile run did is kept by all later ones, also by one that is not asked about.
#[tokio::test]
async fn what_a_durable_correction_of_a_volatile_run_did_is_not_done_again() {
    let world = world().await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "return missing.field");
    let failed = run_id(&world.call("call_tool_chain", json!({ "code": broken })).await);
    let durable = format!("{NAMES_ASKER}{}", appending(&file, &["one", "two"], "return 'durable'"));
    assert_eq!(first_text(&fix(&world, &failed, &durable).await), "durable");
    let volatile = appending(&file, &["one", "two", "three"], "return 'all'");
    assert_eq!(first_text(&fix(&world, &failed, &volatile).await), "all");
    assert_eq!(lines(&file), ["one", "two", "three"], "each once");
    // The store forgets the corrections: what they did is not known any more, so nothing is sent.
    let runs = world.gateway.runner().durable().await.unwrap();
    let all = toolgate_journal::store::Prune { older_than: None, max_bytes: Some(0) };
    runs.journal().store().prune(all).await.unwrap();
    let refused = fix(&world, &failed, &volatile).await;
    assert!(first_text(&refused).contains("forgotten"), "{refused}");
    assert_eq!(lines(&file), ["one", "two", "three"]);
    world.gateway.shut_down().await;
}

/// A program that is written anew names the same arguments in another order.
#[tokio::test]
async fn the_order_of_arguments_does_not_make_a_call_new() {
    let world = world().await;
    for durable in [false, true] {
        let file = world.folder.path().join(format!("effects of {durable}"));
        let broken = appending(&file, &["one"], "throw new Error('broken')");
        let failed = run_id(&world.call("call_tool_chain", json!({ "code": broken, "durable": durable })).await);
        let path = json!(file.to_str().unwrap());
        let reordered = format!("await f.append({{ line: 'one', file: {path} }}); return 'all'");
        assert_eq!(first_text(&fix(&world, &failed, &reordered).await), "all");
        assert_eq!(lines(&file), ["one"], "once");
    }
    world.gateway.shut_down().await;
}

/// What was done is not in the report of a correction that did not come to it. A program that is begun anew would do it again.
#[tokio::test]
async fn a_correction_that_fails_before_it_calls_what_was_done_is_not_safe_to_retry() {
    let world = world().await;
    for durable in [false, true] {
        let file = world.folder.path().join(format!("effects of {durable}"));
        let broken = appending(&file, &["one"], "throw new Error('broken')");
        let mut last = run_id(&world.call("call_tool_chain", json!({ "code": broken, "durable": durable })).await);
        let other = appending(&file, &["other"], "return 1");
        for code in ["throw new Error('early')", "return (", other.as_str()] {
            let failed = fix(&world, &last, code).await;
            let text = first_text(&failed);
            assert!(text.contains("safe to retry: no"), "{durable}, {code}: {text}");
            assert!(text.contains("fix_run({ run_id: "), "{durable}, {code}: {text}");
            assert_eq!(failed["_meta"]["toolgate/report"]["safe_to_retry"], false, "{failed}");
            last = run_id(&failed);
        }
        let corrected = appending(&file, &["one", "two"], "return 'all'");
        assert_eq!(first_text(&fix(&world, &last, &corrected).await), "all");
        assert_eq!(lines(&file), ["one", "two"], "each once");
    }
    world.gateway.shut_down().await;
}

/// What a correction did not do itself is not done by its fork either.
#[tokio::test]
async fn a_fork_of_a_correction_tells_of_what_it_would_do_again_alone() {
    let world = world().await;
    let file = world.folder.path().join("effects");
    let broken = appending(&file, &["one"], "throw new Error('broken')");
    let failed = run_id(&world.call("call_tool_chain", json!({ "code": broken, "durable": true })).await);
    let corrected = appending(&file, &["one", "two"], "return 'all'");
    let fixed = run_id(&fix(&world, &failed, &corrected).await);
    let runs = world.gateway.runner().durable().await.unwrap();
    let forked = runs.fork(&fixed, None, 0).await.unwrap();
    assert_eq!(forked.left_out, 1, "two is made again");
    assert!(runs.end_of_fork(forked).await.report.failure().is_none());
    assert_eq!(lines(&file), ["one", "two", "two"]);
    world.gateway.shut_down().await;
}

/// Corrections of a durable run, over a store that counts the records that are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_corrections_is_read_once() {
    const CORRECTIONS: usize = 8;
    let tools = json!([{ "name": "pay", "inputSchema": { "type": "object" }, "reply": "paid" }]);
    let script = ToolScript::parse(&json!({ "backends": { "bank": { "tools": tools } } }).to_string()).unwrap();
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    script.providers().for_each(|(backend, provider)| bridge.provide(backend, provider));
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
    let runner = Runner::new(engine, Arc::new(bridge), Arc::new(FixedEnvironment::default()));
    let store = Arc::new(CountingStore::default());
    let journal = Journal::new(store.clone(), Sealer::new([7; 32]).unwrap(), "one".into(), Duration::from_secs(60));
    let runs = DurableRuns::start(journal, runner.clone(), Arc::new(LocalCaller), DurableSettings::default());
    let broken = "await bank.pay({ n: 0 }); throw new Error('broken')";
    let request =
        |kept| RunRequest { durable: Durability::Durable, kept, ..RunRequest::new(Profile::Chain, broken.to_owned()) };
    let first = runner.run(request(None)).await.id;
    let mut last = first.clone();
    for _ in 0..CORRECTIONS {
        let before = store.repeated();
        let kept = runs.kept_effects(&last, None).await.unwrap();
        assert_eq!(store.repeated() - before, 1, "only the record of the run that is corrected");
        last = runner.run(request(Some(kept))).await.id;
    }
    let before = store.repeated();
    let kept = runs.kept_effects(&first, None).await.unwrap();
    let fixed = runner.run(request(Some(kept))).await;
    assert_eq!(
        fixed.report.failure().map(|failure| failure.message.as_str()),
        Some("Error: broken"),
        "{:?}",
        fixed.report
    );
    assert_eq!(store.repeated() - before, 1 + CORRECTIONS, "each record once");
    runs.stop(Duration::from_secs(30)).await;
}

/// A call gets the answer of the call that the earlier run made in its place, also among equal ones that are made at one time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_calls_of_a_correction_get_their_answers_in_the_order_in_which_they_are_made() {
    const EQUAL_CALLS: usize = 24;
    let counter = Arc::new(AtomicUsize::new(0));
    let count = HostFunction::builder("count").handle({
        let counter = counter.clone();
        move |_, _| {
            let number = counter.fetch_add(1, Ordering::SeqCst);
            // The first calls are answered last.
            let late = Duration::from_millis(4 * (EQUAL_CALLS - number % EQUAL_CALLS) as u64);
            async move {
                tokio::time::sleep(late).await;
                Ok(json!(number))
            }
        }
    });
    let functions = [count.unwrap()].into_iter().collect();
    let bridge = Bridge::new(CatalogHandle::new(toolgate_catalog::Catalog::default()));
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
    let environment = FixedEnvironment { functions, ..FixedEnvironment::default() };
    let runner = Runner::new(engine, Arc::new(bridge), Arc::new(environment));
    let store = Arc::new(CountingStore::default());
    let journal = Journal::new(store, Sealer::new([7; 32]).unwrap(), "one".into(), Duration::from_secs(60));
    let runs = DurableRuns::start(journal, runner.clone(), Arc::new(LocalCaller), DurableSettings::default());
    let code = |then: &str| {
        format!("const all = await Promise.all(Array.from({{ length: {EQUAL_CALLS} }}, () => count())); {then}")
    };
    let request =
        |kept, then| RunRequest { durable: Durability::Durable, kept, ..RunRequest::new(Profile::Chain, code(then)) };
    let failed = runner.run(request(None, "throw new Error(JSON.stringify(all))")).await;
    // They reach the function in any order.
    let answers = failed.report.failure().unwrap().message.strip_prefix("Error: ").unwrap().to_owned();
    let kept = runs.kept_effects(&failed.id, None).await.unwrap();
    let fixed = runner.run(request(Some(kept), "return all")).await;
    assert_eq!(fixed.report.value().unwrap().get(), answers);
    assert_eq!(counter.load(Ordering::SeqCst), EQUAL_CALLS, "nothing is sent");
    let events = runs.events(&fixed.id, None, 0).await.unwrap().events;
    assert!(events.iter().all(|event| event.name != "sent"), "{events:?}");
    // A fork of the correction takes the same answers again.
    let forked = runs.fork(&fixed.id, None, 0).await.unwrap();
    assert_eq!(forked.left_out, 0);
    assert!(runs.end_of_fork(forked).await.report.failure().is_none());
    assert_eq!(counter.load(Ordering::SeqCst), EQUAL_CALLS);
    runs.stop(Duration::from_secs(30)).await;
}
