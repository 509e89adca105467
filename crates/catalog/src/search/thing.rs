//! The thing that a tool is about, and what its siblings know of it.
//!
//! Backends have several tools for one thing, and say what it is made of only where it is created or changed.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::super::backend::{Backend, ToolRef};
use super::act;
use super::words::words;

/// Parameters that are read, of one tool and of all that share a thing.
const MAX_PARAMETERS: usize = 60;

/// The words of a tool's name without its verb and those of its backend.
fn named(tool: ToolRef<'_>, backend: &[String]) -> Vec<String> {
    let mut things = words(&tool.tool().name);
    things.retain(|word| word.len() > 1 && !act::is_plain(word) && !backend.contains(word));
    things
}

/// The names of a tool's parameters.
pub(super) fn parameters<'t>(tool: ToolRef<'t>) -> impl Iterator<Item = &'t str> {
    let properties = tool.tool().input_schema().get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().take(MAX_PARAMETERS).map(|(name, _)| name.as_str())
}

/// What the tools of one backend are about. What a thing is created with is what it can be asked for, though the tool
/// that gets it takes no more than an id.
pub(super) struct Siblings {
    /// The thing of each tool, and the place of the first tool that is about it.
    things: Vec<(Vec<String>, usize)>,
    /// By the place of a thing's first tool, what all of them take.
    parameters: HashMap<usize, BTreeSet<String>>,
    /// What each tool takes itself.
    own: Vec<BTreeSet<String>>,
}

impl Siblings {
    pub(super) fn of(backend: &Backend) -> Self {
        let mut siblings = Self { things: Vec::new(), parameters: HashMap::new(), own: Vec::new() };
        let backend_words = words(backend.name());
        let mut firsts: HashMap<Vec<String>, usize> = HashMap::new();
        for (t, entry) in backend.tools().iter().enumerate() {
            let tool = ToolRef { backend, entry };
            let thing = named(tool, &backend_words);
            // A tool without a thing is nobody's sibling.
            let first = if thing.is_empty() { t } else { *firsts.entry(thing.clone()).or_insert(t) };
            let own: BTreeSet<String> = parameters(tool).map(str::to_owned).collect();
            let all = siblings.parameters.entry(first).or_default();
            let room = MAX_PARAMETERS.saturating_sub(all.len());
            all.extend(own.iter().take(room).cloned());
            siblings.own.push(own);
            siblings.things.push((thing, first));
        }
        siblings
    }

    /// The words for the thing of the tool at `t`.
    pub(super) fn thing(&self, t: usize) -> &[String] {
        self.things.get(t).map_or(&[], |(thing, _)| thing)
    }

    /// The place of the first tool with the same thing.
    pub(super) fn first(&self, t: usize) -> usize {
        self.things.get(t).map_or(t, |(_, first)| *first)
    }

    /// The parameters of a tool's siblings that are not its own.
    pub(super) fn beside(&self, t: usize) -> impl Iterator<Item = &str> {
        let all = self.parameters.get(&self.first(t)).into_iter().flatten();
        all.filter(move |name| self.own.get(t).is_none_or(|own| !own.contains(*name))).map(String::as_str)
    }
}
