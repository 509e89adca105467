//! The policy decides about every call once, whichever route it came by.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_bridge::approvals::{Approver, AskedCall, Remember, RememberedRules, Verdict, VerdictFuture};
use toolgate_bridge::{Answer, Provider, ProviderFuture, RequestContext};
use toolgate_engine::HostError;
use toolgate_functions::{HostFunction, Registry};
use toolgate_policy::{Action, CallLimits, Condition, Glob, Policy, Rule, TraitFilter, parse_limits};
use toolgate_run::{FastPaths, Route, RunReport, RunRequest, Runner};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, CallState, CallerScope, Code, Outcome};

use crate::runner::{Case, cases};
use crate::support::{asking, chain, run, shown};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        policy::a_denied_call_is_not_made_on_any_route,
        policy::a_denial_can_be_caught,
        policy::a_rule_names_a_tool_by_either_spelling,
        policy::conditions_see_arguments_and_caller,
        policy::a_limit_counts_the_calls_of_a_run,
        policy::a_call_that_is_not_sent_counts_for_no_limit,
        policy::effects_are_known_from_annotations_and_names,
        policy::host_functions_are_decided_about_too,
        policy::a_call_that_must_be_asked_about_fails_where_nobody_can_be,
        policy::a_person_approves_edits_denies_and_stops,
        policy::what_a_person_edits_is_checked,
        policy::what_a_person_edits_counts_as_what_it_is_now,
        policy::what_a_person_edits_is_not_taken_from_other_approvers,
        policy::a_question_expires,
        policy::a_new_policy_holds_for_calls_that_wait,
        policy::a_program_that_can_only_be_denied_is_refused_before_its_first_call,
        policy::the_report_lists_what_will_be_asked,
        policy::an_approval_can_stand_for_later_calls,
        policy::a_remembered_rule_answers_its_own_question_only,
        policy::rules_that_are_remembered_at_the_same_time_are_all_kept,
        policy::without_rules_nothing_changes,
    ]
}

fn bank() -> Value {
    let pay = json!({
        "name": "pay", "reply": { "paid": "{{amount}}" },
        "inputSchema": { "type": "object", "properties": { "amount": { "type": "number" } }, "required": ["amount"] },
    });
    json!({ "backends": {
        "bank": { "tools": [pay, { "name": "get_balance", "reply": 7 }, { "name": "frob", "reply": 1 }] },
        "my-shop": { "tools": [{ "name": "buy-now", "reply": "bought" }] },
    } })
}

fn rule(tool: &str, action: Action) -> Rule {
    Rule { reason: Some("because".to_owned()), ..Rule::new("policy[0]", tool, action) }
}

fn when(tool: &str, action: Action, when: &str) -> Rule {
    Rule { when: Some(Condition::parse(when).unwrap()), ..rule(tool, action) }
}

fn chain_with(rules: Vec<Rule>) -> Runner {
    let chain = chain(&bank());
    chain.bridge().set_policy(Policy::new(rules, Action::Allow));
    chain
}

fn outcome(run: &RunReport) -> String {
    match &run.report.outcome {
        Outcome::Returned(value) => value.get().to_owned(),
        Outcome::Failed(failure) => failure.to_string(),
    }
}

pub(crate) fn a_denied_call_is_not_made_on_any_route() {
    let foreseen = chain_with(vec![rule("bank.pay", Action::Deny)]);
    // What depends on counts is known only at the call.
    let decided_late = chain_with(vec![when("bank.pay", Action::Deny, "counts.run >= 0")]);
    let allowed = chain_with(Vec::new());
    let texts = [
        ("return await bank.pay({ amount: 5 })", Route::OneCall),
        ("return await tools['bank']['pay']({ amount: 5 })", Route::OneCall),
        ("{\"tool\": \"bank.pay\", \"arguments\": {\"amount\": 5}}", Route::Direct),
        ("const n = 5; if (n > 1) { return await bank.pay({ amount: n }) }", Route::Script),
        ("const b = bank; return await b.pay({ amount: 5 })", Route::Script),
        ("const [a] = await Promise.all([bank.pay({ amount: 5 })]); return a", Route::Script),
        ("const name = 'pay'; return await __backends.bank[name]({ amount: 5 })", Route::Script),
    ];
    for (text, route) in texts {
        let open = run(&allowed, asking(text));
        assert_eq!((open.route, open.report.failure()), (route, None), "{text}");
        assert_eq!(run(&decided_late, asking(text)).route, route, "{text}");
        for chain in [&foreseen, &decided_late] {
            for fast_paths in [FastPaths::Allowed, FastPaths::Off] {
                let refused = run(chain, RunRequest { fast_paths, ..asking(text) });
                let failure = refused.report.failure().unwrap_or_else(|| panic!("{text} is let through"));
                assert!(failure.message.contains("bank.pay is denied by the policy: because"), "{text}: {failure}");
                assert!(refused.report.calls.iter().all(|call| call.state == CallState::NotSent), "{text}");
                assert!(refused.report.safe_to_retry());
            }
        }
    }
}

pub(crate) fn a_denial_can_be_caught() {
    let chain = chain_with(vec![when("bank.pay", Action::Deny, "args.amount > 100")]);
    let code = "const seen = [];
        for (const amount of [50, 500]) {
            try { seen.push(await bank.pay({ amount })) }
            catch (e) { seen.push([e.name, e.code, e.backend, e.tool, e.data.rule, e.data.reason]) }
        }
        return seen";
    let ran = run(&chain, asking(code));
    let expected = r#"[{"paid":50},["ToolError","DENIED","bank","pay","policy[0]","because"]]"#;
    assert_eq!(outcome(&ran), expected);
    let records: Vec<Value> = ran.report.calls.iter().map(|call| serde_json::to_value(call).unwrap()).collect();
    assert_eq!(records[0]["decision"], Value::Null, "no rule was about the first call");
    assert_eq!(records[1]["decision"], json!({ "do": "deny", "rule": "policy[0]" }));
    assert_eq!(records[1]["errorCode"], json!("DENIED"));
    assert_eq!(records[1]["state"], json!("not_sent"));
}

pub(crate) fn a_rule_names_a_tool_by_either_spelling() {
    for named in ["my-shop.buy-now", "my_shop.buy_now", "my-shop.*", "my_shop.*"] {
        let chain = chain_with(vec![rule(named, Action::Deny)]);
        for text in ["return await my_shop.buy_now({})", "return await tools['my-shop']['buy-now']({})"] {
            let failure = outcome(&run(&chain, asking(text)));
            assert!(failure.contains("is denied by the policy: because"), "{named} {text}: {failure}");
        }
    }
}

pub(crate) fn conditions_see_arguments_and_caller() {
    let chain = chain_with(vec![when("bank.*", Action::Deny, "caller == 'ci' && args.amount >= 10")]);
    let pay = |caller: &str, amount: u32| {
        let caller = CallerScope { name: caller.to_owned(), ..CallerScope::default() };
        let code = format!("return await bank.pay({{ amount: {amount} }})");
        run(&chain, RunRequest { caller, ..asking(code) }).report.failure().is_none()
    };
    assert_eq!([pay("ci", 9), pay("ci", 10), pay("bob", 10), pay("", 10)], [true, false, true, true]);
    let local = chain_with(vec![when("bank.*", Action::Deny, "caller == 'local' && profile == 'chain'")]);
    assert!(run(&local, asking("return await bank.get_balance({})")).report.failure().is_some());
}

pub(crate) fn a_limit_counts_the_calls_of_a_run() {
    let limits = parse_limits("at most 3 a run").unwrap();
    let chain = chain_with(vec![Rule { limits, ..Rule::new("policy[0]", "bank.pay", Action::Allow) }]);
    let code = "const all = await Promise.allSettled([1, 2, 3, 4, 5].map(amount => bank.pay({ amount })));
        return all.map(one => one.value?.paid ?? one.reason.message)";
    let denied = "\"bank.pay is denied by the policy: policy[0] lets through at most 3 a run\"";
    for _ in 0..2 {
        assert_eq!(outcome(&run(&chain, asking(code))), format!("[1,2,3,{denied},{denied}]"), "each run counts anew");
    }
    let daily = Rule { limits: parse_limits("2 a day").unwrap(), ..Rule::new("policy[0]", "bank.pay", Action::Allow) };
    let chain = chain_with(vec![daily]);
    let pay = |caller: &str| {
        let caller = CallerScope { name: caller.to_owned(), ..CallerScope::default() };
        run(&chain, RunRequest { caller, ..asking("return await bank.pay({ amount: 1 })") }).report.failure().is_none()
    };
    assert_eq!([pay("a"), pay("a"), pay("a"), pay("b")], [true, true, false, true]);
}

/// Refuses so many calls for want of a login.
struct LoggedOut(Mutex<u32>);

impl Provider for LoggedOut {
    fn call(&self, _: String, _: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let mut left = self.0.lock();
        let is_refused = *left > 0;
        *left = left.saturating_sub(1);
        let answer =
            if is_refused { Err(HostError::not_sent("NEEDS_LOGIN", "log in")) } else { Ok(Answer::Value(json!(1))) };
        Box::pin(std::future::ready(answer))
    }
}

/// Looking for a login again and again uses up nothing.
pub(crate) fn a_call_that_is_not_sent_counts_for_no_limit() {
    for limits in ["at most 1 a run", "1 a day"] {
        let limits = parse_limits(limits).unwrap();
        let chain = chain_with(vec![Rule { limits, ..Rule::new("policy[0]", "bank.pay", Action::Allow) }]);
        chain.bridge().provide("bank", Arc::new(LoggedOut(Mutex::new(3))));
        let code = "const codes = []; for (let amount = 0; amount < 5; amount++) codes.push(await bank.pay({ amount })
            .then(() => 'paid', error => error.code)); return codes";
        let expected = r#"["NEEDS_LOGIN","NEEDS_LOGIN","NEEDS_LOGIN","paid","DENIED"]"#;
        assert_eq!(outcome(&run(&chain, asking(code))), expected);
    }
}

pub(crate) fn effects_are_known_from_annotations_and_names() {
    let writes = TraitFilter { read_only: Some(false), ..TraitFilter::default() };
    let chain = chain_with(vec![Rule { traits: writes, ..rule("*", Action::Deny) }]);
    let made = |code: &str| run(&chain, asking(code)).report.failure().is_none();
    assert!(made("return await bank.get_balance({})"), "get reads");
    assert!(!made("return await bank.pay({ amount: 1 })"), "pay does not");
    assert!(!made("return await bank.frob({})"), "what is not known is not known to read");
}

pub(crate) fn host_functions_are_decided_about_too() {
    let called = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&called);
    let function = HostFunction::builder("launch").required("n", json!({}), "How many.").handle(move |_, args| {
        let counter = Arc::clone(&counter);
        async move {
            *counter.lock() += 1;
            Ok(json!(args))
        }
    });
    let functions: Registry = [function.unwrap()].into_iter().collect();
    let chain = chain_with(vec![when("launch", Action::Deny, "args[0] > 1")]);
    let launch = |n: u32| {
        let request = RunRequest { functions: Some(functions.clone()), ..asking(format!("return await launch({n})")) };
        outcome(&run(&chain, request))
    };
    assert_eq!(launch(1), "[1]");
    assert!(launch(2).contains("launch is denied by the policy: because"));
    assert_eq!(*called.lock(), 1);
}

pub(crate) fn a_call_that_must_be_asked_about_fails_where_nobody_can_be() {
    let chain = chain_with(vec![rule("bank.pay", Action::Ask)]);
    for fast_paths in [FastPaths::Allowed, FastPaths::Off] {
        let request = RunRequest { fast_paths, ..asking("return await bank.pay({ amount: 5 })") };
        let ran = run(&chain, request);
        let failure = outcome(&ran);
        assert!(failure.contains("a person must approve bank.pay: because"), "{failure}");
        assert!(failure.contains("toolgate approve"), "{failure}");
        let record = &ran.report.calls[0];
        assert_eq!((&record.error_code, record.state), (&Some(CallErrorCode::Denied), CallState::NotSent));
    }
}

/// Answers each question as the amount says, and notes what was asked.
#[derive(Default)]
struct Reviewer {
    asked: Mutex<Vec<AskedCall>>,
    edit: Mutex<Option<String>>,
    name: Option<String>,
}

impl Approver for Reviewer {
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_> {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        self.asked.lock().push(call);
        let edit = self.edit.lock().clone();
        Box::pin(async move {
            match arguments["amount"].as_u64() {
                Some(1) => Verdict::Approve { arguments: None },
                Some(2) => Verdict::Approve { arguments: Some(edit.unwrap_or_else(|| "{\"amount\":20}".to_owned())) },
                Some(3) => Verdict::Deny { reason: "not today".to_owned() },
                Some(4) => Verdict::Stop { reason: "enough".to_owned() },
                _ => std::future::pending().await,
            }
        })
    }

    fn answered(&self, _: CallId) -> Option<DecisionRecord> {
        let reviewer = Some(self.name.clone()?);
        Some(DecisionRecord { action: "ask", verdict: Some("edited"), reviewer, ..DecisionRecord::default() })
    }
}

pub(crate) fn a_person_approves_edits_denies_and_stops() {
    let asks = Rule { expiry: Duration::from_secs(600), ..rule("bank.pay", Action::Ask) };
    let chain = chain_with(vec![asks]);
    let reviewer = Arc::new(Reviewer::default());
    let with = |code: &str| RunRequest { approver: Some(reviewer.clone()), ..asking(code) };
    let code = "const all = await Promise.allSettled([1, 2, 3].map(amount => bank.pay({ amount })));
        return all.map(one => one.value?.paid ?? [one.reason.code, one.reason.message])";
    let ran = run(&chain, with(code));
    assert_eq!(outcome(&ran), r#"[1,20,["DENIED","a person denied bank.pay: not today"]]"#);
    let decisions: Vec<Value> =
        ran.report.calls.iter().map(|call| serde_json::to_value(call.decision.as_ref().unwrap()).unwrap()).collect();
    let edited = json!({
        "do": "ask", "rule": "policy[0]", "verdict": "edited",
        "askedArguments": "{\"amount\":2}", "sentArguments": "{\"amount\":20}",
    });
    assert_eq!(decisions[0], json!({ "do": "ask", "rule": "policy[0]", "verdict": "approved" }));
    assert_eq!(decisions[1], edited);
    assert_eq!(decisions[2], json!({ "do": "ask", "rule": "policy[0]", "verdict": "denied" }));
    let told = "a person changed the arguments of bank.pay: {\"amount\":20} was sent instead of {\"amount\":2}";
    assert_eq!(ran.report.warnings.last().map(ToString::to_string).as_deref(), Some(told));
    let asked = reviewer.asked.lock().clone();
    assert_eq!(
        asked.iter().map(|call| call.arguments.as_str()).collect::<Vec<_>>(),
        ["{\"amount\":1}", "{\"amount\":2}", "{\"amount\":3}"]
    );
    assert_eq!((asked[0].reason.as_str(), asked[0].expires), ("because", Duration::from_secs(600)));
    assert!(asked[0].call_id < asked[1].call_id && asked[1].call_id < asked[2].call_id);

    let stopped = run(&chain, with("try { await bank.pay({ amount: 4 }) } catch {} for (;;) await 0"));
    let failure = stopped.report.failure().unwrap();
    assert_eq!((failure.code, failure.message.as_str()), (Code::Aborted, "a person stopped the run: enough"));
}

pub(crate) fn what_a_person_edits_is_checked() {
    let rules = vec![rule("bank.pay", Action::Ask), when("bank.pay", Action::Deny, "args.amount > 100")];
    let chain = chain_with(rules);
    let reviewer = Arc::new(Reviewer::default());
    let edited = |edit: &str| {
        *reviewer.edit.lock() = Some(edit.to_owned());
        let request = RunRequest { approver: Some(reviewer.clone()), ..asking("return await bank.pay({ amount: 2 })") };
        let ran = run(&chain, request);
        (outcome(&ran), ran.report.calls[0].error_code.as_ref().map_or("", CallErrorCode::as_str).to_owned())
    };
    assert_eq!(edited("{\"amount\":20}"), ("{\"paid\":20}".to_owned(), String::new()));
    assert_eq!(edited("{\"amount\":\"x\"}").1, "INVALID_ARGUMENTS");
    assert_eq!(edited("[1]").1, "INVALID_ARGUMENTS");
    assert_eq!(edited("{").1, "INVALID_ARGUMENTS");
    assert_eq!(edited("{\"amount\":500}").1, "DENIED", "a rule that denies holds for a person too");
}

pub(crate) fn what_a_person_edits_counts_as_what_it_is_now() {
    // Two payments above 100 in a run; what is below is asked about without a bound.
    let large =
        Rule { limits: CallLimits { run: Some(2), day: None }, ..when("bank.pay", Action::Ask, "args.amount > 100") };
    let denied = when("bank.pay", Action::Deny, "args.amount > 100 && counts.run >= 3");
    for (rules, sent) in
        [(vec![rule("bank.pay", Action::Ask), large], 2), (vec![rule("bank.pay", Action::Ask), denied], 3)]
    {
        let chain = chain_with(rules);
        let reviewer = Arc::new(Reviewer { edit: Mutex::new(Some("{\"amount\":500}".into())), ..Reviewer::default() });
        let code = "const sent = []; for (let n = 0; n < 5; n++) sent.push(await bank.pay({ amount: 2 }).then(it => it.paid, e => e.code));
            return sent";
        let ran = run(&chain, RunRequest { approver: Some(reviewer), ..asking(code) });
        let expected: Vec<Value> = (0..5).map(|n| if n < sent { json!(500) } else { json!("DENIED") }).collect();
        assert_eq!(outcome(&ran), json!(expected).to_string());
    }
}

pub(crate) fn what_a_person_edits_is_not_taken_from_other_approvers() {
    let small = Rule { approvers: vec![Glob::new("ann")], ..rule("bank.pay", Action::Ask) };
    let large = Rule {
        id: "policy[1]".into(),
        approvers: vec![Glob::new("bob"), Glob::new("boss-*")],
        ..when("bank.pay", Action::Ask, "args.amount > 100")
    };
    let chain = chain_with(vec![small, large]);
    let edited = |name: Option<&str>, edit: &str| {
        let name = name.map(str::to_owned);
        let reviewer = Arc::new(Reviewer { edit: Mutex::new(Some(edit.to_owned())), name, ..Reviewer::default() });
        let code = "return await bank.pay({ amount: 2 }).then(it => it.paid, e => [e.code, e.data.rule])";
        outcome(&run(&chain, RunRequest { approver: Some(reviewer), ..asking(code) }))
    };
    assert_eq!(edited(Some("ann"), "{\"amount\":20}"), "20");
    assert_eq!(edited(Some("ann"), "{\"amount\":500}"), r#"["DENIED","policy[1]"]"#);
    assert_eq!(edited(None, "{\"amount\":500}"), r#"["DENIED","policy[1]"]"#, "it is not known who edited");
    assert_eq!(edited(Some("boss-eve"), "{\"amount\":500}"), "500");
}

pub(crate) fn a_question_expires() {
    let chain = chain_with(vec![Rule { expiry: Duration::from_millis(1), ..rule("bank.pay", Action::Ask) }]);
    let reviewer: Arc<dyn Approver> = Arc::new(Reviewer::default());
    let code = "try { return await bank.pay({ amount: 9 }) } catch (e) { return [e.code, e.message] }";
    let ran = run(&chain, RunRequest { approver: Some(reviewer), ..asking(code) });
    assert_eq!(outcome(&ran), r#"["EXPIRED","no decision about bank.pay came in time"]"#);
    assert_eq!(ran.report.calls[0].decision.as_ref().unwrap().verdict, Some("expired"));
}

/// Puts a stricter policy in force while it is asked.
struct Reloading(Runner);

impl Approver for Reloading {
    fn ask(&self, _: AskedCall) -> VerdictFuture<'_> {
        self.0.bridge().set_policy(Policy::new(vec![rule("bank.*", Action::Deny)], Action::Allow));
        Box::pin(async { Verdict::Approve { arguments: None } })
    }
}

pub(crate) fn a_new_policy_holds_for_calls_that_wait() {
    let chain = chain_with(vec![rule("bank.pay", Action::Ask)]);
    let approver: Arc<dyn Approver> = Arc::new(Reloading(chain.clone()));
    let ran = run(&chain, RunRequest { approver: Some(approver), ..asking("return await bank.pay({ amount: 1 })") });
    assert!(outcome(&ran).contains("bank.pay is denied by the policy"), "{}", outcome(&ran));
}

pub(crate) fn without_rules_nothing_changes() {
    let (plain, empty) = (chain(&bank()), chain_with(Vec::new()));
    for code in ["return await bank.pay({ amount: 5 })", "const a = await bank.get_balance({}); return a + 1"] {
        assert_eq!(shown(&run(&plain, asking(code))), shown(&run(&empty, asking(code))));
    }
}

pub(crate) fn a_program_that_can_only_be_denied_is_refused_before_its_first_call() {
    let rules = vec![when("bank.pay", Action::Deny, "args.amount > 100"), rule("my-shop.*", Action::Deny)];
    let chain = chain_with(rules);
    let check = |code: &str, expected: Option<usize>| {
        let ran = run(&chain, asking(code));
        let refused = ran.route == Route::Refused;
        assert_eq!((!refused).then_some(ran.report.calls.len()), expected, "{code}: {}", outcome(&ran));
        if refused {
            let failure = ran.report.failure().unwrap();
            assert!(failure.message.contains("DENIED") && failure.message.contains("nothing was called"), "{failure}");
        }
    };
    check("await bank.get_balance({}); return await my_shop.buy_now({})", None);
    check("await bank.get_balance({}); return await bank.pay({ amount: 500 })", None);
    check("{\"tool\": \"bank.pay\", \"arguments\": {\"amount\": 500}}", None);
    check("await bank.get_balance({}); return await bank.pay({ amount: 50 })", Some(2));
    // Not certain: the program may catch it, or not come that far, or the amount is known only then.
    check("await bank.get_balance({}); try { await my_shop.buy_now({}) } catch {}; return 1", Some(2));
    check("const b = await bank.get_balance({}); if (b > 100) await my_shop.buy_now({}); return b", Some(1));
    check("const b = await bank.get_balance({}); return await bank.pay({ amount: b })", Some(2));
    check("const b = await bank.get_balance({}); return await bank.pay({ amount: b * 100 })", Some(2));
}

pub(crate) fn the_report_lists_what_will_be_asked() {
    let chain = chain_with(vec![rule("bank.pay", Action::Ask)]);
    let reviewer: Arc<dyn Approver> = Arc::new(Reviewer::default());
    let code = "const a = await bank.get_balance({});\nawait bank.pay({ amount: 1 });\nreturn a";
    let ran = run(&chain, RunRequest { approver: Some(reviewer), ..asking(code) });
    assert_eq!(outcome(&ran), "7");
    assert_eq!(
        ran.report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2:12: a person is asked about bank.pay: because"]
    );
    let check = chain.check(&asking(code)).unwrap();
    assert_eq!(check.warnings.iter().map(|it| it.code.as_str()).collect::<Vec<_>>(), ["asked"]);
}

/// A chain that asks about payments, with a file for what is remembered, and a question that a run of it asked.
fn remembering() -> (Runner, tempfile::TempDir, AskedCall) {
    let chain = chain_with(vec![rule("bank.pay", Action::Ask)]);
    let folder = tempfile::tempdir().unwrap();
    chain.bridge().set_remembered(RememberedRules::new(Some(folder.path().join("state/rules.json"))));
    let reviewer = Arc::new(Reviewer::default());
    let request = RunRequest { approver: Some(reviewer.clone()), ..asking("return await bank.pay({ amount: 1 })") };
    assert_eq!(outcome(&run(&chain, request)), r#"{"paid":1}"#);
    let asked = reviewer.asked.lock().remove(0);
    (chain, folder, asked)
}

/// Whether a payment is made without a question, for this caller in this run.
fn pays(chain: &Runner, amount: u32, caller: &str, run_id: &str) -> bool {
    let caller = CallerScope { name: caller.to_owned(), ..CallerScope::default() };
    let code = format!("return await bank.pay({{ amount: {amount} }})");
    let ran = run(chain, RunRequest { caller, id: Some(run_id.to_owned()), ..asking(code) });
    let remembered = ran
        .report
        .calls
        .iter()
        .any(|call| call.decision.as_ref().is_some_and(|decision| decision.verdict == Some("remembered")));
    assert_eq!(remembered, ran.report.failure().is_none());
    remembered
}

pub(crate) fn an_approval_can_stand_for_later_calls() {
    let (chain, folder, asked) = remembering();
    let bridge = chain.bridge();
    assert!(!pays(&chain, 1, "", "r1"), "once is once");
    bridge.remember("", &asked, &Remember::Run("r1".to_owned())).unwrap();
    assert_eq!([pays(&chain, 9, "", "r1"), pays(&chain, 9, "", "r2")], [true, false]);
    let session = bridge.remember("ci", &asked, &Remember::Session).unwrap();
    assert_eq!([pays(&chain, 9, "ci", "r3"), pays(&chain, 9, "", "r3")], [true, false]);
    bridge.remembered().revoke(&session.id).unwrap();
    assert!(!pays(&chain, 9, "ci", "r4"));

    let same = bridge.remember("", &asked, &Remember::Always { when: None }).unwrap();
    assert_eq!(same.rule.when.as_deref(), Some("args == {\"amount\":1}"));
    assert_eq!([pays(&chain, 1, "", "r5"), pays(&chain, 2, "", "r5")], [true, false]);
    let small = Remember::Always { when: Some("args.amount < 50".to_owned()) };
    let small = bridge.remember("", &asked, &small).unwrap();
    assert_eq!([pays(&chain, 49, "", "r6"), pays(&chain, 50, "", "r6")], [true, false]);
    for wrong in ["arg.x", "counts.day < 5"] {
        assert!(bridge.remember("", &asked, &Remember::Always { when: Some(wrong.to_owned()) }).is_err(), "{wrong}");
    }

    // Another process sees them, and revokes one.
    let file = folder.path().join("state/rules.json");
    let elsewhere = RememberedRules::new(Some(file));
    let ids: Vec<String> = elsewhere.list().unwrap().into_iter().map(|rule| rule.id).collect();
    assert_eq!(ids, [same.id, small.id.clone()]);
    elsewhere.revoke(&small.id).unwrap();
    assert!(elsewhere.revoke(&small.id).is_err());
    assert_eq!([pays(&chain, 49, "", "r7"), pays(&chain, 1, "", "r7")], [false, true]);
}

/// Each of these stands for a process: what one adds or revokes is not undone by another.
pub(crate) fn rules_that_are_remembered_at_the_same_time_are_all_kept() {
    let (chain, folder, asked) = remembering();
    let (policy, file) = (chain.bridge().policy(), folder.path().join("state/rules.json"));
    let add = |process: u32| {
        let rules = RememberedRules::new(Some(file.clone()));
        for number in 0..10 {
            let when = Some(format!("args.amount == {}", process * 100 + number));
            let made = rules.remember(&policy, "local", &asked, &Remember::Always { when }).unwrap();
            if number % 2 == 1 {
                rules.revoke(&made.id).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|process| drop(scope.spawn(move || add(process)))));
    assert_eq!(RememberedRules::new(Some(file.clone())).list().unwrap().len(), 20);
}

pub(crate) fn a_remembered_rule_answers_its_own_question_only() {
    let (chain, _folder, asked) = remembering();
    let unnamed = AskedCall { rule_key: None, ..asked.clone() };
    assert!(chain.bridge().remember("", &unnamed, &Remember::Session).is_err(), "any rule may have asked");
    chain.bridge().remember("", &asked, &Remember::Session).unwrap();
    assert!(pays(&chain, 5, "", "r1"));
    // A rule that denies wins, and so does a question of another rule.
    for stricter in [rule("bank.pay", Action::Deny), when("bank.pay", Action::Ask, "args.amount > 1")] {
        chain.bridge().set_policy(Policy::new(vec![stricter, rule("bank.pay", Action::Ask)], Action::Allow));
        assert!(!pays(&chain, 5, "", "r2"));
    }
    let boss = Rule { approvers: vec![Glob::new("boss")], ..rule("bank.pay", Action::Ask) };
    chain.bridge().set_policy(Policy::new(vec![boss], Action::Allow));
    assert!(!pays(&chain, 5, "", "r3"), "others decide now");
    chain.bridge().set_policy(Policy::new(vec![rule("bank.pay", Action::Ask)], Action::Allow));
    assert!(pays(&chain, 5, "", "r3"));
}
