//! Full-text search: from the description of a task to the tools that perform it.
//!
//! Two rankings, added by `rank`: `lexical` (BM25 over names, tags, descriptions and parameter names, with synonyms and
//! fuzzy matches) and `vectors` (how near the query is to what a tool is about, by the static `embedding`).
//!
//! `words` splits and stems text, `meaning` looks up synonyms, `operation` (create, remove, change, read) ranks the tools
//! for one resource, `values` derives words from the form of values in the query (`notes.md` is a file), `resource` groups
//! the tools for one resource so that they share their parameter names, `steps` splits a query of several tasks.
//!
//! The order is total: score, then backend, then name. No randomness, no clock, no state between searches. What is read
//! of a query and of a tool's texts is bounded.

mod call;
mod embedding;
mod index;
mod lexical;
mod meaning;
mod operation;
mod rank;
mod resource;
mod steps;
mod values;
mod vectors;
mod words;

pub(super) use index::Index;
pub(super) use vectors::QuantisedVector;

use super::backend::ToolRef;
use super::types;
use toolgate_wire::foreign_text::is_hazard;

/// Maximum length of a hit's description, in characters.
const MAX_DESCRIPTION: usize = 200;

/// Maximum length of the description in a hit's line, in characters.
const MAX_LINE_DESCRIPTION: usize = 100;

/// A tool that matches a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The backend's original name.
    pub backend: String,
    /// The tool's original name.
    pub tool: String,
    /// The tool's description on one line, at most 200 characters.
    pub description: String,
    /// Its TypeScript signature.
    pub signature: String,
    /// A call with placeholder arguments: `await exa.web_search({ query: "…" })`.
    pub call: String,
    /// The whole hit on one short line: `exa.web_search({ query: string }) — Searches the web.`
    pub line: String,
    /// Relevance; comparable within one search only.
    pub score: f32,
}

impl Hit {
    fn new(tool: ToolRef<'_>, score: f32) -> Self {
        Self {
            backend: tool.backend.name().to_owned(),
            tool: tool.tool().name.clone(),
            description: one_line(tool.tool().description().unwrap_or_default()),
            signature: tool.entry.short_signature(|| types::signature(tool)).to_owned(),
            call: ready_call(tool),
            line: line(tool),
            score,
        }
    }
}

pub use call::ready_call;

/// The name, the types and the beginning of the description of a tool, at most about 90 tokens.
fn line(tool: ToolRef<'_>) -> String {
    let types = tool.entry.brief_types(|| types::brief_types(tool));
    let about = one_line_within(tool.tool().description().unwrap_or_default(), MAX_LINE_DESCRIPTION);
    let separator = if about.is_empty() { "" } else { " — " };
    format!("{}{types}{separator}{about}", tool.spelling())
}

/// Collapses whitespace and control characters to single spaces and truncates at a word boundary with `…`.
pub fn one_line(text: &str) -> String {
    one_line_within(text, MAX_DESCRIPTION)
}

fn one_line_within(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || is_hazard(c)).filter(|word| !word.is_empty()) {
        length += word.chars().count() + 1;
        if length > max {
            let room = max.saturating_sub(line.chars().count() + 1);
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
