//! A backend and its tools, as a snapshot holds them.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::Tool;
use super::arguments::{ArgumentProblem, Checker};
use super::names::{NameTable, Scope};

/// How far a backend is from serving calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendState {
    /// It was started and has not answered yet; its tools are not known.
    Starting,
    /// It was started and has not answered yet; its tools are known from the cache.
    Cached,
    /// It serves calls.
    Ready,
    /// It could not be started, or ended and could not be brought back.
    Failed {
        /// What went wrong, for a reader.
        reason: String,
    },
    /// The configuration switched it off.
    Disabled,
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting | Self::Cached => f.write_str("still starting"),
            Self::Ready => f.write_str("ready"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::Disabled => f.write_str("disabled"),
        }
    }
}

/// What the owner of a backend knows about it: the material of a snapshot.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its name in the configuration.
    pub name: String,
    /// How far it is.
    pub state: BackendState,
    /// The tools it offers, already filtered by the configuration.
    pub tools: Vec<Tool>,
    /// The words the user gave it, to search by.
    pub tags: Vec<String>,
}

/// A backend in a snapshot.
#[derive(Debug, Clone)]
pub struct Backend {
    pub(super) identifier: String,
    pub(super) state: BackendState,
    pub(super) shelf: Arc<Shelf>,
}

/// The part of a backend that survives from one snapshot to the next while its listing stays the same.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) name: String,
    tags: Vec<String>,
    tools: Vec<ToolEntry>,
    names: NameTable,
    listing: OnceLock<String>,
}

/// A tool in a snapshot.
#[derive(Debug)]
pub struct ToolEntry {
    tool: Tool,
    identifier: String,
    checker: OnceLock<Checker>,
}

impl Shelf {
    /// Sorts the tools as the name table does, so that a position in one is a position in the other.
    pub(super) fn new(name: String, mut tools: Vec<Tool>, tags: Vec<String>) -> Self {
        let mut seen = HashSet::new();
        tools.retain(|tool| {
            let first = seen.insert(tool.name.clone());
            if !first {
                tracing::warn!(backend = ?name, tool = ?tool.name, "the backend lists this tool twice; the first is used");
            }
            first
        });
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let names = NameTable::new(tools.iter().map(|tool| tool.name.as_str()), Scope::Member);
        let tools = tools
            .into_iter()
            .zip(names.names())
            .map(|(tool, name)| ToolEntry { tool, identifier: name.identifier.clone(), checker: OnceLock::new() })
            .collect();
        Self { name, tags, tools, names, listing: OnceLock::new() }
    }
}

impl Backend {
    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.shelf.name
    }

    /// How code spells it.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// How far it is from serving calls.
    pub fn state(&self) -> &BackendState {
        &self.state
    }

    /// `{name, tools: [name | {name, id}]}`, as the sandbox reads it: written once, and asked for by every program that
    /// names the backend.
    pub fn listing(&self) -> &str {
        self.shelf.listing.get_or_init(|| {
            let tools = self.tools().iter().map(|entry| match (&entry.tool.name, &entry.identifier) {
                (name, id) if name == id => json!(name),
                (name, id) => json!({ "name": name, "id": id }),
            });
            json!({ "name": self.name(), "tools": tools.collect::<Vec<_>>() }).to_string()
        })
    }

    /// The words the user gave it.
    pub fn tags(&self) -> &[String] {
        &self.shelf.tags
    }

    /// Its tools, sorted by original name.
    pub fn tools(&self) -> &[ToolEntry] {
        &self.shelf.tools
    }

    /// The spellings of its tools.
    pub fn tool_names(&self) -> &NameTable {
        &self.shelf.names
    }

    /// The tool that `spelling` means here, original or identifier.
    pub fn tool(&self, spelling: &str) -> Option<ToolRef<'_>> {
        self.at(self.shelf.names.resolve(spelling)?)
    }

    pub(super) fn at(&self, position: usize) -> Option<ToolRef<'_>> {
        Some(ToolRef { backend: self, entry: self.shelf.tools.get(position)? })
    }
}

impl ToolEntry {
    /// The tool as its backend describes it.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// How code spells it.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// What of `arguments` the tool's input schema forbids; empty where all is well or the schema can't be used.
    pub fn check_arguments(&self, arguments: &Value) -> Vec<ArgumentProblem> {
        self.checker().check(self.tool.input_schema(), arguments)
    }

    /// Why arguments of this tool pass unchecked, where they do.
    pub fn unchecked_because(&self) -> Option<&str> {
        self.checker().unusable_because()
    }

    fn checker(&self) -> &Checker {
        self.checker.get_or_init(|| Checker::new(self.tool.input_schema()))
    }
}

/// A tool together with its backend.
#[derive(Debug, Clone, Copy)]
pub struct ToolRef<'a> {
    /// The backend that has it.
    pub backend: &'a Backend,
    /// The tool.
    pub entry: &'a ToolEntry,
}

impl<'a> ToolRef<'a> {
    /// The tool as its backend describes it.
    pub fn tool(&self) -> &'a Tool {
        self.entry.tool()
    }

    /// `backend.tool` in original names.
    pub fn path(&self) -> String {
        format!("{}.{}", self.backend.name(), self.entry.tool.name)
    }

    /// `backend.tool` as code writes it.
    pub fn spelling(&self) -> String {
        format!("{}.{}", self.backend.identifier(), self.entry.identifier)
    }

    /// What `__interfaces` shows of it: `{name, description, input_schema}`.
    pub fn interface(&self) -> Value {
        let tool = self.tool();
        json!({ "name": tool.name, "description": tool.description(), "input_schema": tool.input_schema() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalog;
    use super::*;

    fn backend(tools: &[&str]) -> Listing {
        let tools = tools.iter().filter_map(|name| Tool::from_raw(json!({ "name": name }))).collect();
        Listing { name: "b".into(), state: BackendState::Ready, tools, tags: Vec::new() }
    }

    #[test]
    fn a_listing_says_what_a_program_calls_each_tool() {
        let catalog = Catalog::new(vec![backend(&["plain", "with-hyphen"])]);
        let listing = catalog.backend("b").unwrap().listing().to_owned();
        assert_eq!(listing, r#"{"name":"b","tools":["plain",{"name":"with-hyphen","id":"with_hyphen"}]}"#);
        let changed = catalog.with(backend(&["other"]));
        assert_eq!(changed.backend("b").unwrap().listing(), r#"{"name":"b","tools":["other"]}"#);
        assert_eq!(catalog.backend("b").unwrap().listing(), listing);
    }
}
