//! The catalog: an immutable snapshot of all backends and tools.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::backend::{Backend, BackendState, Listing, ToolRef, ToolSet};
use super::names::{NameScope, NameTable};
use super::resolve::Resolution;
use super::search::{Hit, Index};

/// An immutable snapshot of all backends and tools. Cloning is cheap and shares the snapshot.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Sorted by original name, as `lookup.names` is.
    pub(super) backends: Vec<Backend>,
    pub(super) lookup: Arc<Lookup>,
}

/// The data that depends on names and tools only; snapshots that differ only in backend states share it.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    pub(super) names: NameTable,
    /// From an original name or identifier of a tool to its (backend, tool) positions.
    pub(super) by_tool: HashMap<String, Vec<(usize, usize)>>,
    index: OnceLock<Index>,
}

impl Catalog {
    /// A snapshot of `listings`. Of several listings with one name, the first is used.
    pub fn new(listings: Vec<Listing>) -> Self {
        let tool_sets = listings
            .into_iter()
            .map(|listing| (listing.state, Arc::new(ToolSet::new(listing.name, listing.tools, listing.tags))))
            .collect();
        Self::from_tool_sets(tool_sets)
    }

    fn from_tool_sets(mut tool_sets: Vec<(BackendState, Arc<ToolSet>)>) -> Self {
        let mut seen = HashSet::new();
        tool_sets.retain(|(_, tool_set)| seen.insert(tool_set.name.clone()));
        tool_sets.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let names = NameTable::new(tool_sets.iter().map(|(_, tool_set)| tool_set.name.as_str()), NameScope::Global);
        let backends: Vec<Backend> = tool_sets
            .into_iter()
            .zip(names.names())
            .map(|((state, tool_set), name)| Backend { identifier: name.identifier.clone(), state, tool_set })
            .collect();
        let by_tool = spellings(&backends);
        Self {
            inner: Arc::new(Inner { backends, lookup: Arc::new(Lookup { names, by_tool, index: OnceLock::new() }) }),
        }
    }

    /// This snapshot with `listing` added, or replacing the backend of the same name.
    pub fn with(&self, listing: Listing) -> Self {
        let tool_set = Arc::new(ToolSet::new(listing.name, listing.tools, listing.tags));
        let mut tool_sets = self.tool_sets_except(&tool_set.name);
        tool_sets.push((listing.state, tool_set));
        Self::from_tool_sets(tool_sets)
    }

    /// This snapshot without the backend of that original name.
    pub fn without(&self, backend: &str) -> Self {
        Self::from_tool_sets(self.tool_sets_except(backend))
    }

    /// This snapshot with another state of the backend of that original name. Shares names and search index.
    pub fn with_state(&self, backend: &str, state: BackendState) -> Self {
        let mut backends = self.inner.backends.clone();
        if let Some(changed) = backends.iter_mut().find(|candidate| candidate.name() == backend) {
            changed.state = state;
        }
        Self { inner: Arc::new(Inner { backends, lookup: Arc::clone(&self.inner.lookup) }) }
    }

    fn tool_sets_except(&self, name: &str) -> Vec<(BackendState, Arc<ToolSet>)> {
        let others = self.inner.backends.iter().filter(|backend| backend.name() != name);
        others.map(|backend| (backend.state.clone(), Arc::clone(&backend.tool_set))).collect()
    }

    /// All backends, sorted by original name.
    pub fn backends(&self) -> &[Backend] {
        &self.inner.backends
    }

    /// The names of the backends.
    pub fn backend_names(&self) -> &NameTable {
        &self.inner.lookup.names
    }

    /// The backend with that original name or identifier.
    pub fn backend(&self, spelling: &str) -> Option<&Backend> {
        self.inner.backends.get(self.inner.lookup.names.resolve(spelling)?)
    }

    /// All tools, by backend and then by original name.
    pub fn tools(&self) -> impl Iterator<Item = ToolRef<'_>> {
        self.backends().iter().flat_map(|backend| backend.tools().iter().map(move |entry| ToolRef { backend, entry }))
    }

    /// The number of tools.
    pub fn tool_count(&self) -> usize {
        self.backends().iter().map(|backend| backend.tools().len()).sum()
    }

    /// The result of `__getToolInterface`: `path` is `backend.tool` or a tool name that only one backend has.
    pub fn interface(&self, path: &str) -> Option<Value> {
        match self.resolve(path) {
            Resolution::Found(found) => Some(found.interface()),
            Resolution::Ambiguous(_) | Resolution::Unknown => None,
        }
    }

    /// The tools that match a query, best first: see [`search`](super::search).
    ///
    /// With a `tag`, only tools of backends that carry it.
    pub fn search(&self, query: &str, limit: usize, tag: Option<&str>) -> Vec<Hit> {
        let tagged = |tool: ToolRef<'_>| {
            tag.is_none_or(|tag| tool.backend.tags().iter().any(|own| own.eq_ignore_ascii_case(tag)))
        };
        self.search_where(query, limit, tagged)
    }

    /// [`search`](Self::search) among the tools that `accept` takes.
    pub fn search_where(&self, query: &str, limit: usize, accept: impl Fn(ToolRef<'_>) -> bool) -> Vec<Hit> {
        let index = self.inner.lookup.index.get_or_init(|| Index::new(self));
        index.search(self, query, limit, &accept)
    }

    /// Builds the search index now, so that the first search does not: for a thread that has nothing better to do.
    pub fn prepare_search(&self) {
        self.inner.lookup.index.get_or_init(|| Index::new(self));
    }

    pub(super) fn at(&self, (backend, tool): (usize, usize)) -> Option<ToolRef<'_>> {
        self.inner.backends.get(backend)?.at(tool)
    }
}

fn spellings(backends: &[Backend]) -> HashMap<String, Vec<(usize, usize)>> {
    let mut by_tool: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for (b, backend) in backends.iter().enumerate() {
        for (t, name) in backend.tool_names().names().iter().enumerate() {
            by_tool.entry(name.original.clone()).or_default().push((b, t));
            if name.identifier != name.original {
                by_tool.entry(name.identifier.clone()).or_default().push((b, t));
            }
        }
    }
    by_tool
}
