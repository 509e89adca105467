//! What a key opens is the same at every door: backends, tools and functions, kept results, and the configured limits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TOOLGATE;
use crate::client::{HttpDoor, McpHttp, Setting, report_of};
use crate::configured::home_with;

/// A key, and what its owner reaches.
struct Key {
    name: &'static str,
    /// SHA-256 of the name with `-key` behind it.
    hash: &'static str,
    grants: fn() -> Value,
    calls_tool: bool,
    calls_function: bool,
}

const KEYS: [Key; 4] = [
    Key {
        name: "all",
        hash: "c9fba672736dfdaebd80504b8eaafb1ed81099e499e73a1a215bae27a83b62f5",
        grants: || json!({}),
        calls_tool: true,
        calls_function: true,
    },
    // The function is a tool of a backend, so that it goes with the backend.
    Key {
        name: "no-backends",
        hash: "e819fc74e0653f963460ae986dba52a24bb222b9f6188ef71f034beef5840a7d",
        grants: || json!({ "backends": [] }),
        calls_tool: false,
        calls_function: false,
    },
    Key {
        name: "few-tools",
        hash: "4c05c91dc0614893b0201e836cda28ca9a6a66cd53eb6b9bbbf272d65e3bb692",
        grants: || json!({ "tools": ["demo.list_*"] }),
        calls_tool: false,
        calls_function: false,
    },
    Key {
        name: "no-functions",
        hash: "30afbf0f740e693e76cdc0a59cf52549107be1ba31e86e7f27a4e7c3e9e3cd68",
        grants: || json!({ "functions": [] }),
        calls_tool: true,
        calls_function: false,
    },
];

/// The longest time of a program here.
const WALL: &str = "2s";
/// When a program that never ends must be over on a busy machine; a client asks for a longer time.
const LATEST_END: Duration = Duration::from_secs(60);
const ASKED_MS: u64 = 120_000;

fn configuration() -> Value {
    let key = |key: &Key| {
        let mut settings = json!({ "name": key.name, "hash": format!("sha256:{}", key.hash) });
        for (name, value) in (key.grants)().as_object().into_iter().flatten() {
            settings[name] = value.clone();
        }
        settings
    };
    let limits = json!({ "timeout": WALL });
    json!({
        "mcpServers": { "demo": { "command": TOOLGATE, "args": ["demo"] } },
        "toolgate": {
            "cache": { "enabled": false },
            "functions": { "issueOf": { "tool": "demo.get_issue" } },
            "http": { "keys": KEYS.iter().map(key).collect::<Vec<_>>() },
            "sandbox": { "limits": { "chain": limits, "snippet": limits } },
        },
    })
}

/// A program that says what it got of a call, also when it may not make it.
fn program(call: &str) -> String {
    format!("try {{ return (await {call}({{ number: 4 }})).number }} catch (e) {{ return e.code ?? e.name }}")
}

/// What the doors answer to a program, each with its name.
async fn answers(http: &HttpDoor, profile: &str, code: &str, timeout: Option<u64>) -> Vec<(&'static str, Value)> {
    let mut body = json!({ "code": code, "profile": profile });
    let mut arguments = json!({ "code": code });
    let (tool, time) = if profile == "snippet" { ("run_code", "timeout_ms") } else { ("call_tool_chain", "timeout") };
    if let Some(ms) = timeout {
        body["timeoutMs"] = json!(ms);
        arguments[time] = json!(ms);
    }
    let mcp = McpHttp::new(http).call(tool, &arguments).await;
    vec![
        ("POST /v1/run", http.post("/v1/run", &body, "").await),
        ("WebSocket", http.ask_by_socket(&body).await),
        (tool, mcp),
    ]
}

/// What a session for a function gives when the function is called over it.
async fn by_session(http: &mut HttpDoor, key: &str) -> Value {
    let session = http.post("/v1/sessions", &json!({ "functions": ["issueOf"], "ttlMs": 60_000 }), "").await;
    let (Some(id), Some(token)) = (session["executionId"].as_str(), session["token"].as_str()) else { return session };
    http.use_key(token);
    let answer = http.post(&format!("/rpc/{id}/issueOf"), &json!({ "args": [{ "number": 4 }] }), "").await;
    http.use_key(key);
    answer
}

/// Whether an answer has the number of the issue as its value, in the form of its door.
fn has_issue(answer: &Value) -> bool {
    let text = answer["result"]["content"][0]["text"].as_str();
    let reply = &answer["result"]["number"];
    answer["value"] == 4 || answer["result"]["structuredContent"]["value"] == 4 || text == Some("4") || *reply == 4
}

/// Whether the ledger of an answer has a call that was made.
fn has_calls(answer: &Value) -> bool {
    let calls = [&answer["calls"], &answer["result"]["structuredContent"]["calls"]];
    let report = report_of(answer.clone());
    let made =
        |calls: &Value| calls.as_array().is_some_and(|calls| calls.iter().any(|call| call["state"] != "not_sent"));
    calls.into_iter().any(made) || made(&report["calls"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_the_same_at_every_door() {
    let home = home_with(&configuration());
    let mut http = HttpDoor::start(Setting::Home(home.path())).await;
    let mut wrong = Vec::new();
    for key in &KEYS {
        let bearer = format!("{}-key", key.name);
        http.use_key(&bearer);
        let mut said = Vec::new();
        for (profile, call, is_open) in [
            ("chain", "demo.get_issue", key.calls_tool),
            ("chain", "issueOf", key.calls_function),
            ("snippet", "issueOf", key.calls_function),
        ] {
            let answers = answers(&http, profile, &program(call), None).await;
            said.extend(answers.into_iter().map(|(door, answer)| (format!("{call} at {door}"), answer, is_open)));
        }
        let one_call = json!({ "code": r#"{"tool": "demo.get_issue", "arguments": {"number": 4}}"# });
        let report = http.post("/v1/run", &one_call, "").await;
        let by_json = report["value"]["number"] == 4;
        if by_json != key.calls_tool {
            wrong.push(format!("{}: one call as JSON: {report}", key.name));
        }
        said.push(("issueOf by a session".to_owned(), by_session(&mut http, &bearer).await, key.calls_function));
        for (what, answer, is_open) in said {
            if has_issue(&answer) != is_open || (!is_open && has_calls(&answer)) {
                wrong.push(format!("{}: {what}: {answer}", key.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_result_is_read_by_its_caller_alone_at_every_door() {
    let home = home_with(&configuration());
    let mut http = HttpDoor::start(Setting::Home(home.path())).await;
    let code = "return Array.from({ length: 2000 }, (_, id) => ({ id, name: 'row ' + id }))";
    http.use_key("all-key");
    let kept = http.post("/v1/run", &json!({ "code": code, "maxOutputSize": 1000 }), "").await;
    let by_run = kept["output"]["resultId"].as_str().expect("a kept result").to_owned();
    let arguments = json!({ "code": code, "max_output_size": 1000 });
    let kept = McpHttp::new(&http).call("call_tool_chain", &arguments).await.to_string();
    let start = kept.find("res_").unwrap_or_else(|| panic!("a kept result: {kept}"));
    let by_chain =
        kept[start..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().expect("an id").to_owned();
    for id in [by_run, by_chain] {
        for (bearer, is_open) in [("all-key", true), ("no-functions-key", false)] {
            http.use_key(bearer);
            let mcp = McpHttp::new(&http);
            let answers = [
                http.get(&format!("/v1/results/{id}?path=[1999].name")).await,
                mcp.call("read_result", &json!({ "result_id": id, "path": "[1999].name" })).await,
                mcp.call("query_result", &json!({ "result_id": id, "code": "(data) => data[1999].name" })).await,
            ];
            for answer in answers {
                assert_eq!(answer.to_string().contains("row 1999"), is_open, "{bearer}, {id}: {answer}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_many_kept_results_removes_none_of_another_caller() {
    let mut config = configuration();
    config["toolgate"]["limits"] = json!({ "result_store": "1 MB" });
    let home = home_with(&config);
    let mut http = HttpDoor::start(Setting::Home(home.path())).await;
    let run = |length: usize| json!({ "code": format!("return 'x'.repeat({length})"), "maxOutputSize": 1000 });
    http.use_key("all-key");
    let kept = http.post("/v1/run", &run(20_000), "").await;
    let id = kept["output"]["resultId"].as_str().unwrap_or_else(|| panic!("a kept result: {kept}")).to_owned();
    http.use_key("no-backends-key");
    for _ in 0..6 {
        let kept = http.post("/v1/run", &run(300_000), "").await;
        assert!(kept["output"]["resultId"].is_string(), "{kept}");
    }
    http.use_key("all-key");
    let read = http.get(&format!("/v1/results/{id}")).await;
    assert!(read.to_string().contains("xxxx"), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_door_gives_a_program_more_time_than_is_configured() {
    let home = home_with(&configuration());
    let mut http = HttpDoor::start(Setting::Home(home.path())).await;
    http.use_key("all-key");
    for profile in ["chain", "snippet"] {
        for timeout in [None, Some(ASKED_MS)] {
            let since = Instant::now();
            for (door, answer) in answers(&http, profile, "for (;;);", timeout).await {
                let answer = answer.to_string();
                // A longer time is lowered with a warning, or refused.
                let is_over = answer.contains("TIMEOUT") || (timeout.is_some() && answer.contains("at most"));
                assert!(is_over, "{profile} at {door}: {answer}");
            }
            assert!(since.elapsed() < LATEST_END, "{profile}, {timeout:?}: {:?}", since.elapsed());
        }
    }
}
