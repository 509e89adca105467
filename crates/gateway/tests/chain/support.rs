//! A chain over an in-memory set of tools, and what a run of it shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokio::runtime::Runtime;
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, EngineBuilder, EngineChoice, IsolationMode, V8Settings};
use toolgate_run::{FixedEnvironment, RunReport, RunRequest, Runner};
use toolgate_wire::{Outcome, Profile};

use crate::deno::deno;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// An engine that specifications run on, with its name.
pub(crate) fn engines() -> [(&'static str, Engine); 3] {
    static PROCESS: LazyLock<Engine> = LazyLock::new(|| build(Engine::builder()));
    static THREAD: LazyLock<Engine> = LazyLock::new(|| build(Engine::builder().isolation(IsolationMode::Thread)));
    static V8: LazyLock<Engine> = LazyLock::new(|| {
        let settings = V8Settings { deno: Some(deno()), ahead: 2, ..V8Settings::default() };
        build(Engine::builder().v8(settings).engine(EngineChoice::V8))
    });
    [("process", PROCESS.clone()), ("thread", THREAD.clone()), ("v8", V8.clone())]
}

fn build(engine: EngineBuilder) -> Engine {
    let _inside = RUNTIME.enter();
    engine.build().expect("an engine")
}

/// Waits for it.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// A bridge over the tools of a scripted file.
pub(crate) fn bridge(tools: ToolScript) -> Arc<Bridge> {
    let bridge = Bridge::new(CatalogHandle::new(tools.catalog()));
    for (backend, provider) in tools.providers() {
        bridge.provide(backend, provider);
    }
    Arc::new(bridge)
}

/// A chain over scripted tools, on the engine that users have.
pub(crate) fn chain(tools: &Value) -> Runner {
    chain_on(engines()[0].1.clone(), tools)
}

pub(crate) fn chain_on(engine: Engine, tools: &Value) -> Runner {
    let tools = ToolScript::parse(&tools.to_string()).expect("a file of tools");
    Runner::new(engine, bridge(tools), Arc::new(FixedEnvironment::default()))
}

/// A request for this code.
pub(crate) fn asking(code: impl Into<String>) -> RunRequest {
    RunRequest::new(Profile::Chain, code)
}

/// Runs it to its end.
pub(crate) fn run(chain: &Runner, request: RunRequest) -> RunReport {
    block_on(chain.run(request))
}

/// The value that the code gives, as JSON text; its failure otherwise.
pub(crate) fn value(chain: &Runner, code: &str) -> String {
    match &run(chain, asking(code)).report.outcome {
        Outcome::Returned(value) => value.get().to_owned(),
        Outcome::Failed(failure) => format!("{failure}"),
    }
}

/// Everything that must not depend on the route: no times, and nothing about the engine.
pub(crate) fn shown(ran: &RunReport) -> String {
    let report = &ran.report;
    let mut text = match &report.outcome {
        Outcome::Returned(value) => format!("returned {}\n", value.get()),
        Outcome::Failed(failure) => {
            let at = failure.position.map(|at| format!("{}:{}", at.line, at.column));
            format!("failed {} at {at:?}, hint {:?}\n", failure, failure.hint)
        }
    };
    for call in &report.calls {
        let _ = writeln!(
            text,
            "call {} {:?}, {} bytes, {} bytes, read only {}, error {:?}",
            call.name(),
            call.state,
            call.request_bytes,
            call.reply_bytes,
            call.read_only,
            call.error
        );
    }
    let _ = writeln!(
        text,
        "safe to retry {}, logs {:?}, warnings {:?}",
        report.safe_to_retry(),
        report.logs,
        report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    text
}

/// The specifications of a folder under `specs/`, by file name.
pub(crate) fn specs(folder: &str) -> BTreeMap<String, Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs").join(folder);
    let files = std::fs::read_dir(&folder).expect("a folder of specifications");
    let specs: BTreeMap<_, _> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("text");
            let spec = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.file_stem().expect("a name").to_string_lossy().into_owned(), spec)
        })
        .collect();
    assert!(!specs.is_empty(), "no specifications in {}", folder.display());
    specs
}
