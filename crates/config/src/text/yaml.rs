//! Parses YAML 1.2 (core schema) from the events of `saphyr-parser`.
//!
//! Expanded aliases count against the node limit, so an alias bomb is an error. Merge keys (`<<`), custom tags and
//! several documents are not supported.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as Marks};
use serde_json::Number;

use super::Fault;
use super::tree::{Entry, MAX_DEPTH, MAX_NODES, Node, TOO_DEEP, TOO_MANY_VALUES, TextSpan, Value};

/// Parses the document of a text whose lines begin at the offsets `lines`.
pub(crate) fn parse(text: &str, lines: &[usize]) -> Result<Node, Fault> {
    let mut builder = Builder {
        text,
        lines,
        last: LastOffset::default(),
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        root: None,
    };
    for event in Parser::new_from_str(text) {
        let (event, marks) = event
            .map_err(|error| Fault::new(builder.offset(*error.marker()), format!("invalid YAML: {}", error.info())))?;
        builder.take(event, marks)?;
    }
    // A file without a document, such as one with comments only, is an empty configuration.
    Ok(builder.root.unwrap_or(Node { value: Value::Map(Vec::new()), span: TextSpan::new(0, text.len()) }))
}

/// A list or map that is not closed yet.
struct OpenCollection {
    anchor: usize,
    start: usize,
    content: Collection,
}

enum Collection {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<(String, TextSpan)>),
}

/// The last converted position.
#[derive(Default)]
struct LastOffset {
    line: usize,
    column: usize,
    at: usize,
}

struct Builder<'a> {
    text: &'a str,
    lines: &'a [usize],
    last: LastOffset,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    /// The byte offset of a line and column; the parser's own index mixes bytes and characters.
    /// Continues from the last position, otherwise a very long line would take quadratic time.
    fn offset(&mut self, mark: Marker) -> usize {
        if self.last.line != mark.line() || self.last.column > mark.col() {
            let start = self.lines.get(mark.line().saturating_sub(1)).copied().unwrap_or(self.text.len());
            self.last = LastOffset { line: mark.line(), column: 0, at: start };
        }
        let rest = self.text.get(self.last.at..).unwrap_or_default();
        let ahead = mark.col() - self.last.column;
        let at = self.last.at + rest.char_indices().nth(ahead).map_or(rest.len(), |(at, _)| at);
        self.last = LastOffset { line: mark.line(), column: mark.col(), at };
        at
    }

    fn take(&mut self, event: Event<'_>, marks: Marks) -> Result<(), Fault> {
        let span = TextSpan::new(self.offset(marks.start), self.offset(marks.end));
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| tag.to_string());
                let value = scalar(&text, style, tag.as_deref()).map_err(|message| Fault::new(span.start, message))?;
                // A block scalar ends with its last line; the parser reports the start of the next token.
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let held = self.text.get(span.start..span.end).unwrap_or_default().trim_end().len();
                let end = if block { span.start + held } else { span.end };
                self.add(Node { value, span: TextSpan::new(span.start, end) }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, span, Collection::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(anchor, span, Collection::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(Fault::new(span.start, "the file has more than one YAML document"))
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn begin(&mut self, anchor: usize, span: TextSpan, content: Collection) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::new(span.start, TOO_DEEP));
        }
        self.open.push(OpenCollection { anchor, start: span.start, content });
        Ok(())
    }

    fn end(&mut self, span: TextSpan) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        // The parser's end may include the comments that follow: a flow collection ends with its bracket, a block
        // collection with its last element.
        let flow = self.text.get(open.start..).is_some_and(|rest| rest.starts_with(['{', '[']));
        let (value, last) = match open.content {
            Collection::List(items) => {
                let last = items.last().map(|item| item.span.end);
                (Value::List(items), last)
            }
            Collection::Map(entries, _) => {
                let last = entries.last().map(|entry| entry.node.span.end.max(entry.key_span.end));
                (Value::Map(entries), last)
            }
        };
        let bracket = self.text.get(span.start..).is_some_and(|rest| rest.starts_with(['}', ']']));
        let end = match last {
            _ if bracket => span.start + 1,
            Some(last) if !flow => last,
            _ => span.end,
        };
        self.add(Node { value, span: TextSpan::new(open.start, end) }, open.anchor)
    }

    fn alias(&mut self, anchor: usize, span: TextSpan) -> Result<(), Fault> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Fault::new(span.start, "the alias refers to itself"));
        };
        if depth(node) + self.open.len() > MAX_DEPTH {
            return Err(Fault::new(span.start, TOO_DEEP));
        }
        self.nodes += count(node);
        if self.nodes > MAX_NODES {
            return Err(Fault::new(span.start, "the file has more than 1000000 values after its aliases are expanded"));
        }
        let node = node.clone();
        self.add(node, 0)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Fault::new(node.span.start, TOO_MANY_VALUES));
        }
        if anchor != 0 {
            // Nested anchors copy their content again, so each copy counts against the limit.
            self.nodes += count(&node);
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Map(entries, key)) => match key.take() {
                Some((key, key_span)) => entries.push(Entry { key, key_span, node }),
                None => *key = Some((key_text(self.text, &node)?, node.span)),
            },
        }
        Ok(())
    }
}

/// The text of a key. Scalars such as `8080:` and `true:` are keys as spelt in the file.
fn key_text(text: &str, node: &Node) -> Result<String, Fault> {
    match &node.value {
        Value::String(key) => Ok(key.clone()),
        Value::List(_) | Value::Map(_) => Err(Fault::new(node.span.start, "a key must be a string")),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            Ok(text.get(node.span.start..node.span.end).unwrap_or_default().to_owned())
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&str>) -> Result<Value, String> {
    match tag {
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None | Some("tag:yaml.org,2002:!str" | "!") => Ok(Value::String(text.to_owned())),
        Some(tag) if tag.starts_with("tag:yaml.org,2002:") => Ok(plain(text)),
        Some(tag) => Err(format!("unsupported tag {tag}")),
    }
}

/// The value of an unquoted scalar in the YAML 1.2 core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') || !digits.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Number::from(whole));
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(Number::from(whole));
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|entry| count(&entry.node)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn depth(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => entries.iter().map(|entry| depth(&entry.node)).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
