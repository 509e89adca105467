//! Full-text search: from the description of a task to the tools that perform it.
//!
//! Two rankings, added by `rank`: `lexical` (BM25 over names, tags, descriptions and parameter names, with synonyms and
//! fuzzy matches) and `vectors` (how near the query is to what a tool is about, by the static `embedding`).
//!
//! `words` splits and stems text, `meaning` looks up synonyms, `operation` (create, remove, change, read) ranks the tools
//! for one resource, `values` derives words from the form of values in the query (`notes.md` is a file), `resource` groups
//! the tools for one resource so that they share their parameter names, `steps` splits a query of several tasks, `delivery`
//! recognises a task that hands what was made to people.
//!
//! The order is total: score, then backend, then name. No randomness, no clock, no state between searches. What is read
//! of a query and of a tool's texts is bounded.

mod call;
mod delivery;
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
use super::types::learned::LearnedTypes;
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

    /// The line of the hit with what was learned of its tool's results, where the tool does not declare them: as much of it
    /// as the line has room for.
    pub fn line_with(&self, tool: ToolRef<'_>, learned: &LearnedTypes) -> String {
        let known = learned.get(tool.backend.name(), &tool.tool().name);
        let Some(known) = known.filter(|_| !types::declares_result(tool.tool())) else { return self.line.clone() };
        let (call, about) = match self.line.split_once(SEPARATOR) {
            Some((call, about)) => (call, format!("{SEPARATOR}{about}")),
            None => (self.line.as_str(), String::new()),
        };
        // What is learned replaces a schema that names no key.
        let said = call.rfind(": Promise<").filter(|_| tool.tool().output_schema().is_some());
        let call = said.map_or(call, |at| &call[..at]);
        let line = |learned: &str| format!("{call}: Promise<{learned}>{about} {}", known.remark());
        let room = MAX_LEARNED_LINE.checked_sub(line("").len());
        let learned = room.and_then(|room| known.typescript_within(room));
        learned.map_or_else(|| self.line.clone(), |learned| line(&learned))
    }
}

/// Between the types of a line and its description.
const SEPARATOR: &str = " — ";
/// Maximum length of a line with a learned type, in bytes: ten hits stay within 900 tokens.
const MAX_LEARNED_LINE: usize = 280;

pub use call::ready_call;

/// The name, the types and the beginning of the description of a tool, at most about 90 tokens.
fn line(tool: ToolRef<'_>) -> String {
    let types = tool.entry.brief_types(|| types::brief_types(tool));
    let about = one_line_within(tool.tool().description().unwrap_or_default(), MAX_LINE_DESCRIPTION);
    let separator = if about.is_empty() { "" } else { SEPARATOR };
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
