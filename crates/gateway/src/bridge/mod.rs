//! The one way from a program to a tool.
//!
//! Whatever wants a tool called, a script, a short cut or a pass-through client, comes through
//! [`Bridge::call`]: the same look-up, policy, argument check and accounting for all. A tool that
//! a caller may not use looks to it as if it did not exist.
//!
//! # Layout
//! - `provider`: what stands behind a backend's name
//! - `mcp`, `scripted`: providers: a real MCP server, a scripted set of tools
//! - `host`: the bridge as a running program sees it

mod host;
mod mcp;
mod provider;
pub mod scripted;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};
use toolgate_engine::HostError;
use toolgate_wire::CallState;

use crate::catalog::{ArgumentProblem, BackendState, Catalog, CatalogHandle, Misspelt};

pub use host::RunHost;
pub use mcp::McpProvider;
pub use provider::{Answer, Asked, Provider, ProviderFuture};

/// Longest list of argument problems in one message.
const SHOWN_PROBLEMS: usize = 5;

/// Tools by name, and who answers for them.
pub struct Bridge {
    catalog: CatalogHandle,
    providers: RwLock<HashMap<String, Arc<dyn Provider>>>,
}

/// Which backends a caller may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// All of them.
    #[default]
    All,
    /// These, by their own names.
    Only(Vec<String>),
}

impl Access {
    /// Whether this backend may be used.
    pub fn permits(&self, backend: &str) -> bool {
        match self {
            Access::All => true,
            Access::Only(names) => names.iter().any(|name| name == backend),
        }
    }
}

impl Bridge {
    /// A bridge over a catalog that others keep up to date.
    pub fn new(catalog: CatalogHandle) -> Self {
        Bridge { catalog, providers: RwLock::default() }
    }

    /// What tools there are now.
    pub fn catalog(&self) -> Catalog {
        self.catalog.load()
    }

    /// The catalog's owner handle.
    pub fn catalog_handle(&self) -> &CatalogHandle {
        &self.catalog
    }

    /// Puts a provider behind a backend's own name, in place of an earlier one.
    pub fn provide(&self, backend: impl Into<String>, provider: Arc<dyn Provider>) {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).insert(backend.into(), provider);
    }

    /// Takes the provider away.
    pub fn withdraw(&self, backend: &str) {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).remove(backend);
    }

    /// Calls a tool, by any spelling of its names.
    pub async fn call(
        &self,
        backend: &str,
        tool: &str,
        arguments: Map<String, Value>,
        asked: Asked,
    ) -> Result<Answer, HostError> {
        let (provider, tool) = self.admit(backend, tool, &arguments, &asked)?;
        provider.call(tool, arguments, asked).await
    }

    /// Everything that is decided before anything is sent.
    fn admit(
        &self,
        backend: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        asked: &Asked,
    ) -> Result<(Arc<dyn Provider>, String), HostError> {
        let catalog = self.catalog.load();
        let known = catalog.backend(backend).filter(|known| asked.access.permits(known.name()));
        let Some(known) = known else { return Err(unknown_backend(&catalog, backend)) };
        let Some(found) = known.tool(tool) else { return Err(unknown_tool(&catalog, known.name(), tool)) };
        let problems = found.entry.check_arguments(&Value::Object(arguments.clone()));
        if !problems.is_empty() {
            return Err(invalid_arguments(&found.path(), &problems));
        }
        let provider = self.providers.read().unwrap_or_else(PoisonError::into_inner).get(known.name()).cloned();
        match provider {
            Some(provider) => Ok((provider, found.tool().name.clone())),
            None => Err(not_ready(known.name(), &found.tool().name, known.state())),
        }
    }
}

fn unknown_backend(catalog: &Catalog, backend: &str) -> HostError {
    let near = catalog.suggest(Misspelt::Backend, backend);
    HostError::not_sent("UNKNOWN_BACKEND", format!("there is no backend named {backend}{}", did_you_mean(&near)))
}

fn unknown_tool(catalog: &Catalog, backend: &str, tool: &str) -> HostError {
    let near = catalog.suggest(Misspelt::ToolOf(backend), tool);
    HostError::not_sent("UNKNOWN_TOOL", format!("{backend} has no tool named {tool}{}", did_you_mean(&near)))
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) }
}

fn invalid_arguments(path: &str, problems: &[ArgumentProblem]) -> HostError {
    let shown: Vec<String> = problems.iter().take(SHOWN_PROBLEMS).map(problem_text).collect();
    let message = format!("the arguments do not fit {path}: {}", shown.join("; "));
    let data = problems.iter().map(|problem| serde_json::json!({ "path": problem.path, "message": problem.message }));
    HostError::not_sent("INVALID_ARGUMENTS", message).with_data(data.collect())
}

fn problem_text(problem: &ArgumentProblem) -> String {
    problem.message.clone()
}

/// The backend is known by name only: it is starting, or failed to.
pub(crate) fn not_ready(backend: &str, tool: &str, state: &BackendState) -> HostError {
    let message = match state {
        BackendState::Starting | BackendState::Cached => format!(
            "Backend '{backend}' is still starting. Tool '{tool}' is cached but the backend hasn't connected yet. \
             Try again shortly."
        ),
        BackendState::Ready => format!("Backend '{backend}' has just gone away. Try again shortly."),
        BackendState::Failed { reason } => format!(
            "Backend '{backend}' failed to start: {reason}. The resource toolgate://backend/{backend} shows its state."
        ),
        BackendState::Disabled => format!("Backend '{backend}' is disabled in the configuration."),
    };
    HostError { state: CallState::NotSent, ..HostError::new("NOT_READY", message) }
}
