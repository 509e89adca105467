//! The tools and steps of LiveMCPBench (Apache-2.0, github.com/icip-cas/LiveMCPBench), never to be tuned on.
//!
//! The steps of its tasks are paired with tools by position, so some pairs are doubtful; a rate is comparable only with
//! other rates on the same file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};

#[derive(Deserialize)]
struct File {
    tools: Vec<Described>,
    queries: Vec<(String, Vec<String>)>,
}

#[derive(Deserialize)]
struct Described {
    server: String,
    name: String,
    description: String,
    schema: Value,
}

/// The catalog of all its servers, and its queries with the names of the tools that are right.
pub(crate) fn read() -> (Catalog, Vec<(String, Vec<String>)>) {
    let (listings, queries) = listings();
    (Catalog::new(listings), queries)
}

/// The catalog of all its servers and of one more.
pub(crate) fn with(server: Listing) -> Catalog {
    let (mut listings, _) = listings();
    listings.push(server);
    Catalog::new(listings)
}

fn listings() -> (Vec<Listing>, Vec<(String, Vec<String>)>) {
    let file: File = serde_json::from_str(include_str!("../fixtures/livemcpbench.json")).unwrap();
    let mut servers: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for Described { server, name, description, schema } in file.tools {
        let tool = json!({ "name": name, "description": description, "inputSchema": schema });
        servers.entry(server).or_default().extend(Tool::from_raw(tool));
    }
    let listing = |(name, tools)| Listing { name, state: BackendState::Ready, tools, tags: Vec::new() };
    (servers.into_iter().map(listing).collect(), file.queries)
}
