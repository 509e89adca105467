//! A server whose start failed, and of which nothing is known, is started again by a call at any door; that call waits for it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::TOOLGATE;
use crate::client::{HttpDoor, McpHttp, Setting};
use crate::configured::home_with;

/// Time between two calls: a server is started again at most every few seconds.
const CALL_INTERVAL: Duration = Duration::from_millis(100);
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A server for each door.
const DOORS: [&str; 7] = ["run", "socket", "chain", "json", "direct", "snippet", "rpc"];

/// What a call of a tool gave at a door.
async fn ask(http: &mut HttpDoor, door: &str) -> Value {
    let code = format!("const name = 'get_' + 'issue'; return (await late_{door}[name]({{ number: 4 }})).number");
    let mcp = McpHttp::new(http);
    match door {
        "run" => http.post("/v1/run", &json!({ "code": code }), "").await["value"].take(),
        "socket" => http.ask_by_socket(&json!({ "code": code })).await["value"].take(),
        "chain" => text_of(&mcp.call("call_tool_chain", &json!({ "code": code })).await),
        "json" => {
            let call = json!({ "tool": format!("late_{door}.get_issue"), "arguments": { "number": 4 } });
            let answer = text_of(&mcp.call("call_tool_chain", &json!({ "code": call.to_string() })).await);
            answer["number"].clone()
        }
        "snippet" => {
            let code = "return (await snippetIssue({ number: 4 })).number";
            mcp.call("run_code", &json!({ "code": code, "timeout_ms": 5000 })).await["result"]["structuredContent"]["value"].take()
        }
        "direct" => {
            let answer = mcp.direct(&format!("late_{door}__get_issue"), &json!({ "number": 4 })).await;
            answer["result"]["structuredContent"]["number"].clone()
        }
        "rpc" => {
            let opened = http.post("/v1/sessions", &json!({ "functions": ["rpcIssue"] }), "").await;
            let text = |key: &str| opened[key].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
            let own = http.use_key(&text("token"));
            let path = format!("/rpc/{}/rpcIssue", text("executionId"));
            let answer = http.post(&path, &json!({ "args": [{ "number": 4 }] }), "").await;
            http.use_key(&own);
            answer["result"]["number"].clone()
        }
        _ => unreachable!("no such door"),
    }
}

fn text_of(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap_or_default()
}

async fn state(http: &HttpDoor, name: &str) -> Value {
    let shown = http.get("/v1/backends").await;
    let mut rows = shown["backends"].as_array().expect("rows").iter();
    rows.find(|row| row["name"] == name).map(|row| row["state"].clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_the_failed_server_that_it_starts_again_at_every_door() {
    let programs = tempfile::tempdir().expect("a folder");
    let name = |door: &str| format!("late_{door}");
    let server = |door: &str| json!({ "command": programs.path().join(name(door)), "args": ["demo"] });
    let servers: serde_json::Map<_, _> = DOORS.iter().map(|door| (name(door), server(door))).collect();
    let functions = json!({
        "snippetIssue": { "tool": "late_snippet.get_issue" }, "rpcIssue": { "tool": "late_rpc.get_issue" },
    });
    let home = home_with(&json!({ "mcpServers": servers, "toolgate": { "functions": functions } }));
    let mut http = HttpDoor::start(Setting::Home(home.path())).await;
    let all = async {
        for door in DOORS {
            while state(&http, &name(door)).await != "failed" {
                tokio::time::sleep(CALL_INTERVAL).await;
            }
            std::os::unix::fs::symlink(TOOLGATE, programs.path().join(name(door))).expect("a link");
        }
        for door in DOORS {
            let mut answer = ask(&mut http, door).await;
            while answer != 4 {
                // The call that starts it again is the one that is answered. A snippet has less time than a start may take.
                let state = state(&http, &name(door)).await;
                assert!(state == "failed" || door == "snippet", "{door}: {state}, {answer}");
                tokio::time::sleep(CALL_INTERVAL).await;
                answer = ask(&mut http, door).await;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, all).await.expect("in time");
}
