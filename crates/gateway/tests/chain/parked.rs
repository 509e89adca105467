//! Runs that wait for a person with their worker, which is a process here.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_engine::Engine;
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_policy::{Action, Policy, Rule};
use toolgate_run::durable::{
    CallDecision, DecisionKind, DurableRuns, DurableSettings, LocalCaller, RunStatus, RunView,
};
use toolgate_run::{FixedEnvironment, Runner};

use crate::counting_store::CountingStore;
use crate::machine::{Child, children};
use crate::runner::{Case, cases};
use crate::support::{asking, block_on, engines};

/// How long a run may take to come to what a test waits for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn cases() -> Vec<Case> {
    cases![
        parked::a_decision_continues_the_worker_on_every_engine,
        parked::a_program_that_computes_is_not_parked_on_any_engine,
        parked::a_worker_that_is_killed_while_it_is_parked_loses_nothing,
        parked::a_worker_that_is_killed_while_its_run_is_being_paused_loses_nothing,
    ]
}

/// Notes what is called.
struct Noting(Arc<dyn Provider>, Arc<Mutex<Vec<String>>>);

impl Provider for Noting {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        self.1.lock().push(format!("{tool} {}", arguments["to"]));
        self.0.call(tool, arguments, asked)
    }
}

/// A gateway that asks about every wire.
struct World {
    store: Arc<CountingStore>,
    calls: Arc<Mutex<Vec<String>>>,
    runs: DurableRuns,
}

impl World {
    fn on(engine: Engine) -> World {
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        let tools = ["wire", "pay"].map(|name| json!({ "name": name, "inputSchema": schema, "reply": "{{to}}" }));
        let script = json!({ "backends": { "bank": { "tools": tools } } }).to_string();
        let script = || ToolScript::parse(&script).unwrap();
        let (bridge, calls) = (Bridge::new(CatalogHandle::new(script().catalog())), Arc::default());
        for (backend, provider) in script().providers() {
            bridge.provide(backend, Arc::new(Noting(provider, Arc::clone(&calls))));
        }
        bridge.set_policy(Policy::new(vec![Rule::new("policy[0]", "bank.wire", Action::Ask)], Action::Allow));
        let runner = Runner::new(engine, Arc::new(bridge), Arc::new(FixedEnvironment::default()));
        let store = Arc::new(CountingStore::default());
        let sealer = Sealer::new([7; 32]).unwrap();
        let journal = Journal::new(store.clone(), sealer, "one".into(), Duration::from_secs(2));
        let runs = DurableRuns::start(journal, runner, Arc::new(LocalCaller), DurableSettings::default());
        World { store, calls, runs }
    }

    /// The run once it has ended, or waits for something undecided.
    async fn settled(&self, run: &str) -> RunView {
        let waiting = async {
            loop {
                let view = self.runs.wait(run, None, Duration::from_secs(1)).await.unwrap();
                let waits = view.summary.status == RunStatus::Paused && !view.pending.is_empty();
                if view.summary.status == RunStatus::Done || waits {
                    return view;
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, waiting).await.expect("the run neither ends nor waits")
    }

    /// Runs a program whose only question is approved after `meanwhile`; its value.
    async fn run(&self, code: &str, meanwhile: impl FnOnce()) -> Value {
        let run = self.runs.begin(asking(code), None, None).await.unwrap().run;
        self.approved(&run, meanwhile).await
    }

    /// The value of a run whose only question is approved after `meanwhile`.
    async fn approved(&self, run: &str, meanwhile: impl FnOnce()) -> Value {
        let view = self.settled(run).await;
        assert_eq!(view.pending.len(), 1, "{view:?}");
        meanwhile();
        let (call_id, decision, by) = (view.pending[0].call_id, DecisionKind::Approve, String::new());
        let decision = CallDecision { call_id, decision, arguments: None, reason: None, remember: None, by, at: 0 };
        self.runs.decide(run, None, vec![decision]).await.unwrap();
        let view = self.settled(run).await;
        let report: Value = serde_json::from_str(view.report.as_ref().expect("an end").get()).unwrap();
        assert!(report["value"].is_array(), "{report}");
        report["value"].clone()
    }

    fn called(&self) -> Vec<String> {
        self.calls.lock().clone()
    }
}

pub(crate) fn a_decision_continues_the_worker_on_every_engine() {
    for (name, engine) in engines() {
        block_on(async {
            let world = World::on(engine);
            let code = "return [await bank.pay({ to: 'ann' }), await bank.wire({ to: 'bob' })]";
            assert_eq!(world.run(code, || ()).await, json!(["ann", "bob"]), "{name}");
            assert_eq!(world.store.repeated(), 0, "{name}: nothing was repeated");
            assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\""], "{name}");
        });
    }
}

pub(crate) fn a_program_that_computes_is_not_parked_on_any_engine() {
    for (name, engine) in engines() {
        // About half a second on each engine.
        let rounds: u64 = if name == "v8" { 400_000_000 } else { 10_000_000 };
        block_on(async {
            let world = World::on(engine);
            let code = format!(
                "const wired = bank.wire({{ to: 'ann' }}); await bank.pay({{ to: 'bob' }}); \
                 let sum = 0; for (let i = 0; i < {rounds}; i++) sum = (sum + i) % 7; return [await wired, sum]"
            );
            let value = world.run(&code, || ()).await;
            assert_eq!(value[0], json!("ann"), "{name}");
            assert_eq!(world.store.repeated(), 1, "{name}: the worker was ended");
            assert_eq!(world.called(), ["pay \"bob\"", "wire \"ann\""], "{name}");
        });
    }
}

pub(crate) fn a_worker_that_is_killed_while_it_is_parked_loses_nothing() {
    block_on(async {
        let before: Vec<u32> = children().iter().map(|child| child.pid).collect();
        let world = World::on(Engine::builder().workers_ahead(0).build().unwrap());
        let code = "return [await bank.pay({ to: 'ann' }), await bank.wire({ to: 'bob' })]";
        let value = world.run(code, || {
            let workers = workers_except(&before);
            assert_eq!(workers.len(), 1, "it waits with its worker: {workers:?}");
            assert!(kill(&workers[0]));
        });
        assert_eq!(value.await, json!(["ann", "bob"]));
        assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\""], "each effect once");
        assert_eq!(world.store.repeated(), 1, "the record was repeated");
    });
}

pub(crate) fn a_worker_that_is_killed_while_its_run_is_being_paused_loses_nothing() {
    block_on(async {
        let before: Vec<u32> = children().iter().map(|child| child.pid).collect();
        let world = World::on(Engine::builder().workers_ahead(0).build().unwrap());
        let code = "return [await bank.pay({ to: 'ann' }), await bank.wire({ to: 'bob' })]";
        // A run is paused 50 ms after its question, and its worker is parked 10 ms later.
        for delay in (44..80).step_by(2).map(Duration::from_millis) {
            world.calls.lock().clear();
            let run = world.runs.begin(asking(code), None, None).await.unwrap().run;
            while world.called().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(delay).await;
            for worker in workers_except(&before) {
                // It may have ended by itself.
                let _ = kill(&worker);
            }
            assert_eq!(world.approved(&run, || ()).await, json!(["ann", "bob"]), "{delay:?}");
            assert_eq!(world.called(), ["pay \"ann\"", "wire \"bob\""], "{delay:?}: each effect once");
        }
    });
}

/// Kills a worker; `false` if it has ended before.
fn kill(worker: &Child) -> bool {
    let kill = Command::new("kill").args(["-KILL", &worker.pid.to_string()]).stderr(Stdio::null()).status();
    kill.is_ok_and(|status| status.success())
}

/// The workers of zygotes that are not among these. A zygote leads its process group, and its workers are members of it.
fn workers_except(before: &[u32]) -> Vec<Child> {
    let group = |child: &Child| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, tail)| tail.split_whitespace().nth(2)?.parse::<u32>().ok())
    };
    let (zygotes, others): (Vec<Child>, Vec<Child>) =
        children().into_iter().partition(|child| group(child) == Some(child.pid));
    let is_new = |group: u32| !before.contains(&group) && zygotes.iter().any(|zygote| zygote.pid == group);
    others.into_iter().filter(|child| !child.is_zombie() && group(child).is_some_and(is_new)).collect()
}
