//! Groups the tools of a backend by the resource they work on.
//!
//! `create_event`, `get_event` and `delete_event` share the resource `event`. Only the create and update tools list its
//! fields as parameters, so the other tools of the group are indexed with these parameter names too.

use std::collections::{BTreeSet, HashMap};

use super::super::backend::{Backend, ToolRef};
use super::super::tool::Tool;
use super::operation;
use super::words::{beginning, words};

/// Maximum number of indexed parameters, of one tool and of all tools for one resource.
const MAX_PARAMETERS: usize = 60;

/// The words of a tool's name without its verb and without the words of its backend's name.
fn resource_words(tool: ToolRef<'_>, backend: &[String]) -> Vec<String> {
    let mut resource = words(beginning(&tool.tool().name));
    resource.retain(|word| word.len() > 1 && !operation::is_unambiguous_verb(word) && !backend.contains(word));
    resource
}

/// The names of a tool's parameters.
pub(super) fn parameters(tool: &Tool) -> &[String] {
    let names = &tool.texts().parameters;
    names.get(..MAX_PARAMETERS).unwrap_or(names)
}

/// The tools of one backend, grouped by resource. A group is identified by the position of its first tool.
pub(super) struct RelatedTools {
    /// For each tool, the words of its resource and its group.
    resources: Vec<(Vec<String>, usize)>,
    /// For each group, the parameters of all its tools.
    parameters: HashMap<usize, BTreeSet<String>>,
    /// For each tool, its own parameters.
    own: Vec<BTreeSet<String>>,
}

impl RelatedTools {
    pub(super) fn of(backend: &Backend) -> Self {
        let mut related = Self { resources: Vec::new(), parameters: HashMap::new(), own: Vec::new() };
        let backend_words = words(beginning(backend.name()));
        let mut firsts: HashMap<Vec<String>, usize> = HashMap::new();
        for (t, entry) in backend.tools().iter().enumerate() {
            let tool = ToolRef { backend, entry };
            let resource = resource_words(tool, &backend_words);
            // A tool whose name has no resource is a group of its own.
            let group = if resource.is_empty() { t } else { *firsts.entry(resource.clone()).or_insert(t) };
            let own: BTreeSet<String> = parameters(tool.tool()).iter().cloned().collect();
            let all = related.parameters.entry(group).or_default();
            let room = MAX_PARAMETERS.saturating_sub(all.len());
            all.extend(own.iter().take(room).cloned());
            related.own.push(own);
            related.resources.push((resource, group));
        }
        related
    }

    /// The resource words of the tool at position `t`.
    pub(super) fn resource(&self, t: usize) -> &[String] {
        self.resources.get(t).map_or(&[], |(resource, _)| resource)
    }

    /// The group of the tool at position `t`: the position of the first tool for the same resource.
    pub(super) fn group(&self, t: usize) -> usize {
        self.resources.get(t).map_or(t, |(_, group)| *group)
    }

    /// The parameters of the other tools in the group that the tool at `t` does not have itself.
    pub(super) fn parameters_of_others(&self, t: usize) -> impl Iterator<Item = &str> {
        let all = self.parameters.get(&self.group(t)).into_iter().flatten();
        all.filter(move |name| self.own.get(t).is_none_or(|own| !own.contains(*name))).map(String::as_str)
    }
}
