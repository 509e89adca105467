//! The type check refuses a wrong program at every door, before its first call.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TOOLGATE;
use crate::client::{CommandLine, HttpDoor, McpHttp, McpStdio, Setting, report_of};
use crate::configured::home_with;

/// Writes first, and then reads a field that is not declared.
const WRONG: &str = "await demo.create_note({ name: 'a', text: 'b' });\nconst page = await demo.list_issues({ limit: 2 });\n\
                     return page.issues.map(i => i.titel);";

fn compiler() -> PathBuf {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/typescript/node_modules/typescript/bin/tsc");
    let named = std::env::var_os("TOOLGATE_TSC").map(PathBuf::from);
    named.into_iter().chain([installed]).find(|path| path.is_file()).expect("a TypeScript 7: `./check` installs one")
}

fn configuration() -> Value {
    json!({
        "mcpServers": { "demo": { "command": TOOLGATE, "args": ["demo"] } },
        "toolgate": {
            "cache": { "enabled": false },
            "engines": { "typescript": compiler().to_string_lossy() },
            // On a busy machine the checker takes longer to start than a run waits by default.
            "limits": { "type_check": "20s" },
        },
    })
}

/// The report of a run that outlives its request.
async fn by_durable_run(http: &HttpDoor, body: &Value) -> Value {
    let begun = http.post("/v1/runs", body, "").await;
    let Some(run) = begun["runId"].as_str() else { return begun };
    let path = format!("/v1/runs/{run}?wait=60");
    // An answer may also say that the status has changed.
    for _ in 0..5 {
        let mut shown = http.get(&path).await;
        if shown["status"] == "done" {
            return shown["report"].take();
        }
    }
    http.get(&path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_program_is_refused_at_every_door() {
    let home = home_with(&configuration());
    let setting = Setting::Home(home.path());
    let http = HttpDoor::start(setting).await;
    let mut stdio = McpStdio::start(setting).await;
    let arguments = json!({ "code": WRONG, "max_output_size": 200_000 });
    let body = json!({ "code": WRONG });
    let staged = json!({ "code": WRONG, "stage": true });
    let reports = [
        ("command line", CommandLine::report(setting, &["run", "-", "--json"], WRONG).await),
        ("MCP over stdio", report_of(stdio.call("call_tool_chain", &arguments).await)),
        ("MCP over HTTP", report_of(McpHttp::new(&http).call("call_tool_chain", &arguments).await)),
        ("POST /v1/run", http.post("/v1/run", &body, "").await),
        ("WebSocket", http.ask_by_socket(&body).await),
        ("POST /v1/runs", by_durable_run(&http, &body).await),
        ("POST /v1/run, staged", http.post("/v1/run", &staged, "").await),
        ("POST /v1/runs, staged", by_durable_run(&http, &staged).await),
    ];
    for (door, report) in reports {
        assert_eq!(report["code"], "INVALID_CODE", "{door}: {report}");
        assert_eq!(report["calls"], json!([]), "{door}: {report}");
        assert_eq!(report["line"], 3, "{door}: {report}");
    }
}
