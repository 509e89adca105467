//! A run that waits for a person with its worker: a decision continues it without its record, and whatever happens to the worker,
//! the record is enough.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_journal::durable::Journal;
use toolgate_journal::entry::{Entry, Event};
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::Store;
use toolgate_policy::{Action, Policy, Rule};
use toolgate_run::durable::{CallDecision, DecisionKind, DurableRuns, DurableSettings, LocalCaller};
use toolgate_run::{FixedEnvironment, RunRequest, Runner};
use toolgate_wire::{CallerScope, LimitRequest, Profile};

use crate::counting_store::CountingStore;
use crate::run_views::{WAIT_TIMEOUT, decision, holds, is_done, report, settled, until};

/// What was called, by all gateways of a test.
type Calls = Arc<Mutex<Vec<String>>>;

/// Notes what is called.
struct Noting(Arc<dyn Provider>, Calls);

impl Provider for Noting {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        self.1.lock().push(format!("{tool} {}", arguments["to"]));
        self.0.call(tool, arguments, asked)
    }
}

/// Gateways over one store and one bank.
#[derive(Default)]
struct World {
    store: Arc<CountingStore>,
    calls: Calls,
}

impl World {
    /// A gateway that asks about every wire. It looks for decisions of others as rarely as a test can wait for.
    fn gateway(&self, number: u32) -> DurableRuns {
        self.gateway_that_asks(number, Rule::new("policy[0]", "bank.wire", Action::Ask)).0
    }

    fn gateway_that_asks(&self, number: u32, rule: Rule) -> (DurableRuns, Arc<Bridge>) {
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        let tools = json!([
            { "name": "wire", "inputSchema": schema, "reply": "{{to}}" },
            { "name": "pay", "inputSchema": schema, "reply": "{{to}}" },
        ]);
        let bridge = Bridge::new(CatalogHandle::new(bank(&tools).catalog()));
        for (backend, provider) in bank(&tools).providers() {
            bridge.provide(backend, Arc::new(Noting(provider, self.calls.clone())));
        }
        bridge.set_policy(Policy::new(vec![rule], Action::Allow));
        let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
        let bridge = Arc::new(bridge);
        let runner = Runner::new(engine, bridge.clone(), Arc::new(FixedEnvironment::default()));
        let journal = journal(&self.store, number);
        (DurableRuns::start(journal, runner, Arc::new(LocalCaller), DurableSettings::default()), bridge)
    }

    fn called(&self) -> Vec<String> {
        self.calls.lock().clone()
    }
}

fn bank(tools: &Value) -> ToolScript {
    ToolScript::parse(&json!({ "backends": { "bank": { "tools": tools } } }).to_string()).unwrap()
}

fn journal(store: &Arc<CountingStore>, number: u32) -> Journal {
    let sealer = Sealer::new([7; 32]).unwrap();
    Journal::new(store.clone(), sealer, format!("gateway {number}"), Duration::from_secs(2))
}

async fn begin(runs: &DurableRuns, code: &str) -> String {
    runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run
}

async fn decide(runs: &DurableRuns, run: &str, call: u32, kind: DecisionKind) {
    runs.decide(run, None, vec![decision(call, kind)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_continues_a_run_with_the_worker_that_waits() {
    let world = World::default();
    let runs = world.gateway(1);
    let code = "console.log('before'); const paid = await bank.pay({ to: 'ann' }); \
                const [one, two] = await Promise.all(['bob', 'cy'].map((to) => bank.wire({ to }).catch(() => 'no'))); \
                console.log('after'); return [paid, one, two, (await bank.pay({ to: 'dan' }))]";
    let run = begin(&runs, code).await;
    let view = settled(&runs, &run).await;
    assert_eq!(view.pending.len(), 2, "{view:?}");
    let (bob, cy) = (view.pending[0].call_id, view.pending[1].call_id);
    // A look that goes on since the pause would find the run as well.
    let looks = world.store.looks();
    holds("a look for runs", || world.store.looks() > looks).await;
    decide(&runs, &run, bob, DecisionKind::Approve).await;
    // The other one still waits: the run is paused again.
    let view = settled(&runs, &run).await;
    assert_eq!(view.pending.iter().map(|it| it.call_id).collect::<Vec<_>>(), [cy], "{view:?}");
    assert_eq!(world.store.named_claims(), 1, "the process that decides claims the run at once");
    // As the command line does it: the decision is in the store, and no gateway is told.
    let text = serde_json::to_string(&decision(cy, DecisionKind::Deny)).unwrap();
    journal(&world.store, 9).decide(&run, toolgate_wire::CallId(cy), &text).await.unwrap();
    let report = report(&settled(&runs, &run).await);
    assert_eq!(report["value"], json!(["ann", "bob", "no", "dan"]), "{report}");
    assert_eq!(report["logs"]["stdout"], json!(["before", "after"]), "{report}");
    assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\"", "pay \"dan\""]);
    assert_eq!(world.store.repeated(), 0, "nothing was repeated");
    // What is kept of the run is a whole record.
    let replayed = runs.replay(&run, &CallerScope::default()).await.unwrap();
    assert_eq!(replayed.difference, None);
}

/// One approval for the whole run answers the calls that wait beside it, wherever the decision is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_is_remembered_answers_the_calls_that_wait_already() {
    let code = "return await Promise.all(['ann', 'bob', 'cy', 'dan'].map((to) => bank.wire({ to })))";
    for remember in [json!("run"), json!("session")] {
        let world = World::default();
        let runs = world.gateway(1);
        let run = begin(&runs, code).await;
        let view = settled(&runs, &run).await;
        assert_eq!(view.pending.len(), 4, "one pause for all: {view:?}");
        let approved = decision(view.pending[0].call_id, DecisionKind::Approve);
        let approved = CallDecision { remember: Some(remember.clone()), ..approved };
        runs.decide(&run, None, vec![approved]).await.unwrap();
        let view = settled(&runs, &run).await;
        assert!(is_done(&view), "{remember}: {:?}", view.pending);
        assert_eq!(report(&view)["value"], json!(["ann", "bob", "cy", "dan"]));
        assert_eq!((world.called().len(), world.store.repeated()), (4, 0), "with the worker that waited");
    }
    // At the command line, whose process knows no rules.
    let world = World::default();
    let runs = world.gateway(1);
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    let approved = CallDecision { remember: Some(json!("run")), ..decision(call, DecisionKind::Approve) };
    let text = serde_json::to_string(&approved).unwrap();
    journal(&world.store, 9).decide(&run, toolgate_wire::CallId(call), &text).await.unwrap();
    let view = settled(&runs, &run).await;
    assert_eq!(report(&view)["value"], json!(["ann", "bob", "cy", "dan"]), "{view:?}");
    assert_eq!(world.store.repeated(), 0);
    // An approval of one call alone answers no other.
    let world = World::default();
    let runs = world.gateway(1);
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    let once = CallDecision { remember: Some(json!("once")), ..decision(call, DecisionKind::Approve) };
    runs.decide(&run, None, vec![once]).await.unwrap();
    let view = settled(&runs, &run).await;
    assert_eq!(view.pending.len(), 3, "approved for itself: {view:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_run_another_process_had_meanwhile_is_not_used() {
    let world = World::default();
    let (first, second) = (world.gateway(1), world.gateway(2));
    let code = "const all = []; for (const to of ['ann', 'bob', 'cy']) { all.push(await bank.wire({ to })); \
                all.push(await bank.pay({ to })); } return all";
    let run = begin(&first, code).await;
    // Each question is decided at the other gateway than the one before, which has a worker that waits with an older state.
    for (number, runs) in [&second, &first, &second].into_iter().enumerate() {
        let view = settled(runs, &run).await;
        assert_eq!(view.pending.len(), 1, "question {number}: {view:?}");
        decide(runs, &run, view.pending[0].call_id, DecisionKind::Approve).await;
    }
    let report = report(&settled(&first, &run).await);
    assert_eq!(report["value"], json!(["ann", "ann", "bob", "bob", "cy", "cy"]), "{report}");
    let expected = ["ann", "bob", "cy"].map(|to| [format!("wire \"{to}\""), format!("pay \"{to}\"")]);
    assert_eq!(world.called(), expected.concat(), "each effect once, in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_gateway_is_gone_goes_on_elsewhere() {
    let world = World::default();
    let first = world.gateway(1);
    let run = begin(&first, "return [await bank.pay({ to: 'ann' }), await bank.wire({ to: 'bob' })]").await;
    let call = settled(&first, &run).await.pending[0].call_id;
    drop(first);
    let second = world.gateway(2);
    decide(&second, &run, call, DecisionKind::Approve).await;
    assert_eq!(report(&settled(&second, &run).await)["value"], json!(["ann", "bob"]));
    assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_expires_while_its_worker_waits() {
    let world = World::default();
    let mut rule = Rule::new("policy[0]", "bank.wire", Action::Ask);
    rule.expiry = Duration::from_secs(1);
    let (runs, _) = world.gateway_that_asks(1, rule);
    let code =
        "try { await bank.wire({ to: 'ann' }) } catch (error) { return [error.code, await bank.pay({ to: 'bob' })] }";
    let run = begin(&runs, code).await;
    let view = until(&runs, &run, is_done).await;
    assert_eq!(report(&view)["value"], json!(["EXPIRED", "bob"]));
    assert_eq!(world.called(), ["pay \"bob\""]);
    assert_eq!(world.store.repeated(), 0, "nothing was repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_runs_may_wait_than_workers_do() {
    let world = World::default();
    let runs = world.gateway(1);
    let mut begun = Vec::new();
    for number in 0..20 {
        let run = begin(&runs, &format!("return await bank.wire({{ to: 'n{number}' }})")).await;
        let call = settled(&runs, &run).await.pending[0].call_id;
        begun.push((run, call));
    }
    for (run, call) in &begun {
        decide(&runs, run, *call, DecisionKind::Approve).await;
    }
    for (number, (run, _)) in begun.iter().enumerate() {
        assert_eq!(report(&settled(&runs, run).await)["value"], json!(format!("n{number}")));
    }
    assert_eq!(world.called().len(), 20, "{:?}", world.called());
    assert_eq!(world.store.repeated(), 4, "sixteen had a worker");
}

/// A program has its wall time for itself: what a person takes for a decision does not count, for the host and for the worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_person_is_no_wall_time() {
    let world = World::default();
    let runs = world.gateway(1);
    let code = "await bank.wire({ to: 'ann' }); let sum = 0; for (let i = 0; i < 200000; i++) sum += i; return sum";
    let wall = Duration::from_secs(3);
    let limits = LimitRequest { wall: Some(wall), ..LimitRequest::default() };
    let request = RunRequest { limits, ..RunRequest::new(Profile::Chain, code) };
    let run = runs.begin(request, None, None).await.unwrap().run;
    let call = settled(&runs, &run).await.pending[0].call_id;
    tokio::time::sleep(wall + Duration::from_millis(200)).await;
    decide(&runs, &run, call, DecisionKind::Approve).await;
    let report = report(&settled(&runs, &run).await);
    assert_eq!(report["value"], json!(19_999_900_000_u64), "{report}");
    assert_eq!(world.store.repeated(), 0, "nothing was repeated");
    assert!(report["executionMs"].as_f64().is_some_and(|ms| ms < 3_000.0), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_with_its_worker_is_aborted() {
    let world = World::default();
    let runs = world.gateway(1);
    let run = begin(&runs, "return await bank.wire({ to: 'ann' })").await;
    settled(&runs, &run).await;
    runs.abort(&run, None).await.unwrap();
    let report = report(&until(&runs, &run, is_done).await);
    assert_eq!(report["code"], "ABORTED", "{report}");
    assert!(world.called().is_empty());
}

/// A call that waits for a person when its run ends was not sent, and the report says so: with the worker, from the record, and when
/// the record is repeated later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_when_its_run_is_aborted_was_not_sent() {
    let world = World::default();
    let runs = world.gateway(1);
    // The first one is aborted while it is paused, the other before it is: a program that prints is never silent.
    let busy = "const wired = bank.wire({ to: 'ann' }); for (;;) { console.log('on'); await sleep(20) }";
    for code in ["return await bank.wire({ to: 'ann' })", busy] {
        let run = begin(&runs, code).await;
        if code != busy {
            settled(&runs, &run).await;
        }
        let asked = async {
            while !journal(&world.store, 9).load(&run).await.unwrap().entries.iter().any(is_question) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, asked).await.expect("a question");
        runs.abort(&run, None).await.unwrap();
        let report = report(&until(&runs, &run, is_done).await);
        assert_eq!((&report["code"], &report["safe_to_retry"]), (&json!("ABORTED"), &json!(true)), "{code}: {report}");
        assert_eq!(report["calls"][0]["state"], "not_sent", "{code}: {report}");
        let replayed = runs.replay(&run, &CallerScope::default()).await.unwrap();
        assert_eq!(replayed.difference, None, "{code}");
    }
    assert!(world.called().is_empty());
}

fn is_question(entry: &Entry) -> bool {
    matches!(entry.event, Event::Asked { .. })
}

/// An approval and an abort come before the gateway looks: the call is not sent any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_of_an_aborted_run_is_not_sent() {
    let world = World::default();
    let runs = world.gateway(1);
    let run = begin(&runs, "return await bank.wire({ to: 'ann' })").await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    world.store.abort(&run).await.unwrap();
    let text = serde_json::to_string(&decision(call, DecisionKind::Approve)).unwrap();
    journal(&world.store, 9).decide(&run, toolgate_wire::CallId(call), &text).await.unwrap();
    let report = report(&until(&runs, &run, is_done).await);
    assert_eq!(report["code"], "ABORTED", "{report}");
    assert!(world.called().is_empty(), "{:?}", world.called());
}

/// A program that computes while a call of it waits would have a core and no wall time: it is ended, and its record is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_computes_does_not_wait_with_its_worker() {
    let world = World::default();
    let runs = world.gateway(1);
    let code = "const wired = bank.wire({ to: 'ann' }); await bank.pay({ to: 'bob' }); \
                let sum = 0; for (let i = 0; i < 10_000_000; i++) sum += i; return [await wired, sum]";
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    decide(&runs, &run, call, DecisionKind::Approve).await;
    let report = report(&settled(&runs, &run).await);
    assert_eq!(report["value"], json!(["ann", 49_999_995_000_000_u64]), "{report}");
    assert_eq!(world.store.repeated(), 1, "the worker was ended");
    assert_eq!(world.called(), ["pay \"bob\"", "wire \"ann\""]);
}

/// A tool that was called is another one when the decision comes: the record is repeated, and a person is asked about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_not_used_when_a_tool_has_changed() {
    let world = World::default();
    let (runs, bridge) = world.gateway_that_asks(1, Rule::new("policy[0]", "bank.wire", Action::Ask));
    let run = begin(&runs, "return [await bank.pay({ to: 'ann' }), await bank.wire({ to: 'bob' })]").await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    let same = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
    let other = json!({ "type": "object", "properties": { "to": { "type": "string" }, "now": { "type": "boolean" } } });
    let tools = json!([
        { "name": "wire", "inputSchema": same, "reply": "{{to}}" },
        { "name": "pay", "inputSchema": other, "reply": "{{to}}" },
    ]);
    bridge.catalog_handle().replace(bank(&tools).catalog());
    decide(&runs, &run, call, DecisionKind::Approve).await;
    let view = settled(&runs, &run).await;
    assert_eq!(view.pending.len(), 1, "it is asked about: {view:?}");
    assert_ne!(view.pending[0].call_id, call);
    decide(&runs, &run, view.pending[0].call_id, DecisionKind::Approve).await;
    assert_eq!(report(&settled(&runs, &run).await)["value"], json!(["ann", "bob"]));
    assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\""]);
}

/// A decision is answered when it is on the disk; the run does not wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_acknowledged_when_it_is_on_the_disk() {
    let world = World::default();
    let runs = world.gateway(1);
    let run = begin(&runs, "return [await bank.wire({ to: 'ann' }), await bank.wire({ to: 'bob' })]").await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    decide(&runs, &run, call, DecisionKind::Approve).await;
    assert_eq!(world.store.syncs(), 1);
    let next = until(&runs, &run, |view| view.pending.first().is_some_and(|it| it.call_id != call)).await;
    world.store.next_sync_fails();
    let decided = runs.decide(&run, None, vec![decision(next.pending[0].call_id, DecisionKind::Approve)]).await;
    assert!(decided.unwrap_err().to_string().contains("the disk is broken"));
    assert_eq!(report(&settled(&runs, &run).await)["value"], json!(["ann", "bob"]));
}
