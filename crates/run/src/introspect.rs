//! Answers a text that only asks what tools there are.

use serde_json::{Map, Value};
use toolgate_plan::Query;

use toolgate_bridge::ScopedCatalog;
use toolgate_catalog::Backend;
use toolgate_functions::Registry;

/// The JSON text that the same program would return from the engine.
pub(super) fn answer(query: &Query, tools: ScopedCatalog<'_>, functions: &Registry) -> String {
    let value = match query {
        Query::All => Value::Object(all(tools, functions)),
        Query::Backend(backend) => tools.backend(backend).map_or(Value::Null, |it| interfaces(tools, it)),
        Query::Tool { backend, tool } => interface(tools, backend, tool),
        Query::InputSchema { backend, tool } => interface(tools, backend, tool)["input_schema"].clone(),
        Query::Find(name) => {
            let of_function = || functions.get(name).map(|function| function.interface());
            tools.interface(name).or_else(of_function).unwrap_or(Value::Null)
        }
    };
    toolgate_json::stringify(&value)
}

/// Backends, then host functions under their own names; where both have a name, it is the backend's.
fn all(tools: ScopedCatalog<'_>, functions: &Registry) -> Map<String, Value> {
    let mut all: Map<_, _> = tools.backends().map(|it| (it.identifier().to_owned(), interfaces(tools, it))).collect();
    for function in functions.iter() {
        let (first, rest) = match function.name().as_str().split_once('.') {
            Some((group, name)) => (group, Some(name)),
            None => (function.name().as_str(), None),
        };
        if tools.backend(first).is_some() {
            continue;
        }
        match rest {
            None => drop(all.insert(first.to_owned(), function.interface())),
            Some(name) => all.entry(first).or_insert_with(|| Value::Object(Map::new()))[name] = function.interface(),
        }
    }
    all
}

fn interface(tools: ScopedCatalog<'_>, backend: &str, tool: &str) -> Value {
    tools.tool(backend, tool).map_or(Value::Null, |found| found.interface())
}

fn interfaces<'a>(tools: ScopedCatalog<'a>, backend: &'a Backend) -> Value {
    let named = tools.tools_of(backend).filter_map(|entry| {
        let found = backend.tool(&entry.tool().name)?;
        Some((entry.identifier().to_owned(), found.interface()))
    });
    Value::Object(named.collect::<Map<_, _>>())
}
