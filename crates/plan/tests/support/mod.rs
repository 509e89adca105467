//! A small catalog for tests.

use serde_json::Value;
use toolgate_plan::{ArgumentFault, Parameters, Tools};

pub(crate) struct Catalog;

/// Backend: original name, global name, tools.
const BACKENDS: [(&str, &str, &[&str]); 5] = [
    ("exa", "exa", &["web_search", "fetch_page", "then", "constructor"]),
    ("db", "db", &["find", "read-file"]),
    ("my-backend", "my_backend", &["my-tool"]),
    ("has.dots", "has_dots", &["t"]),
    ("Math", "Math_", &["max"]),
];

fn sanitised(name: &str) -> String {
    name.replace(['-', '.'], "_")
}

impl Tools for Catalog {
    fn global(&self, name: &str) -> Option<String> {
        BACKENDS.iter().find(|(_, global, _)| *global == name).map(|(backend, ..)| (*backend).to_owned())
    }

    fn backend(&self, name: &str) -> Option<String> {
        let found = BACKENDS.iter().find(|(backend, global, _)| *backend == name || *global == name);
        found.map(|(backend, ..)| (*backend).to_owned())
    }

    fn tool(&self, backend: &str, name: &str) -> Option<String> {
        let (.., tools) = BACKENDS.iter().find(|(one, ..)| *one == backend)?;
        tools.iter().find(|tool| **tool == name || sanitised(tool) == name).map(|tool| (*tool).to_owned())
    }

    fn backends(&self) -> Vec<String> {
        BACKENDS.iter().map(|(_, global, _)| (*global).to_owned()).collect()
    }

    fn tools(&self, backend: &str) -> Vec<String> {
        let found = BACKENDS.iter().find(|(one, ..)| *one == backend);
        found.map(|(.., tools)| tools.iter().map(|tool| sanitised(tool)).collect()).unwrap_or_default()
    }

    fn parameters(&self, _: &str, tool: &str) -> Option<Parameters> {
        (tool == "web_search").then(|| Parameters {
            names: vec!["query".into(), "count".into()],
            required: vec!["query".into()],
            closed: true,
        })
    }

    /// `web_search` takes `{query: string, count?: number}`; the others take anything.
    fn check_arguments(&self, _: &str, tool: &str, arguments: &Value) -> Vec<ArgumentFault> {
        let mut problems = Vec::new();
        let mut problem = |path: &str, message: &str| {
            problems.push(ArgumentFault { path: path.into(), message: message.into() });
        };
        if tool != "web_search" {
            return problems;
        }
        let Some(object) = arguments.as_object() else {
            problem("", "must be an object");
            return problems;
        };
        match object.get("query") {
            None => problem("query", "is required"),
            Some(Value::String(_)) => {}
            Some(_) => problem("query", "must be a string"),
        }
        if object.get("count").is_some_and(|count| !count.is_number()) {
            problem("count", "must be a number");
        }
        for key in object.keys().filter(|key| !["query", "count"].contains(&key.as_str())) {
            problem(key, "is not expected");
        }
        problems
    }
}
