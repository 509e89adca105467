//! `/v1/runs`: runs that outlive their request, and belong to the caller that began them.

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
        a_request_waits_for_the_end,
        a_call_in_json_is_no_durable_run,
        bad_requests_for_runs_are_refused,
        a_caller_has_a_bounded_number_of_open_runs,
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
    for (code, expected) in [("throw new Error('no')", "RUNTIME"), ("return ((((", "SYNTAX"), ("for(;;);", "TIMEOUT")] {
        let run = server.begin(json!({"code": code, "timeoutMs": 200})).await;
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
