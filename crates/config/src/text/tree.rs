//! The one tree that every format is read into.
//!
//! Each node knows the bytes it was written as, so a problem found much later
//! can still point at its line and column, and an edit can replace just that text.

use serde_json::{Map, Number, Value as Json};

/// The deepest nesting a file may have. Readers and walkers recurse, so this bounds the stack.
pub const MAX_DEPTH: usize = 64;

/// The most values a file may hold, aliases expanded.
pub const MAX_NODES: usize = 1_000_000;

/// A range of bytes in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands.
    pub span: Span,
}

/// What all three formats can say.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, or nothing after a YAML key.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; its exact spelling is the text under the span.
    Number(Number),
    /// Text, also what the other formats lack (dates, infinities).
    String(String),
    /// An ordered list.
    List(Vec<Node>),
    /// Entries in the order of the file, possibly with repeated keys.
    Map(Vec<Entry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key, unescaped.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// The entries, if this is a map.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry under `key`, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// The text, if this is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// How a person would call this kind of value.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing (null)",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }

    /// The same without positions.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Number(number) => Json::Number(number.clone()),
            Value::String(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
                Json::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}
