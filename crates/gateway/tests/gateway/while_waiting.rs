//! What changes while a run waits for a person: the policy, the time, the process. And a run that begins as a fork of one that was
//! reviewed: nothing is sent without an approval.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_policy::{Action, Condition, Glob, Policy, Rule};
use toolgate_run::durable::{
    About, CallDecision, DecisionKind, DurableError, DurableRuns, DurableSettings, LocalCaller,
};
use toolgate_run::stage::Staging;
use toolgate_run::{Durability, FixedEnvironment, RunRequest, Runner};
use toolgate_wire::{CallId, LimitRequest, Profile};

use crate::counting_store::CountingStore;
use crate::run_views::{decision, ended, holds, report, settled};

/// Short, so that a run is taken over soon.
const LEASE: Duration = Duration::from_millis(200);
/// How long runs keep their workers: not at all, and longer than a test takes.
const PARK_TIMES: [Duration; 2] = [Duration::ZERO, Duration::from_secs(300)];

/// Whether payments are answered.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Yes,
    /// They take effect and are not answered.
    Never,
}

/// Notes to whom was paid.
struct Bank {
    scripted: Arc<dyn Provider>,
    paid: Arc<Mutex<Vec<Value>>>,
    answers: Answers,
}

impl Provider for Bank {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        if tool == "list" {
            return self.scripted.call(tool, arguments, asked);
        }
        self.paid.lock().push(arguments["to"].clone());
        match self.answers {
            Answers::Yes => self.scripted.call(tool, arguments, asked),
            Answers::Never => Box::pin(std::future::pending()),
        }
    }
}

/// Gateways over one store and one bank, which programs name otherwise than it does itself.
#[derive(Default)]
struct World {
    store: Arc<CountingStore>,
    paid: Arc<Mutex<Vec<Value>>>,
    /// How many have used the store.
    journals: AtomicU32,
}

impl World {
    fn gateway(&self, rules: Vec<Rule>, answers: Answers, park_time: Duration) -> (DurableRuns, Arc<Bridge>) {
        let text = json!({ "type": "string" });
        let schema = json!({ "type": "object", "properties": { "to": text, "idempotency_key": text } });
        let tools = json!([
            { "name": "list", "annotations": { "readOnlyHint": true }, "reply": ["ann"] },
            { "name": "pay-now", "inputSchema": schema, "reply": "{{to}}" },
        ]);
        let script = ToolScript::parse(&json!({ "backends": { "my-bank": { "tools": tools } } }).to_string()).unwrap();
        let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
        for (backend, scripted) in script.providers() {
            bridge.provide(backend, Arc::new(Bank { scripted, paid: self.paid.clone(), answers }));
        }
        bridge.set_policy(Policy::new(rules, Action::Allow));
        let bridge = Arc::new(bridge);
        let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
        let runner = Runner::new(engine, bridge.clone(), Arc::new(FixedEnvironment::default()));
        let settings = DurableSettings { park_time, ..DurableSettings::default() };
        (DurableRuns::start(self.journal(), runner, Arc::new(LocalCaller), settings), bridge)
    }

    fn journal(&self) -> Journal {
        let owner = self.journals.fetch_add(1, Ordering::Relaxed);
        Journal::new(self.store.clone(), Sealer::new([7; 32]).unwrap(), format!("gateway {owner}"), LEASE)
    }

    fn paid(&self) -> Vec<Value> {
        self.paid.lock().clone()
    }
}

/// Asks about payments; these people decide.
fn asks(approvers: &[&str]) -> Rule {
    let approvers = approvers.iter().copied().map(Glob::new).collect();
    Rule { approvers, ..Rule::new("policy[0]", "my-bank.pay-now", Action::Ask) }
}

async fn begin(runs: &DurableRuns, code: &str) -> String {
    runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run
}

const PAYS: &str = "return await my_bank.pay_now({ to: 'ann' }).catch((e) => `${e.code} ${e.message}`)";

/// SECURITY.md: a policy that changed while a call waits holds, also after the run was taken up again from its record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_does_not_stand_for_a_rule_that_has_other_approvers_by_now() {
    let ops = Some("ops");
    let condition = |text: &str| Some(Condition::parse(text).unwrap());
    for (before, after, reviewer, is_sent) in [
        (asks(&["ops"]), asks(&["finance"]), ops, false),
        (asks(&["ops"]), asks(&["finance", "ops"]), ops, true),
        (asks(&["ops"]), asks(&["ops"]), ops, true),
        (asks(&[]), asks(&["finance"]), None, false),
        (asks(&["finance"]), asks(&["finance"]), None, true),
        (asks(&[]), Rule { when: condition("args.to != 'eve'"), ..asks(&[]) }, None, true),
    ] {
        for park_time in PARK_TIMES {
            let world = World::default();
            let (runs, bridge) = world.gateway(vec![before.clone()], Answers::Yes, park_time);
            let run = begin(&runs, PAYS).await;
            let asked = settled(&runs, &run).await.pending.remove(0);
            bridge.set_policy(Policy::new(vec![after.clone()], Action::Allow));
            let approve = decision(asked.call_id, DecisionKind::Approve);
            runs.decide(&run, reviewer, vec![approve]).await.unwrap();
            let report = report(&settled(&runs, &run).await);
            assert_eq!(world.paid().len(), usize::from(is_sent), "{before:?} {after:?} {park_time:?}: {report}");
            let refused = "DENIED my-bank.pay-now with these arguments is for finance to approve";
            let value = report["value"].as_str().unwrap();
            assert_eq!(value.starts_with(refused), !is_sent, "{before:?} {after:?} {park_time:?}: {report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_after_the_question_has_expired_sends_nothing() {
    for park_time in PARK_TIMES {
        let world = World::default();
        let (runs, _) = world.gateway(vec![asks(&[])], Answers::Yes, park_time);
        let run = begin(&runs, PAYS).await;
        let asked = settled(&runs, &run).await.pending.remove(0);
        // As another program with the store may write it: the gateway does not take its word for the time.
        let late = CallDecision { at: asked.expires_at + 1, ..decision(asked.call_id, DecisionKind::Approve) };
        let text = serde_json::to_string(&late).unwrap();
        world.journal().decide(&run, CallId(asked.call_id), &text).await.unwrap();
        let report = report(&settled(&runs, &run).await);
        assert_eq!(
            report["value"], "EXPIRED no decision about my-bank.pay-now came in time",
            "{park_time:?}: {report}"
        );
        assert_eq!(report["calls"][0]["decision"]["verdict"], "expired", "{park_time:?}: {report}");
        assert!(world.paid().is_empty(), "{park_time:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_a_run_that_has_ended_is_not_decided() {
    let world = World::default();
    let (runs, _) = world.gateway(vec![asks(&[])], Answers::Yes, Duration::ZERO);
    let run = begin(&runs, PAYS).await;
    let asked = settled(&runs, &run).await.pending.remove(0);
    runs.abort(&run, None).await.unwrap();
    ended(&runs, &run).await;
    let decided = runs.decide(&run, None, vec![decision(asked.call_id, DecisionKind::Approve)]).await;
    let Err(DurableError::BadDecision { message, .. }) = decided else { panic!("{decided:?}") };
    assert!(message.contains("the run has ended"), "{message}");
}

/// A fork has the review of the run that it began from, and not its decisions. The number of a call that is asked about alone may
/// be that of a line of the review.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_reviewed_run_sends_no_write_without_its_own_approval() {
    let world = World::default();
    let (runs, _) = world.gateway(Vec::new(), Answers::Yes, Duration::ZERO);
    let code = "await my_bank.list({}); const paid = []; \
                for (const to of ['ann', 'bob']) paid.push(await my_bank.pay_now({ to }).catch((e) => e.code)); return paid";
    let staged =
        RunRequest { durable: Durability::Durable, staging: Staging::Wanted, ..RunRequest::new(Profile::Chain, code) };
    let run = runs.begin(staged, None, None).await.unwrap().run;
    let lines = settled(&runs, &run).await.pending;
    let approve_all = lines.iter().map(|line| decision(line.call_id, DecisionKind::Approve)).collect();
    runs.decide(&run, None, approve_all).await.unwrap();
    assert_eq!(report(&settled(&runs, &run).await)["value"], json!(["ann", "bob"]));
    assert_eq!(world.paid(), ["ann", "bob"]);

    let forked = runs.fork(&run, None, 1).await.unwrap().run;
    let asked = settled(&runs, &forked).await.pending;
    assert_eq!(asked.iter().map(|it| it.arguments.0.get()).collect::<Vec<_>>(), [r#"{"to":"ann"}"#]);
    runs.decide(&forked, None, vec![decision(asked[0].call_id, DecisionKind::Approve)]).await.unwrap();
    let asked = settled(&runs, &forked).await.pending;
    assert_eq!(asked.iter().map(|it| it.arguments.0.get()).collect::<Vec<_>>(), [r#"{"to":"bob"}"#]);
    assert_eq!(world.paid(), ["ann", "bob", "ann"], "the other one waits");
    runs.decide(&forked, None, vec![decision(asked[0].call_id, DecisionKind::Deny)]).await.unwrap();
    assert_eq!(report(&settled(&runs, &forked).await)["value"], json!(["ann", "DENIED"]));
    assert_eq!(world.paid(), ["ann", "bob", "ann"]);
}

/// What approving sends is what the question shows, and those who approved the call say whether it is sent again. The key of the call
/// counts for nothing: what a person edits is sent as it is.
#[test]
fn a_call_of_unknown_effect_is_shown_as_it_is_sent_again() {
    let world = World::default();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let killed = runtime();
    let run = killed.block_on(async {
        let (runs, _) = world.gateway(vec![asks(&["ops"])], Answers::Never, Duration::ZERO);
        let run = begin(&runs, PAYS).await;
        let asked = settled(&runs, &run).await.pending.remove(0);
        let arguments = Some(RawValue::from_string(r#"{"to":"bob"}"#.to_owned()).unwrap());
        let edit = CallDecision { arguments, ..decision(asked.call_id, DecisionKind::Edit) };
        runs.decide(&run, Some("ops"), vec![edit]).await.unwrap();
        holds("a payment", || !world.paid().is_empty()).await;
        // Kept until the runtime ends, as a process that is killed lets nothing go.
        std::mem::forget(runs);
        run
    });
    killed.shutdown_background();
    runtime().block_on(async {
        let (runs, _) = world.gateway(vec![asks(&["ops"])], Answers::Yes, Duration::ZERO);
        let asked = settled(&runs, &run).await.pending;
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(matches!(asked[0].about, About::UnknownEffect { .. }), "{asked:?}");
        assert_eq!((asked[0].arguments.0.get(), &asked[0].approvers), (r#"{"to":"bob"}"#, &vec!["ops".to_owned()]));
        runs.decide(&run, Some("ops"), vec![decision(asked[0].call_id, DecisionKind::Approve)]).await.unwrap();
        assert_eq!(report(&settled(&runs, &run).await)["value"], "bob");
        assert_eq!(world.paid(), ["bob", "bob"]);
    });
}

/// What a run used before it waited counts when it goes on, with its worker and from its record: each half alone is within the limit.
async fn exceeds(limits: LimitRequest, code: &str, is_over: impl Fn(&Value) -> bool) {
    let check = async |park_time: Duration| {
        let world = World::default();
        let (runs, _) = world.gateway(vec![asks(&[])], Answers::Yes, park_time);
        let request = RunRequest { limits: limits.clone(), ..RunRequest::new(Profile::Chain, code) };
        let run = runs.begin(request, None, None).await.unwrap().run;
        let view = settled(&runs, &run).await;
        assert_eq!(view.pending.len(), 1, "the first half is within the limit: {view:?}");
        let approved = decision(view.pending[0].call_id, DecisionKind::Approve);
        runs.decide(&run, None, vec![approved]).await.unwrap();
        let report = report(&ended(&runs, &run).await);
        assert!(is_over(&report), "{park_time:?}: {report}");
        assert_eq!(world.paid(), ["ann"], "{park_time:?}: {report}");
        // On a busy machine a run may also be paused without its worker.
        assert!(world.store.repeated() > 0 || !park_time.is_zero(), "from its record");
    };
    tokio::join!(check(PARK_TIMES[0]), check(PARK_TIMES[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_before_a_pause_count_after_it() {
    let limits = LimitRequest { calls: Some(3), ..LimitRequest::default() };
    let code = "await my_bank.list({}); await my_bank.pay_now({ to: 'ann' }); await my_bank.list({}); \
                try { await my_bank.list({}); return 'made'; } catch (error) { return error.message; }";
    let is_over = |report: &Value| {
        let refusal = report["value"].as_str().unwrap_or_default();
        refusal.contains("may make 3 host calls") && report["calls"].as_array().is_some_and(|calls| calls.len() == 3)
    };
    exceeds(limits, code, is_over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_before_a_pause_counts_after_it() {
    let limits = LimitRequest { memory: Some(12 << 20), ..LimitRequest::default() };
    let code = "const held = [new Uint8Array(7 << 20)]; await my_bank.pay_now({ to: 'ann' }); \
                held.push(new Uint8Array(7 << 20)); return held.length";
    exceeds(limits, code, |report| report["code"] == "MEMORY").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_time_before_a_pause_counts_after_it() {
    let limits = LimitRequest { wall: Some(Duration::from_secs(10)), ..LimitRequest::default() };
    let code = "await sleep(6000); await my_bank.pay_now({ to: 'ann' }); await sleep(6000); return 'slept'";
    exceeds(limits, code, |report| report["code"] == "TIMEOUT").await;
}
