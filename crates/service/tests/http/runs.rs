//! `/v1/run`, `/v1/compute`, and what the service says of itself.

use crate::harness::{Case, cases};
use crate::support::{Server, Setup, hold, http, key, read, start};
use serde_json::{Value, json};
use std::time::Duration;
use toolgate_engine::{Engine, V8Settings};
use toolgate_wire::{LimitRequest, Profiles};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_program_gets_context_and_functions_and_gives_a_report,
        a_failed_program_has_status_200,
        context_is_frozen,
        a_local_caller_has_the_tools_that_mcp_has,
        a_value_is_shaped_on_request,
        a_kept_result_is_read_by_its_caller_only,
        the_root_names_the_documentation,
        metrics_count_runs_calls_and_responses,
        a_list_of_functions_leaves_the_others_out,
        bad_input_is_refused_with_a_pointer,
        a_snippet_is_clamped_with_a_warning,
        a_computation_is_applied_to_data,
        an_invalid_request_is_refused_in_one_form,
        a_full_queue_has_retry_after,
        a_disconnect_aborts_the_run,
        a_configured_limit_is_the_maximum,
        a_request_chooses_its_engine,
        functions_health_and_openapi_are_served,
    ]
}

async fn a_program_gets_context_and_functions_and_gives_a_report() {
    let server = start(Setup::default()).await;
    let code = "console.log('one'); console.error('two'); return {sum: await add(context.a, 2)}";
    let report = server.run(json!({"code": code, "context": {"a": 40}})).await;
    assert_eq!((&report["ok"], &report["result"]), (&json!(true), &json!({"sum": 42})), "{report}");
    assert_eq!(report["logs"], json!({"stdout": ["one"], "stderr": ["two"], "dropped": 0}));
    assert_eq!((&report["calls"][0]["name"], &report["calls"][0]["state"]), (&json!("add"), &json!("applied")));
    assert!(report["executionMs"].as_f64().is_some_and(|ms| ms > 0.0));
    assert_eq!(report["executionId"].as_str().map(str::len), Some(32));
    assert!(report.get("error").is_none() && report.get("code").is_none());
}

async fn check_failure(server: &Server, body: Value, expected: (&str, Option<u64>)) {
    let report = server.run(body).await;
    assert_eq!((&report["ok"], report["error"].is_string()), (&json!(false), true), "{report}");
    assert_eq!(report["code"].as_str(), Some(expected.0), "{report}");
    // Where a program was when its time or memory was up is not always known.
    assert!(expected.1.is_none() || report["line"].as_u64() == expected.1, "{report}");
}

async fn a_failed_program_has_status_200() {
    let server = start(Setup::default()).await;
    check_failure(&server, json!({"code": "let x = 1\nthrow new Error('no')"}), ("RUNTIME", Some(2))).await;
    check_failure(&server, json!({"code": "return (((("}), ("SYNTAX", Some(1))).await;
    check_failure(&server, json!({"code": "for(;;);", "timeoutMs": 50}), ("TIMEOUT", None)).await;
    let hungry = "const all = []; for (;;) all.push(new Array(10000).fill(1))";
    check_failure(&server, json!({"code": hungry, "maxHeapMB": 4}), ("MEMORY", None)).await;
    check_failure(&server, json!({"code": "await fail()"}), ("RUNTIME", Some(1))).await;
    check_failure(&server, json!({"code": "return shop.fnid({})"}), ("INVALID_CODE", Some(1))).await;
}

async fn a_local_caller_has_the_tools_that_mcp_has() {
    let server = start(Setup::default()).await;
    let report = server.run(json!({"code": "const what = 'tea'; return (await shop.find({ what })).found"})).await;
    assert_eq!((&report["value"], &report["calls"][0]["tool"]), (&json!("tea"), &json!("find")), "{report}");
}

async fn a_value_is_shaped_on_request() {
    let server = start(Setup::default()).await;
    let code = "return Array.from({length: 2000}, (_, id) => ({id, name: 'row ' + id}))";
    let report = server.run(json!({"code": code, "maxOutputSize": 4096})).await;
    assert!(report.get("value").is_none() && report.get("result").is_none(), "{report}");
    let output = &report["output"];
    assert!(output["text"].as_str().is_some_and(|text| text.len() <= 4096 && text.contains("row 0")), "{report}");
    assert!(output["resultId"].as_str().is_some_and(|id| id.starts_with("res_")), "{report}");
    let wrong = server.post("/v1/run", json!({"code": "", "maxOutputSize": 1})).await;
    assert_eq!(wrong.refusal(), "400 INVALID_INPUT /maxOutputSize");
    let compute = json!({"code": "(n) => Array.from({length: n}, (_, id) => ({id, name: 'row ' + id}))", "data": 2000});
    let with = |name: &str, value: Value| {
        let mut body = compute.clone();
        body[name] = value;
        body
    };
    let reply = server.post("/v1/compute", with("maxOutputSize", json!(4096))).await.json();
    assert!(reply["output"]["text"].as_str().is_some_and(|text| text.len() <= 4096), "{reply}");
    let wrong = server.post("/v1/compute", with("maxOutputSize", json!(1))).await;
    assert_eq!(wrong.refusal(), "400 INVALID_INPUT /maxOutputSize");
}

async fn a_kept_result_is_read_by_its_caller_only() {
    let server = start(Setup { http: http(vec![key("one"), key("two")]), ..Setup::default() }).await;
    let code = "return {rows: Array.from({length: 2000}, (_, id) => ({id, name: 'row ' + id}))}";
    let run = json!({"code": code, "maxOutputSize": 1000}).to_string();
    let report = server.ask("POST", "/v1/run").bearer("one-key").json(&run).send().await.json();
    let id = report["output"]["resultId"].as_str().expect("a kept result").to_owned();
    let read =
        async |key: &str, query: &str| server.ask("GET", &format!("/v1/results/{id}{query}")).bearer(key).send().await;
    let whole = read("one-key", "").await.json();
    assert_eq!((&whole["resultId"], &whole["value"]["rows"][1999]["id"]), (&json!(id), &json!(1999)));
    assert_eq!(read("one-key", "?path=rows[7].name").await.json()["text"], json!("row 7"));
    let lines = read("one-key", "?lines=1-2").await.json();
    assert!(lines["text"].as_str().is_some_and(|text| text.contains("rows") && text.lines().count() < 5), "{lines}");
    let found = read("one-key", "?search=row+1999&maxOutputSize=300").await.json();
    assert!(found["text"].as_str().is_some_and(|text| text.len() <= 300 && text.contains("row 1999")), "{found}");
    assert_eq!(read("one-key", "?path=nope").await.refusal(), "400 INVALID_INPUT /path");
    assert_eq!(read("one-key", "?page=2").await.refusal(), "400 INVALID_INPUT /page");
    let other = read("two-key", "").await;
    assert_eq!(other.refusal(), "404 NOT_FOUND");
    let none = server.ask("GET", "/v1/results/res_x").bearer("one-key").send().await;
    assert_eq!(none.refusal(), "404 NOT_FOUND");
    assert_eq!(server.get(&format!("/v1/results/{id}")).await.refusal(), "401 UNAUTHORIZED");
}

async fn metrics_count_runs_calls_and_responses() {
    let server = start(Setup { http: http(vec![key("one")]), ..Setup::default() }).await;
    let run = async |code: &str| {
        let body = json!({ "code": code }).to_string();
        server.ask("POST", "/v1/run").bearer("one-key").json(&body).send().await.status
    };
    assert_eq!([run("await add(1, 2); return 1").await, run("throw 1").await], [200, 200]);
    assert_eq!(server.ask("GET", "/metrics").bearer("wrong").send().await.refusal(), "401 UNAUTHORIZED");
    let answer = server.ask("GET", "/metrics").bearer("one-key").send().await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        r#"toolgate_runs_total{door="http",route="script",outcome="ok"} 1"#,
        r#"toolgate_runs_total{door="http",route="script",outcome="RUNTIME"} 1"#,
        r#"toolgate_run_seconds_count{door="http"} 2"#,
        "toolgate_runs_in_flight 0",
        r#"toolgate_calls_total{state="applied"} 1"#,
        r#"toolgate_http_responses_total{status="2xx"} 2"#,
        r#"toolgate_http_responses_total{status="4xx"} 1"#,
        "toolgate_failed_keys_total 1",
        "toolgate_websockets 0",
    ] {
        assert!(answer.body.lines().any(|it| it == line), "{line}\n{}", answer.body);
    }
    // The key may use no backend, so it sees none.
    assert!(
        !answer.body.contains("backend=") && answer.body.contains("process_resident_memory_bytes "),
        "{}",
        answer.body
    );
}

async fn the_root_names_the_documentation() {
    let server = start(Setup::default()).await;
    let index = server.get("/").await.json();
    assert_eq!((&index["documentation"], &index["openapi"]), (&json!("docs/HTTP.md"), &json!("/v1/openapi.json")));
    for path in ["openapi", "health", "readiness"] {
        assert_eq!(server.get(index[path].as_str().expect("a path")).await.status, 200, "{path}");
    }
}

async fn context_is_frozen() {
    let server = start(Setup::default()).await;
    let code = "const before = context.a; try { context.a = 2 } catch {} return [before, context.a]";
    assert_eq!(server.run(json!({"code": code, "context": {"a": 1}})).await["result"], json!([1, 1]));
}

async fn a_list_of_functions_leaves_the_others_out() {
    let server = start(Setup::default()).await;
    let code = "return [typeof add, typeof fail]";
    let report = server.run(json!({"code": code, "functions": ["add"]})).await;
    assert_eq!(report["result"], json!(["function", "undefined"]), "{report}");
    let report = server.run(json!({"code": code, "functions": []})).await;
    assert_eq!(report["result"], json!(["undefined", "undefined"]));
}

async fn bad_input_is_refused_with_a_pointer() {
    let server = start(Setup::default()).await;
    for (body, pointer) in [
        (json!({}), "/code"),
        (json!({"code": 1}), "/code"),
        (json!({"code": "", "colour": "red"}), "/colour"),
        (json!({"code": "", "context": [1]}), "/context"),
        (json!({"code": "", "functions": ["add", "nobody"]}), "/functions/1"),
        (json!({"code": "", "functions": [1]}), "/functions/0"),
        (json!({"code": "", "functions": ["x".repeat(257)]}), "/functions/0"),
        (json!({"code": "", "functions": vec!["add"; 1_001]}), "/functions/1000"),
        (json!({"code": "", "intent": "x ".repeat(1_001)}), "/intent"),
        (json!({"code": "", "timeoutMs": 0}), "/timeoutMs"),
        (json!({"code": "", "timeoutMs": 600_001}), "/timeoutMs"),
        (json!({"code": "", "maxHeapMB": 5000}), "/maxHeapMB"),
        (json!({"code": "", "profile": "compute"}), "/profile"),
        (json!("code"), ""),
    ] {
        let answer = server.post("/v1/run", body.clone()).await;
        assert_eq!(answer.refusal(), format!("400 INVALID_INPUT {pointer}"), "{body}");
    }
    let compute = server.post("/v1/compute", json!({"code": "() => 1"})).await;
    assert_eq!(compute.refusal(), "400 INVALID_INPUT /data");
    let intent = json!({"code": "() => 1", "data": 1, "intent": "x ".repeat(1_001)});
    assert_eq!(server.post("/v1/compute", intent).await.refusal(), "400 INVALID_INPUT /intent");
    assert_eq!(server.ask("POST", "/v1/run").json("{").send().await.refusal(), "400 INVALID_INPUT ");
}

async fn a_snippet_is_clamped_with_a_warning() {
    let server = start(Setup::default()).await;
    let report = server.run(json!({"code": "return 1", "profile": "snippet", "timeoutMs": 60_000})).await;
    assert_eq!(report["result"], json!(1), "{report}");
    assert!(report["warnings"][0].as_str().is_some_and(|warning| warning.contains("clamped")), "{report}");
}

async fn a_computation_is_applied_to_data() {
    let server = start(Setup::default()).await;
    let check = async |code: &str, data: Value, field: &str, expected: Value| {
        let answer = server.post("/v1/compute", json!({"code": code, "data": data})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()[field], expected, "{code}: {answer:?}");
    };
    check("(data) => data.filter(n => n > 1)", json!([1, 2, 3]), "result", json!([2, 3])).await;
    check("(data) => data === null", Value::Null, "result", json!(true)).await;
    check("async (data) => 1", json!(1), "code", json!("INVALID_CODE")).await;
    check("(data) => data.x.y", json!(1), "code", json!("RUNTIME")).await;
}

async fn an_invalid_request_is_refused_in_one_form() {
    let server = start(Setup::default()).await;
    assert_eq!(server.get("/nowhere").await.refusal(), "404 NOT_FOUND");
    let method = server.get("/v1/run").await;
    assert_eq!((method.refusal().as_str(), method.header("allow")), ("405 METHOD_NOT_ALLOWED", Some("POST")));
    let text = server.ask("POST", "/v1/run").header("Content-Type", "text/plain").body("{}").send().await;
    assert_eq!(text.refusal(), "415 UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(server.ask("POST", "/v1/run").body("{}").send().await.refusal(), "415 UNSUPPORTED_MEDIA_TYPE");
    let announced = server.ask("POST", "/v1/run").header("Content-Type", "application/json");
    let announced = announced.header("Content-Length", "99999999999").send().await;
    assert_eq!(announced.refusal(), "413 TOO_LARGE");
    assert_eq!(server.get("/v1/run/ws").await.refusal(), "426 UPGRADE_REQUIRED");
    let document = server.get("/v1/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let names = path.split('{').skip(1).filter_map(|rest| Some(format!("{{{}}}", rest.split_once('}')?.0)));
        let odd = names.fold(path.clone(), |path, name| path.replace(&name, "%ff%fe%00"));
        for method in methods.as_object().into_iter().flat_map(|methods| methods.keys()).filter(|_| odd != *path) {
            // A call in a session says nothing about what exists.
            let expected = if path.starts_with("/rpc/") { "401 UNAUTHORIZED" } else { "400 BAD_REQUEST" };
            let answer = server.ask(&method.to_uppercase(), &odd).json("{}").send().await;
            assert_eq!(answer.refusal(), expected, "{method} {odd}");
        }
    }
    let broken = server.ask("POST", "/v1/run").json("{\"code\": \"\u{0}\"").send().await;
    assert_eq!(broken.refusal(), "400 INVALID_INPUT /code");
}

async fn a_full_queue_has_retry_after() {
    let mut hold = hold();
    let engine = Engine::builder().max_concurrent_runs(1).max_waiting_runs(0);
    let functions = [hold.function.clone()].into_iter().collect();
    let server = start(Setup { engine, functions, ..Setup::default() }).await;
    let first = server.ask("POST", "/v1/run").json(r#"{"code": "return hold()"}"#).begin().await;
    hold.began.recv().await.expect("it began");
    let second = server.post("/v1/run", json!({"code": "return 1"})).await;
    assert_eq!((second.refusal().as_str(), second.header("retry-after")), ("429 UNAVAILABLE", Some("1")));
    hold.release.notify_one();
    assert_eq!(read(first).await.json()["result"], json!("released"));
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
}

async fn a_disconnect_aborts_the_run() {
    let mut hold = hold();
    let engine = Engine::builder().max_concurrent_runs(1).max_waiting_runs(1);
    let functions = [hold.function.clone()].into_iter().collect();
    let server = start(Setup { engine, functions, ..Setup::default() }).await;
    let first = server.ask("POST", "/v1/run").json(r#"{"code": "return hold()"}"#).begin().await;
    hold.began.recv().await.expect("it began");
    drop(first);
    hold.dropped.recv().await.expect("the call is ended with its run");
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
    // It is recorded like every other run.
    let aborted = r#"toolgate_runs_total{door="http",route="script",outcome="ABORTED"} 1"#;
    while !server.get("/metrics").await.body.contains(aborted) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_configured_limit_is_the_maximum() {
    let chain = LimitRequest { wall: Some(Duration::from_millis(100)), ..LimitRequest::default() };
    let profiles = Profiles { chain, ..Profiles::default() };
    let server = start(Setup { profiles, ..Setup::default() }).await;
    check_failure(&server, json!({"code": "for(;;);"}), ("TIMEOUT", None)).await;
    let more = server.post("/v1/run", json!({"code": "", "timeoutMs": 101})).await;
    assert_eq!(more.refusal(), "400 INVALID_INPUT /timeoutMs");
    let document = server.get("/v1/openapi.json").await.json();
    let timeout = &document["components"]["schemas"]["RunRequest"]["properties"]["timeoutMs"];
    assert_eq!(timeout["maximum"], json!(100));
}

async fn a_request_chooses_its_engine() {
    let v8 = V8Settings { deno: Some("/nowhere/deno".into()), ..V8Settings::default() };
    let server = start(Setup { engine: Engine::builder().v8(v8), ..Setup::default() }).await;
    let report = server.run(json!({"code": "return 1", "engine": "quickjs"})).await;
    assert_eq!((&report["result"], &report["engine"]), (&json!(1), &json!("quickjs")), "{report}");
    // There is none here, so that the request is the only reason to look for one.
    let missing = server.post("/v1/run", json!({"code": "return 1", "engine": "v8"})).await;
    assert_eq!(missing.status, 503, "{missing:?}");
    let unknown = server.post("/v1/run", json!({"code": "return 1", "engine": "spidermonkey"})).await;
    assert_eq!(unknown.refusal(), "400 INVALID_INPUT /engine");
}

async fn functions_health_and_openapi_are_served() {
    let server = start(Setup::default()).await;
    let list = server.get("/v1/functions").await.json();
    let names: Vec<_> = list["functions"].as_array().expect("a list").iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, [json!("add"), json!("fail")]);
    assert_eq!(list["functions"][0]["signature"], json!("add(a: number, b: number): Promise<number>"));
    assert_eq!(server.get("/healthz").await.json(), json!({"status": "ok"}));
    assert_eq!(server.get("/readyz").await.json(), json!({"status": "ready", "sessions": "ok"}));
    let document = server.get("/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], json!("3.1.0"));
    let names = &document["components"]["schemas"]["RunRequest"]["properties"]["functions"]["items"]["enum"];
    assert_eq!(names, &json!(["add", "fail"]));
    let bodies = document["paths"].as_object().into_iter().flat_map(|paths| paths.values());
    let bodies = bodies.flat_map(|path| path.as_object().into_iter().flat_map(|methods| methods.values()));
    for body in bodies.filter_map(|method| method.pointer("/requestBody/content/application~1json/schema")) {
        assert_lists_are_bounded(&document, body);
    }
}

/// A list of small values takes many times the memory of its text. Values of any shape are read as text.
fn assert_lists_are_bounded(document: &Value, schema: &Value) {
    let named = schema["$ref"].as_str().and_then(|path| document.pointer(path.trim_start_matches('#')));
    let schema = named.unwrap_or(schema);
    for field in schema["properties"].as_object().into_iter().flat_map(|fields| fields.values()) {
        if let Some(items) = field.get("items").filter(|items| items.is_object()) {
            assert!(field["maxItems"].is_u64(), "{field}");
            assert_lists_are_bounded(document, items);
        }
    }
}
