//! `/v1/runs`: runs that outlive their request, and belong to the caller that began them.

use crate::harness::{Case, cases};
use crate::support::{Answer, Server, Setup, hold, http, key, start};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_run_is_begun_and_read_later,
        a_failed_program_is_a_run_that_has_ended,
        the_same_key_is_the_same_run,
        runs_belong_to_the_caller_that_began_them,
        runs_are_listed_page_by_page,
        a_run_is_aborted,
        a_request_waits_for_the_end,
        a_call_in_json_is_no_durable_run,
        bad_requests_for_runs_are_refused,
        a_caller_has_a_bounded_number_of_open_runs,
        the_open_runs_of_a_caller_take_a_bounded_number_of_bytes,
        a_program_that_is_too_long_is_refused_before_it_is_kept,
        a_run_pauses_once_for_all_calls_that_wait,
        a_denied_call_fails_and_an_edited_one_is_sent_as_edited,
        a_person_stops_a_run,
        a_staged_run_waits_with_its_review,
        many_decisions_are_one,
        a_question_expires,
        a_paused_run_is_aborted,
        other_calls_go_on_while_one_waits,
        approvers_decide_and_others_do_not,
        bad_decisions_are_refused,
        events_tell_what_happens_and_can_be_read_again,
        the_end_is_told_to_a_signed_webhook,
        a_run_that_waits_is_told_to_a_signed_webhook,
        a_run_without_a_webhook_that_waits_is_told_to_that_of_the_configuration,
        the_receiver_of_a_webhook_decides_by_a_signed_answer,
        a_call_in_json_that_a_rule_asks_about_waits_like_a_program,
        a_fork_keeps_the_first_answers_and_makes_the_rest,
    ]
}

impl Server {
    async fn begin(&self, body: Value) -> String {
        let answer = self.post("/v1/runs", body).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("running")), "{answer:?}");
        answer.json()["runId"].as_str().expect("an id").to_owned()
    }

    /// The run once it has ended.
    async fn ended(&self, run: &str) -> Value {
        loop {
            let answer = self.get(&format!("/v1/runs/{run}?wait=30")).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.json()["status"] == "done" {
                return answer.json();
            }
        }
    }

    async fn as_key(&self, name: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let ask = self.ask(method, path).bearer(&format!("{name}-key"));
        match body {
            Some(body) => ask.json(&body.to_string()).send().await,
            None => ask.send().await,
        }
    }
}

async fn a_run_is_begun_and_read_later() {
    let server = start(Setup::default()).await;
    let code =
        "console.log('one'); return { sum: await add(context.a, 2), found: (await shop.find({ what: 'tea' })).found }";
    let run = server.begin(json!({"code": code, "context": {"a": 40}, "durable": true, "timeoutMs": 20_000})).await;
    let ended = server.ended(&run).await;
    let report = &ended["report"];
    assert_eq!(report["value"], json!({"sum": 42, "found": "tea"}), "{ended}");
    assert_eq!((&report["ok"], &report["executionId"]), (&json!(true), &json!(run)));
    assert_eq!(report["logs"]["stdout"], json!(["one"]));
    assert!(ended.get("pending").is_none() && ended["beganAt"].as_u64() <= ended["changedAt"].as_u64(), "{ended}");
}

async fn a_failed_program_is_a_run_that_has_ended() {
    let server = start(Setup::default()).await;
    // Only the program that never ends has little time: a busy machine may take long to start a worker.
    let programs =
        [("throw new Error('no')", "RUNTIME", 60_000), ("return ((((", "SYNTAX", 60_000), ("for(;;);", "TIMEOUT", 200)];
    for (code, expected, timeout) in programs {
        let run = server.begin(json!({"code": code, "timeoutMs": timeout})).await;
        let ended = server.ended(&run).await;
        assert_eq!((&ended["report"]["ok"], &ended["report"]["code"]), (&json!(false), &json!(expected)), "{ended}");
    }
}

async fn the_same_key_is_the_same_run() {
    let server = start(Setup::default()).await;
    let begin = async |key: &str| {
        let ask = server.ask("POST", "/v1/runs").header("Idempotency-Key", key);
        let answer = ask.json(&json!({"code": "return await add(1, 2)"}).to_string()).send().await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["runId"].as_str().expect("an id").to_owned()
    };
    let run = begin("order-1").await;
    assert_eq!(begin("order-1").await, run);
    assert_ne!(begin("order-2").await, run);
    let ended = server.ended(&run).await;
    assert_eq!(begin("order-1").await, run, "also when it has ended");
    assert_eq!(ended["report"]["calls"].as_array().map(Vec::len), Some(1), "{ended}");
}

async fn runs_belong_to_the_caller_that_began_them() {
    let server = start(Setup { http: http(vec![key("ann"), key("bob")]), ..Setup::default() }).await;
    let begun = server.as_key("ann", "POST", "/v1/runs", Some(json!({"code": "return 1"}))).await.json();
    let path = format!("/v1/runs/{}", begun["runId"].as_str().expect("an id"));
    assert_eq!(server.as_key("ann", "GET", &format!("{path}?wait=30"), None).await.status, 200);
    let of_another = server.as_key("bob", "GET", &path, None).await;
    assert_eq!(of_another.refusal(), "404 NOT_FOUND");
    let absent = server.as_key("bob", "GET", "/v1/runs/00000000000000000000000000000000", None).await;
    assert_eq!(absent.refusal(), "404 NOT_FOUND", "it looks as if it did not exist");
    assert_eq!(server.as_key("bob", "DELETE", &path, None).await.refusal(), "404 NOT_FOUND");
    assert_eq!(server.as_key("bob", "GET", "/v1/runs", None).await.json(), json!({"runs": []}));
    let own = server.as_key("ann", "GET", "/v1/runs", None).await.json();
    assert_eq!(own["runs"][0]["runId"], begun["runId"], "{own}");
    // Two callers may use the same key for a request.
    let keyed = async |name: &str| {
        let ask = server.ask("POST", "/v1/runs").bearer(&format!("{name}-key")).header("Idempotency-Key", "same");
        ask.json(&json!({"code": "return 2"}).to_string()).send().await.json()["runId"].clone()
    };
    assert_ne!(keyed("ann").await, keyed("bob").await);
}

async fn runs_are_listed_page_by_page() {
    let server = start(Setup::default()).await;
    let mut begun = Vec::new();
    for number in 0..5 {
        let run = server.begin(json!({"code": format!("return {number}")})).await;
        server.ended(&run).await;
        begun.push(run);
    }
    let (mut listed, mut query) = (Vec::new(), "limit=2&status=done".to_owned());
    loop {
        let page = server.get(&format!("/v1/runs?{query}")).await.json();
        listed.extend(page["runs"].as_array().expect("runs").iter().map(|run| run["runId"].clone()));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=2&status=done&before={next}"),
            None => break,
        }
    }
    let mut expected: Vec<Value> = begun.iter().map(|run| json!(run)).collect();
    // Two may begin in the same millisecond.
    listed.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    assert_eq!(listed, expected);
    assert_eq!(server.get("/v1/runs?status=paused").await.json(), json!({"runs": []}));
}

async fn a_run_is_aborted() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let server = start(Setup { functions, ..Setup::default() }).await;
    let run = server.begin(json!({"code": "console.log('on'); await hold(); return 1"})).await;
    held.began.recv().await.expect("called");
    let answer = server.ask("DELETE", &format!("/v1/runs/{run}")).send().await;
    assert_eq!((answer.status, &answer.json()["runId"]), (202, &json!(run)), "{answer:?}");
    let ended = server.ended(&run).await;
    let report = &ended["report"];
    assert_eq!((&report["code"], &report["safe_to_retry"]), (&json!("ABORTED"), &json!(false)), "{ended}");
    assert_eq!((&report["logs"]["stdout"], &report["calls"][0]["state"]), (&json!(["on"]), &json!("unknown")));
    let again = server.ask("DELETE", &format!("/v1/runs/{run}")).send().await;
    assert_eq!((again.status, &again.json()["status"]), (202, &json!("done")), "{again:?}");
}

async fn a_request_waits_for_the_end() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let server = start(Setup { functions, ..Setup::default() }).await;
    let run = server.begin(json!({"code": "return await hold()"})).await;
    held.began.recv().await.expect("called");
    let first = server.get(&format!("/v1/runs/{run}?wait=0")).await.json();
    assert_eq!((&first["status"], first.get("report")), (&json!("running"), None), "{first}");
    let path = format!("/v1/runs/{run}?wait=60");
    let (waited, ()) = tokio::join!(server.get(&path), async { held.release.notify_one() });
    assert_eq!(waited.json()["report"]["value"], json!("released"), "{waited:?}");
}

async fn a_call_in_json_is_no_durable_run() {
    let server = start(Setup::default()).await;
    let call = r#"{"tool": "shop.find", "arguments": {"what": "tea"}}"#;
    let run = server.begin(json!({"code": call})).await;
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["code"], json!("INVALID_CODE"), "{ended}");
}

async fn bad_requests_for_runs_are_refused() {
    let server = start(Setup::default()).await;
    let refusal = async |body: Value| server.post("/v1/runs", body).await.refusal();
    assert_eq!(refusal(json!({})).await, "400 INVALID_INPUT /code");
    assert_eq!(refusal(json!({"code": "", "durable": false})).await, "400 INVALID_INPUT /durable");
    assert_eq!(refusal(json!({"code": "", "timeoutMs": 0})).await, "400 INVALID_INPUT /timeoutMs");
    assert_eq!(refusal(json!({"code": "", "functions": ["none"]})).await, "400 INVALID_INPUT /functions/0");
    assert_eq!(refusal(json!({"code": "", "later": 1})).await, "400 INVALID_INPUT /later");
    let large = json!({"code": "x".repeat(17 * 1024 * 1024)});
    assert_eq!(server.post("/v1/runs", large).await.refusal(), "413 TOO_LARGE");
    let keyed = server.ask("POST", "/v1/runs").header("Idempotency-Key", &"k".repeat(300));
    let keyed = keyed.json(&json!({"code": "return 1"}).to_string()).send().await;
    assert_eq!(keyed.refusal(), "400 BAD_REQUEST");
    for path in ["/v1/runs/none", "/v1/runs/%00", &format!("/v1/runs/{}", "x".repeat(2000)), "/v1/runs/a%27%20OR%201=1"]
    {
        assert_eq!(server.get(path).await.refusal(), "404 NOT_FOUND", "{path}");
    }
    assert_eq!(server.get("/v1/runs/none?wait=x").await.refusal(), "400 INVALID_INPUT /wait");
    assert_eq!(server.get("/v1/runs?status=lost").await.refusal(), "400 INVALID_INPUT /status");
    assert_eq!(server.ask("PUT", "/v1/runs").send().await.refusal(), "405 METHOD_NOT_ALLOWED");
}

async fn a_caller_has_a_bounded_number_of_open_runs() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let server = start(Setup { functions, max_open_runs: 3, ..Setup::default() }).await;
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.push(server.begin(json!({"code": "return await hold()"})).await);
        held.began.recv().await.expect("called");
    }
    let refused = server.post("/v1/runs", json!({"code": "return 1"})).await;
    assert_eq!(refused.refusal(), "429 UNAVAILABLE");
    held.release.notify_one();
    let ended = server.get(&format!("/v1/runs/{}?wait=0", begun[0])).await;
    assert_eq!(ended.status, 200);
    held.release.notify_waiters();
}

async fn the_open_runs_of_a_caller_take_a_bounded_number_of_bytes() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let server = start(Setup { functions, max_open_bytes: 1_800_000, ..Setup::default() }).await;
    let context = json!({"text": "x".repeat(1 << 20)});
    // Its record has the context, and the arguments of the call.
    let code = "const text = context.text; return [await hold(text), await hold(text).catch(e => [e.code, e.message])]";
    let first = server.begin(json!({"code": code, "context": context})).await;
    held.began.recv().await.expect("called");
    let refused = server.post("/v1/runs", json!({"code": "return 1", "context": context})).await;
    assert_eq!(refused.refusal(), "429 UNAVAILABLE");
    assert!(refused.body.contains("toolgate.runs.max_open_size"), "{refused:?}");
    held.release.notify_one();
    let ended = server.ended(&first).await;
    let value = &ended["report"]["value"][1];
    assert_eq!(value[0], "NOT_DURABLE", "{ended}");
    assert!(value[1].as_str().is_some_and(|why| why.contains("toolgate.runs.max_open_size")), "{ended}");
    // What has ended does not count.
    server.begin(json!({"code": "return 1", "context": context})).await;
}

async fn a_program_that_is_too_long_is_refused_before_it_is_kept() {
    let server = start(Setup::default()).await;
    let refused = server.post("/v1/runs", json!({"code": format!("return 1 // {}", "x".repeat(300_000))})).await;
    assert_eq!(refused.refusal(), "400 INVALID_INPUT /code");
    assert_eq!(server.get("/v1/runs").await.json()["runs"], json!([]));
}

impl Server {
    /// The run once it waits for decisions.
    async fn paused(&self, run: &str) -> Value {
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

    async fn decide(&self, run: &str, decisions: Value) -> Answer {
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

/// A key that may use the backends.
fn open_key(name: &str) -> toolgate_config::checked::Key {
    toolgate_config::checked::Key { backends: None, ..key(name) }
}

/// The events of a stream that has ended: number, name and data.
fn events_of(body: &str) -> Vec<(Option<u64>, String, Value)> {
    let events = body.split("\n\n").filter(|event| event.contains("event: "));
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.map(str::to_owned)
    };
    let events = events.map(|event| {
        let data = field(event, "data").expect("data");
        let number = field(event, "id").map(|id| id.parse().expect("a number"));
        (number, field(event, "event").expect("a name"), serde_json::from_str(&data).expect("JSON"))
    });
    events.collect()
}

async fn events_tell_what_happens_and_can_be_read_again() {
    let server = start(Setup::default()).await;
    let code = "console.log('a \\u2028 line'); await add(1, 2); return (await bank.pay({ call: 2, amount: 1 })).paid";
    let run = server.begin(json!({"code": code})).await;
    let path = format!("/v1/runs/{run}/events");
    let watching = server.ask("GET", &path).send();
    let (watched, ()) = tokio::join!(watching, async {
        server.paused(&run).await;
        server.decide(&run, json!([{"callId": 2, "decision": "approve"}])).await;
    });
    assert_eq!(watched.header("content-type"), Some("text/event-stream"), "{watched:?}");
    let events = events_of(&watched.body);
    let names: Vec<&str> = events.iter().map(|(_, name, _)| name.as_str()).collect();
    let of =
        |name: &str| events.iter().filter(|(_, known, _)| known == name).map(|(_, _, data)| data).collect::<Vec<_>>();
    assert_eq!(of("log")[0]["text"], json!("a \u{2028} line"), "{events:?}");
    assert_eq!((of("call")[0]["function"].clone(), of("call")[1]["tool"].clone()), (json!("add"), json!("pay")));
    assert!(!of("asked").is_empty() && of("answered").len() == 2, "{names:?}");
    let states: Vec<&Value> = of("status").iter().map(|status| &status["status"]).collect();
    assert_eq!(states.last(), Some(&&json!("done")), "{names:?}");
    let end = of("status").last().expect("an end")["report"]["value"].clone();
    assert_eq!(end, json!(1));
    // The same from behind the first event that was seen.
    let first = events.iter().find_map(|(number, ..)| *number).expect("a number");
    let again = server.ask("GET", &path).header("Last-Event-ID", &first.to_string()).send().await;
    let again = events_of(&again.body);
    let numbered =
        |events: &[(Option<u64>, String, Value)]| events.iter().filter_map(|(id, ..)| *id).collect::<Vec<_>>();
    assert_eq!(numbered(&again), numbered(&events)[1..]);
    assert_eq!(server.get("/v1/runs/none/events").await.refusal(), "404 NOT_FOUND");
}

/// The head and the body of the next request, which is answered with nothing.
async fn received(listener: &tokio::net::TcpListener) -> (String, Value) {
    answered(listener, |_| "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned()).await
}

/// The head and the body of the next request, which gets the answer to its head.
async fn answered(listener: &tokio::net::TcpListener, answer: impl Fn(&str) -> String) -> (String, Value) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut stream, _) = listener.accept().await.expect("a request");
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.expect("a request");
        assert!(read > 0, "the request ends early: {}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).to_string();
        let is_whole = |head: &str, body: &str| {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|it| it.parse().ok());
            length.is_some_and(|length: usize| body.len() >= length)
        };
        if let Some((head, body)) = text.split_once("\r\n\r\n").filter(|(head, body)| is_whole(head, body)) {
            let head = head.to_lowercase();
            stream.write_all(answer(&head).as_bytes()).await.expect("an answer");
            return (head, serde_json::from_str(body).expect("JSON"));
        }
    }
}

async fn a_run_that_waits_is_told_to_a_signed_webhook() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let server = start(Setup::default()).await;
    let code = "return await bank.pay({ call: 1, amount: 10 }).catch(error => error.code)";
    let run = server.begin(json!({"code": code, "webhook": url})).await;
    let (head, told) = received(&listener).await;
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("paused")), "{told}");
    let call = told["pending"][0]["callId"].clone();
    assert_eq!(server.decide(&run, json!([{"callId": call, "decision": "deny"}])).await.status, 200);
    let (head_of_end, told) = received(&listener).await;
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("done")), "{told}");
    let id = |head: &str| head.lines().find(|line| line.starts_with("webhook-id: ")).map(str::to_owned);
    assert_ne!(id(&head), id(&head_of_end), "each has an id of its own");
}

/// A rule asks about `shop.find`.
fn asking() -> Setup {
    let policy =
        json!([{"tool": "shop.find", "when": "args.what != 'salt'", "do": "ask", "reason": "finds are approved"}]);
    Setup { policy, ..Setup::default() }
}

/// Programs of agents and requests of `/v1/run` have no webhook of their own.
async fn a_run_without_a_webhook_that_waits_is_told_to_that_of_the_configuration() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let server = start(Setup { webhook: Some(url), ..asking() }).await;
    let answer = server.post("/v1/run", json!({"code": "return await shop.find({ what: 'tea' })"})).await.json();
    let run = answer["paused"]["runId"].as_str().expect("a run").to_owned();
    let (head, told) = received(&listener).await;
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("paused")), "{told}");
    assert_eq!(told["pending"][0]["arguments"], json!({"what": "tea"}), "{told}");
    // Its end is not told: the run has no webhook.
    let call = told["pending"][0]["callId"].clone();
    assert_eq!(server.decide(&run, json!([{"callId": call, "decision": "approve"}])).await.status, 200);
    assert_eq!(server.ended(&run).await["report"]["value"], json!({"found": "tea"}));
    let next = server.post("/v1/run", json!({"code": "return await shop.find({ what: 'milk' })"})).await.json();
    let (_, told) = received(&listener).await;
    assert_eq!((&told["runId"], &told["status"]), (&next["paused"]["runId"], &json!("paused")), "{told}");
}

/// An answer with these decisions about the pause of a request with this head, signed with this secret.
fn decided_by(secret: &str, head: &str, decisions: &Value) -> String {
    let id = head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).expect("an id");
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let body = json!({ "decisions": decisions }).to_string();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = BASE64_STANDARD.encode(ring::hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes()));
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: v1,{tag}\r\n\r\n{body}"
    )
}

async fn the_receiver_of_a_webhook_decides_by_a_signed_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let setup = Setup { webhook: Some(url), ..asking() };
    let server = start(setup).await;
    let code = "return [await shop.find({ what: 'tea' }), await shop.find({ what: 'milk' })]";
    let answer = server.post("/v1/run", json!({"code": code})).await.json();
    let run = answer["paused"]["runId"].as_str().expect("a run").to_owned();
    let call = answer["paused"]["pending"][0]["callId"].clone();
    // A stranger has no secret of ours.
    let approve = json!([{"callId": call, "decision": "approve"}]);
    answered(&listener, |head| decided_by("guessed", head, &approve)).await;
    let state = server.get(&format!("/v1/runs/{run}?wait=1")).await.json();
    assert_eq!((&state["status"], &state["pending"][0]["callId"]), (&json!("paused"), &call), "{state}");
    assert_eq!(server.decide(&run, approve).await.status, 200);
    // The calls of a run are numbered in their order.
    let edit =
        json!([{"callId": call.as_u64().expect("a number") + 1, "decision": "edit", "arguments": {"what": "salt"}}]);
    let (_, told) = answered(&listener, |head| decided_by("secret", head, &edit)).await;
    assert_eq!(told["pending"][0]["callId"], edit[0]["callId"], "{told}");
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["value"], json!([{"found": "tea"}, {"found": "salt"}]), "{ended}");
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

async fn the_end_is_told_to_a_signed_webhook() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/ended", listener.local_addr().expect("an address"));
    let server = start(Setup::default()).await;
    let run = server.begin(json!({"code": "return 7", "webhook": url})).await;
    let (mut stream, _) = listener.accept().await.expect("a request");
    let mut request = Vec::new();
    let (head, body) = loop {
        use tokio::io::AsyncReadExt;
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.expect("a request");
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n").filter(|(_, body)| body.ends_with('}')) {
            break (head.to_lowercase(), body.to_owned());
        }
    };
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).expect("a header").to_owned()
    };
    assert_eq!(field("webhook-id"), run);
    assert!(field("webhook-signature").starts_with("v1,"), "{head}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["runId"], &body["status"], &body["report"]["value"]), (&json!(run), &json!("done"), &json!(7)));
    let wrong = server.post("/v1/runs", json!({"code": "return 1", "webhook": "ftp://x"})).await;
    assert_eq!(wrong.refusal(), "400 INVALID_INPUT /webhook");
}

async fn a_fork_keeps_the_first_answers_and_makes_the_rest() {
    let http = http(vec![open_key("ann"), open_key("bob")]);
    let setup = Setup { http, ..Setup::default() };
    let paid = setup.paid.clone();
    let server = start(setup).await;
    let ann = async |method: &str, path: &str, body: Option<Value>| server.as_key("ann", method, path, body).await;
    // The run once the payment of this number waits, which is then approved.
    let approve = async |run: &str, call: u64| {
        let path = format!("/v1/runs/{run}");
        loop {
            let state = ann("GET", &format!("{path}?wait=1"), None).await.json();
            assert_ne!(state["status"], "done", "{state}");
            if state["pending"][0]["callId"] == call {
                break;
            }
        }
        let decisions = json!({"decisions": [{"callId": call, "decision": "approve"}]});
        let decided = ann("POST", &format!("{path}/decisions"), Some(decisions)).await;
        assert_eq!(decided.status, 200, "{decided:?}");
    };
    let value = async |run: &str| loop {
        let state = ann("GET", &format!("/v1/runs/{run}?wait=30"), None).await.json();
        if state["status"] == "done" {
            return state["report"]["value"].clone();
        }
    };
    let code = "const one = await bank.pay({ call: 1, amount: 10 }); \
                const two = await bank.pay({ call: 2, amount: 20 }); return [one.paid, two.paid]";
    let begun = ann("POST", "/v1/runs", Some(json!({"code": code}))).await.json();
    let run = begun["runId"].as_str().expect("an id");
    approve(run, 1).await;
    approve(run, 2).await;
    assert_eq!(value(run).await, json!([10, 20]));

    let path = format!("/v1/runs/{run}/fork");
    let forked = ann("POST", &path, Some(json!({"from": 1}))).await;
    assert_eq!(forked.status, 202, "{forked:?}");
    let forked = forked.json();
    assert_eq!((&forked["forkedFrom"], &forked["status"]), (&json!(run), &json!("running")), "{forked}");
    assert_eq!(forked["leftOut"], 1, "the second payment may be made again: {forked}");
    let new = forked["runId"].as_str().expect("an id");
    assert_ne!(new, run);
    approve(new, 2).await;
    assert_eq!(value(new).await, json!([10, 20]));
    let amounts: Vec<Value> = paid.lock().iter().map(|call| call["amount"].clone()).collect();
    assert_eq!(amounts, [10, 20, 20], "what is kept is not made again");

    let many = ann("POST", &path, Some(json!({"from": 3}))).await;
    assert_eq!((many.status, many.json()["error"]["pointer"].as_str()), (400, Some("/from")), "{many:?}");
    assert!(many.json()["error"]["message"].as_str().is_some_and(|it| it.contains("2 answered calls")), "{many:?}");
    for (name, path, body, expected) in [
        ("ann", path.as_str(), json!({}), "400 INVALID_INPUT /from"),
        ("ann", &path, json!({"from": -1}), "400 INVALID_INPUT /from"),
        ("ann", &path, json!({"from": 1, "edit": "return 1"}), "400 INVALID_INPUT /edit"),
        ("ann", "/v1/runs/00000000000000000000000000000000/fork", json!({"from": 0}), "404 NOT_FOUND"),
        ("bob", &path, json!({"from": 0}), "404 NOT_FOUND"),
    ] {
        let refused = server.as_key(name, "POST", path, Some(body.clone())).await;
        assert_eq!(refused.refusal(), expected, "{name} {body}");
    }
}
