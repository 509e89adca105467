//! The tree that all formats are parsed into.
//!
//! Each node has its byte range in the text, so that later checks can report line and column and an edit can replace
//! exactly that text.

use serde_json::{Map, Number, Value as Json};

/// Maximum nesting depth of a file. Bounds the recursion of parsers and tree walks.
pub(crate) const MAX_DEPTH: usize = 64;
/// The error message for exceeding [`MAX_DEPTH`].
pub(crate) const TOO_DEEP: &str = "values are nested more than 64 levels deep";

/// Maximum number of values of a file, with aliases expanded.
pub(crate) const MAX_NODES: usize = 1_000_000;
/// The error message for exceeding [`MAX_NODES`].
pub(crate) const TOO_MANY_VALUES: &str = "the file has more than 1000000 values";

/// A range of bytes in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextSpan {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl TextSpan {
    /// The bytes from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }
}

/// A value and its position.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its byte range in the text.
    pub span: TextSpan,
}

/// A value of any of the three formats.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, or a YAML key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; the text of the span is its exact spelling.
    Number(Number),
    /// A string; also values that JSON lacks (dates, infinities).
    String(String),
    /// An ordered list.
    List(Vec<Node>),
    /// Entries in the order of the file. May have duplicate keys until [`Source::tree`](super::Source::tree) has checked them.
    Map(Vec<Entry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key, unescaped.
    pub key: String,
    /// The byte range of the key.
    pub key_span: TextSpan,
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

    /// The kind of the value, for an error message.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }

    /// The value without positions.
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
