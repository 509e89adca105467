//! A store in which no run can be begun: programs that are durable only because a rule may ask run without a record, and say so.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_policy::{Action, Policy, Rule};
use toolgate_run::durable::{DurableRuns, DurableSettings, LocalCaller};
use toolgate_run::{Durability, FixedEnvironment, Route, RunRequest, Runner};
use toolgate_wire::{Code, Profile};

use crate::counting_store::CountingStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_runs_without_a_record_where_the_store_is_full() {
    let tools = json!([
        { "name": "pay", "inputSchema": { "type": "object" }, "reply": "paid" },
        { "name": "find", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true }, "reply": "found" },
    ]);
    let script = ToolScript::parse(&json!({ "backends": { "bank": { "tools": tools } } }).to_string()).unwrap();
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    script.providers().for_each(|(backend, provider)| bridge.provide(backend, provider));
    bridge.set_policy(Policy::new(vec![Rule::new("policy[0]", "bank.pay", Action::Ask)], Action::Allow));
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
    let runner = Runner::new(engine, Arc::new(bridge), Arc::new(FixedEnvironment::default()));
    let store = Arc::new(CountingStore::default());
    let journal = Journal::new(store.clone(), Sealer::new([7; 32]).unwrap(), "one".into(), Duration::from_secs(60));
    let runs = DurableRuns::start(journal, runner.clone(), Arc::new(LocalCaller), DurableSettings::default());
    let run = async |durable, code: &str| {
        let run = runner.run(RunRequest { durable, ..RunRequest::new(Profile::Chain, code) }).await;
        let report = serde_json::to_value(&run).unwrap();
        (run, report)
    };
    store.set_full(true);
    let why = "no person can be asked about its calls: the journal's store is full: no space left on device";
    let reads = "const found = await bank.find({}); return [found]";
    let (_, report) = run(Durability::WhenAsked, reads).await;
    assert_eq!((&report["value"], &report["warnings"]), (&json!(["found"]), &json!([why])), "{report}");
    let pays = "const of = (call) => call.catch((error) => error.code); return await of(bank.pay({}))";
    let (_, report) = run(Durability::WhenAsked, pays).await;
    assert_eq!(report["value"], "DENIED", "{report}");
    assert!(report["warnings"].as_array().unwrap().contains(&json!(why)), "{report}");
    // One that is asked for as durable is not run at all.
    let (refused, report) = run(Durability::Durable, reads).await;
    assert_eq!(refused.report.failure().map(|failure| failure.code), Some(Code::Unavailable), "{report}");
    assert_eq!(refused.route, Route::Refused, "the store is the reason, and no lack of room for one more run");
    store.set_full(false);
    let (waits, report) = run(Durability::WhenAsked, pays).await;
    assert_eq!(waits.paused.map(|paused| paused.pending.len()), Some(1), "{report}");
    runs.stop(Duration::from_secs(30)).await;
}
