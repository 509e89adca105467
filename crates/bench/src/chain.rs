//! From an agent's text to a dispatched call, and from a result to an answer.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use serde_json::{Map, Value, json};
use toolgate_bridge::{Answer, Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::{BackendState, Catalog, CatalogHandle, Listing, Tool};
use toolgate_engine::Engine;
use toolgate_output::{OutputSettings, shape};
use toolgate_run::{FixedEnvironment, Route, RunRequest, Runner};
use toolgate_wire::Profile;

use super::meter::{Meter, Samples, micros};
use toolgate_engine::EngineWithRuntime;

/// Twenty lines, as a model writes them.
const SCRIPT: &str = "\
// Finds the products of each category and notes the dearest.
interface Product {
  id: number;
  name: string;
  price: number;
}
const categories: string[] = ['tea', 'coffee', 'bread'];
const found = await Promise.all(categories.map((query) => backend_7.tool_3({ query, count: 10 })));
const products: Product[] = found.flat();
const dearest = products.reduce((a, b) => (a.price > b.price ? a : b));
for (const product of products) {
  if (product.price > 100) {
    console.log(`${product.name}: ${product.price}`);
  }
}
const note = await backend_9.tool_1({ query: `the dearest is ${dearest.name}` });
if (!note) {
  throw new Error('nothing was noted');
}
return { dearest: dearest.name, count: products.length };";

const ONE_CALL: &str = "const r = await backend_7.tool_3({ query: 'tea', count: 10 });\nreturn r;";
const DIRECT: &str = r#"{"tool": "backend_7.tool_3", "arguments": {"query": "tea", "count": 10}}"#;

pub(super) fn plan_script(meter: &Meter) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder().workers_ahead(0))?;
    let runner = Runner::new(started.engine.clone(), bridge(), Arc::new(FixedEnvironment::default()));
    let request = RunRequest::new(Profile::Chain, SCRIPT);
    meter.sample_in_a_row(|| {
        let since = Instant::now();
        let planned = runner.route(&request);
        let elapsed = since.elapsed();
        ensure!(black_box(planned) == Route::Script, "planned as something else");
        Ok(micros(elapsed))
    })
}

pub(super) fn one_call(meter: &Meter) -> anyhow::Result<Samples> {
    dispatched(meter, ONE_CALL, Route::OneCall)
}

pub(super) fn direct_json(meter: &Meter) -> anyhow::Result<Samples> {
    dispatched(meter, DIRECT, Route::Direct)
}

/// From the text to the call at its provider.
fn dispatched(meter: &Meter, code: &str, route: Route) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder().workers_ahead(0))?;
    let bridge = bridge();
    let (arrived, arrivals) = std::sync::mpsc::channel();
    bridge.provide("backend_7", Arc::new(Arrival(arrived)));
    let runner = Runner::new(started.engine.clone(), bridge, Arc::new(FixedEnvironment::default()));
    meter.sample_in_a_row(|| {
        let request = RunRequest::new(Profile::Chain, code);
        let since = Instant::now();
        let ran = started.wait(runner.run(request));
        ensure!(
            ran.route == route && ran.report.value().is_ok(),
            "the call took another path: {:?}",
            ran.report.outcome
        );
        Ok(micros(arrivals.recv()?.duration_since(since)))
    })
}

/// Tells when a call arrives.
struct Arrival(std::sync::mpsc::Sender<Instant>);

impl Provider for Arrival {
    fn call(&self, _: String, _: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let _ = self.0.send(Instant::now());
        Box::pin(std::future::ready(Ok(Answer::Value(Value::Null))))
    }
}

/// A thousand tools: 50 backends of 20.
fn bridge() -> Arc<Bridge> {
    let schema = json!({
        "type": "object",
        "properties": { "query": { "type": "string" }, "count": { "type": "integer" } },
        "required": ["query"],
        "additionalProperties": false,
    });
    let tool = |n| {
        Tool::from_raw(json!({ "name": format!("tool_{n}"), "description": "Finds things", "inputSchema": schema }))
    };
    let listing = |n| Listing {
        name: format!("backend_{n}"),
        state: BackendState::Ready,
        tools: (0..20).filter_map(tool).collect(),
        tags: Vec::new(),
    };
    Arc::new(Bridge::new(CatalogHandle::new(Catalog::new((0..50).map(listing).collect()))))
}

/// A megabyte of JSON that is no list of like things, so that every stage has work.
pub(super) fn pipeline(meter: &Meter) -> anyhow::Result<Samples> {
    let record = |n: usize| json!({ "id": n, "name": format!("record {n}"), "tags": ["a", "b", n], "text": "word ".repeat(n % 40) });
    let sections = (0..65).map(|s| (format!("section_{s}"), Value::from_iter((s * 100..s * 100 + 100).map(record))));
    let json = Value::Object(sections.collect::<Map<_, _>>()).to_string();
    ensure!(json.len() > 1_000_000, "only {} bytes", json.len());
    let settings = OutputSettings::default();
    meter.sample_in_a_row(|| {
        let since = Instant::now();
        let response = shape(&json, &settings, Some("record word"), &mut |kept| {
            black_box(kept.text.len());
            None
        });
        let elapsed = since.elapsed();
        ensure!(response.bytes_returned <= settings.max_output_size, "too long");
        // The text is a little longer than what the row is named for.
        Ok(micros(elapsed) * 1_048_576.0 / json.len() as f64)
    })
}
