//! The catalog: one immutable view of all backends and tools.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::backend::{Backend, BackendState, Listing, Shelf, ToolRef};
use super::names::{NameTable, Scope};
use super::resolve::Resolution;
use super::search::{Hit, Index};

/// All backends and tools at one moment. A clone is the same snapshot.
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

/// What depends on names and tools alone, so that a mere change of state keeps it.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    pub(super) names: NameTable,
    /// From any spelling of a tool to the (backend, tool) positions that have it.
    pub(super) by_tool: HashMap<String, Vec<(usize, usize)>>,
    index: OnceLock<Index>,
}

impl Catalog {
    /// A snapshot of `listings`; of two listings with one name the first is used.
    pub fn new(listings: Vec<Listing>) -> Self {
        let shelves = listings
            .into_iter()
            .map(|listing| (listing.state, Arc::new(Shelf::new(listing.name, listing.tools, listing.tags))))
            .collect();
        Self::from_shelves(shelves)
    }

    fn from_shelves(mut shelves: Vec<(BackendState, Arc<Shelf>)>) -> Self {
        let mut seen = HashSet::new();
        shelves.retain(|(_, shelf)| seen.insert(shelf.name.clone()));
        shelves.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let names = NameTable::new(shelves.iter().map(|(_, shelf)| shelf.name.as_str()), Scope::Global);
        let backends: Vec<Backend> = shelves
            .into_iter()
            .zip(names.names())
            .map(|((state, shelf), name)| Backend { identifier: name.identifier.clone(), state, shelf })
            .collect();
        let by_tool = spellings(&backends);
        Self {
            inner: Arc::new(Inner { backends, lookup: Arc::new(Lookup { names, by_tool, index: OnceLock::new() }) }),
        }
    }

    /// The same with `listing` in place of what its backend was, or added.
    pub fn with(&self, listing: Listing) -> Self {
        let shelf = Arc::new(Shelf::new(listing.name, listing.tools, listing.tags));
        let mut shelves = self.shelves_but(&shelf.name);
        shelves.push((listing.state, shelf));
        Self::from_shelves(shelves)
    }

    /// The same without the backend of that original name.
    pub fn without(&self, backend: &str) -> Self {
        Self::from_shelves(self.shelves_but(backend))
    }

    /// The same with another state for the backend of that original name. Cheap: nothing is indexed again.
    pub fn with_state(&self, backend: &str, state: BackendState) -> Self {
        let mut backends = self.inner.backends.clone();
        if let Some(changed) = backends.iter_mut().find(|candidate| candidate.name() == backend) {
            changed.state = state;
        }
        Self { inner: Arc::new(Inner { backends, lookup: Arc::clone(&self.inner.lookup) }) }
    }

    fn shelves_but(&self, name: &str) -> Vec<(BackendState, Arc<Shelf>)> {
        let others = self.inner.backends.iter().filter(|backend| backend.name() != name);
        others.map(|backend| (backend.state.clone(), Arc::clone(&backend.shelf))).collect()
    }

    /// All backends, sorted by original name.
    pub fn backends(&self) -> &[Backend] {
        &self.inner.backends
    }

    /// The spellings of the backends.
    pub fn backend_names(&self) -> &NameTable {
        &self.inner.lookup.names
    }

    /// The backend that `spelling` means, original or identifier.
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

    /// What `__getToolInterface` answers: `backend.tool` or a tool name that only one backend has.
    pub fn interface(&self, path: &str) -> Option<Value> {
        match self.resolve(path) {
            Resolution::Found(found) => Some(found.interface()),
            Resolution::Ambiguous(_) | Resolution::Unknown => None,
        }
    }

    /// The tools that fit a task, best first: see [`search`](super::search).
    ///
    /// With a `tag`, only tools of backends that carry it.
    pub fn search(&self, query: &str, limit: usize, tag: Option<&str>) -> Vec<Hit> {
        let index = self.inner.lookup.index.get_or_init(|| Index::new(self));
        index.search(self, query, limit, tag)
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
