//! From a task in words to the tools that do it.
//!
//! BM25 over what a tool says of itself: its name counts most, then its backend's name and tags, its description, and
//! its parameters. Words are split and stemmed by our own tokenizer (`words`), words of one meaning count for each
//! other (`meaning`), and a word that no tool uses is taken for a slip or an abbreviation of one that they do use.
//!
//! What a task wants done (`act`) decides between the tools for one thing, what its values look like (`values`) says
//! what nobody spells out, and the tools for one thing lend each other their words (`thing`).
//!
//! The order is total: score, then backend, then name. No randomness, no clock, nothing learnt from search to search.
//! It does not understand a task: who describes a thing in words that neither the tool nor the `thesaurus` has will not
//! find it.

mod act;
mod call;
mod index;
mod meaning;
mod thesaurus;
mod thing;
mod values;
mod words;

pub(super) use index::Index;

use super::backend::ToolRef;
use super::types;

/// Longest description of a hit, in characters.
const MAX_DESCRIPTION: usize = 200;

/// A tool that fits a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The backend's original name.
    pub backend: String,
    /// The tool's original name.
    pub tool: String,
    /// What it does: one line, bounded.
    pub description: String,
    /// Its TypeScript signature.
    pub signature: String,
    /// A call that is ready to be filled in: `await exa.web_search({ query: "…" })`.
    pub call: String,
    /// How well it fits; comparable within one search only.
    pub score: f32,
}

impl Hit {
    fn new(tool: ToolRef<'_>, score: f32) -> Self {
        Self {
            backend: tool.backend.name().to_owned(),
            tool: tool.tool().name.clone(),
            description: one_line(tool.tool().description().unwrap_or_default()),
            signature: types::signature(tool),
            call: ready_call(tool),
            score,
        }
    }
}

pub use call::ready_call;

/// `text` on one line, cut after a word where it is long.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        length += word.chars().count() + 1;
        if length > MAX_DESCRIPTION {
            let room = MAX_DESCRIPTION.saturating_sub(line.chars().count() + 1);
            if line.is_empty() {
                line.extend(word.chars().take(room));
            }
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests;
