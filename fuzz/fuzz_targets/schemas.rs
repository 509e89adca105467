//! Schemas of servers with arguments of programs: a JSON array of a schema and a value.
//!
//! Whatever both are, the check ends soon, its problems are few and short, and types can be written.

#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

/// Far above what a check takes; it runs beside others on a slow machine, with sanitizers.
const MAX_TIME: Duration = Duration::from_secs(5);

fuzz_target!(|text: &str| {
    let Ok(Value::Array(pair)) = serde_json::from_str(text) else { return };
    let [schema, arguments] = pair.as_slice() else { return };
    let raw = json!({ "name": "tool", "description": "x", "inputSchema": schema, "outputSchema": schema });
    let Some(tool) = Tool::from_raw(raw) else { return };
    let listing = Listing { name: "backend".into(), state: BackendState::Ready, tools: vec![tool], tags: Vec::new() };
    let begun = Instant::now();
    let catalog = Catalog::new(vec![listing]);
    let Some(found) = catalog.backend("backend").and_then(|backend| backend.tool("tool")) else { return };
    for problem in found.entry.check_arguments(arguments).into_iter().chain(found.entry.check_result(arguments)) {
        assert!(problem.message.len() < 64 << 10, "{} bytes", problem.message.len());
    }
    let _ = (found.entry.unchecked_because(), catalog.interface("backend.tool"));
    assert!(begun.elapsed() < MAX_TIME, "{:?}", begun.elapsed());
});
