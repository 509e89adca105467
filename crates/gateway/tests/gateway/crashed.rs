//! A gateway that is killed while calls are open: those that may be made again are, with the key that they had, and no others. And a
//! gateway whose store fails for a moment: its runs end all the same, also where no other gateway is there to take them over.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, EngineChoice, IsolationMode, V8Settings};
use toolgate_functions::{HostFunction, Registry, idempotency};
use toolgate_journal::durable::Journal;
use toolgate_journal::entry::Event;
use toolgate_journal::fork::fork;
use toolgate_journal::seal::Sealer;
use toolgate_policy::{Action, Policy, Rule};
use toolgate_run::durable::{DecisionKind, DurableRuns, DurableSettings, LocalCaller, RunStatus, RunView};
use toolgate_run::{FixedEnvironment, RunRequest, Runner};
use toolgate_wire::{LimitRequest, Profile};

use crate::counting_store::CountingStore;
use crate::run_views::{decision, ended, holds, report, settled};

/// Short, so that a run is taken over soon.
const LEASE: Duration = Duration::from_millis(200);

/// What was called that may have an effect, with the arguments, by all gateways of a test.
type Calls = Arc<Mutex<Vec<Value>>>;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    /// It is answered.
    Yes,
    /// It takes effect and is not answered.
    Never,
}

struct Bank {
    scripted: Arc<dyn Provider>,
    calls: Calls,
    answers: Answers,
}

impl Provider for Bank {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        if tool == "find" {
            return self.scripted.call(tool, arguments, asked);
        }
        self.calls.lock().push(json!([tool, arguments]));
        match self.answers {
            Answers::Yes => self.scripted.call(tool, arguments, asked),
            Answers::Never => Box::pin(std::future::pending()),
        }
    }
}

/// `find` reads, `set` says that it may be called again, `charge` takes a key, `send` does none of these, unless it takes one too.
fn tools(send: &[&str]) -> Value {
    let text = json!({ "type": "string" });
    let schema = |names: &[&str]| {
        let properties: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
        json!({ "type": "object", "properties": properties })
    };
    let mut order = schema(&["to", "idempotency_key"]);
    order["required"] = json!(["to", "idempotency_key"]);
    json!([
        { "name": "order", "inputSchema": order, "reply": "done" },
        { "name": "find", "inputSchema": schema(&["to"]), "annotations": { "readOnlyHint": true }, "reply": "done" },
        { "name": "set", "inputSchema": schema(&["to"]), "annotations": { "idempotentHint": true }, "reply": "done" },
        { "name": "charge", "inputSchema": schema(&["to", "idempotency_key", "request_id"]), "reply": "done" },
        { "name": "send", "inputSchema": schema(send), "reply": "done" },
    ])
}

/// Gateways over one store and one bank.
#[derive(Default)]
struct World {
    store: Arc<CountingStore>,
    calls: Calls,
    /// The bound of a record, where it is not the usual one.
    max_record_bytes: Option<u64>,
    /// The memory of a program that is configured.
    max_memory: Option<u64>,
    /// Whether `send` takes a key at the gateways after the first.
    is_upgraded: bool,
    /// The gateway whose programs run on V8 unless they say otherwise. There is no V8 here.
    uses_v8: Option<u32>,
}

impl World {
    fn gateway(&self, number: u32, answers: Answers, policy: Policy) -> DurableRuns {
        let send = if self.is_upgraded && number > 1 { &["to", "idempotency_key"][..] } else { &["to"] };
        let tools = json!({ "backends": { "bank": { "tools": tools(send) } } });
        let script = ToolScript::parse(&tools.to_string()).unwrap();
        let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
        for (backend, scripted) in script.providers() {
            bridge.provide(backend, Arc::new(Bank { scripted, calls: self.calls.clone(), answers }));
        }
        bridge.set_policy(policy);
        let no_v8 = V8Settings { deno: Some("/no/such/deno".into()), ..V8Settings::default() };
        let usual = if self.uses_v8 == Some(number) { EngineChoice::V8 } else { EngineChoice::QuickJs };
        let engine = Engine::builder().isolation(IsolationMode::Thread).v8(no_v8).engine(usual).build().unwrap();
        let mut environment = FixedEnvironment { functions: self.functions(answers), ..FixedEnvironment::default() };
        environment.limits.chain.memory = self.max_memory;
        let runner = Runner::new(engine, Arc::new(bridge), Arc::new(environment));
        let sealer = Sealer::new([7; 32]).unwrap();
        let journal = Journal::new(self.store.clone(), sealer, format!("gateway {number}"), LEASE);
        let journal = match self.max_record_bytes {
            Some(bytes) => journal.with_max_record_bytes(bytes),
            None => journal,
        };
        let settings = DurableSettings { park_time: Duration::ZERO, ..DurableSettings::default() };
        DurableRuns::start(journal, runner, Arc::new(LocalCaller), settings)
    }

    fn functions(&self, answers: Answers) -> Registry {
        let calls = self.calls.clone();
        let save =
            HostFunction::builder("save").required("to", json!({}), "Where.").idempotent().handle(move |_, _| {
                calls.lock().push(json!(["save", idempotency::current()]));
                async move {
                    match answers {
                        Answers::Yes => Ok(json!("done")),
                        Answers::Never => std::future::pending().await,
                    }
                }
            });
        [save.unwrap()].into_iter().collect()
    }

    fn called(&self) -> Vec<Value> {
        self.calls.lock().clone()
    }

    /// Begins a run at a gateway that is killed when its call is open.
    fn killed_in(&self, code: &str) -> String {
        let killed = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let run = killed.block_on(async {
            let runs = self.gateway(1, Answers::Never, Policy::default());
            let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
            holds("a call", || !self.called().is_empty()).await;
            // Kept until the runtime ends, as a process that is killed lets nothing go.
            std::mem::forget(runs);
            run
        });
        killed.shutdown_background();
        run
    }

    /// The same, and the report of the run at the next gateway.
    fn after_a_kill(&self, code: &str) -> Value {
        let run = self.killed_in(code);
        let next = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        next.block_on(async { report(&ended(&self.gateway(2, Answers::Yes, Policy::default()), &run).await) })
    }
}

#[test]
fn open_calls_that_are_idempotent_are_made_again_with_the_same_key() {
    for code in [
        "return await bank.set({ to: 'ann' })",
        "return await bank.charge({ to: 'ann' })",
        "return await bank.charge({ to: 'ann', idempotency_key: 'own', request_id: 'r' })",
        "return await save('ann')",
    ] {
        let world = World::default();
        let report = world.after_a_kill(code);
        assert_eq!(report["value"], "done", "{code}: {report}");
        let calls = world.called();
        assert_eq!((calls.len(), &calls[0]), (2, &calls[1]), "{code}: made again as it was");
        let has_key = match calls[0][0].as_str() {
            Some("charge") => calls[0][1]["idempotency_key"].is_string(),
            Some("save") => calls[0][1].is_string(),
            _ => true,
        };
        assert!(has_key, "{code}: {calls:?}");
    }
}

/// The schema requires a key, and the run has one for each call: what the program leaves out is no mistake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_key_that_a_program_leaves_out_is_filled_in() {
    let world = World::default();
    let runs = world.gateway(1, Answers::Yes, Policy::default());
    let run = async |code: &str| {
        let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        report(&ended(&runs, &run).await)
    };
    for code in
        ["return await bank.order({ to: 'ann' })", "const to = { to: 'ann' }; return await bank.order({ ...to })"]
    {
        let report = run(code).await;
        assert_eq!(report["value"], "done", "{code}: {report}");
    }
    let calls = world.called();
    assert!(calls.len() == 2 && calls.iter().all(|call| call[1]["idempotency_key"].is_string()), "{calls:?}");
    let report = run("return await bank.order({})").await;
    assert!(report["error"].as_str().is_some_and(|it| it.contains("`to` is required")), "{report}");
}

/// That a schema has a place for a key says nothing about a call that was sent without one.
#[test]
fn open_calls_that_were_sent_without_a_key_are_not_made_again() {
    for code in [
        "return await bank.send({ to: 'ann' })",
        "return await bank.charge({ to: 'ann', request_id: 'own' })",
        "return await bank.charge({ to: 'ann', idempotency_key: '' })",
    ] {
        let world = World::default();
        let report = world.after_a_kill(code);
        assert_eq!((&report["ok"], &report["safe_to_retry"]), (&json!(false), &json!(false)), "{code}: {report}");
        assert_eq!(report["calls"][0]["state"], "unknown", "{code}: {report}");
        assert_eq!(world.called().len(), 1, "{code}: never a silent repeat");
    }
}

/// A call was sent without a key, and its tool has a place for one since then: a person who agrees to the new schema has not agreed to
/// a second call.
#[test]
fn a_place_for_a_key_that_came_later_says_nothing_about_a_call_that_was_sent() {
    let world = World { is_upgraded: true, ..World::default() };
    let run = world.killed_in("return await bank.send({ to: 'ann' })");
    let next = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let report = next.block_on(async {
        let runs = world.gateway(2, Answers::Yes, Policy::default());
        let view = settled(&runs, &run).await;
        assert_eq!(view.summary.status, RunStatus::Paused, "its schema is asked about: {view:?}");
        approve(&runs, &run, &view).await;
        report(&ended(&runs, &run).await)
    });
    assert_eq!((&report["ok"], &report["safe_to_retry"]), (&json!(false), &json!(false)), "{report}");
    assert_eq!(report["calls"][0]["state"], "unknown", "{report}");
    assert_eq!(world.called().len(), 1, "never a silent repeat");
}

/// The record has nothing of the call: the run ends, nothing is made again, and its report does not say that it may be.
#[test]
fn an_open_call_beyond_the_bound_of_the_record_is_not_made_again() {
    let world = World { max_record_bytes: Some(100_000), ..World::default() };
    let code = "await bank.find({ to: 'x'.repeat(200000) }); return await bank.send({ to: 'ann' })";
    let report = world.after_a_kill(code);
    assert_eq!((&report["ok"], &report["safe_to_retry"]), (&json!(false), &json!(false)), "{report}");
    assert!(report["error"].as_str().unwrap().contains("its bound of"), "{report}");
    assert_eq!(world.called().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_write_was_kept_and_not_answered_ends() {
    let world = World::default();
    let runs = world.gateway(1, Answers::Yes, Policy::default());
    world.store.answer_of_next_append_is_lost();
    let code = "await bank.set({ to: 'ann' }).catch(() => {}); return await bank.set({ to: 'bob' })";
    let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["value"], "done", "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_record_could_not_be_read_once_goes_on() {
    let world = World::default();
    let policy = || Policy::new(vec![Rule::new("policy[0]", "bank.send", Action::Ask)], Action::Allow);
    let runs = world.gateway(1, Answers::Yes, policy());
    let run = runs.begin(RunRequest::new(Profile::Chain, "return await bank.send({ to: 'ann' })"), None, None);
    let run = run.await.unwrap().run;
    let view = settled(&runs, &run).await;
    world.store.next_read_fails();
    approve(&runs, &run, &view).await;
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["value"], "done", "{report}");
    assert_eq!(world.called().len(), 1);
}

/// Asks about every charge.
fn asks_about_charges() -> Policy {
    Policy::new(vec![Rule::new("policy[0]", "bank.charge", Action::Ask)], Action::Allow)
}

/// A run that has sent something and waits for a person.
async fn waiting(runs: &DurableRuns, request: RunRequest) -> (String, RunView) {
    let run = runs.begin(request, None, None).await.unwrap().run;
    let view = settled(runs, &run).await;
    assert_eq!(view.summary.status, RunStatus::Paused, "{view:?}");
    (run, view)
}

const SENDS_AND_CHARGES: &str =
    "console.log('begins'); await bank.send({ to: 'ann' }); return await bank.charge({ to: 'ann' })";

async fn approve(runs: &DurableRuns, run: &str, view: &RunView) {
    runs.decide(run, None, vec![decision(view.pending[0].call_id, DecisionKind::Approve)]).await.unwrap();
}

/// The report of a run that ends before its record is repeated has not all of its calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_differs_before_a_recorded_effect_is_not_safe_to_retry() {
    let world = World::default();
    let runs = world.gateway(1, Answers::Yes, asks_about_charges());
    let (run, _) = waiting(&runs, RunRequest::new(Profile::Chain, SENDS_AND_CHARGES)).await;
    let recorded = runs.journal().load(&run).await.unwrap();
    let mut record = fork(&recorded, "other", 1).unwrap().record;
    let call = record.entries.iter().find_map(|entry| match &entry.event {
        Event::Call(call) => Some(call.digest),
        _ => None,
    });
    // As if this version printed another line.
    for entry in &mut record.entries {
        if let Event::Line { digest, .. } = &mut entry.event {
            *digest = call.unwrap();
        }
    }
    runs.journal().begin_from(record).await.unwrap().run.release().await.unwrap();
    let report = report(&ended(&runs, "other").await);
    assert_eq!((&report["code"], &report["calls"]), (&json!("DIVERGED"), &json!([])), "{report}");
    assert_eq!(report["safe_to_retry"], false, "the record has a call: {report}");
}

/// That a store cannot be asked does not mean that nobody has aborted the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_run_sends_nothing_where_the_store_fails_for_a_moment() {
    let world = World::default();
    let before = world.gateway(1, Answers::Yes, asks_about_charges());
    let (run, view) = waiting(&before, RunRequest::new(Profile::Chain, SENDS_AND_CHARGES)).await;
    before.stop(Duration::from_secs(30)).await;
    approve(&before, &run, &view).await;
    before.abort(&run, None).await.unwrap();
    world.store.find_after_next_read_fails();
    let runs = world.gateway(2, Answers::Yes, asks_about_charges());
    holds("a look that fails", || world.store.find_has_failed()).await;
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["code"], "ABORTED", "{report}");
    assert_eq!(world.called().len(), 1, "the charge is not made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_with_less_memory_than_it_asked_for_where_less_is_configured_now() {
    let mut world = World::default();
    let before = world.gateway(1, Answers::Yes, asks_about_charges());
    let limits = LimitRequest { memory: Some(40 << 20), ..LimitRequest::default() };
    let request = RunRequest { limits, ..RunRequest::new(Profile::Chain, SENDS_AND_CHARGES) };
    let (run, view) = waiting(&before, request).await;
    before.stop(Duration::from_secs(30)).await;
    world.max_memory = Some(20 << 20);
    let runs = world.gateway(2, Answers::Yes, asks_about_charges());
    approve(&runs, &run, &view).await;
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["value"], "done", "{report}");
}

/// Waiting would not bring the interpreter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_interpreter_is_missing_ends_at_once_and_says_so() {
    let world = World::default();
    let runs = world.gateway(1, Answers::Yes, Policy::default());
    let request = RunRequest { engine: Some(EngineChoice::V8), ..RunRequest::new(Profile::Chain, SENDS_AND_CHARGES) };
    let run = runs.begin(request, None, None).await.unwrap().run;
    let ended = tokio::time::timeout(Duration::from_secs(60), ended(&runs, &run)).await;
    let report = report(&ended.expect("attempts go on for two minutes where others are in the way"));
    assert_eq!((&report["code"], world.called().len()), (&json!("UNAVAILABLE"), 0), "{report}");
    assert!(report["error"].as_str().unwrap().contains("deno"), "{report}");
}

/// One that has sent something is not ended by a gateway that cannot go on with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_left_to_a_gateway_that_has_its_interpreter() {
    let world = World { uses_v8: Some(2), ..World::default() };
    let before = world.gateway(1, Answers::Yes, asks_about_charges());
    let (run, view) = waiting(&before, RunRequest::new(Profile::Chain, SENDS_AND_CHARGES)).await;
    before.stop(Duration::from_secs(30)).await;
    let read = world.store.repeated();
    let without = world.gateway(2, Answers::Yes, asks_about_charges());
    approve(&without, &run, &view).await;
    holds("a second look at the run", || world.store.repeated() >= read + 2).await;
    let runs = world.gateway(3, Answers::Yes, asks_about_charges());
    let report = report(&ended(&runs, &run).await);
    assert_eq!((&report["value"], world.called().len()), (&json!("done"), 2), "{report}");
}
