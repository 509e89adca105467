//! Edits JSON with comments by replacing only the affected text.

use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value as Json};

use super::{NO_SECTION, UNSUPPORTED_LAYOUT, indent, line_break, line_end, line_start, next_line, splice};
use crate::text::Source;
use crate::text::jsonc::skip_trivia;
use crate::text::tree::{Entry, Node};

/// Adds or replaces an entry of a top-level section.
pub(super) fn put(
    source: &Source,
    tree: &Node,
    section: &str,
    name: &str,
    entry: &Map<String, Json>,
) -> Result<String, &'static str> {
    let layout = Layout::of(source, tree);
    let entry = Json::Object(entry.clone());
    let Some(map) = tree.get(section) else {
        let servers = Json::Object(Map::from_iter([(name.to_owned(), entry)]));
        return layout.insert(tree, section, &servers);
    };
    match map.entry(name) {
        Some(old) => Ok(layout.replace(old, &entry)),
        None => layout.insert(map, name, &entry),
    }
}

/// Removes an entry.
pub(super) fn take(source: &Source, tree: &Node, path: &[&str], name: &str) -> Result<String, &'static str> {
    let map = path.iter().try_fold(tree, |node, key| node.get(key)).and_then(Node::entries).ok_or(NO_SECTION)?;
    let index = map.iter().position(|entry| entry.key == name).ok_or("it has no such entry")?;
    Layout::of(source, tree).remove(map, index)
}

/// The indentation of the file.
struct Layout<'a> {
    text: &'a str,
    unit: String,
}

impl<'a> Layout<'a> {
    fn of(source: &'a Source, tree: &Node) -> Self {
        let text = source.text();
        let first = tree.entries().and_then(<[Entry]>::first);
        let unit = first.and_then(|entry| indent(text, entry.key_span.start)).filter(|unit| !unit.is_empty());
        Self { text, unit: unit.unwrap_or("  ").to_owned() }
    }

    fn insert(&self, map: &Node, key: &str, value: &Json) -> Result<String, &'static str> {
        let close = map.span.end.saturating_sub(1);
        let line = self.text.get(line_start(self.text, map.span.start)..map.span.start).unwrap_or_default();
        let outer: String = line.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
        let inside = self.text.get(map.span.start + 1..close).unwrap_or_default();
        let Some(last) = map.entries().and_then(<[Entry]>::last) else {
            let entry = self.entry(&format!("{outer}{}", self.unit), key, value);
            let new = format!("{}{entry}{}{outer}", inside.trim_end(), line_break(self.text));
            return Ok(splice(self.text, map.span.start + 1, close, &new));
        };
        let end = last.node.span.end;
        let next = skip_trivia(self.text, end).map_err(|_| UNSUPPORTED_LAYOUT)?;
        let comma = self.text.as_bytes().get(next) == Some(&b',');
        let after = if comma { next + 1 } else { end };
        let entry = match indent(self.text, last.key_span.start) {
            Some(indent) => self.entry(indent, key, value),
            None if inside.contains('\n') => self.entry(&format!("{outer}{}", self.unit), key, value),
            None => format!(" {}: {value}", Json::from(key)),
        };
        let at = self.after_comment(after);
        let trailing = if comma { "," } else { "" };
        let text = splice(self.text, at, at, &format!("{entry}{trailing}"));
        // Insert the comma directly after the value, before any comment: `1, // one`.
        Ok(if comma { text } else { splice(&text, end, end, ",") })
    }

    /// The end of the comment that follows `at` on the same line, otherwise `at`.
    fn after_comment(&self, at: usize) -> usize {
        let end = line_end(self.text, at);
        let rest = self.text.get(at..end).unwrap_or_default().trim();
        let comment =
            rest.starts_with("//") || (rest.starts_with("/*") && rest.find("*/") == rest.len().checked_sub(2));
        if comment { end } else { at }
    }

    fn replace(&self, old: &Entry, value: &Json) -> String {
        let outer = indent(self.text, old.key_span.start).unwrap_or_default();
        splice(self.text, old.node.span.start, old.node.span.end, &self.pretty(outer, value))
    }

    fn remove(&self, map: &[Entry], index: usize) -> Result<String, &'static str> {
        let entry = map.get(index).ok_or(UNSUPPORTED_LAYOUT)?;
        let (mut from, mut to) = (entry.key_span.start, entry.node.span.end);
        let next = skip_trivia(self.text, to).map_err(|_| UNSUPPORTED_LAYOUT)?;
        let comma = self.text.as_bytes().get(next) == Some(&b',');
        if comma {
            to = next + 1;
        }
        to = self.after_comment(to);
        let rest = self.text.get(to..line_end(self.text, to)).unwrap_or_default();
        if let (Some(_), true) = (indent(self.text, from), rest.trim().is_empty()) {
            (from, to) = (line_start(self.text, from), next_line(self.text, to));
        } else {
            to += rest.len() - rest.trim_start().len();
        }
        let text = splice(self.text, from, to, "");
        let before = index.checked_sub(1).and_then(|before| map.get(before));
        match before {
            // The last entry had no comma: remove the comma of the entry before it.
            Some(before) if !comma => {
                let at = skip_trivia(&text, before.node.span.end).map_err(|_| UNSUPPORTED_LAYOUT)?;
                Ok(if text.as_bytes().get(at) == Some(&b',') { splice(&text, at, at + 1, "") } else { text })
            }
            _ => Ok(text),
        }
    }

    /// An entry that begins on a new line.
    fn entry(&self, indent: &str, key: &str, value: &Json) -> String {
        format!("{}{indent}{}: {}", line_break(self.text), Json::from(key), self.pretty(indent, value))
    }

    fn pretty(&self, indent: &str, value: &Json) -> String {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
        // Writing a `Value` to memory cannot fail; the edited text is verified in any case.
        let _ = serde::Serialize::serialize(value, &mut serializer);
        let text = String::from_utf8(bytes).unwrap_or_default();
        text.replace('\n', &format!("{}{indent}", line_break(self.text)))
    }
}
