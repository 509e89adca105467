//! The check of a program's types against a thousand tools, by a process that is warm and by one that starts. Without a
//! TypeScript these rows say what is missing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use serde_json::json;
use toolgate_bridge::Bridge;
use toolgate_catalog::{BackendState, Catalog, CatalogHandle, Listing, Tool};
use toolgate_config::checked::TypeScript;
use toolgate_engine::{Engine, EngineWithRuntime, IsolationMode};
use toolgate_gateway::runtime::program_types;
use toolgate_run::{FixedEnvironment, RunRequest, Runner};
use toolgate_wire::Profile;

use super::meter::{Meter, Samples, micros};

/// How long a sample may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// One backend of a thousand tools, each with declared arguments and a declared result.
fn catalog() -> Catalog {
    let tools = (0..1_000).filter_map(|n| {
        Tool::from_raw(json!({
            "name": format!("list_things_{n}"),
            "inputSchema": { "type": "object", "properties": {
                "state": { "enum": ["open", "closed"] }, "limit": { "type": "integer" } } },
            "outputSchema": { "type": "object", "properties": {
                "total": { "type": "integer" },
                "things": { "type": "array", "items": { "type": "object", "properties": {
                    "id": { "type": "integer" }, "title": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } },
                    "owner": { "type": "object", "properties": { "name": { "type": "string" }, "email": { "type": "string" } } } } } } } },
        }))
    });
    let tools: Vec<Tool> = tools.collect();
    Catalog::new(vec![Listing { name: "store".into(), state: BackendState::Ready, tools, tags: Vec::new() }])
}

/// A program of ten lines with one wrong property; another text each time, so that no answer is remembered.
fn program(n: usize) -> RunRequest {
    let text = format!(
        "const page = await store.list_things_{}({{ state: 'open', limit: {n} }});\n\
         const rows = page.things.filter(thing => thing.id > {n});\n\
         const names = rows.map(thing => thing.owner.name);\n\
         const other = await store.list_things_1({{ limit: 5 }});\n\
         const tags = other.things.flatMap(thing => thing.tags);\n\
         let total = 0;\n\
         for (const thing of rows) total += thing.title.length;\n\
         console.log(total, tags.length);\n\
         const wrong = rows.map(thing => thing.titel);\n\
         return {{ names, wrong, total: page.total }};",
        n % 1_000
    );
    RunRequest::new(Profile::Chain, text)
}

fn runner(started: &EngineWithRuntime) -> anyhow::Result<Runner> {
    let types =
        program_types(&TypeScript::Found, CHECK_TIMEOUT, &started.engine).map_err(|missing| anyhow!("{missing}"))?;
    let environment = FixedEnvironment { types: Some(types), ..FixedEnvironment::default() };
    let bridge = Bridge::new(CatalogHandle::new(catalog()));
    Ok(Runner::new(started.engine.clone(), Arc::new(bridge), Arc::new(environment)))
}

fn engine() -> anyhow::Result<EngineWithRuntime> {
    Ok(EngineWithRuntime::start(Engine::builder().isolation(IsolationMode::Thread).workers_ahead(0))?)
}

/// One check, which must find the wrong property.
fn check(started: &EngineWithRuntime, runner: &Runner, n: usize) -> anyhow::Result<f64> {
    let request = program(n);
    let since = Instant::now();
    let found = started.wait(runner.check_types(&request, CHECK_TIMEOUT)).map_err(|failure| anyhow!("{failure}"))?;
    let took = micros(since.elapsed());
    ensure!(found.preflight.errors.len() == 1, "{} findings instead of one", found.preflight.errors.len());
    Ok(took)
}

/// With a process that has seen these declarations.
pub(super) fn warm(meter: &Meter) -> anyhow::Result<Samples> {
    let started = engine()?;
    let runner = runner(&started)?;
    let mut n = 0;
    check(&started, &runner, n)?;
    meter.sample_in_a_row(|| {
        n += 1;
        check(&started, &runner, n)
    })
}

/// With a process that is started for it.
pub(super) fn cold(meter: &Meter) -> anyhow::Result<Samples> {
    let started = engine()?;
    let mut n = 0;
    meter.sample(|| {
        n += 1;
        check(&started, &runner(&started)?, n)
    })
}
