//! Durable runs that wait for a person: what they wait for, and decisions at `/v1/runs/{runId}/decisions`.

use crate::harness::{Case, cases};
use crate::support::{Answer, Server, Setup, hold, http, key, start};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_run_pauses_once_for_all_calls_that_wait,
        a_denied_call_fails_and_an_edited_one_is_sent_as_edited,
        a_person_stops_a_run,
        a_program_runs_without_a_record_where_no_more_runs_are_kept,
        a_staged_run_waits_with_its_review,
        many_decisions_are_one,
        a_question_expires,
        a_paused_run_is_aborted,
        other_calls_go_on_while_one_waits,
        approvers_decide_and_others_do_not,
        bad_decisions_are_refused,
        a_call_in_json_that_a_rule_asks_about_waits_like_a_program,
    ]
}

/// A key that may use the backends.
pub(crate) fn open_key(name: &str) -> toolgate_config::checked::Key {
    toolgate_config::checked::Key { backends: None, ..key(name) }
}

/// A rule asks about `shop.find`.
pub(crate) fn asking() -> Setup {
    let policy =
        json!([{"tool": "shop.find", "when": "args.what != 'salt'", "do": "ask", "reason": "finds are approved"}]);
    Setup { policy, ..Setup::default() }
}

impl Server {
    /// The run once it waits for decisions.
    pub(crate) async fn paused(&self, run: &str) -> Value {
        let mut wait = 0;
        loop {
            let answer = self.get(&format!("/v1/runs/{run}?wait={wait}")).await.json();
            assert_ne!(answer["status"], "done", "{answer}");
            if answer["status"] == "paused" {
                return answer;
            }
            wait = 30;
        }
    }

    pub(crate) async fn decide(&self, run: &str, decisions: Value) -> Answer {
        self.post(&format!("/v1/runs/{run}/decisions"), json!({"decisions": decisions})).await
    }
}

const TWO_PAYMENTS: &str =
    "return await Promise.allSettled([bank.pay({ call: 1, amount: 10 }), bank.pay({ call: 2, amount: 20 })])";

async fn a_run_pauses_once_for_all_calls_that_wait() {
    let setup = Setup::default();
    let paid = setup.paid.clone();
    let server = start(setup).await;
    let run = server.begin(json!({"code": format!("console.log('before'); {TWO_PAYMENTS}")})).await;
    let paused = server.paused(&run).await;
    let pending = paused["pending"].as_array().expect("calls");
    assert_eq!(pending.len(), 2, "{paused}");
    let first = &pending[0];
    assert_eq!((&first["callId"], &first["backend"], &first["tool"]), (&json!(1), &json!("bank"), &json!("pay")));
    assert_eq!((&first["arguments"]["amount"], &first["reason"]), (&json!(10), &json!("payments are approved")));
    assert!(paused.get("report").is_none() && paid.lock().is_empty(), "nothing is sent: {paused}");
    // One by one: the run goes on with the first, and waits again.
    let held = server.decide(&run, json!([{"callId": 2, "decision": "approve"}])).await;
    assert_eq!(held.json(), json!({"runId": run, "decisions": [{"callId": 2, "decision": "approve"}]}), "{held:?}");
    loop {
        let paused = server.paused(&run).await;
        if paused["pending"].as_array().map(Vec::len) == Some(1) && !paid.lock().is_empty() {
            break;
        }
    }
    server.decide(&run, json!([{"callId": 1, "decision": "approve"}])).await;
    let ended = server.ended(&run).await;
    let value = |paid: u32| json!({"status": "fulfilled", "value": {"paid": paid}});
    assert_eq!(ended["report"]["value"], json!([value(10), value(20)]), "{ended}");
    assert_eq!(ended["report"]["logs"]["stdout"], json!(["before"]), "repeated once");
    assert_eq!(paid.lock().len(), 2, "each once");
}

async fn a_denied_call_fails_and_an_edited_one_is_sent_as_edited() {
    let setup = Setup::default();
    let paid = setup.paid.clone();
    let server = start(setup).await;
    let code = "const [a, b] = await Promise.allSettled([bank.pay({ call: 1, amount: 10 }), bank.pay({ call: 2, amount: 20 })]); \
                return [a.reason.code, a.reason.message, b.value]";
    let run = server.begin(json!({"code": code})).await;
    server.paused(&run).await;
    let edit = json!({"callId": 2, "decision": "edit", "arguments": {"call": 2, "amount": 5}});
    let decisions = json!([{"callId": 1, "decision": "deny", "reason": "too early"}, edit]);
    assert_eq!(server.decide(&run, decisions).await.status, 200);
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["value"], json!(["DENIED", "too early", {"paid": 5}]), "{ended}");
    assert_eq!(*paid.lock(), [json!({"call": 2, "amount": 5})]);
}

async fn a_person_stops_a_run() {
    let server = start(Setup::default()).await;
    let run = server.begin(json!({"code": "try { await bank.pay({ call: 1 }) } catch {} return 'went on'"})).await;
    server.paused(&run).await;
    server.decide(&run, json!([{"callId": 1, "decision": "stop", "reason": "wrong account"}])).await;
    let report = server.ended(&run).await["report"].clone();
    assert_eq!((&report["ok"], &report["code"]), (&json!(false), &json!("ABORTED")), "{report}");
    assert!(report["error"].as_str().is_some_and(|error| error.contains("wrong account")), "{report}");
}

/// A rule may ask about its calls, so that it would be a durable run. One that is asked for as such waits until there is room.
async fn a_program_runs_without_a_record_where_no_more_runs_are_kept() {
    let server = start(Setup { max_open_runs: 0, ..asking() }).await;
    let code = "const found = await shop.find({ what: 'salt' }); return [found.found]";
    let ran = server.post("/v1/run", json!({"code": code})).await.json();
    assert_eq!(ran["value"], json!(["salt"]), "{ran}");
    assert!(ran["warnings"][0].as_str().is_some_and(|it| it.starts_with("no person can be asked")), "{ran}");
    let durable = server.post("/v1/run", json!({"code": code, "durable": true})).await;
    assert_eq!(durable.refusal(), "429 UNAVAILABLE");
}

/// The functions of this service are not known to change nothing, so that they are reviewed.
async fn a_staged_run_waits_with_its_review() {
    let server = start(Setup::default()).await;
    let code = "const sum = await add(1, 2); return `${await add(sum, 4)}`";
    let review = json!([
        {"callId": 1, "tool": "add", "arguments": [1, 2], "staged": {"substitutions": []}},
        {"callId": 2, "tool": "add", "arguments": ["⟦#1 of add⟧", 4],
         "staged": {"substitutions": [{"at": "/0", "line": 1, "value": ""}]}},
    ]);
    let plain = |pending: &Value| -> Value {
        let lines = pending.as_array().expect("a review").iter().map(|line| {
            json!({"callId": line["callId"], "tool": line["tool"], "arguments": line["arguments"], "staged": line["staged"]})
        });
        lines.collect()
    };
    let begun = server.begin(json!({"code": code, "stage": true})).await;
    server.paused(&begun).await;
    let answer = server.post("/v1/run", json!({"code": code, "stage": true})).await.json();
    let asked = answer["paused"]["runId"].as_str().expect("a run").to_owned();
    for run in [begun, asked] {
        let view = server.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(plain(&view["pending"]), review, "{view}");
        let decisions =
            json!({"decisions": [{"callId": 1, "decision": "approve"}, {"callId": 2, "decision": "approve"}]});
        assert_eq!(server.post(&format!("/v1/runs/{run}/decisions"), decisions).await.status, 200);
        assert_eq!(server.ended(&run).await["report"]["value"], "7");
    }
}

async fn many_decisions_are_one() {
    let setup = Setup::default();
    let paid = setup.paid.clone();
    let server = std::sync::Arc::new(start(setup).await);
    let run = server.begin(json!({"code": "return await bank.pay({ call: 1, amount: 3 })"})).await;
    server.paused(&run).await;
    let racers = (0..100).map(|racer| {
        let (server, run) = (server.clone(), run.clone());
        let decision = if racer % 2 == 0 { "approve" } else { "deny" };
        tokio::spawn(async move { server.decide(&run, json!([{"callId": 1, "decision": decision}])).await })
    });
    let mut answers = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        answers.push(racer.await.expect("an answer"));
    }
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body), "{answers:?}");
    let ended = server.ended(&run).await;
    let approved = answers[0].json()["decisions"][0]["decision"] == "approve";
    assert_eq!(ended["report"]["ok"], json!(approved), "{ended}");
    assert_eq!(paid.lock().len(), usize::from(approved), "one execution");
}

async fn a_question_expires() {
    let server = start(Setup { expires: Duration::from_millis(700), ..Setup::default() }).await;
    let code = "try { await bank.pay({ call: 1 }) } catch (e) { return [e.code, e.message] }";
    let run = server.begin(json!({"code": code})).await;
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["value"], json!(["EXPIRED", "no decision came in time"]), "{ended}");
}

async fn a_paused_run_is_aborted() {
    let setup = Setup::default();
    let paid = setup.paid.clone();
    let server = start(setup).await;
    let run = server.begin(json!({"code": "console.log('on'); await bank.pay({ call: 1 }); return 1"})).await;
    server.paused(&run).await;
    assert_eq!(server.ask("DELETE", &format!("/v1/runs/{run}")).send().await.status, 202);
    let report = server.ended(&run).await["report"].clone();
    assert_eq!((&report["code"], &report["logs"]["stdout"]), (&json!("ABORTED"), &json!(["on"])), "{report}");
    assert_eq!((&report["error"], &report["calls"][0]["state"]), (&json!("the run was aborted"), &json!("not_sent")));
    assert!(paid.lock().is_empty());
}

async fn other_calls_go_on_while_one_waits() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let setup = Setup { functions, ..Setup::default() };
    let paid = setup.paid.clone();
    let server = start(setup).await;
    let code = "const held = hold(); const pay = bank.pay({ call: 2, amount: 1 }); \
                console.log(await held); return (await pay).paid";
    let run = server.begin(json!({"code": code})).await;
    held.began.recv().await.expect("called");
    held.release.notify_one();
    let paused = server.paused(&run).await;
    assert_eq!(paused["pending"][0]["callId"], json!(2), "{paused}");
    server.decide(&run, json!([{"callId": 2, "decision": "approve"}])).await;
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["value"], json!(1), "{ended}");
    assert_eq!(ended["report"]["logs"]["stdout"], json!(["released"]));
    assert_eq!(paid.lock().len(), 1);
    assert!(held.began.try_recv().is_err(), "the other call is not made again");
}

async fn approvers_decide_and_others_do_not() {
    let keys = http(vec![open_key("ann"), open_key("bob"), open_key("lead-1")]);
    let server = start(Setup { http: keys, approvers: vec!["lead-*".into()], ..Setup::default() }).await;
    let body = json!({"code": "return (await bank.pay({ call: 1, amount: 2 })).paid"});
    let begun = server.as_key("ann", "POST", "/v1/runs", Some(body)).await.json();
    let path = format!("/v1/runs/{}", begun["runId"].as_str().expect("an id"));
    while server.as_key("ann", "GET", &format!("{path}?wait=30"), None).await.json()["status"] != "paused" {}
    let decide = json!({"decisions": [{"callId": 1, "decision": "approve"}]});
    let decisions = format!("{path}/decisions");
    let own = server.as_key("ann", "POST", &decisions, Some(decide.clone())).await;
    assert_eq!(own.refusal(), "400 INVALID_INPUT /decisions/0", "not who began it");
    let other = server.as_key("bob", "POST", &decisions, Some(decide.clone())).await;
    assert_eq!(other.refusal(), "404 NOT_FOUND");
    let seen = server.as_key("lead-1", "GET", &path, None).await;
    assert_eq!(seen.json()["pending"][0]["tool"], json!("pay"), "{seen:?}");
    assert_eq!(server.as_key("lead-1", "POST", &decisions, Some(decide)).await.status, 200);
    let ended = loop {
        let view = server.as_key("ann", "GET", &format!("{path}?wait=30"), None).await.json();
        if view["status"] == "done" {
            break view;
        }
    };
    assert_eq!(ended["report"]["value"], json!(2), "{ended}");
    assert_eq!(server.as_key("lead-1", "GET", &path, None).await.refusal(), "404 NOT_FOUND", "decided");
}

async fn bad_decisions_are_refused() {
    let server = start(Setup::default()).await;
    let run = server.begin(json!({"code": "return await bank.pay({ call: 1, amount: 3 })"})).await;
    server.paused(&run).await;
    let refusal = async |decisions: Value| server.decide(&run, decisions).await.refusal();
    assert_eq!(refusal(json!([])).await, "400 INVALID_INPUT /decisions");
    assert_eq!(refusal(json!([{"callId": 1}])).await, "400 INVALID_INPUT /decisions/0/decision");
    assert_eq!(refusal(json!([{"decision": "deny"}])).await, "400 INVALID_INPUT /decisions/0/callId");
    assert_eq!(refusal(json!([{"callId": 7, "decision": "deny"}])).await, "400 INVALID_INPUT /decisions/0");
    assert_eq!(refusal(json!([{"callId": 1, "decision": "edit"}])).await, "400 INVALID_INPUT /decisions/0");
    let wrong = json!([{"callId": 1, "decision": "edit", "arguments": {"amount": "much"}}]);
    assert_eq!(refusal(wrong).await, "400 INVALID_INPUT /decisions/0", "edited arguments fit the schema");
    let wrong = json!([{"callId": 1, "decision": "approve", "arguments": {}}]);
    assert_eq!(refusal(wrong).await, "400 INVALID_INPUT /decisions/0");
    assert_eq!(refusal(json!([{"callId": 1, "decision": "maybe"}])).await, "400 INVALID_INPUT /decisions/0/decision");
    let both = json!([{"callId": 1, "decision": "approve"}, {"callId": 9, "decision": "deny"}]);
    assert_eq!(refusal(both).await, "400 INVALID_INPUT /decisions/1");
    assert_eq!(server.paused(&run).await["pending"][0]["callId"], json!(1), "nothing was decided");
    let none = server.decide("none", json!([{"callId": 1, "decision": "deny"}])).await;
    assert_eq!(none.refusal(), "404 NOT_FOUND");
}

async fn a_call_in_json_that_a_rule_asks_about_waits_like_a_program() {
    let server = start(asking()).await;
    let json = |what: &str| json!({"tool": "shop.find", "arguments": {"what": what}}).to_string();
    let free = server.post("/v1/run", json!({"code": json("salt")})).await.json();
    assert_eq!((&free["value"], &free["path"]), (&json!({"found": "salt"}), &json!("direct")), "{free}");
    let mut reports = Vec::new();
    for code in [json("tea"), "return await shop.find({ what: 'tea' })".to_owned()] {
        let waits = server.post("/v1/run", json!({"code": code})).await.json();
        let (run, call) = (waits["paused"]["runId"].as_str().expect("a run"), &waits["paused"]["pending"][0]);
        assert_eq!((&call["arguments"], &call["reason"]), (&json!({"what": "tea"}), &json!("finds are approved")));
        let edit = json!([{"callId": call["callId"], "decision": "edit", "arguments": {"what": "coffee"}}]);
        assert_eq!(server.decide(run, edit).await.status, 200);
        let mut report = server.ended(run).await["report"].clone();
        assert_eq!(report["value"], json!({"found": "coffee"}), "{report}");
        report["calls"][0].as_object_mut().expect("a call").remove("ms");
        reports.push(["ok", "value", "path", "calls", "logs", "safe_to_retry"].map(|field| report[field].clone()));
    }
    assert_eq!(reports[0], reports[1]);
    // JavaScript cannot write this number, so no program can make the call.
    let long = r#"{"tool": "shop.find", "arguments": {"what": "tea", "n": 9007199254740993}}"#;
    let denied = server.post("/v1/run", json!({"code": long})).await.json();
    assert_eq!(denied["calls"][0]["errorCode"], json!("DENIED"), "{denied}");
}
