//! An engine, a host with one backend, and runs that are recorded.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod postgres;
pub(crate) mod programs;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::wire::{CallId, Report};
use toolgate_engine::{Engine, Host, HostCall, HostError, HostFuture, IsolationMode, Request};
use toolgate_journal::recording::{MemoryRecorder, Record, RunFacts};
use toolgate_journal::replay::Replayable;

/// What `db.login` answers.
pub(crate) const TOKEN: &str = "tok_Zm9vYmFyYmF6cXV4";

/// The backend `db`: `find` only reads.
pub(crate) struct Db;

impl Host for Db {
    fn call(&self, call: HostCall) -> HostFuture {
        let args: Value = serde_json::from_str(&call.args).unwrap_or_default();
        let Target::Tool { tool, .. } = call.target else {
            return Box::pin(async { Err(HostError::not_sent("UNKNOWN", "no such function")) });
        };
        Box::pin(async move {
            match tool.as_str() {
                "find" => Ok(json!({ "found": args }).to_string()),
                "save" => Ok(json!({ "saved": args }).to_string()),
                "login" => Ok(json!({ "token": TOKEN }).to_string()),
                "slow" => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok("\"slow\"".to_owned())
                }
                "never" => std::future::pending().await,
                _ => Err(HostError::new("BROKEN", "it is broken")),
            }
        })
    }

    fn answer(&self, question: &Question) -> Option<String> {
        let name = "db";
        let tools = ["find", "save", "login", "slow", "never", "broken"];
        match question {
            Question::Global(asked) | Question::Backend(asked) if asked == name => {
                let tools: Vec<Value> = tools.iter().map(|tool| json!({ "name": tool, "id": tool })).collect();
                Some(json!({ "name": name, "id": name, "tools": tools }).to_string())
            }
            Question::Backends => Some(json!([{ "name": name, "id": name }]).to_string()),
            _ => None,
        }
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn is_read_only(&self, target: &Target) -> bool {
        matches!(target, Target::Tool { tool, .. } if tool == "find")
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

pub(crate) fn host() -> Arc<dyn Host> {
    Arc::new(Db)
}

/// Journals are about messages, not about isolation: a thread needs no worker program.
pub(crate) fn engine() -> Engine {
    Engine::builder().isolation(IsolationMode::Thread).build().expect("an engine")
}

pub(crate) fn facts(request: &Request) -> RunFacts {
    RunFacts {
        run: "run_1".into(),
        profile: request.profile,
        code: request.code.clone(),
        caller: String::new(),
        request: None,
    }
}

pub(crate) struct Run {
    pub(crate) report: Report,
    pub(crate) record: Record,
}

pub(crate) async fn record(engine: &Engine, request: Request) -> Run {
    let recorder = MemoryRecorder::new(facts(&request));
    let report = engine.run(Request { host: host(), recorder: Some(recorder.clone()), ..request }).await;
    let record = recorder.finish(&serde_json::to_string(&report).expect("JSON"));
    Run { report, record }
}

pub(crate) async fn run_again(engine: &Engine, replayable: Replayable) -> Report {
    let Replayable { header, code, replay, .. } = replayable;
    engine.run(Request { replay: Some(Arc::new(replay)), ..Request::new(header.profile, code) }).await
}

/// A report without what is measured.
pub(crate) fn stable(report: &Report) -> Value {
    let mut shown = serde_json::to_value(report).expect("JSON");
    let fields = shown.as_object_mut().expect("object");
    fields.remove("executionMs");
    fields.remove("usage");
    for call in fields.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        // What is open at the end has no state of its own yet.
        call.as_object_mut().expect("object").remove("ms");
    }
    shown
}
