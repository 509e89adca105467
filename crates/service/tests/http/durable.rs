//! `/v1/runs`: runs that outlive their request, and belong to the caller that began them.

use crate::decisions::open_key;
use crate::harness::{Case, cases};
use crate::support::{Answer, Server, Setup, hold, http, key, start};
use serde_json::{Value, json};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_run_is_begun_and_read_later,
        a_failed_program_is_a_run_that_has_ended,
        the_same_key_is_the_same_run,
        runs_belong_to_the_caller_that_began_them,
        runs_are_listed_page_by_page,
        a_run_is_aborted,
        a_run_that_has_not_ended_is_not_repeated,
        a_request_waits_for_the_end,
        a_call_in_json_is_no_durable_run,
        bad_requests_for_runs_are_refused,
        a_caller_has_a_bounded_number_of_open_runs,
        the_open_runs_of_a_caller_take_a_bounded_number_of_bytes,
        a_program_that_is_too_long_is_refused_before_it_is_kept,
        events_tell_what_happens_and_can_be_read_again,
        a_fork_keeps_the_first_answers_and_makes_the_rest,
    ]
}

impl Server {
    pub(crate) async fn begin(&self, body: Value) -> String {
        let answer = self.post("/v1/runs", body).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("running")), "{answer:?}");
        answer.json()["runId"].as_str().expect("an id").to_owned()
    }

    /// The run once it has ended.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        loop {
            let answer = self.get(&format!("/v1/runs/{run}?wait=30")).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.json()["status"] == "done" {
                return answer.json();
            }
        }
    }

    pub(crate) async fn as_key(&self, name: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
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
    assert_eq!(report["error"], "the run was aborted", "as of a paused one");
    assert_eq!((&report["logs"]["stdout"], &report["calls"][0]["state"]), (&json!(["on"]), &json!("unknown")));
    let again = server.ask("DELETE", &format!("/v1/runs/{run}")).send().await;
    assert_eq!((again.status, &again.json()["status"]), (202, &json!("done")), "{again:?}");
}

/// The service is there, and the same request later is answered: it is no fault of the service.
async fn a_run_that_has_not_ended_is_not_repeated() {
    let mut held = hold();
    let functions = [held.function.clone()].into_iter().collect();
    let server = start(Setup { functions, ..Setup::default() }).await;
    let run = server.begin(json!({"code": "return await hold()"})).await;
    held.began.recv().await.expect("called");
    let path = format!("/v1/runs/{run}/replay");
    assert_eq!(server.post(&path, json!({})).await.refusal(), "409 CONFLICT");
    held.release.notify_one();
    server.ended(&run).await;
    assert_eq!(server.post(&path, json!({})).await.json()["same"], json!(true));
    let refused = server.begin(json!({"code": "return (("})).await;
    server.ended(&refused).await;
    let path = format!("/v1/runs/{refused}/replay");
    assert_eq!(server.post(&path, json!({})).await.refusal(), "409 CONFLICT", "it has no program");
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
