//! Edits block-style YAML line by line. Rejects flow style (`{a: b}`) except an empty `{}`.

use serde_json::{Map, Value as Json};

use super::{NO_SECTION, UNSUPPORTED_LAYOUT, indent, line_break, line_end, line_start, next_line, splice};
use crate::text::Source;
use crate::text::tree::{Entry, Node, Value};

const FLOW_STYLE: &str = "its servers are in flow style, { … }";

/// Adds or replaces an entry of a top-level section.
pub(super) fn put(
    source: &Source,
    tree: &Node,
    section: &str,
    name: &str,
    entry: &Map<String, Json>,
) -> Result<String, &'static str> {
    let text = source.text();
    let newline = line_break(text);
    let Some(servers) = tree.entry(section) else {
        if is_flow(text, tree) {
            return Err(FLOW_STYLE);
        }
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        let lines = [format!("{section}:")].into_iter().chain(lines("  ", name, entry));
        return Ok(format!("{text}{gap}{}{newline}", lines.collect::<Vec<_>>().join(newline)));
    };
    let Some(last) = servers.node.entries().and_then(<[Entry]>::last) else {
        let colon = colon(text, servers)?;
        let text = match servers.node.value {
            Value::Null => text.to_owned(),
            // Remove `{}`, keep the rest of the line.
            _ => splice(text, colon, servers.node.span.end, ""),
        };
        return Ok(insert_lines(&text, colon, "  ", name, entry));
    };
    if is_flow(text, &servers.node) {
        return Err(FLOW_STYLE);
    }
    if servers.node.entry(name).is_some() {
        return Err("it has an entry of this name");
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
    let block: String = lines(indent, name, entry).map(|line| format!("{newline}{line}")).collect();
    let end = line_end(text, at);
    splice(text, end, end, &block)
}

/// The lines of an entry: objects as blocks, everything else as JSON, which is a subset of YAML.
fn lines(indent: &str, name: &str, entry: &Map<String, Json>) -> impl Iterator<Item = String> {
    let mut lines = vec![format!("{indent}{}:", key(name))];
    for (field, value) in entry {
        match value {
            Json::Object(map) if !map.is_empty() => {
                lines.push(format!("{indent}  {}:", key(field)));
                lines.extend(map.iter().map(|(name, value)| format!("{indent}    {}: {value}", key(name))));
            }
            _ => lines.push(format!("{indent}  {}: {value}", key(field))),
        }
    }
    lines.into_iter()
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
