//! A search for the tools of a task, at a thousand and at ten thousand tools.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use serde_json::json;
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

use super::meter::{Meter, Samples, micros};

/// Tasks of different length: known words, words that no tool has, a misspelt one, two steps.
const TASKS: &[&str] = &[
    "create an invoice for a customer",
    "which deployments failed in the last hour",
    "remove the webhook that nobody uses any more",
    "find every contract that Alice signed in March and send her a reminder",
    "updaet the shiping address of an order",
];

const VERBS: &[&str] = &["create", "get", "list", "update", "delete", "search", "export", "archive", "assign", "count"];

const RESOURCES: &[&str] = &[
    "invoice",
    "deployment",
    "webhook",
    "contract",
    "order",
    "customer",
    "ticket",
    "calendar event",
    "message",
    "file",
    "branch",
    "pull request",
    "dashboard",
    "alert",
    "backup",
    "certificate",
    "coupon",
    "survey",
    "playlist",
    "shipment",
];

const QUALITIES: &[&str] = &["draft", "shared", "archived", "public", "recurring", "nested", "signed", "pending"];

/// `count` tools of backends of 50 tools each, every one with a name and a description of its own.
fn catalog(count: usize) -> Catalog {
    let listing = |backend: usize| {
        let tools = (0..50).filter_map(|n| {
            let at = backend * 50 + n;
            let verb = VERBS.get(at % VERBS.len())?;
            let resource = RESOURCES.get(at / VERBS.len() % RESOURCES.len())?;
            let quality = QUALITIES.get(at / 200 % QUALITIES.len())?;
            let name = format!("{verb}_{quality}_{}_{}", resource.replace(' ', "_"), at / 1_600);
            Tool::from_raw(json!({
                "name": name,
                "description": format!("{verb} a {quality} {resource} of workspace {backend}. Returns the {resource} with its \
                    owner, its state and the time of its last change; fails if the caller may not see it."),
                "inputSchema": { "type": "object", "required": ["id"], "properties": {
                    "id": { "type": "string" }, "limit": { "type": "integer", "default": 20 },
                    "fields": { "type": "array", "items": { "type": "string" } } } },
            }))
        });
        let name = format!("service_{backend}");
        Listing { name, state: BackendState::Ready, tools: tools.collect(), tags: Vec::new() }
    };
    Catalog::new((0..count / 50).map(listing).collect())
}

/// Ten hits for a task, after the index is built.
pub(super) fn measure(meter: &Meter, tools: usize) -> anyhow::Result<Samples> {
    let catalog = catalog(tools);
    ensure!(catalog.tool_count() == tools, "{} tools instead of {tools}", catalog.tool_count());
    catalog.prepare_search();
    let mut tasks = TASKS.iter().cycle();
    meter.sample_in_a_row(|| {
        let task = tasks.next().copied().unwrap_or_default();
        let since = Instant::now();
        let hits = black_box(catalog.search(task, 10, None));
        let elapsed = since.elapsed();
        ensure!(hits.len() == 10, "{} hits for {task:?}", hits.len());
        Ok(micros(elapsed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_and_tasks_find_tools() {
        let catalog = catalog(1_000);
        let names: std::collections::BTreeSet<&str> = catalog.tools().map(|tool| tool.tool().name.as_str()).collect();
        assert_eq!((catalog.tool_count(), names.len()), (1_000, 1_000));
        let hits = catalog.search("create an invoice for a customer", 10, None);
        assert!(hits.iter().any(|hit| hit.tool.starts_with("create_") && hit.tool.contains("invoice")));
    }
}
