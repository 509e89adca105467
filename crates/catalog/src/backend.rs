//! A backend and its tools in a snapshot.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use toolgate_plan::words;

use super::Tool;
use super::arguments::{ArgumentProblem, Checker, SchemaMemory};
use super::names::{NameScope, NameTable};

/// Whether a backend can serve calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendState {
    /// Started, not initialised yet; its tools are unknown.
    Starting,
    /// Not started, or not initialised yet; its tools are known from the cache.
    Cached,
    /// It serves calls.
    Ready,
    /// It could not be started, or it exited and could not be restarted.
    Failed {
        /// The error, as text.
        reason: String,
    },
    /// A person has to log in there first.
    NeedsLogin {
        /// The command that does it.
        command: String,
    },
    /// Disabled by the configuration.
    Disabled,
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("still starting"),
            Self::Cached => f.write_str("not connected yet; its tools are those of the last time"),
            Self::Ready => f.write_str("ready"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::NeedsLogin { command } => write!(f, "needs login: run `{command}`"),
            Self::Disabled => f.write_str("disabled"),
        }
    }
}

/// A backend as input for a snapshot.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its name in the configuration.
    pub name: String,
    /// Its current state.
    pub state: BackendState,
    /// Its tools, already filtered by the configuration.
    pub tools: Vec<Tool>,
    /// Its tags in the configuration; search uses them.
    pub tags: Vec<String>,
}

/// A backend in a snapshot.
#[derive(Debug, Clone)]
pub struct Backend {
    pub(super) identifier: String,
    pub(super) state: BackendState,
    pub(super) tool_set: Arc<ToolSet>,
}

/// The tools of a backend, shared by consecutive snapshots until its listing changes.
#[derive(Debug)]
pub(super) struct ToolSet {
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
    /// Shared by the tools of the backend.
    schema_memory: Arc<SchemaMemory>,
    checker: OnceLock<Checker>,
    result_checker: OnceLock<Checker>,
    signature: OnceLock<String>,
    example: OnceLock<String>,
    brief: OnceLock<String>,
}

impl ToolSet {
    /// Sorts the tools in the order of the name table, so that positions in both are the same.
    pub(super) fn new(name: String, mut tools: Vec<Tool>, tags: Vec<String>) -> Self {
        let mut seen = HashSet::new();
        tools.retain(|tool| {
            let first = seen.insert(tool.name.clone());
            if !first {
                tracing::warn!(backend = ?name, tool = ?tool.name, "the backend lists this tool twice; using the first");
            }
            first
        });
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let names = NameTable::new(tools.iter().map(|tool| tool.name.as_str()), NameScope::Member);
        let memory = Arc::new(SchemaMemory::of_server());
        tools.iter().for_each(|tool| tool.count_in(&memory));
        let tools = tools
            .into_iter()
            .zip(names.names())
            .map(|(tool, name)| ToolEntry::new(tool, name.identifier.clone(), Arc::clone(&memory)))
            .collect();
        Self { name, tags, tools, names, listing: OnceLock::new() }
    }
}

impl Backend {
    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.tool_set.name
    }

    /// Its identifier in programs.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its state when the snapshot was taken.
    pub fn state(&self) -> &BackendState {
        &self.state
    }

    /// `{name, tools: [name | {name, id}]}`, as the sandbox reads it. Serialised once, because every program that uses the
    /// backend asks for it. A tool whose own name JavaScript calls by itself is listed by its identifier alone: with a `then`,
    /// `await` of the backend would call the tool.
    pub fn listing(&self) -> &str {
        self.tool_set.listing.get_or_init(|| Self::list(self.name(), self.tools()))
    }

    /// Such a listing of some tools.
    pub fn list<'t>(backend: &str, tools: impl IntoIterator<Item = &'t ToolEntry>) -> String {
        let tools = tools.into_iter().map(|entry| match entry.spellings().as_slice() {
            [id, name] => json!({ "name": name, "id": id }),
            _ => json!(entry.identifier),
        });
        json!({ "name": backend, "tools": tools.collect::<Vec<_>>() }).to_string()
    }

    /// Whether it has the very same tools as a backend of another snapshot.
    pub fn has_same_tools(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tool_set, &other.tool_set)
    }

    /// Its tags in the configuration.
    pub fn tags(&self) -> &[String] {
        &self.tool_set.tags
    }

    /// Its tools, sorted by original name.
    pub fn tools(&self) -> &[ToolEntry] {
        &self.tool_set.tools
    }

    /// The spellings of its tools.
    pub fn tool_names(&self) -> &NameTable {
        &self.tool_set.names
    }

    /// The tool that `spelling` means here, original or identifier.
    pub fn tool(&self, spelling: &str) -> Option<ToolRef<'_>> {
        self.at(self.tool_set.names.resolve(spelling)?)
    }

    pub(super) fn at(&self, position: usize) -> Option<ToolRef<'_>> {
        Some(ToolRef { backend: self, entry: self.tool_set.tools.get(position)? })
    }
}

impl ToolEntry {
    fn new(tool: Tool, identifier: String, schema_memory: Arc<SchemaMemory>) -> Self {
        let checker = OnceLock::new();
        let (signature, example, brief) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let result_checker = OnceLock::new();
        Self { tool, identifier, schema_memory, checker, result_checker, signature, example, brief }
    }

    /// Its signature for a search hit, made once.
    pub(super) fn short_signature(&self, make: impl FnOnce() -> String) -> &str {
        self.signature.get_or_init(make)
    }

    /// The types of its brief signature, made once.
    pub(super) fn brief_types(&self, make: impl FnOnce() -> String) -> &str {
        self.brief.get_or_init(make)
    }

    /// The arguments of its example call, made once.
    pub(super) fn example_arguments(&self, make: impl FnOnce() -> String) -> &str {
        self.example.get_or_init(make)
    }

    /// The tool as its backend describes it.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Its identifier in programs.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The properties of its backend that it is in programs: its identifier, and its own name where that is another one and
    /// JavaScript does not call it by itself.
    pub(super) fn spellings(&self) -> Vec<&str> {
        let own = self.tool.name.as_str();
        let is_other = own != self.identifier && !words::is_called_implicitly(own);
        std::iter::once(self.identifier.as_str()).chain(is_other.then_some(own)).collect()
    }

    /// The violations of the input schema by `arguments`; empty if there are none or the schema cannot be compiled.
    pub fn check_arguments(&self, arguments: &Value) -> Vec<ArgumentProblem> {
        self.checker().check(self.tool.input_schema(), arguments)
    }

    /// Checks a result, in the form that programs get, against the declared output schema. The list is empty if the result
    /// fits, if the tool declares no schema, or if the schema cannot be compiled.
    pub fn check_result(&self, value: &Value) -> Vec<ArgumentProblem> {
        let Some(schema) = super::types::result_schema(&self.tool) else { return Vec::new() };
        let compiled = || Checker::new(&self.with_definitions(schema), &self.schema_memory);
        self.result_checker.get_or_init(compiled).check(schema, value)
    }

    /// The schema of a result with the definitions of the whole document, which it may refer to where it is a part of it.
    fn with_definitions<'s>(&'s self, schema: &'s Value) -> Cow<'s, Value> {
        let (Some(root), Value::Object(members)) = (self.tool.output_schema(), schema) else {
            return Cow::Borrowed(schema);
        };
        if std::ptr::eq(root, schema) {
            return Cow::Borrowed(schema);
        }
        let definitions = ["$schema", "$defs", "definitions"].into_iter();
        let shared = definitions.filter_map(|name| Some((name.to_owned(), root.get(name)?.clone())));
        Cow::Owned(Value::Object(members.clone().into_iter().chain(shared).collect()))
    }

    /// Why the arguments of this tool are not validated, if they are not.
    pub fn unchecked_because(&self) -> Option<&str> {
        self.checker().unusable_because()
    }

    fn checker(&self) -> &Checker {
        self.checker.get_or_init(|| Checker::new(self.tool.input_schema(), &self.schema_memory))
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

    /// `backend.tool` in identifiers, as programs write it.
    pub fn spelling(&self) -> String {
        format!("{}.{}", self.backend.identifier(), self.entry.identifier)
    }

    /// The value that `__interfaces` has for it: `{name, description, input_schema}`.
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
    fn a_listing_has_the_identifier_of_each_tool() {
        let catalog = Catalog::new(vec![backend(&["plain", "with-hyphen"])]);
        let listing = catalog.backend("b").unwrap().listing().to_owned();
        assert_eq!(listing, r#"{"name":"b","tools":["plain",{"name":"with-hyphen","id":"with_hyphen"}]}"#);
        let called = Catalog::new(vec![backend(&["then", "toJSON", "constructor"])]);
        let expected = r#"{"name":"b","tools":[{"name":"constructor","id":"constructor_"},"then_","toJSON_"]}"#;
        assert_eq!(
            called.backend("b").unwrap().listing(),
            expected,
            "what JavaScript calls by itself is an identifier alone"
        );
        let changed = catalog.with(backend(&["other"]));
        assert_eq!(changed.backend("b").unwrap().listing(), r#"{"name":"b","tools":["other"]}"#);
        assert_eq!(catalog.backend("b").unwrap().listing(), listing);
    }

    #[test]
    fn a_backend_whose_tools_are_cached_is_not_called_starting() {
        assert_eq!(BackendState::Starting.to_string(), "still starting");
        assert_eq!(BackendState::Cached.to_string(), "not connected yet; its tools are those of the last time");
    }

    #[test]
    fn a_wrapped_result_is_checked_by_the_definitions_of_its_document() {
        let schema = json!({
            "type": "object", "x-fastmcp-wrap-result": true,
            "properties": { "result": { "type": "array", "items": { "$ref": "#/$defs/row" } } },
            "$defs": { "row": { "type": "object", "properties": { "id": { "$ref": "#/$defs/id" } } }, "id": { "type": "number" } },
        });
        let tool = Tool::from_raw(json!({ "name": "t", "outputSchema": schema })).unwrap();
        let tools = vec![tool];
        let listing = Listing { name: "b".into(), state: BackendState::Ready, tools, tags: Vec::new() };
        let catalog = Catalog::new(vec![listing]);
        let entry = catalog.tool("b", "t").unwrap().entry;
        assert_eq!(entry.check_result(&json!([{ "id": 7 }])), []);
        let problems = entry.check_result(&json!([{ "id": "seven" }]));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
