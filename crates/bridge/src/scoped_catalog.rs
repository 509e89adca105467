//! The part of a catalog that one caller may use.
//!
//! Everything that a program or its writer is told about tools comes through here: a tool that
//! the caller may not use is not found, not listed and not suggested.

use serde_json::Value;

use super::Access;
use toolgate_catalog::{Backend, Catalog, Resolution, ToolEntry, ToolRef, UnknownName};

/// A catalog as one caller sees it.
#[derive(Debug, Clone, Copy)]
pub struct ScopedCatalog<'a> {
    catalog: &'a Catalog,
    backends: &'a Access,
    tools: &'a Access,
}

impl<'a> ScopedCatalog<'a> {
    /// What a caller sees that may use these backends, and of them these tools (patterns over `backend.tool`).
    pub fn new(catalog: &'a Catalog, backends: &'a Access, tools: &'a Access) -> Self {
        ScopedCatalog { catalog, backends, tools }
    }

    fn permits(&self, found: &ToolRef<'_>) -> bool {
        let backend = found.backend.name();
        self.backends.permits(backend) && self.tools.permits_pair(backend, &found.tool().name)
    }

    fn permitted(&self, backend: Option<&'a Backend>) -> Option<&'a Backend> {
        backend.filter(|backend| self.backends.permits(backend.name()))
    }

    /// The backend that `spelling` means, original or identifier.
    pub fn backend(&self, spelling: &str) -> Option<&'a Backend> {
        self.permitted(self.catalog.backend(spelling))
    }

    /// The backend that a global variable of this name is.
    pub fn variable(&self, name: &str) -> Option<&'a Backend> {
        let index = self.catalog.backend_names().resolve_variable(name)?;
        self.permitted(self.catalog.backends().get(index))
    }

    /// All backends, sorted by original name.
    pub fn backends(&self) -> impl Iterator<Item = &'a Backend> {
        self.catalog.backends().iter().filter(|backend| self.backends.permits(backend.name()))
    }

    /// The tool of that backend, each in either spelling.
    pub fn tool(&self, backend: &str, tool: &str) -> Option<ToolRef<'a>> {
        self.backend(backend)?.tool(tool).filter(|found| self.permits(found))
    }

    /// What `__getToolInterface` answers: `backend.tool`, or a tool name that only one backend has.
    pub fn interface(&self, path: &str) -> Option<Value> {
        let found = match self.catalog.resolve(path) {
            Resolution::Found(found) => vec![found],
            Resolution::Ambiguous(several) => several,
            Resolution::Unknown => Vec::new(),
        };
        let mut permitted = found.into_iter().filter(|found| self.permits(found));
        match (permitted.next(), permitted.next()) {
            (Some(only), None) => Some(only.interface()),
            _ => None,
        }
    }

    /// Backends that may have been meant.
    pub fn near_backends(&self, written: &str) -> Vec<String> {
        let near = self.catalog.suggest(UnknownName::Backend, written);
        near.into_iter().filter(|name| self.backend(name).is_some()).collect()
    }

    /// Tools of this backend that may have been meant.
    pub fn near_tools(&self, backend: &str, written: &str) -> Vec<String> {
        let near = self.catalog.suggest(UnknownName::ToolOf(backend), written);
        near.into_iter().filter(|name| self.tool(backend, name).is_some()).collect()
    }

    /// The tools of a backend that the caller may use.
    pub fn tools_of(&self, backend: &'a Backend) -> impl Iterator<Item = &'a ToolEntry> {
        let tools = self.tools;
        backend.tools().iter().filter(move |entry| tools.permits_pair(backend.name(), &entry.tool().name))
    }

    /// The names of a backend's tools as the sandbox reads them.
    pub fn listing(&self, backend: &'a Backend) -> String {
        match self.tools {
            Access::All => backend.listing().to_owned(),
            Access::Only(_) => Backend::list(backend.name(), self.tools_of(backend)),
        }
    }
}
