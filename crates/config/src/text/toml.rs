//! Parses TOML with `toml_edit`, which provides spans, bounds its recursion and rejects duplicate keys.

use serde_json::Number;
use toml_edit::{Document, Item, Key, Table, TableLike, Value as Toml};

use super::Fault;
use super::tree::{Entry, Node, TextSpan, Value};

/// Parses a document.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Fault::new(at, error.message().lines().next().unwrap_or("invalid TOML").to_owned())
    })?;
    let mut root = table(document.as_table(), TextSpan::default());
    root.span = TextSpan::new(0, text.len());
    Ok(root)
}

fn table(table: &Table, place: TextSpan) -> Node {
    let span = table.span().map_or(place, to_span);
    Node { value: Value::Map(entries(table)), span }
}

fn entries(table: &dyn TableLike) -> Vec<Entry> {
    let keyed = table.iter().filter_map(|(name, item)| Some((table.key(name)?, item)));
    keyed.map(|(key, value)| entry(key, value)).collect()
}

fn entry(key: &Key, item: &Item) -> Entry {
    let key_span = key.span().map(to_span).unwrap_or_default();
    Entry { key: key.get().to_owned(), key_span, node: node(item, key_span) }
}

/// `place` is the span of an item without its own span, such as a table that is only implied by its children.
fn node(item: &Item, place: TextSpan) -> Node {
    match item {
        Item::None => Node { value: Value::Null, span: place },
        Item::Value(value) => leaf(value, place),
        Item::Table(inner) => table(inner, place),
        Item::ArrayOfTables(tables) => {
            let span = tables.span().map_or(place, to_span);
            let items = tables.iter().map(|inner| table(inner, span)).collect();
            Node { value: Value::List(items), span }
        }
    }
}

fn leaf(value: &Toml, place: TextSpan) -> Node {
    let span = value.span().map_or(place, to_span);
    let value = match value {
        Toml::String(text) => Value::String(text.value().clone()),
        Toml::Integer(number) => Value::Number(Number::from(*number.value())),
        Toml::Float(number) => match Number::from_f64(*number.value()) {
            Some(finite) => Value::Number(finite),
            None => Value::String(number.value().to_string()),
        },
        Toml::Boolean(flag) => Value::Bool(*flag.value()),
        Toml::Datetime(date) => Value::String(date.value().to_string()),
        Toml::Array(items) => Value::List(items.iter().map(|item| leaf(item, span)).collect()),
        Toml::InlineTable(inner) => Value::Map(entries(inner)),
    };
    Node { value, span }
}

fn to_span(range: std::ops::Range<usize>) -> TextSpan {
    TextSpan::new(range.start, range.end)
}
