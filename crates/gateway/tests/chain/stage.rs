//! Writes that are reviewed before they are sent: nothing is sent before, and what is sent is what was approved.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Answer, Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::memory::MemoryStore;
use toolgate_policy::{Action, Condition, Glob, Policy, Rule};
use toolgate_run::durable::{
    CallDecision, DecisionKind, DurableRuns, DurableSettings, LocalCaller, PendingView, RunStatus,
};
use toolgate_run::stage::Staging;
use toolgate_run::{Durability, FixedEnvironment, RunRequest, Runner};

use crate::runner::{Case, cases};
use crate::support::{asking, block_on, engines};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        stage::nothing_is_sent_before_the_review_is_decided,
        stage::a_review_says_what_is_filled_in_where,
        stage::a_line_that_is_dropped_fails_and_an_edited_one_is_sent_as_edited,
        stage::a_branch_on_a_value_that_is_not_there_ends_the_rehearsal,
        stage::a_call_that_is_not_what_was_approved_is_asked_about_alone,
        stage::a_rehearsal_keeps_so_many_bytes_of_writes_and_no_more,
        stage::reads_are_answered_as_in_the_rehearsal,
        stage::a_stopped_review_sends_nothing,
        stage::a_run_that_waits_for_its_review_can_be_aborted,
        stage::a_rule_that_the_review_could_not_know_asks_its_own_approvers,
        stage::a_program_without_writes_needs_no_review,
        stage::rules_that_deny_hold_in_a_rehearsal,
        stage::a_dry_run_sends_nothing,
        stage::a_rule_stages_the_programs_that_may_call_its_tool,
        stage::placeholders_are_the_same_on_every_engine,
    ]
}

/// A tracker that notes what it was told to do.
#[derive(Clone, Default)]
pub(crate) struct Tracker(Arc<Mutex<TrackerState>>);

#[derive(Default)]
struct TrackerState {
    sent: Vec<(String, Value)>,
    reads: usize,
}

impl Tracker {
    fn sent(&self) -> Vec<(String, Value)> {
        self.0.lock().sent.clone()
    }

    /// What was sent for the program whose titles begin so.
    pub(crate) fn sent_of(&self, prefix: &str) -> Vec<(String, Value)> {
        let own =
            |(_, arguments): &&(String, Value)| arguments["title"].as_str().is_some_and(|it| it.starts_with(prefix));
        self.0.lock().sent.iter().filter(own).cloned().collect()
    }
}

/// The id of what a call with this title makes.
pub(crate) fn id_of(title: &str) -> u64 {
    title.rsplit('s').next().and_then(|number| number.parse::<u64>().ok()).map_or(7, |number| 1000 + number)
}

impl Provider for Tracker {
    fn call(&self, tool: String, arguments: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let mut state = self.0.lock();
        let title = arguments.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = if tool == "list" {
            state.reads += 1;
            json!([{ "id": 1, "title": "one" }, { "id": 2, "title": "two", "sent": state.sent.len() }])
        } else {
            state.sent.push((tool.clone(), Value::Object(arguments)));
            match tool.as_str() {
                "create" => json!({ "id": id_of(&title), "title": format!("real-{title}"), "ok": true }),
                _ => json!({ "state": "closed", "by": { "name": "ann" } }),
            }
        };
        Box::pin(std::future::ready(Ok(Answer::Value(answer))))
    }
}

fn tools() -> ToolScript {
    let create = json!({
        "name": "create",
        "inputSchema": { "type": "object", "properties": { "title": { "type": "string" }, "parent": { "type": "integer" } } },
        "outputSchema": { "type": "object", "properties": {
            "id": { "type": "integer" }, "title": { "type": "string" }, "ok": { "type": "boolean" },
        } },
    });
    let list = json!({ "name": "list", "annotations": { "readOnlyHint": true } });
    let tools = json!({ "backends": { "tracker": { "tools": [create, list, { "name": "close" }] } } });
    ToolScript::parse(&tools.to_string()).unwrap()
}

pub(crate) struct World {
    pub(crate) tracker: Tracker,
    runner: Runner,
    runs: DurableRuns,
}

pub(crate) fn world() -> World {
    world_on(0)
}

/// With the engine of that number.
fn world_on(engine: usize) -> World {
    let tracker = Tracker::default();
    let bridge = Bridge::new(CatalogHandle::new(tools().catalog()));
    bridge.provide("tracker", Arc::new(tracker.clone()));
    let runner = Runner::new(engines()[engine].1.clone(), Arc::new(bridge), Arc::new(FixedEnvironment::default()));
    let sealer = Sealer::new([1; 32]).unwrap();
    let journal = Journal::new(Arc::new(MemoryStore::default()), sealer, "test".to_owned(), Duration::from_secs(20));
    let runs = block_on(async {
        DurableRuns::start(journal, runner.clone(), Arc::new(LocalCaller), DurableSettings::default())
    });
    World { tracker, runner, runs }
}

fn staged(code: &str) -> RunRequest {
    RunRequest { durable: Durability::Durable, staging: Staging::Wanted, ..asking(code) }
}

pub(crate) fn decision(call_id: u32, decision: DecisionKind) -> CallDecision {
    CallDecision { call_id, decision, arguments: None, reason: None, remember: None, by: String::new(), at: 0 }
}

pub(crate) fn edit(call_id: u32, arguments: &Value) -> CallDecision {
    let arguments = Some(RawValue::from_string(arguments.to_string()).unwrap());
    CallDecision { arguments, ..decision(call_id, DecisionKind::Edit) }
}

/// What a run waits for, or its report.
pub(crate) enum State {
    Waits(Vec<PendingView>),
    Ended(Value),
}

impl World {
    pub(crate) async fn begin(&self, code: &str) -> String {
        self.runs.begin(staged(code), None, None).await.unwrap().run
    }

    pub(crate) async fn state(&self, run: &str) -> State {
        loop {
            let view = self.runs.wait(run, None, Duration::from_secs(1)).await.unwrap();
            match view.summary.status {
                RunStatus::Done => return State::Ended(serde_json::from_str(view.report.unwrap().get()).unwrap()),
                RunStatus::Paused if !view.pending.is_empty() => return State::Waits(view.pending),
                RunStatus::Paused | RunStatus::Running => {}
            }
        }
    }

    async fn review(&self, run: &str) -> Vec<PendingView> {
        match self.state(run).await {
            State::Waits(pending) => pending,
            State::Ended(report) => panic!("it has ended: {report}"),
        }
    }

    async fn report(&self, run: &str) -> Value {
        match self.state(run).await {
            State::Ended(report) => report,
            State::Waits(pending) => panic!("it waits: {pending:?}"),
        }
    }

    pub(crate) async fn decide(&self, run: &str, decisions: Vec<CallDecision>) {
        self.runs.decide(run, None, decisions).await.unwrap();
    }

    async fn approve_all(&self, run: &str) {
        let lines = self.review(run).await;
        self.decide(run, lines.iter().map(|it| decision(it.call_id, DecisionKind::Approve)).collect()).await;
    }
}

fn shown(pending: &[PendingView]) -> Vec<String> {
    pending.iter().map(|it| format!("{} {}({})", it.call_id, it.tool, it.arguments.0.get())).collect()
}

const TWO: &str = "const made = await tracker.create({ title: 'a' });
    await tracker.close({ title: 'b', id: made.id, note: `closes #${made.id} ${made.title}` });
    return `${made.id}`";

pub(crate) fn nothing_is_sent_before_the_review_is_decided() {
    let world = world();
    block_on(async {
        let run = world.begin(TWO).await;
        let lines = world.review(&run).await;
        assert_eq!(
            shown(&lines),
            [
                r#"1 create({"title":"a"})"#,
                "2 close({\"title\":\"b\",\"id\":\"⟦#1/id of tracker.create⟧\",\"note\":\"closes #⟦#1/id of tracker.create⟧ \
                 ⟦#1/title of tracker.create⟧\"})",
            ]
        );
        world.decide(&run, vec![decision(1, DecisionKind::Approve)]).await;
        let lines = world.review(&run).await;
        assert_eq!((lines.len(), lines[0].call_id), (1, 2), "the other line still waits");
        assert!(world.tracker.sent().is_empty(), "nothing is sent before all lines are decided");
        world.decide(&run, vec![decision(2, DecisionKind::Approve)]).await;
        let report = world.report(&run).await;
        assert_eq!(report["value"], "7", "{report}");
        let sent = json!({ "title": "b", "id": 7, "note": "closes #7 real-a" });
        assert_eq!(world.tracker.sent(), [("create".into(), json!({ "title": "a" })), ("close".into(), sent)]);
        assert_eq!(report["calls"][1]["decision"]["verdict"], "approved", "{report}");
    });
}

pub(crate) fn a_review_says_what_is_filled_in_where() {
    let world = world();
    block_on(async {
        let run = world.begin(TWO).await;
        let lines = world.review(&run).await;
        let staged = serde_json::to_value(lines[1].staged.as_ref().unwrap()).unwrap();
        let expected = json!({ "substitutions": [
            { "at": "/id", "line": 1, "value": "/id" },
            { "at": "/note", "line": 1, "value": "/id" },
            { "at": "/note", "line": 1, "value": "/title" },
        ] });
        assert_eq!(staged, expected);
        assert_eq!(lines[1].reason, "the run is staged");
    });
}

pub(crate) fn a_line_that_is_dropped_fails_and_an_edited_one_is_sent_as_edited() {
    let world = world();
    block_on(async {
        let code = "const made = await tracker.create({ title: 'a' });
            const ended = await Promise.allSettled([
                tracker.close({ title: 'b', id: made.id }), tracker.close({ title: 'c', id: made.id })]);
            return ended.map(one => one.reason?.code ?? one.value.state)";
        let run = world.begin(code).await;
        assert_eq!(world.review(&run).await.len(), 3);
        let edited = edit(3, &json!({ "title": "c", "id": "⟦#1/id of tracker.create⟧", "note": "edited" }));
        let decisions = vec![decision(1, DecisionKind::Approve), decision(2, DecisionKind::Deny), edited];
        world.decide(&run, decisions).await;
        let report = world.report(&run).await;
        assert_eq!(report["value"], json!(["DENIED", "closed"]), "{report}");
        let sent = world.tracker.sent();
        assert_eq!(sent[1..], [("close".into(), json!({ "title": "c", "id": 7, "note": "edited" }))]);
        assert!(report["warnings"].to_string().contains("a person changed the arguments of tracker.close"), "{report}");
    });
}

pub(crate) fn a_branch_on_a_value_that_is_not_there_ends_the_rehearsal() {
    let world = world();
    block_on(async {
        for (condition, point) in [
            ("made.id > 5", "the value /id of line 1"),
            ("made.ok", "the value /ok of line 1"),
            ("(await tracker.close({ title: 'y' })).items.length", "the value /items/length of line 2"),
            ("(await tracker.list({ of: made.id })).length", "tracker.list reads with"),
            (
                "[...made.parts ?? []].length + Object.keys(await tracker.close({ title: 'y' })).length",
                "the value  of line 2",
            ),
        ] {
            let code = format!(
                "const made = await tracker.create({{ title: 'a' }});
                 try {{ if ({condition}) await tracker.close({{ title: 'then' }}); }} catch {{}}
                 await tracker.close({{ title: 'after' }}); return 1"
            );
            let run = world.begin(&code).await;
            let lines = world.review(&run).await;
            let last = lines.last().unwrap().staged.as_ref().unwrap().commit_point.clone().unwrap_or_default();
            assert!(last.starts_with(point), "{condition}: {last}");
            assert!(!shown(&lines).concat().contains("then"), "what follows is not known: {:?}", shown(&lines));
            let before = world.tracker.sent().len();
            world.approve_all(&run).await;
            // What comes after the commit point is asked about when the program comes to it.
            let mut asked = Vec::new();
            while let State::Waits(pending) = world.state(&run).await {
                assert!(pending.iter().all(|it| it.staged.is_none()), "{:?}", shown(&pending));
                asked.extend(pending.iter().map(|it| it.arguments.0.get().to_owned()));
                world.approve_all(&run).await;
            }
            let sent = world.tracker.sent().len() - before;
            assert_eq!(sent, lines.len() + asked.len(), "{condition}: {asked:?}");
            assert!(asked.contains(&r#"{"title":"after"}"#.to_owned()), "{condition}: {asked:?}");
        }
    });
}

pub(crate) fn a_call_that_is_not_what_was_approved_is_asked_about_alone() {
    let world = world();
    block_on(async {
        // No interpreter tells that a program compares a text.
        let code = "const made = await tracker.create({ title: 'a' });
            await tracker.close({ title: made.title === 'real-a' ? 'real' : 'rehearsed' });
            await tracker.close({ title: 'last' }); return 1";
        let run = world.begin(code).await;
        assert_eq!(shown(&world.review(&run).await)[1], r#"2 close({"title":"rehearsed"})"#);
        world.approve_all(&run).await;
        let alone = world.review(&run).await;
        assert_eq!(alone.len(), 1, "just that line: {:?}", shown(&alone));
        assert_eq!((alone[0].arguments.0.get(), alone[0].call_id > 3), (r#"{"title":"real"}"#, true));
        assert!(alone[0].reason.contains("line 2 of the review was {\"title\":\"rehearsed\"}"), "{}", alone[0].reason);
        let titles = |world: &World| -> Vec<Value> {
            world.tracker.sent().into_iter().map(|it| it.1["title"].clone()).collect()
        };
        assert_eq!(titles(&world), ["a"], "it is not sent");
        world.approve_all(&run).await;
        assert_eq!(world.report(&run).await["ok"], true);
        assert_eq!(titles(&world), ["a", "real", "last"]);
    });
}

pub(crate) fn a_rehearsal_keeps_so_many_bytes_of_writes_and_no_more() {
    let world = world();
    block_on(async {
        let code = "const note = 'x'.repeat(14e6); for (let n = 0; n < 9; n++) await tracker.close({ n, note })";
        let run = world.begin(code).await;
        let lines = world.review(&run).await;
        assert_eq!(lines.len(), 4);
        let last = lines[3].staged.as_ref().unwrap();
        assert_eq!(last.commit_point.as_deref(), Some("more arguments and answers than are kept"));
        world.runs.abort(&run, None).await.unwrap();
    });
}

pub(crate) fn reads_are_answered_as_in_the_rehearsal() {
    let world = world();
    block_on(async {
        let code = "const before = await tracker.list({}); await tracker.create({ title: `${before[1].sent} a` });
            const after = await tracker.list({}); await tracker.create({ title: `${after[1].sent} b` });
            return [before[1].sent, after[1].sent]";
        let run = world.begin(code).await;
        assert_eq!(world.review(&run).await.len(), 2);
        assert_eq!(world.tracker.0.lock().reads, 2);
        world.approve_all(&run).await;
        assert_eq!(world.report(&run).await["value"], json!([0, 0]));
        assert_eq!(world.tracker.0.lock().reads, 2, "no read is made again");
    });
}

pub(crate) fn a_stopped_review_sends_nothing() {
    let world = world();
    block_on(async {
        let run = world.begin(TWO).await;
        world.review(&run).await;
        let stop = CallDecision { reason: Some("not today".into()), ..decision(2, DecisionKind::Stop) };
        world.decide(&run, vec![decision(1, DecisionKind::Approve), stop]).await;
        let report = world.report(&run).await;
        assert_eq!(
            (&report["code"], &report["error"]),
            (&json!("ABORTED"), &json!("a person stopped the run: not today"))
        );
        assert!(world.tracker.sent().is_empty());
    });
}

pub(crate) fn a_run_that_waits_for_its_review_can_be_aborted() {
    let world = world();
    block_on(async {
        let run = world.begin(TWO).await;
        world.review(&run).await;
        world.runs.abort(&run, None).await.unwrap();
        assert_eq!(world.report(&run).await["code"], "ABORTED");
        assert!(world.tracker.sent().is_empty());
    });
}

/// The rehearsal has a mark where the rule looks, so the line was reviewed under no rule.
pub(crate) fn a_rule_that_the_review_could_not_know_asks_its_own_approvers() {
    let world = world();
    let when = Some(Condition::parse("args.title == 'real-prod'").unwrap());
    let approvers = vec![Glob::new("lead-*")];
    let rule = Rule { when, approvers, ..Rule::new("policy[0]", "tracker.close", Action::Ask) };
    world.runner.bridge().set_policy(Policy::new(vec![rule], Action::Allow));
    block_on(async {
        let code =
            "const made = await tracker.create({ title: 'prod' }); return await tracker.close({ title: made.title })";
        let run = world.begin(code).await;
        world.approve_all(&run).await;
        let asked = world.review(&run).await;
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!((asked[0].tool.as_str(), asked[0].rule.as_deref()), ("close", Some("policy[0]")));
        assert_eq!(asked[0].approvers, ["lead-*"]);
        assert_eq!(world.tracker.sent().len(), 1, "the first line alone was sent");
        world.approve_all(&run).await;
        world.report(&run).await;
        assert_eq!(world.tracker.sent().len(), 2);
    });
}

pub(crate) fn a_program_without_writes_needs_no_review() {
    let world = world();
    block_on(async {
        let run = world.begin("return (await tracker.list({})).length").await;
        assert_eq!(world.report(&run).await["value"], 2);
        let run = world.begin("throw new Error('no')").await;
        assert_eq!(world.report(&run).await["code"], "RUNTIME");
    });
}

pub(crate) fn rules_that_deny_hold_in_a_rehearsal() {
    let world = world();
    let deny = Rule { reason: Some("never".into()), ..Rule::new("policy[0]", "tracker.close", Action::Deny) };
    let ask =
        Rule { reason: Some("new issues are checked".into()), ..Rule::new("policy[1]", "tracker.create", Action::Ask) };
    world.runner.bridge().set_policy(Policy::new(vec![deny, ask], Action::Allow));
    block_on(async {
        let code =
            "const ended = await Promise.allSettled([tracker['cl' + 'ose']({}), tracker.create({ title: 'a' })]);
            return ended.map(one => one.reason?.code ?? one.value.id)";
        let run = world.begin(code).await;
        let lines = world.review(&run).await;
        assert_eq!(shown(&lines), [r#"1 create({"title":"a"})"#]);
        assert_eq!((lines[0].reason.as_str(), lines[0].rule.as_deref()), ("new issues are checked", Some("policy[1]")));
        world.approve_all(&run).await;
        let report = world.report(&run).await;
        assert_eq!(report["value"], json!(["DENIED", 7]), "the review is the answer to the rule's question: {report}");
    });
}

pub(crate) fn a_dry_run_sends_nothing() {
    let world = world();
    block_on(async {
        let (review, report) = world.runner.rehearse(asking(TWO)).await;
        assert_eq!(review.lines.len(), 2);
        assert_eq!(report.report.value().unwrap().get(), r#""⟦#1/id of tracker.create⟧""#);
        let request = RunRequest { staging: Staging::Wanted, ..asking(TWO) };
        let report = serde_json::to_value(world.runner.run(request).await).unwrap();
        assert_eq!(report["review"][1]["staged"]["substitutions"][0]["at"], "/id", "{report}");
        let request = RunRequest { staging: Staging::Wanted, ..asking(format!("{TWO} + (made.id > 5)")) };
        let report = serde_json::to_value(world.runner.run(request).await).unwrap();
        let sentence = "the program depends on what is not there before its writes are sent: the value /id of line 1";
        assert_eq!((&report["code"], &report["error"]), (&json!("ABORTED"), &json!(sentence)));
        assert_eq!(report["safe_to_retry"], true, "{report}");
        let called: Vec<&str> =
            report["calls"].as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect();
        assert_eq!(called, ["tracker.create", "tracker.close"], "{report}");
        assert!(world.tracker.sent().is_empty());
    });
}

pub(crate) fn a_rule_stages_the_programs_that_may_call_its_tool() {
    let world = world();
    let rule = Rule { stage: true, ..Rule::new("policy[0]", "tracker.close", Action::Ask) };
    world.runner.bridge().set_policy(Policy::new(vec![rule], Action::Allow));
    block_on(async {
        let begin = async |code: &str| {
            let request = RunRequest { durable: Durability::Durable, ..asking(code) };
            world.runs.begin(request, None, None).await.unwrap().run
        };
        let code = "await tracker.create({ title: 'a' }); await tracker.close({ title: 'b' }); return 1";
        let run = begin(code).await;
        let lines = world.review(&run).await;
        assert_eq!(shown(&lines), [r#"1 create({"title":"a"})"#, r#"2 close({"title":"b"})"#]);
        assert!(world.tracker.sent().is_empty(), "also what no rule is about waits for the review");
        world.approve_all(&run).await;
        assert_eq!(world.report(&run).await["value"], 1);
        assert_eq!(world.tracker.sent().len(), 2);
    });
}

pub(crate) fn placeholders_are_the_same_on_every_engine() {
    let code = "const made = await tracker.create({ title: 'a' }), closed = await tracker.close({});
        console.log(made, closed.by.name, made.title);
        return [`${made}`, made.id + '', made.title.length > 3, JSON.stringify({ made, closed }), Object.keys(made), made.other,
            closed.by.name, { ...made }.title, typeof made.id, closed['a/b ~⟧'], [made].concat([closed])]";
    let mut seen = Vec::new();
    for (engine, (name, _)) in engines().into_iter().enumerate() {
        let world = world_on(engine);
        // A spread reads every field, and a truth value ends the rehearsal.
        let code = code.replace("{ ...made }.title", "((({ id, title }) => title)(made))");
        let (review, report) = block_on(world.runner.rehearse(asking(&*code)));
        assert_eq!(review.commit_point, None, "{name}");
        let value: Value =
            serde_json::from_str(report.report.value().unwrap_or_else(|_| panic!("{name} {report:?}")).get()).unwrap();
        seen.push((value, report.report.logs.stdout.clone()));
    }
    assert_eq!(seen[0].0[0], "⟦#1 of tracker.create⟧");
    assert_eq!(seen[0].0[4], json!(["id", "title", "ok"]));
    assert_eq!(seen[0].0[9], "⟦#2/a~1b~3~0~2 of tracker.close⟧");
    assert_eq!(seen[0].1, ["⟦#1 of tracker.create⟧ ⟦#2/by/name of tracker.close⟧ ⟦#1/title of tracker.create⟧"]);
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:#?}");
}
