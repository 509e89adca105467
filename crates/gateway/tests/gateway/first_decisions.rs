//! What was decided about a call stays decided when its run goes on from its record: by another policy, beside an approval that is
//! remembered, after a crash. And what a run did before counts, and is told as it was.

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
use toolgate_functions::{HostFunction, Registry};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_policy::{Action, CallLimits, Condition, Glob, Policy, Rule, TraitFilter};
use toolgate_run::durable::{
    About, CallDecision, DecisionKind, DurableRuns, DurableSettings, LocalCaller, UnknownCalls,
};
use toolgate_run::stage::Staging;
use toolgate_run::{Durability, FixedEnvironment, RunRequest, Runner};
use toolgate_wire::{CallId, Profile};

use crate::counting_store::CountingStore;
use crate::run_views::{decision, ended, holds, report, settled};

/// Short, so that a run is taken over soon.
const LEASE: Duration = Duration::from_millis(200);
/// Notes what was sent; a call to `eve` takes effect and is not answered while `is_mute`.
struct Bank {
    scripted: Arc<dyn Provider>,
    sent: Arc<Mutex<Vec<Value>>>,
    is_mute: bool,
}

impl Provider for Bank {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        self.sent.lock().push(arguments["to"].clone());
        if self.is_mute && arguments["to"] == "eve" {
            return Box::pin(std::future::pending());
        }
        self.scripted.call(tool, arguments, asked)
    }
}

/// Gateways over one store and one bank, which programs name otherwise than it does itself.
#[derive(Default)]
struct World {
    store: Arc<CountingStore>,
    sent: Arc<Mutex<Vec<Value>>>,
    /// How many have used the store.
    journals: AtomicU32,
    /// Whether the first gateway gets no answer to calls for `eve`.
    is_mute: bool,
    /// Whether payments are said to change nothing at gateways after the first.
    reads_later: bool,
}

impl World {
    fn gateway(&self, rules: Vec<Rule>, park_time: Duration) -> (DurableRuns, Arc<Bridge>) {
        let is_first = self.journals.load(Ordering::Relaxed) == 0;
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        let annotations = json!({ "readOnlyHint": self.reads_later && !is_first });
        let tools = json!([
            { "name": "pay-now", "inputSchema": schema, "annotations": annotations, "reply": { "id": "{{to}}" } },
            { "name": "close", "inputSchema": schema, "reply": { "id": "{{to}}" } },
        ]);
        let script = ToolScript::parse(&json!({ "backends": { "my-bank": { "tools": tools } } }).to_string()).unwrap();
        let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
        for (backend, scripted) in script.providers() {
            let is_mute = self.is_mute && is_first;
            bridge.provide(backend, Arc::new(Bank { scripted, sent: self.sent.clone(), is_mute }));
        }
        bridge.set_policy(Policy::new(rules, Action::Allow));
        let bridge = Arc::new(bridge);
        let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
        let environment = FixedEnvironment { functions: self.functions(), ..FixedEnvironment::default() };
        let runner = Runner::new(engine, bridge.clone(), Arc::new(environment));
        let settings = DurableSettings { park_time, unknown_calls: UnknownCalls::Ask, ..DurableSettings::default() };
        (DurableRuns::start(self.journal(), runner, Arc::new(LocalCaller), settings), bridge)
    }

    fn journal(&self) -> Journal {
        let owner = self.journals.fetch_add(1, Ordering::Relaxed);
        Journal::new(self.store.clone(), Sealer::new([7; 32]).unwrap(), format!("gateway {owner}"), LEASE)
    }

    /// `mail(to)` sends too.
    fn functions(&self) -> Registry {
        let sent = self.sent.clone();
        let mail = HostFunction::builder("mail").required("to", json!({}), "To whom.").handle(move |_, args| {
            sent.lock().push(args[0].clone());
            async move { Ok(args[0].clone()) }
        });
        [mail.unwrap()].into_iter().collect()
    }

    fn sent(&self) -> Vec<Value> {
        self.sent.lock().clone()
    }
}

fn asks(tool: &str) -> Rule {
    Rule::new("policy[0]", tool, Action::Ask)
}

async fn begin(runs: &DurableRuns, code: &str) -> String {
    runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run
}

fn edit(call: u32, arguments: &str) -> CallDecision {
    let arguments = Some(RawValue::from_string(arguments.to_owned()).unwrap());
    CallDecision { arguments, ..decision(call, DecisionKind::Edit) }
}

fn remembered(call: u32, remember: &str) -> CallDecision {
    CallDecision { remember: Some(json!(remember)), ..decision(call, DecisionKind::Approve) }
}

const PAYS: &str = "return await my_bank.pay_now({ to: 'ann' }).then((it) => it.id, (error) => error.code)";
const MAILS: &str = "return await mail('ann').catch((error) => error.code)";

/// What comes of a call that was asked about, under other rules by the time of the decision: the end of the run, and what was sent.
async fn decided_under(
    after: &[Rule],
    park_time: Duration,
    (code, tool): (&str, &str),
    decided: impl Fn(u32) -> CallDecision,
) -> (Value, Vec<Value>) {
    let world = World::default();
    let (runs, bridge) = world.gateway(vec![asks(tool)], park_time);
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    bridge.set_policy(Policy::new(after.to_vec(), Action::Allow));
    runs.decide(&run, None, vec![decided(call)]).await.unwrap();
    let report = report(&ended(&runs, &run).await);
    let end = report.get("value").or(report.get("code")).unwrap_or(&Value::Null);
    (end.clone(), world.sent())
}

/// The policy of now may deny what a person approved. It does not send what a person denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_holds_where_no_rule_asks_about_the_call_any_more() {
    let condition = Some(Condition::parse("args.to == 'bob'").unwrap());
    let narrowed = Rule { when: condition, ..asks("my-bank.pay-now") };
    let denies = Rule::new("policy[0]", "*", Action::Deny);
    let check = async |after: &[Rule], park_time: Duration, called: (&str, &str), edited: &str| {
        let is_denied = after.first().is_some_and(|rule| rule.action == Action::Deny);
        let denied = || (json!("DENIED"), Vec::new());
        let deny = decided_under(after, park_time, called, |call| decision(call, DecisionKind::Deny));
        let stop = decided_under(after, park_time, called, |call| decision(call, DecisionKind::Stop));
        let edit = decided_under(after, park_time, called, |call| edit(call, edited));
        let approve = decided_under(after, park_time, called, |call| decision(call, DecisionKind::Approve));
        let (deny, stop, edit, approve) = tokio::join!(deny, stop, edit, approve);
        let case = format!("{} {after:?} {park_time:?}", called.1);
        assert_eq!(deny, denied(), "{case}");
        assert_eq!(stop, (json!("ABORTED"), Vec::new()), "{case}");
        let sent = |to: &str| if is_denied { denied() } else { (json!(to), vec![json!(to)]) };
        assert_eq!(edit, sent("cy"), "{case}");
        assert_eq!(approve, sent("ann"), "{case}");
    };
    for after in [vec![], vec![narrowed], vec![denies]] {
        check(&after, Duration::ZERO, (PAYS, "my-bank.pay-now"), r#"{"to":"cy"}"#).await;
    }
    check(&[], Duration::ZERO, (MAILS, "mail"), r#"["cy"]"#).await;
    // And as with the worker that waits.
    check(&[], Duration::from_secs(300), (PAYS, "my-bank.pay-now"), r#"{"to":"cy"}"#).await;
}

/// Two calls of one run, the second of which is denied or edited while the first is approved for the whole run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remembered_approval_answers_no_call_that_has_a_decision_of_its_own() {
    let code = "const all = await Promise.allSettled(['ann', 'bob'].map((to) => my_bank.pay_now({ to }))); \
                return all.map((it) => it.value?.id ?? it.reason.code)";
    for (is_edited, value, sent) in
        [(false, json!(["ann", "DENIED"]), json!(["ann"])), (true, json!(["ann", "cy"]), json!(["ann", "cy"]))]
    {
        let world = World::default();
        let (first, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
        let run = begin(&first, code).await;
        let asked: Vec<u32> = settled(&first, &run).await.pending.iter().map(|it| it.call_id).collect();
        first.stop(Duration::from_secs(30)).await;
        let (runs, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
        let second = if is_edited { edit(asked[1], r#"{"to":"cy"}"#) } else { decision(asked[1], DecisionKind::Deny) };
        runs.decide(&run, None, vec![second, remembered(asked[0], "run")]).await.unwrap();
        let report = report(&ended(&runs, &run).await);
        assert_eq!(report["value"], value, "{report}");
        // They are sent at the same time.
        let mut was_sent = world.sent();
        was_sent.sort_by_key(Value::to_string);
        assert_eq!(Value::Array(was_sent), sent, "{report}");
    }
    // The same call of two runs: one approved for all runs, the other denied.
    let world = World::default();
    let (runs, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
    let (denied, approved) = (begin(&runs, PAYS).await, begin(&runs, PAYS).await);
    let call = settled(&runs, &denied).await.pending[0].call_id;
    let other = settled(&runs, &approved).await.pending[0].call_id;
    runs.decide(&approved, None, vec![remembered(other, "session")]).await.unwrap();
    assert_eq!(report(&ended(&runs, &approved).await)["value"], "ann");
    runs.decide(&denied, None, vec![decision(call, DecisionKind::Deny)]).await.unwrap();
    let report = report(&ended(&runs, &denied).await);
    assert_eq!((&report["value"], world.sent().len()), (&json!("DENIED"), 1), "{report}");
    assert_eq!(report["calls"][0]["decision"]["verdict"], "denied", "{report}");
}

/// A person was asked, and may still deny: neither a rule that is gone nor a decision about another call sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_open_stays_one_where_no_rule_asks_any_more() {
    let code = "const all = await Promise.allSettled(['ann', 'bob'].map((to) => my_bank.pay_now({ to }))); \
                return all.map((it) => it.value?.id ?? it.reason.code)";
    let world = World::default();
    let (runs, bridge) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
    let run = begin(&runs, code).await;
    let asked: Vec<u32> = settled(&runs, &run).await.pending.iter().map(|it| it.call_id).collect();
    bridge.set_policy(Policy::default());
    runs.decide(&run, None, vec![decision(asked[0], DecisionKind::Approve)]).await.unwrap();
    holds("the first payment", || !world.sent().is_empty()).await;
    let view = settled(&runs, &run).await;
    assert_eq!(view.pending.iter().map(|it| it.call_id).collect::<Vec<_>>(), [asked[1]], "{view:?}");
    runs.decide(&run, None, vec![decision(asked[1], DecisionKind::Deny)]).await.unwrap();
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["value"], json!(["ann", "DENIED"]), "{report}");
    assert_eq!(world.sent(), ["ann"]);
}

/// As an approval for the run does with a worker that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_for_the_run_answers_its_open_questions_also_from_the_record() {
    let world = World::default();
    let (first, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
    let run =
        begin(&first, "return (await Promise.all(['ann', 'bob'].map((to) => my_bank.pay_now({ to })))).length").await;
    let call = settled(&first, &run).await.pending[0].call_id;
    first.stop(Duration::from_secs(30)).await;
    // At the command line, whose process knows no rules.
    let text = serde_json::to_string(&remembered(call, "run")).unwrap();
    world.journal().decide(&run, CallId(call), &text).await.unwrap();
    let (runs, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
    let report = report(&settled(&runs, &run).await);
    assert_eq!((&report["value"], world.sent().len()), (&json!(2), 2), "{report}");
    assert_eq!(report["calls"][1]["decision"]["verdict"], "approved", "{report}");
}

/// Runs a program at a gateway that is killed when a call was sent that is not answered; what the next gateway asks about that call
/// is answered in place of the bank.
fn after_a_kill(
    world: &World,
    rules: &[Rule],
    answer: &str,
    begin: impl AsyncFnOnce(&DurableRuns) -> String,
    then: impl AsyncFnOnce(&DurableRuns, &str),
) {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let killed = runtime();
    let run = killed.block_on(async {
        let (runs, _) = world.gateway(rules.to_vec(), Duration::ZERO);
        let run = begin(&runs).await;
        holds("a call without an answer", || world.sent().contains(&json!("eve"))).await;
        // Kept until the runtime ends, as a process that is killed lets nothing go.
        std::mem::forget(runs);
        run
    });
    killed.shutdown_background();
    runtime().block_on(async {
        let (runs, _) = world.gateway(rules.to_vec(), Duration::ZERO);
        let asked = settled(&runs, &run).await.pending;
        assert!(matches!(asked[0].about, About::UnknownEffect { .. }), "{asked:?}");
        let answer = CallDecision { decision: DecisionKind::Answer, ..edit(asked[0].call_id, answer) };
        let approver = asked[0].approvers.first().cloned();
        runs.decide(&run, approver.as_deref(), vec![answer]).await.unwrap();
        then(&runs, &run).await;
    });
}

#[test]
fn a_call_whose_answer_is_delivered_after_a_crash_counts_in_its_run() {
    let code = "const all = []; for (const to of ['ann', 'eve', 'bob']) \
                all.push(await my_bank.pay_now({ to }).then((it) => it.id, (error) => error.code)); return all";
    let limits = CallLimits { run: Some(2), ..CallLimits::default() };
    let limited = Rule { limits, ..Rule::new("policy[0]", "my-bank.pay-now", Action::Allow) };
    let counted = Rule {
        when: Some(Condition::parse("counts.run >= 2").unwrap()),
        ..Rule::new("policy[0]", "my-bank.pay-now", Action::Deny)
    };
    for rule in [limited, counted] {
        let world = World { is_mute: true, ..World::default() };
        after_a_kill(
            &world,
            std::slice::from_ref(&rule),
            r#"{"id":"found"}"#,
            async |runs| begin(runs, code).await,
            async |runs, run| {
                let report = report(&ended(runs, run).await);
                assert_eq!(report["value"], json!(["ann", "found", "DENIED"]), "{rule:?}: {report}");
                assert_eq!(world.sent(), ["ann", "eve"], "{rule:?}");
            },
        );
    }
}

/// Lines of a review that were approved are sent after a crash too, with the value that a person gave in place of the lost answer; and
/// the report says who approved each.
#[test]
fn approved_lines_stay_approved_where_a_person_answers_for_a_lost_call() {
    let code = "const first = await my_bank.pay_now({ to: 'eve' }); return (await my_bank.close({ to: first.id })).id";
    let approved_by_ops = |rule: Rule| Rule { approvers: vec![Glob::new("ops")], ..rule };
    let rules = [
        approved_by_ops(asks("my-bank.pay-now")),
        approved_by_ops(Rule::new("policy[1]", "my-bank.close", Action::Ask)),
    ];
    let world = World { is_mute: true, ..World::default() };
    let begin = async |runs: &DurableRuns| {
        let request = RunRequest {
            durable: Durability::Durable,
            staging: Staging::Wanted,
            ..RunRequest::new(Profile::Chain, code)
        };
        let run = runs.begin(request, None, None).await.unwrap().run;
        let lines = settled(runs, &run).await.pending;
        assert_eq!(lines.len(), 2, "{lines:?}");
        let approve_all = lines.iter().map(|line| decision(line.call_id, DecisionKind::Approve)).collect();
        runs.decide(&run, Some("ops"), approve_all).await.unwrap();
        run
    };
    after_a_kill(&world, &rules, r#"{"id":"found"}"#, begin, async |runs, run| {
        let view = settled(runs, run).await;
        assert!(view.pending.is_empty(), "nothing is asked again: {view:?}");
        let report = report(&view);
        assert_eq!(report["value"], "found", "{report}");
        assert_eq!(world.sent(), ["eve", "found"]);
        for (number, rule) in ["policy[0]", "policy[1]"].into_iter().enumerate() {
            let expected = json!({ "do": "ask", "rule": rule, "verdict": "approved", "reviewer": "ops" });
            assert_eq!(report["calls"][number]["decision"], expected, "{report}");
        }
    });
}

/// A line that was denied is not sent as a read, and neither is a call that a person denied alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_is_not_sent_where_its_tool_is_said_to_only_read_by_now() {
    for is_staged in [false, true] {
        let world = World { reads_later: true, ..World::default() };
        let traits = TraitFilter { read_only: Some(false), ..TraitFilter::default() };
        let rules = || vec![Rule { traits, ..asks("my-bank.pay-now") }];
        let (first, _) = world.gateway(rules(), Duration::ZERO);
        let staging = if is_staged { Staging::Wanted } else { Staging::No };
        let request = RunRequest { durable: Durability::Durable, staging, ..RunRequest::new(Profile::Chain, PAYS) };
        let run = first.begin(request, None, None).await.unwrap().run;
        let call = settled(&first, &run).await.pending[0].call_id;
        first.stop(Duration::from_secs(30)).await;
        let (runs, _) = world.gateway(rules(), Duration::ZERO);
        runs.decide(&run, None, vec![decision(call, DecisionKind::Deny)]).await.unwrap();
        let report = report(&ended(&runs, &run).await);
        assert_eq!((&report["value"], world.sent().len()), (&json!("DENIED"), 0), "{is_staged}: {report}");
        assert_eq!(report["calls"][0]["decision"]["reviewer"], "local", "{is_staged}: {report}");
    }
}

/// The record says which rule refused a call, and a person's answer is kept with the run. What else was decided then is not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_states_no_decision_that_was_not_made() {
    let code = "const of = (call) => call.then((it) => it.id, (error) => error.code); \
                return [await of(my_bank.pay_now({ to: 'ann' })), await of(my_bank.close({ to: 'bob' })), \
                await of(my_bank.pay_now({ to: 'cy' }))]";
    let when = |rule: Rule, text: &str| Rule { when: Some(Condition::parse(text).unwrap()), ..rule };
    let rules = vec![
        when(asks("my-bank.pay-now"), "args.to == 'cy'"),
        Rule::new("policy[1]", "my-bank.pay-now", Action::Allow),
        Rule::new("policy[2]", "my-bank.close", Action::Deny),
    ];
    let world = World::default();
    let (runs, bridge) = world.gateway(rules, Duration::ZERO);
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    // Today the first would be denied, and the second asked about.
    let later = vec![
        when(Rule::new("policy[0]", "my-bank.pay-now", Action::Deny), "args.to == 'ann'"),
        Rule::new("policy[1]", "my-bank.close", Action::Ask),
    ];
    bridge.set_policy(Policy::new(later, Action::Allow));
    runs.decide(&run, None, vec![decision(call, DecisionKind::Approve)]).await.unwrap();
    let report = report(&ended(&runs, &run).await);
    assert_eq!(report["value"], json!(["ann", "DENIED", "cy"]), "{report}");
    let decisions: Vec<&Value> =
        (0..3).map(|number| report["calls"][number].get("decision").unwrap_or(&Value::Null)).collect();
    let asked = json!({ "do": "ask", "rule": "policy[0]", "verdict": "approved", "reviewer": "local" });
    assert_eq!(decisions, [&Value::Null, &json!({ "do": "deny", "rule": "policy[2]" }), &asked], "{report}");
}

/// The names of the events of a run, without those that say nothing about calls.
async fn events(runs: &DurableRuns, run: &str) -> Vec<&'static str> {
    let events = runs.events(run, None, 0).await.unwrap().events;
    let names = events.into_iter().map(|event| event.name);
    names.filter(|name| ["call", "asked", "sent", "answered"].contains(name)).collect()
}

/// A person stops a run at the call that waits: with its worker, from its record, at another gateway. A correction may make the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_at_which_a_person_stopped_the_run_was_not_sent() {
    let pays = "return (await my_bank.pay_now({ to: 'ann' })).id";
    for (code, tool) in [(pays, "my-bank.pay-now"), ("return await mail('ann')", "mail")] {
        for (park_time, moves) in [(300, false), (0, false), (0, true)] {
            let case = format!("{tool} {park_time} {moves}");
            let world = World::default();
            let park_time = Duration::from_secs(park_time);
            let (mut runs, _) = world.gateway(vec![asks(tool)], park_time);
            let run = begin(&runs, code).await;
            let call = settled(&runs, &run).await.pending[0].call_id;
            if moves {
                runs.stop(Duration::from_secs(30)).await;
                runs = world.gateway(vec![asks(tool)], park_time).0;
            }
            runs.decide(&run, None, vec![decision(call, DecisionKind::Stop)]).await.unwrap();
            let report = report(&ended(&runs, &run).await);
            assert_eq!((&report["code"], &report["error"]), (&json!("ABORTED"), &json!("a person stopped the run")));
            let stopped = json!({ "do": "ask", "rule": "policy[0]", "verdict": "stopped", "reviewer": "local" });
            assert_eq!((&report["calls"][0]["state"], &report["calls"][0]["decision"]), (&json!("not_sent"), &stopped));
            assert_eq!((&report["safe_to_retry"], world.sent().len()), (&json!(true), 0), "{case}: {report}");
            assert!(!events(&runs, &run).await.contains(&"sent"), "{case}");
            let kept = Some(runs.kept_effects(&run, None).await.unwrap());
            let corrected = RunRequest { kept, ..RunRequest::new(Profile::Chain, code) };
            let corrected = runs.begin(corrected, None, None).await.unwrap().run;
            assert_eq!(settled(&runs, &corrected).await.pending.len(), 1, "{case}: it is asked about again");
        }
    }
}

/// The record says that a call was sent once it is, so that after a crash no call is unknown that was only asked about or denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_recorded_as_sent_when_a_person_lets_it_through() {
    for park_time in [Duration::from_secs(300), Duration::ZERO] {
        for (call, tool) in [("my_bank.pay_now({ to: 'ann' })", "my-bank.pay-now"), ("mail('ann')", "mail")] {
            let code = format!(
                "const of = (call) => call.then((it) => it.id ?? it, (error) => error.code); \
                                return await of({call})"
            );
            let world = World::default();
            let (runs, _) = world.gateway(vec![asks(tool)], park_time);
            let run = begin(&runs, &code).await;
            let call = settled(&runs, &run).await.pending[0].call_id;
            assert_eq!(events(&runs, &run).await, ["call", "asked"], "{tool}");
            runs.decide(&run, None, vec![decision(call, DecisionKind::Approve)]).await.unwrap();
            assert_eq!(report(&ended(&runs, &run).await)["value"], "ann", "{tool}");
            let after = events(&runs, &run).await;
            assert_eq!((after.first(), after.iter().filter(|name| **name == "sent").count()), (Some(&"call"), 1));
            assert_eq!(after[after.len() - 2..], ["sent", "answered"], "{tool}: {after:?}");
            assert_eq!(world.sent(), ["ann"]);
            let (runs, _) = world.gateway(vec![Rule::new("policy[0]", tool, Action::Deny)], park_time);
            let run = begin(&runs, &code).await;
            assert_eq!(report(&ended(&runs, &run).await)["value"], "DENIED", "{tool}");
            assert_eq!(events(&runs, &run).await, ["call", "answered"], "{tool}");
        }
    }
}

/// Where an approval is remembered, nothing is asked: the intent comes first, as for a call that is allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_remembered_approval_lets_through_is_recorded_as_sent_before_it_is() {
    let code = "for (const to of ['ann', 'bob']) await my_bank.pay_now({ to }); return 'all'";
    let world = World::default();
    let (runs, _) = world.gateway(vec![asks("my-bank.*")], Duration::ZERO);
    let run = begin(&runs, code).await;
    let call = settled(&runs, &run).await.pending[0].call_id;
    runs.decide(&run, None, vec![remembered(call, "run")]).await.unwrap();
    let report = report(&ended(&runs, &run).await);
    assert_eq!((&report["value"], world.sent()), (&json!("all"), vec![json!("ann"), json!("bob")]), "{report}");
    let after = events(&runs, &run).await;
    assert_eq!(after[after.len() - 3..], ["call", "sent", "answered"], "{after:?}");
}
