//! Validates the configured host functions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value as Json;

use super::backends::headers;
use super::checker::Checker;
use super::parts::FilePart;
use crate::raw::{self, Located};
use crate::values::{BackendName, Endpoint, FunctionName, Method, Secret};

/// A configured host function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// The endpoint or tool that it calls.
    pub target: FunctionTarget,
    /// Description for the model.
    pub description: Option<String>,
    /// A valid JSON Schema of its argument.
    pub schema: Option<Json>,
    /// A valid JSON Schema of its result.
    pub returns: Option<Json>,
    /// What is declared of its effect.
    pub effect: FunctionEffect,
    /// Timeout of a call.
    pub timeout: Duration,
}

/// What is declared of the effect of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionEffect {
    /// Nothing.
    Unknown,
    /// A call may be made again with the same arguments.
    Idempotent,
    /// A call changes nothing.
    ReadOnly,
}

/// The target of a configured function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionTarget {
    /// An HTTP endpoint.
    Http {
        /// Its URL.
        url: Endpoint,
        /// The HTTP method.
        method: Method,
        /// Headers of the request.
        headers: Vec<(String, Secret)>,
    },
    /// A tool of a configured backend.
    Tool {
        /// The backend.
        backend: BackendName,
        /// The tool's original name.
        tool: String,
    },
}

/// Checks all functions of a file. Those with problems are left out later, by their part of the file.
pub(super) fn check(
    checker: &mut Checker<'_>,
    toolgate: &raw::Toolgate,
    backends: &BTreeSet<BackendName>,
    timeout: Duration,
) -> BTreeMap<FunctionName, Function> {
    let mut functions = BTreeMap::new();
    let Some(Located { value: raw::Table(rows, unreadable), .. }) = &toolgate.functions else { return functions };
    for name in rows.iter().map(|(name, _)| name).chain(unreadable) {
        checker.parts.add(&name.place, FilePart::Function(name.value.clone()));
    }
    for (name, raw) in rows {
        let checked = function(checker, name, raw, backends, timeout);
        match (FunctionName::new(&name.value), checked) {
            (Err(message), _) => checker.wrong(&name.place, message, "choose another name"),
            (Ok(name), Some(function)) => {
                functions.insert(name, function);
            }
            (Ok(_), None) => {}
        }
    }
    functions
}

fn function(
    checker: &mut Checker<'_>,
    name: &Located<String>,
    raw: &Located<raw::Function>,
    backends: &BTreeSet<BackendName>,
    timeout: Duration,
) -> Option<Function> {
    let raw = &raw.value;
    let target = target(checker, name, raw, backends);
    let schema = raw.schema.as_ref().and_then(|schema| json_schema(checker, schema));
    let returns = raw.returns.as_ref().and_then(|schema| json_schema(checker, schema));
    let effect = match (super::flag(&raw.read_only, false), super::flag(&raw.idempotent, false)) {
        (true, _) => FunctionEffect::ReadOnly,
        (false, true) => FunctionEffect::Idempotent,
        (false, false) => FunctionEffect::Unknown,
    };
    let timeout = checker.period(&raw.timeout).unwrap_or(timeout);
    let description = checker.get(&raw.description);
    Some(Function { target: target?, description, schema, returns, effect, timeout })
}

fn target(
    checker: &mut Checker<'_>,
    name: &Located<String>,
    raw: &raw::Function,
    backends: &BTreeSet<BackendName>,
) -> Option<FunctionTarget> {
    match (&raw.url, &raw.tool) {
        (Some(url), None) => {
            let headers = headers(checker, &raw.headers);
            let method = checker.get(&raw.method).unwrap_or(Method::Post);
            let url = checker.parse(url)?;
            checker.secrets.add_url(url.url());
            Some(FunctionTarget::Http { url, method, headers })
        }
        (None, Some(tool)) => {
            let split = checker.parse(tool)?.split(backends);
            let Some((backend, tool)) = split else {
                checker.wrong(
                    &tool.place,
                    "the server of this tool is not in mcpServers",
                    "write the tool as server.tool",
                );
                return None;
            };
            Some(FunctionTarget::Tool { backend: backend.clone(), tool })
        }
        (Some(_), Some(_)) => {
            checker.wrong(&name.place, "the function has both a url and a tool", "remove one of them");
            None
        }
        (None, None) => {
            checker.wrong(&name.place, "the function has neither a url nor a tool", "add one of them");
            None
        }
    }
}

fn json_schema(checker: &mut Checker<'_>, schema: &Located<raw::RawJson>) -> Option<Json> {
    let json = &schema.value.0;
    if !json.is_object() {
        checker.wrong(&schema.place, "must be an object: a JSON Schema", "");
        return None;
    }
    match jsonschema::validator_for(json) {
        Ok(_) => Some(json.clone()),
        Err(error) => {
            checker.wrong(&schema.place, format!("invalid JSON Schema: {error}"), "");
            None
        }
    }
}
