//! The catalog as the planner asks it.

use serde_json::Value;
use toolgate_plan::{ArgumentFault, Foreseen, Parameters, Tools};
use toolgate_policy::{Action, Policy};

use super::Environment;
use super::durable::{CallKeys, filled_argument, with_sample_key};
use toolgate_bridge::{self as bridge, ScopedCatalog, is_annotated_read_only, unready};
use toolgate_catalog::{Backend, BackendState, ToolRef, types};
use toolgate_functions::Registry;

/// What a program of one caller can reach.
#[derive(Clone, Copy)]
pub(super) struct Reachable<'a> {
    pub(super) view: ScopedCatalog<'a>,
    pub(super) functions: &'a Registry,
    pub(super) policy: &'a Policy,
    /// Who asks.
    pub(super) caller: &'a str,
    pub(super) environment: &'a dyn Environment,
    /// Of a durable run: keys that are filled in where the program leaves them out.
    pub(super) keys: Option<&'a CallKeys>,
}

impl Reachable<'_> {
    /// A host function, or `api`, which has all of them, hides a backend of its name.
    fn is_function(&self, name: &str) -> bool {
        let names = self.functions.names();
        (name == "api" && !names.is_empty()) || names.iter().any(|function| function == name)
    }

    /// The keys that calls of this tool get: reads have none.
    fn keys_of(&self, tool: ToolRef<'_>) -> Option<&CallKeys> {
        self.keys.filter(|_| !is_annotated_read_only(tool))
    }
}

impl Tools for Reachable<'_> {
    fn global(&self, name: &str) -> Option<String> {
        if self.is_function(name) { None } else { self.view.variable(name).map(owned_name) }
    }

    fn backend(&self, name: &str) -> Option<String> {
        self.view.backend(name).map(owned_name)
    }

    fn tool(&self, backend: &str, name: &str) -> Option<String> {
        Some(self.view.tool(backend, name)?.tool().name.clone())
    }

    fn backends(&self) -> Vec<String> {
        self.view.backends().map(|backend| backend.identifier().to_owned()).collect()
    }

    fn tools(&self, backend: &str) -> Vec<String> {
        let Some(backend) = self.view.backend(backend) else { return Vec::new() };
        self.view.tools_of(backend).map(|entry| entry.identifier().to_owned()).collect()
    }

    fn parameters(&self, backend: &str, tool: &str) -> Option<Parameters> {
        let found = self.view.tool(backend, tool)?;
        if found.entry.unchecked_because().is_some() {
            return None;
        }
        let schema = found.tool().input_schema().as_object()?;
        let names = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let filled = self.keys_of(found).and_then(|keys| filled_argument(found.tool().input_schema(), keys, |_| false));
        Some(Parameters {
            names: names.map(|names| names.keys().cloned().collect()).unwrap_or_default(),
            required: required.filter(|name| Some(*name) != filled).map(str::to_owned).collect(),
            closed: schema.get("additionalProperties") == Some(&Value::Bool(false)),
        })
    }

    fn check_arguments(&self, backend: &str, tool: &str, arguments: &Value) -> Vec<ArgumentFault> {
        let Some(found) = self.view.tool(backend, tool) else { return Vec::new() };
        let keys = self.keys_of(found);
        let filled = keys.and_then(|keys| with_sample_key(found.tool().input_schema(), keys, arguments));
        found.entry.check_arguments(filled.as_ref().unwrap_or(arguments)).into_iter().map(without_place).collect()
    }

    fn result_keys(&self, backend: &str, tool: &str, path: &[&str]) -> Option<Vec<String>> {
        let found = self.view.tool(backend, tool)?;
        if types::declares_result(found.tool()) {
            return declared_keys(types::result_schema(found.tool())?, path);
        }
        let learned = self.environment.learned()?.result_type(found.backend.name(), &found.tool().name)?;
        Some(learned.keys_at(path)?.into_iter().map(str::to_owned).collect())
    }

    fn foresee(&self, backend: &str, tool: &str, arguments: Option<&Value>) -> Foreseen {
        if self.policy.allows_everything() {
            return Foreseen::Free;
        }
        let Some(found) = self.view.tool(backend, tool) else { return Foreseen::Free };
        let decision = bridge::foresee(self.policy, found, self.caller, arguments);
        match decision.map(|decision| (decision.action, decision.reason())) {
            Some((Action::Deny, reason)) => Foreseen::Denied(reason),
            Some((Action::Ask, reason)) => Foreseen::Asked(reason),
            Some((Action::Allow, _)) | None => Foreseen::Free,
        }
    }

    fn functions(&self) -> Vec<String> {
        self.functions.names()
    }

    fn unready(&self, backend: &str) -> Option<String> {
        let backend = self.view.backend(backend)?;
        (*backend.state() != BackendState::Ready).then(|| unready(backend.name(), None, backend.state()))
    }
}

/// The keys that a schema names for the objects under a path of keys; `None` where it leaves that open.
fn declared_keys(schema: &Value, path: &[&str]) -> Option<Vec<String>> {
    if let Some(items) = schema.get("items") {
        return declared_keys(items, path);
    }
    let properties = schema.get("properties")?.as_object()?;
    match path.split_first() {
        None => Some(properties.keys().cloned().collect()),
        Some((key, rest)) => declared_keys(properties.get(*key)?, rest),
    }
}

fn owned_name(backend: &Backend) -> String {
    backend.name().to_owned()
}

/// The planner begins its own sentence with the place.
fn without_place(problem: toolgate_catalog::ArgumentProblem) -> ArgumentFault {
    ArgumentFault { message: problem.predicate, path: problem.path }
}
