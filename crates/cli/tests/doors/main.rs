//! One run path: the same program with the same tools and caller gives the same report at every door.
//!
//! Every program runs through the command line, MCP over stdio and over HTTP, `POST /v1/run`, the WebSocket and the Rust
//! API, each over the demo server. Reports must be equal but for ids, times and what was measured.

mod client;
mod configured;
mod keys;
mod late;
mod programs;
mod types;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_config::text::{Format, Source};
use toolgate_config::{Env, check};
use toolgate_engine::WorkerCommand;
use toolgate_gateway::runtime::{Gateway, engine_builder};
use toolgate_run::RunRequest;
use toolgate_wire::{LimitRequest, Profile};

use client::{CommandLine, HttpDoor, McpHttp, McpStdio, Setting};
use programs::{PROGRAMS, Program};

const TOOLGATE: &str = env!("CARGO_BIN_EXE_toolgate");

/// The report without what differs from run to run.
fn comparable(mut report: Value) -> Value {
    let Some(fields) = report.as_object_mut() else { return report };
    let counts = ["callCount", "stdoutCount", "stderrCount", "warningCount"];
    // Doors that have it for existing clients have the value in it.
    if let Some(result) = fields.remove("result") {
        assert_eq!(Some(&result), fields.get("value"), "{fields:?}");
    }
    // Where a program was when its time was up is not always known.
    if fields.get("code").is_some_and(|code| code == "TIMEOUT") {
        fields.remove("line");
        fields.remove("column");
    }
    for key in ["executionId", "executionMs", "usage", "output"].into_iter().chain(counts) {
        fields.remove(key);
    }
    // `_meta` lists the first hundred of each.
    let [stdout, stderr] = ["stdout", "stderr"].map(|stream| format!("/logs/{stream}"));
    for list in ["/calls", "/warnings", &stdout, &stderr] {
        if let Some(entries) = report.pointer_mut(list).and_then(Value::as_array_mut) {
            entries.truncate(100);
        }
    }
    let Some(fields) = report.as_object_mut() else { return report };
    for call in fields.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        call.as_object_mut().map(|call| call.remove("ms"));
    }
    report
}

/// The same without the value, as `_meta` has it.
fn without_value(mut report: Value) -> Value {
    report.as_object_mut().map(|fields| fields.remove("value"));
    report
}

async fn gateway() -> Arc<Gateway> {
    let text = json!({ "mcpServers": { "demo": { "command": TOOLGATE, "args": ["demo"] } }, "toolgate": { "cache": { "enabled": false } } });
    gateway_of(&text, "demo.json".as_ref()).await
}

async fn gateway_of(text: &Value, file: &Path) -> Arc<Gateway> {
    let source = Source::new(file, Format::Json, text.to_string());
    let config = check(source, &Env::of_process()).expect("a configuration");
    let engine = engine_builder(&config.settings)
        .worker_command(WorkerCommand::Program(TOOLGATE.into()))
        .build()
        .expect("an engine");
    Gateway::start(config, engine)
}

async fn by_the_api(gateway: &Gateway, program: &Program) -> Value {
    let limits = LimitRequest { wall: program.timeout(), ..LimitRequest::default() };
    let request = RunRequest { limits, ..RunRequest::new(Profile::Chain, program.code) };
    serde_json::to_value(gateway.runner().run(request).await).expect("a report")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_gives_the_same_report() {
    assert!(PROGRAMS.len() >= 60, "{} programs", PROGRAMS.len());
    let gateway = gateway().await;
    let http = HttpDoor::start(Setting::Demo).await;
    let mut stdio = McpStdio::start(Setting::Demo).await;
    let mcp = McpHttp::new(&http);
    let mut wrong = Vec::new();
    for program in PROGRAMS {
        let expected = comparable(by_the_api(&gateway, program).await);
        let mut compare = |door: &str, found: Value, expected: &Value| {
            if found != *expected {
                wrong.push(format!("{door}:\n{}\n  {found}\n  {expected} (API)", program.code));
            }
        };
        compare("command line", comparable(CommandLine::run(program).await), &expected);
        compare("POST /v1/run", comparable(http.run(program).await), &expected);
        compare("WebSocket", comparable(http.run_by_socket(program).await), &expected);
        let shown = without_value(expected.clone());
        compare("MCP over stdio", comparable(stdio.run(program).await), &shown);
        compare("MCP over HTTP", comparable(mcp.run(program).await), &shown);
    }
    gateway.shut_down().await;
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
}
