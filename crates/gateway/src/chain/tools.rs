//! The catalog as the planner asks it.

use serde_json::Value;
use toolgate_plan::{ArgumentProblem, Parameters, Tools};

use crate::bridge::Access;
use crate::catalog::{Backend, Catalog};

/// The part of the catalog that one caller may use.
pub(super) struct CatalogTools<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) access: &'a Access,
}

impl CatalogTools<'_> {
    fn permitted(&self, backend: Option<&Backend>) -> Option<String> {
        backend.map(Backend::name).filter(|name| self.access.permits(name)).map(str::to_owned)
    }
}

impl Tools for CatalogTools<'_> {
    fn global(&self, name: &str) -> Option<String> {
        let index = self.catalog.backend_names().resolve_variable(name)?;
        self.permitted(self.catalog.backends().get(index))
    }

    fn backend(&self, name: &str) -> Option<String> {
        self.permitted(self.catalog.backend(name))
    }

    fn tool(&self, backend: &str, name: &str) -> Option<String> {
        Some(self.catalog.tool(backend, name)?.tool().name.clone())
    }

    fn backends(&self) -> Vec<String> {
        let permitted = self.catalog.backends().iter().filter(|it| self.access.permits(it.name()));
        permitted.map(|backend| backend.identifier().to_owned()).collect()
    }

    fn tools(&self, backend: &str) -> Vec<String> {
        let Some(backend) = self.catalog.backend(backend) else { return Vec::new() };
        backend.tools().iter().map(|entry| entry.identifier().to_owned()).collect()
    }

    fn parameters(&self, backend: &str, tool: &str) -> Option<Parameters> {
        let found = self.catalog.tool(backend, tool)?;
        if found.entry.unchecked_because().is_some() {
            return None;
        }
        let schema = found.tool().input_schema.as_object()?;
        let names = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        Some(Parameters {
            names: names.map(|names| names.keys().cloned().collect()).unwrap_or_default(),
            required: required.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            closed: schema.get("additionalProperties") == Some(&Value::Bool(false)),
        })
    }

    fn check_arguments(&self, backend: &str, tool: &str, arguments: &Value) -> Vec<ArgumentProblem> {
        let Some(found) = self.catalog.tool(backend, tool) else { return Vec::new() };
        let problems = found.entry.check_arguments(arguments);
        problems.into_iter().map(|it| ArgumentProblem { path: it.path, message: it.message }).collect()
    }
}
