//! A run that waits while its gateway is replaced: what may be different then, and what a person is asked about.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, IsolationMode};
use toolgate_journal::durable::{Began, Journal};
use toolgate_journal::recording::RunFacts;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::Store;
use toolgate_journal::store::memory::MemoryStore;
use toolgate_policy::{Action, Condition, Glob, Policy, Rule};
use toolgate_run::durable::{
    CallDecision, Callers, DecisionKind, DurableRuns, DurableSettings, LocalCaller, RunStatus, RunView,
};
use toolgate_run::{Door, FastPaths, FixedEnvironment, RunRequest, Runner};
use toolgate_wire::{Access, CallId, CallerScope, Profile};

use crate::counting_store::CountingStore;
use crate::run_views::{report, settled};
use crate::support::{World, fixture};

/// Pays, waits for a person, pays again, and calls a tool that may be gone by then.
const PROGRAM: &str = "const first = await bank.pay({ amount: 1 }); const wired = await bank.wire({ to: 'ann' }); \
     const second = await bank.pay({ amount: 2 }); \
     let last; try { last = await bank.close({}); } catch (error) { last = error.message; } \
     return [first.paid, wired.wired, second.paid, last]";

fn tools() -> Value {
    let amount = json!({ "type": "object", "properties": { "amount": { "type": "number" } } });
    json!([
        { "name": "pay", "description": "Pays.", "inputSchema": amount, "reply": { "paid": "{{amount}}" } },
        { "name": "wire", "inputSchema": { "type": "object" }, "reply": { "wired": "{{to}}" } },
        { "name": "close", "inputSchema": { "type": "object" }, "reply": "closed" },
    ])
}

/// Durable runs of one gateway over these tools.
fn gateway(store: &Arc<MemoryStore>, tools: &Value, number: u32) -> DurableRuns {
    gateway_for(store, tools, number, Arc::new(LocalCaller))
}

/// The same for these callers.
fn gateway_for<S: Store>(store: &Arc<S>, tools: &Value, number: u32, callers: Arc<dyn Callers>) -> DurableRuns {
    let asks = Rule::new("policy[0]", "bank.wire", Action::Ask);
    gateway_with(store, tools, number, callers, vec![asks]).0
}

/// The same with these rules; its runner too.
fn gateway_with<S: Store>(
    store: &Arc<S>,
    tools: &Value,
    number: u32,
    callers: Arc<dyn Callers>,
    rules: Vec<Rule>,
) -> (DurableRuns, Runner) {
    let script = json!({ "backends": { "bank": { "tools": tools } } });
    let script = ToolScript::parse(&script.to_string()).unwrap();
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    script.providers().for_each(|(backend, provider)| bridge.provide(backend, provider));
    bridge.set_policy(Policy::new(rules, Action::Allow));
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
    let runner = Runner::new(engine, Arc::new(bridge), Arc::new(FixedEnvironment::default()));
    (DurableRuns::start(journal(store, number), runner.clone(), callers, DurableSettings::default()), runner)
}

fn journal<S: Store>(store: &Arc<S>, number: u32) -> Journal {
    let sealer = Sealer::new([7; 32]).unwrap();
    Journal::new(store.clone(), sealer, format!("gateway {number}"), Duration::from_secs(2))
}

async fn decide(runs: &DurableRuns, run: &str, view: &RunView, decision: DecisionKind) {
    let decide = |call_id| CallDecision {
        call_id,
        decision,
        arguments: None,
        reason: Some("because".into()),
        remember: None,
        by: String::new(),
        at: 0,
    };
    runs.decide(run, None, view.pending.iter().map(|it| decide(it.call_id)).collect()).await.unwrap();
}

/// What becomes of a run that waits for its wire while the tools become these, once the wire is approved.
async fn upgraded(after: &Value) -> (DurableRuns, String, RunView) {
    let store = Arc::new(MemoryStore::default());
    let before = gateway(&store, &tools(), 1);
    let run = before.begin(RunRequest::new(Profile::Chain, PROGRAM), None, None).await.unwrap().run;
    let view = settled(&before, &run).await;
    assert_eq!((view.pending.len(), view.pending[0].tool.as_str()), (1, "wire"), "{view:?}");
    before.stop(Duration::from_secs(30)).await;
    let runs = gateway(&store, after, 2);
    decide(&runs, &run, &view, DecisionKind::Approve).await;
    // The question about the wire is decided, so whatever waits now is another one.
    let view = settled(&runs, &run).await;
    (runs, run, view)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_tools_and_other_words_change_nothing() {
    let mut after = tools();
    after[0]["description"] = json!("Pays, at once.");
    after[0]["inputSchema"]["properties"]["amount"]["description"] = json!("In euros.");
    // A tool that the run has not called so far may change.
    after[2]["inputSchema"] = json!({ "type": "object", "properties": { "now": { "type": "boolean" } } });
    after.as_array_mut().unwrap().push(json!({ "name": "open", "reply": 1 }));
    let (_runs, _, view) = upgraded(&after).await;
    assert_eq!(report(&view)["value"], json!([1, "ann", 2, "closed"]), "{view:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_tool_fails_at_the_call_that_needs_it() {
    let mut after = tools();
    after.as_array_mut().unwrap().remove(2);
    let (_runs, _, view) = upgraded(&after).await;
    let value = &report(&view)["value"];
    assert_eq!((&value[0], &value[1], &value[2]), (&json!(1), &json!("ann"), &json!(2)), "{view:?}");
    assert!(value[3].as_str().is_some_and(|why| why.contains("close")), "with its name: {value}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_schema_of_a_tool_that_was_called_is_asked_about() {
    let mut after = tools();
    after[0]["inputSchema"]["properties"]["amount"] = json!({ "type": ["number", "string"] });
    for (decision, expected) in [(DecisionKind::Approve, None), (DecisionKind::Deny, Some("ABORTED"))] {
        let (runs, run, view) = upgraded(&after).await;
        assert_eq!(view.summary.status, RunStatus::Paused, "{view:?}");
        let question = &view.pending[0];
        assert_eq!((question.tool.as_str(), question.arguments.0.get()), ("pay", r#"{"amount":1}"#), "{view:?}");
        assert!(question.reason.contains("schema of bank.pay has changed"), "{question:?}");
        let shown = serde_json::to_value(question).unwrap();
        assert_eq!(shown["about"]["kind"], "changedSchema", "{shown}");
        decide(&runs, &run, &view, decision).await;
        let view = settled(&runs, &run).await;
        let report = report(&view);
        match expected {
            None => assert_eq!(report["value"], json!([1, "ann", 2, "closed"]), "asked once: {report}"),
            Some(code) => {
                assert_eq!(report["code"], code, "{report}");
                assert!(report["error"].as_str().is_some_and(|it| it.contains("bank.pay: because")), "{report}");
            }
        }
    }
}

/// The second gateway knows the tools of its server from the cache, which has them as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_changed_while_no_gateway_ran_is_asked_about() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let schema = folder.path().join("schema.json");
    let servers = json!({ "f": fixture(&["--schema", schema.to_str().unwrap()]) });
    let settings = json!({ "policy": [{ "tool": "f.say", "do": "ask" }] });
    let before = World::at(folder.clone(), servers.clone(), settings.clone());
    let runs = before.gateway.runner().durable().await.unwrap();
    let code =
        "const a = await f.echo({ n: 1 }); await f.say({ texts: ['x'] }); return (await f.echo({ n: 2 })).n + a.n";
    let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
    let view = settled(&runs, &run).await;
    assert_eq!((view.pending.len(), view.pending[0].tool.as_str()), (1, "say"), "{view:?}");
    before.gateway.shut_down().await;

    let changed = json!({ "type": "object", "properties": { "n": { "type": "number" }, "of": { "type": "string" } } });
    std::fs::write(&schema, changed.to_string()).unwrap();
    let after = World::at(folder, servers, settings);
    let runs = after.gateway.runner().durable().await.unwrap();
    decide(&runs, &run, &view, DecisionKind::Approve).await;
    let view = settled(&runs, &run).await;
    assert_eq!(view.summary.status, RunStatus::Paused, "{view:?}");
    assert!(view.pending[0].reason.contains("schema of f.echo has changed"), "{view:?}");
    decide(&runs, &run, &view, DecisionKind::Approve).await;
    assert_eq!(report(&settled(&runs, &run).await)["value"], 3);
    after.gateway.shut_down().await;
}

/// What a volatile run did is in the memory of its process: a correction that waits for a person has it in its own record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correction_of_a_volatile_run_goes_on_in_another_process() {
    let store = Arc::new(MemoryStore::default());
    let asks = || vec![Rule::new("policy[0]", "bank.wire", Action::Ask)];
    let (before, runner) = gateway_with(&store, &tools(), 1, Arc::new(LocalCaller), asks());
    let request = |code: &str| RunRequest {
        door: Door::Mcp("call_tool_chain"),
        fast_paths: FastPaths::Off,
        ..RunRequest::new(Profile::Chain, code)
    };
    let failed = runner.run(request("await bank.pay({ amount: 1 }); throw new Error('broken')")).await;
    let (kept, durable) = runner.correct(&failed.id, &CallerScope::default()).unwrap().expect("what it did");
    let corrected = RunRequest { durable, kept: Some(kept), ..request(PROGRAM) };
    let run = runner.run(corrected).await.paused.expect("it waits").run_id;
    let view = settled(&before, &run).await;
    assert_eq!((view.pending.len(), view.pending[0].tool.as_str()), (1, "wire"), "{view:?}");
    before.stop(Duration::from_secs(30)).await;
    let (runs, _) = gateway_with(&store, &tools(), 2, Arc::new(LocalCaller), asks());
    decide(&runs, &run, &view, DecisionKind::Approve).await;
    let ended = report(&settled(&runs, &run).await);
    assert_eq!(ended["value"], json!([1, "ann", 2, "closed"]), "{ended}");
    // And it can be corrected there, with what both did.
    assert!(runs.kept_effects(&run, None).await.is_ok());
}

/// A service with an issuer of tokens, or without one any more.
struct Tokens(bool);

impl Callers for Tokens {
    fn scope(&self, _: &str) -> Option<CallerScope> {
        None
    }

    fn admits_tokens(&self) -> bool {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_a_token_goes_on_with_what_the_token_granted() {
    for still in [true, false] {
        let store = Arc::new(MemoryStore::default());
        let before = gateway_for(&store, &tools(), 1, Arc::new(Tokens(true)));
        let tools_of_token = Access::only(["bank.pay", "bank.wire"]);
        let caller = CallerScope { name: "oauth:ann".into(), tools: tools_of_token, ..CallerScope::default() };
        let request = RunRequest { caller, ..RunRequest::new(Profile::Chain, PROGRAM) };
        let run = before.begin(request, None, None).await.unwrap().run;
        let view = settled(&before, &run).await;
        before.stop(Duration::from_secs(30)).await;
        let runs = gateway_for(&store, &tools(), 2, Arc::new(Tokens(still)));
        decide(&runs, &run, &view, DecisionKind::Approve).await;
        let report = report(&settled(&runs, &run).await);
        if still {
            let value = &report["value"];
            assert_eq!((&value[1], &value[2]), (&json!("ann"), &json!(2)), "{report}");
            assert_ne!(value[3], "closed", "what the token does not open stays closed: {report}");
        } else {
            assert_eq!(report["code"], "UNAVAILABLE", "{report}");
            assert!(report["error"].as_str().is_some_and(|it| it.contains("not accepted any more")), "{report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_has_what_the_token_of_now_grants() {
    let store = Arc::new(MemoryStore::default());
    let runs = gateway_for(&store, &tools(), 1, Arc::new(Tokens(true)));
    let token = |tools: &[&str]| CallerScope {
        name: "oauth:ann".into(),
        tools: Access::only(tools.iter().copied()),
        ..CallerScope::default()
    };
    let code = "const first = (await bank.pay({ amount: 1 })).paid; \
                try { return [first, await bank.close({})] } catch (error) { return [first, error.code] }";
    let request = RunRequest { caller: token(&["bank.*"]), ..RunRequest::new(Profile::Chain, code) };
    let run = runs.begin(request, None, None).await.unwrap().run;
    assert_eq!(report(&settled(&runs, &run).await)["value"], json!([1, "closed"]));
    for (tools, expected) in [(&["bank.*"][..], "closed"), (&["bank.pay"], "UNKNOWN_TOOL")] {
        let forked = runs.fork(&run, Some(&token(tools)), 1).await.unwrap();
        let report = runs.end_of_fork(forked).await.report;
        let report = serde_json::to_value(&report).unwrap();
        assert_eq!(report["value"], json!([1, expected]), "{report}");
    }
    let other = CallerScope { name: "oauth:bob".into(), ..CallerScope::default() };
    assert!(runs.fork(&run, Some(&other), 1).await.is_err(), "a run of another caller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decided_call_is_made_however_slow_the_store_is() {
    for (decision, expected) in [(DecisionKind::Approve, json!("ann")), (DecisionKind::Deny, Value::Null)] {
        // A write takes longer than a program has to be silent before its run is paused.
        let store = Arc::new(CountingStore::slow(Duration::from_millis(200)));
        let runs = gateway_for(&store, &tools(), 1, Arc::new(LocalCaller));
        let code = "try { return (await bank.wire({ to: 'ann' })).wired } catch (error) { return null }";
        let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        let view = settled(&runs, &run).await;
        assert_eq!(view.pending.len(), 1, "{view:?}");
        decide(&runs, &run, &view, decision).await;
        let report = report(&settled(&runs, &run).await);
        assert_eq!((&report["ok"], &report["value"]), (&json!(true), &expected), "{report}");
    }
}

/// An approval for the other calls of a run is kept in memory: the process that resumes the run reads it from the stored decisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_for_the_run_holds_in_the_process_that_goes_on_with_it() {
    let code = "const all = []; for (const to of ['ann', 'bob', 'cleo']) all.push((await bank.wire({ to })).wired); return all";
    for (remember, expected) in [(json!("run"), None), (json!("once"), Some("bob"))] {
        let store = Arc::new(MemoryStore::default());
        let before = gateway(&store, &tools(), 1);
        let run = before.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        let call_id = settled(&before, &run).await.pending[0].call_id;
        before.stop(Duration::from_secs(30)).await;
        let decision = json!({ "callId": call_id, "decision": "approve", "remember": remember });
        // Written as the command line does, without a gateway; and the gateway that executes the run is another one.
        journal(&store, 2).decide(&run, CallId(call_id), &decision.to_string()).await.unwrap();
        let runs = gateway(&store, &tools(), 3);
        let view = settled(&runs, &run).await;
        match expected {
            None => assert_eq!(report(&view)["value"], json!(["ann", "bob", "cleo"]), "{view:?}"),
            Some(to) => assert!(view.pending[0].arguments.0.get().contains(to), "it is asked about: {view:?}"),
        }
    }
}

/// `toolgate approve --remember session` is written without a gateway: the one that goes on with the run remembers it, and one that
/// began later does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_for_the_session_that_was_written_elsewhere_holds_until_the_gateway_ends() {
    let code = "const all = []; for (const to of ['ann', 'bob']) all.push((await bank.wire({ to })).wired); return all";
    for is_later in [false, true] {
        let store = Arc::new(MemoryStore::default());
        let first = gateway(&store, &tools(), 1);
        let run = first.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        let call_id = settled(&first, &run).await.pending[0].call_id;
        if is_later {
            first.stop(Duration::from_secs(30)).await;
        }
        let at = toolgate_journal::unix_ms();
        let decision = json!({ "callId": call_id, "decision": "approve", "remember": "session", "at": at });
        journal(&store, 2).decide(&run, CallId(call_id), &decision.to_string()).await.unwrap();
        if is_later {
            // Another millisecond.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let view = settled(&gateway(&store, &tools(), 3), &run).await;
            assert!(view.pending[0].arguments.0.get().contains("bob"), "another session: {view:?}");
            continue;
        }
        assert_eq!(report(&settled(&first, &run).await)["value"], json!(["ann", "bob"]));
        let next = first.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        assert_eq!(report(&settled(&first, &next).await)["value"], json!(["ann", "bob"]), "also in the next run");
    }
}

/// Rules are named by their places: one that is put before the others has the name of the rule that asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_for_the_run_stays_with_its_rule_when_rules_are_added_before_it() {
    let code = "const all = []; for (const to of ['ann', 'bob', 'cleo']) all.push((await bank.wire({ to })).wired); return all";
    let store = Arc::new(MemoryStore::default());
    let before = gateway(&store, &tools(), 1);
    let run = before.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
    let view = settled(&before, &run).await;
    assert!(!serde_json::to_string(&view.pending).unwrap().contains("ruleKey"), "conditions of rules are not shown");
    let call_id = view.pending[0].call_id;
    before.stop(Duration::from_secs(30)).await;
    let decision = json!({ "callId": call_id, "decision": "approve", "remember": "run" });
    journal(&store, 2).decide(&run, CallId(call_id), &decision.to_string()).await.unwrap();

    let strict = Rule {
        when: Some(Condition::parse("args.to == 'bob'").unwrap()),
        approvers: vec![Glob::new("lead")],
        ..Rule::new("policy[0]", "bank.wire", Action::Ask)
    };
    let rules = vec![strict, Rule::new("policy[1]", "bank.wire", Action::Ask)];
    let (runs, _) = gateway_with(&store, &tools(), 3, Arc::new(LocalCaller), rules);
    let view = settled(&runs, &run).await;
    assert!(view.pending[0].arguments.0.get().contains("bob"), "another rule asks about it: {view:?}");
    decide(&runs, &run, &view, DecisionKind::Approve).await;
    let view = settled(&runs, &run).await;
    assert_eq!(report(&view)["value"], json!(["ann", "bob", "cleo"]), "its own rule asks no more: {view:?}");
}

/// Decides what waits, for the rest of the run.
async fn approve_for_the_run(runs: &DurableRuns, run: &str, view: &RunView) {
    let decision = json!({ "callId": view.pending[0].call_id, "decision": "approve", "remember": "run" });
    runs.decide(run, None, vec![serde_json::from_value(decision).unwrap()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_approval_for_the_run_does_not_come_back() {
    let code = "const wire = async (to) => (await bank.wire({ to })).wired; const first = await wire('ann'); \
         await bank.pay({ amount: 1 }); const second = await wire('bob'); await bank.pay({ amount: 2 }); \
         return [first, second, await wire('cleo')]";
    let rules =
        || ["bank.wire", "bank.pay"].map(|tool| Rule::new(format!("policy[{tool}]"), tool, Action::Ask)).to_vec();
    for is_elsewhere in [false, true] {
        let store = Arc::new(MemoryStore::default());
        let (runs, runner) = gateway_with(&store, &tools(), 1, Arc::new(LocalCaller), rules());
        let run = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
        approve_for_the_run(&runs, &run, &settled(&runs, &run).await).await;
        let view = settled(&runs, &run).await;
        assert_eq!(view.pending[0].tool, "pay", "{view:?}");
        let remembered = runner.bridge().remembered().list().unwrap();
        assert_eq!(remembered.len(), 1, "{remembered:?}");
        runner.forget_approval(&CallerScope::default(), &remembered[0].id).await.unwrap();

        // The run goes on from its record, here or in a process that knows nothing of the rule.
        let runs = if is_elsewhere {
            runs.stop(Duration::from_secs(30)).await;
            gateway_with(&store, &tools(), 2, Arc::new(LocalCaller), rules()).0
        } else {
            runs
        };
        decide(&runs, &run, &view, DecisionKind::Approve).await;
        let view = settled(&runs, &run).await;
        assert!(view.pending.iter().any(|call| call.arguments.0.get().contains("bob")), "it is asked about: {view:?}");

        // A later approval holds.
        approve_for_the_run(&runs, &run, &view).await;
        let view = settled(&runs, &run).await;
        assert_eq!(view.pending[0].tool, "pay", "{view:?}");
        decide(&runs, &run, &view, DecisionKind::Approve).await;
        let view = settled(&runs, &run).await;
        assert_eq!(report(&view)["value"], json!(["ann", "bob", "cleo"]), "{view:?}");
    }
}

/// What waits for a caller is found, however many newer runs of others wait; one request looks at so many of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_runs_of_others_hide_nothing_that_waits() {
    const OTHERS: usize = 1_200;
    let store = Arc::new(MemoryStore::default());
    let runs = gateway(&store, &tools(), 1);
    let code = "return await bank.wire({ to: 'ann' })";
    let own = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
    settled(&runs, &own).await;
    let elsewhere = journal(&store, 2);
    for number in 0..OTHERS {
        let facts = RunFacts {
            run: format!("other{number:06}"),
            profile: Profile::Chain,
            code: "return 1".into(),
            caller: "other".into(),
            request: None,
        };
        let Ok(Began::New(run)) = elsewhere.begin(facts, None).await else { panic!("it is new") };
        let question = json!({
            "callId": 1, "tool": "wire", "arguments": {}, "reason": "r", "askedAt": 0, "expiresAt": u64::MAX,
        });
        run.pause(&[(CallId(1), question.to_string())], None).await.unwrap();
    }
    let found = runs.waiting_for(Some(""), None, 50).await.unwrap();
    assert!(found.runs.is_empty() && found.next.is_some(), "a thousand runs are looked at: {found:?}");
    let found = runs.waiting_for(Some(""), found.next, 50).await.unwrap();
    assert_eq!(found.runs.iter().map(|it| &it.summary.run).collect::<Vec<_>>(), [&own]);
    assert_eq!(found.next, None);
    // And who has many gets them page by page.
    let (mut seen, mut before) = (std::collections::HashSet::new(), None);
    loop {
        let page = runs.waiting_for(Some("other"), before, 170).await.unwrap();
        assert!(page.runs.len() <= 170);
        seen.extend(page.runs.into_iter().map(|it| it.summary.run));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), OTHERS);
}

/// Such as one that was sealed with another key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_read_hides_no_other_that_waits() {
    let store = Arc::new(MemoryStore::default());
    let runs = gateway(&store, &tools(), 1);
    let code = "return await bank.wire({ to: 'ann' })";
    let own = runs.begin(RunRequest::new(Profile::Chain, code), None, None).await.unwrap().run;
    settled(&runs, &own).await;
    let sealer = Sealer::new([8; 32]).unwrap();
    let elsewhere = Journal::new(store.clone(), sealer, "elsewhere".to_owned(), Duration::from_secs(2));
    let facts = RunFacts {
        run: "sealed".to_owned(),
        profile: Profile::Chain,
        code: code.to_owned(),
        caller: String::new(),
        request: None,
    };
    let Ok(Began::New(run)) = elsewhere.begin(facts, None).await else { panic!("it is new") };
    run.pause(&[(CallId(1), "{}".to_owned())], None).await.unwrap();
    let found = runs.waiting_for(None, None, 50).await.unwrap();
    assert_eq!(found.runs.iter().map(|it| &it.summary.run).collect::<Vec<_>>(), [&own]);
}
