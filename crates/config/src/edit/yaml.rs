//! Edits block-style YAML line by line. Rejects flow style (`{a: b}`) except an empty `{}`.

use serde_json::{Map, Value as Json};

use super::{NO_SECTION, UNSUPPORTED_LAYOUT, indent, line_break, line_end, line_start, next_line, splice};
use crate::text::Source;
use crate::text::tree::{Entry, Node, Value};

const FLOW_STYLE: &str = "its servers are in flow style, { … }";

/// Adds an entry to a section; sections that are missing are added.
pub(super) fn put(
    source: &Source,
    tree: &Node,
    path: &[&str],
    name: &str,
    entry: &Map<String, Json>,
) -> Result<String, &'static str> {
    let Some((first, rest)) = path.split_first() else { return Err(NO_SECTION) };
    let Some(mut section) = tree.entry(first) else {
        return append_at_top(source.text(), tree, first, &nested(rest, name, entry));
    };
    for (index, key) in rest.iter().enumerate() {
        match section.node.entry(key) {
            Some(inner) => section = inner,
            None => {
                return insert(
                    source.text(),
                    section,
                    key,
                    &nested(rest.get(index + 1..).unwrap_or_default(), name, entry),
                );
            }
        }
    }
    if section.node.entry(name).is_some() {
        return Err("it has an entry of this name");
    }
    insert(source.text(), section, name, entry)
}

/// The entry inside the sections that are missing.
fn nested(path: &[&str], name: &str, entry: &Map<String, Json>) -> Map<String, Json> {
    let innermost = Map::from_iter([(name.to_owned(), Json::Object(entry.clone()))]);
    path.iter().rev().fold(innermost, |inner, key| Map::from_iter([((*key).to_owned(), Json::Object(inner))]))
}

fn append_at_top(text: &str, tree: &Node, name: &str, entry: &Map<String, Json>) -> Result<String, &'static str> {
    if is_flow(text, tree) && !text.trim().is_empty() && tree.entries().is_some() {
        return Err(FLOW_STYLE);
    }
    let newline = line_break(text);
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    Ok(format!("{text}{gap}{}{newline}", lines("", name, entry).join(newline)))
}

/// Inserts an entry behind the last one of a section.
fn insert(text: &str, section: &Entry, name: &str, entry: &Map<String, Json>) -> Result<String, &'static str> {
    let Some(last) = section.node.entries().and_then(<[Entry]>::last) else {
        let colon = colon(text, section)?;
        let outer = indent(text, section.key_span.start).ok_or(FLOW_STYLE)?;
        let inner = format!("{outer}  ");
        let text = match section.node.value {
            Value::Null => text.to_owned(),
            // Remove `{}`, keep the rest of the line.
            _ => splice(text, colon, section.node.span.end, ""),
        };
        return Ok(insert_lines(&text, colon, &inner, name, entry));
    };
    if is_flow(text, &section.node) {
        return Err(FLOW_STYLE);
    }
    let indent = indent(text, last.key_span.start).ok_or(FLOW_STYLE)?.to_owned();
    // An empty value ends on the line of its key.
    let end = last.node.span.end.max(last.key_span.end);
    Ok(insert_lines(text, end, &indent, name, entry))
}

/// Removes an entry.
pub(super) fn take(source: &Source, tree: &Node, path: &[&str], name: &str) -> Result<String, &'static str> {
    let text = source.text();
    let (last, above) = path.split_last().ok_or(NO_SECTION)?;
    let section = above.iter().try_fold(tree, |node, key| node.get(key)).and_then(|node| node.entry(last));
    let section = section.ok_or(NO_SECTION)?;
    let entry = section.node.entry(name).ok_or("it has no such entry")?;
    if is_flow(text, &section.node) || indent(text, entry.key_span.start).is_none() {
        return Err(FLOW_STYLE);
    }
    let from = line_start(text, entry.key_span.start);
    let to = next_line(text, entry.node.span.end.max(entry.key_span.end));
    let cut = splice(text, from, to, "");
    let only = section.node.entries().is_some_and(|entries| entries.len() == 1);
    // A key without a value would be null.
    if only {
        let colon = colon(text, section)?;
        return Ok(splice(&cut, colon, colon, " {}"));
    }
    Ok(cut)
}

fn insert_lines(text: &str, at: usize, indent: &str, name: &str, entry: &Map<String, Json>) -> String {
    let newline = line_break(text);
    let block: String = lines(indent, name, entry).iter().map(|line| format!("{newline}{line}")).collect();
    let end = line_end(text, at);
    splice(text, end, end, &block)
}

/// The lines of an entry: objects as blocks, everything else as JSON, which is a subset of YAML.
fn lines(indent: &str, name: &str, entry: &Map<String, Json>) -> Vec<String> {
    let inner = format!("{indent}  ");
    let mut all = vec![format!("{indent}{}:", key(name))];
    for (field, value) in entry {
        match value {
            Json::Object(map) if !map.is_empty() => all.extend(lines(&inner, field, map)),
            _ => all.push(format!("{inner}{}: {value}", key(field))),
        }
    }
    all
}

/// A key, quoted unless every YAML parser reads it as a string.
fn key(name: &str) -> String {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        && !WORDS.contains(&name.to_ascii_lowercase().as_str())
        && name != "n";
    if plain { name.to_owned() } else { Json::from(name).to_string() }
}

/// The offset after the colon of a key.
fn colon(text: &str, entry: &Entry) -> Result<usize, &'static str> {
    let rest = text.get(entry.key_span.end..).unwrap_or_default();
    let spaces = rest.len() - rest.trim_start_matches(' ').len();
    rest.trim_start_matches(' ').starts_with(':').then_some(entry.key_span.end + spaces + 1).ok_or(UNSUPPORTED_LAYOUT)
}

fn is_flow(text: &str, node: &Node) -> bool {
    text.get(node.span.start..).is_some_and(|rest| rest.starts_with('{')) || node.entries().is_none()
}
