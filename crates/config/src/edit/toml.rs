//! Edits TOML with `toml_edit`, which keeps comments and layout.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::text::Source;

const NOT_A_TABLE: &str = "its servers are not a table";

/// Adds or replaces an entry of a section; sections that are missing are added.
pub(super) fn put(
    source: &Source,
    path: &[&str],
    name: &str,
    entry: &Map<String, Json>,
) -> Result<String, &'static str> {
    let mut document: DocumentMut = source.text().parse().map_err(|_| "it is not valid TOML")?;
    let mut section = document.as_item_mut();
    for key in path {
        let inline = matches!(section, Item::Value(_));
        let parent = section.as_table_like_mut().ok_or(NOT_A_TABLE)?;
        section = parent.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            if inline { Item::Value(Value::InlineTable(InlineTable::new())) } else { Item::Table(table) }
        });
    }
    match section {
        Item::Table(servers) => {
            let mut table = Table::new();
            for (key, json) in entry {
                table.insert(key, Item::Value(value(json)?));
            }
            servers.insert(name, Item::Table(table));
        }
        Item::Value(Value::InlineTable(servers)) => {
            servers.insert(name, Value::InlineTable(inline(entry)?));
        }
        Item::None | Item::Value(_) | Item::ArrayOfTables(_) => return Err(NOT_A_TABLE),
    }
    Ok(document.to_string())
}

/// Removes an entry.
pub(super) fn take(source: &Source, path: &[&str], name: &str) -> Result<String, &'static str> {
    let mut document: DocumentMut = source.text().parse().map_err(|_| "it is not valid TOML")?;
    let item = path.iter().try_fold(document.as_item_mut(), |item, key| item.get_mut(key));
    let table = item.and_then(Item::as_table_like_mut).ok_or(super::NO_SECTION)?;
    table.remove(name);
    Ok(document.to_string())
}

fn value(json: &Json) -> Result<Value, &'static str> {
    Ok(match json {
        Json::Null => return Err("TOML has no null"),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(real)) => Value::from(real),
            (None, None) => return Err("a number is too large for TOML"),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::Array(items.iter().map(value).collect::<Result<Array, _>>()?),
        Json::Object(map) => Value::InlineTable(inline(map)?),
    })
}

fn inline(map: &Map<String, Json>) -> Result<InlineTable, &'static str> {
    let mut table = InlineTable::new();
    for (key, json) in map {
        table.insert(key, value(json)?);
    }
    Ok(table)
}
