//! Writes the ten hits of every query of LiveMCPBench as JSON, with all fields, as lines, and as
//! lines with learned results; `tests/tokens` counts them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_catalog::types::learned::LearnedTypes;
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

fn main() -> std::io::Result<()> {
    let file: Value = serde_json::from_str(include_str!("../tests/fixtures/livemcpbench.json"))?;
    let list = |key: &str| file.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut servers: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for tool in list("tools") {
        let described =
            json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["schema"] });
        servers
            .entry(tool["server"].as_str().unwrap_or_default().to_owned())
            .or_default()
            .extend(Tool::from_raw(described));
    }
    let listing = |(name, tools)| Listing { name, state: BackendState::Ready, tools, tags: Vec::new() };
    let catalog = Catalog::new(servers.into_iter().map(listing).collect());
    // The same list of records for every tool: one whose type just fits a line costs most.
    let mut learned = LearnedTypes::default();
    let result = json!([{ "id": 7, "title": "a", "state": "open", "created_at": "2026-01-31T12:00:00Z", "author": { "login": "a" } }]);
    for tool in catalog.tools() {
        for _ in 0..37 {
            let _ = learned.observe(tool.backend.name(), &tool.tool().name, &result.to_string());
        }
    }
    let answers = list("queries").filter_map(|query| query.get(0)?.as_str()).map(|query| {
        let hits = catalog.search(query, 10, None);
        let row = |hit: &toolgate_catalog::search::Hit| {
            json!({
                "tool": format!("{}.{}", hit.backend, hit.tool), "description": hit.description,
                "signature": hit.signature, "call": hit.call,
            })
        };
        let rows: Vec<Value> = hits.iter().map(row).collect();
        let lines: Vec<&str> = hits.iter().map(|hit| hit.line.as_str()).collect();
        let known = hits.iter().filter_map(|hit| Some(hit.line_with(catalog.tool(&hit.backend, &hit.tool)?, &learned)));
        let known: Vec<String> = known.collect();
        let rows = serde_json::to_string_pretty(&json!({ "tools": rows })).unwrap_or_default();
        json!({ "rows": rows, "lines": lines.join("\n"), "learned": known.join("\n") })
    });
    serde_json::to_writer(std::io::stdout(), &answers.collect::<Vec<Value>>())?;
    Ok(())
}
