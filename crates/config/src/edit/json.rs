//! Edits JSON with comments by `jsonc-parser`, whose syntax tree keeps comments and layout.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value as Json};

use super::{NO_SECTION, UNSUPPORTED_LAYOUT};
use crate::text::Source;

/// Adds or replaces an entry of a section; sections that are missing are added.
pub(super) fn put(
    source: &Source,
    path: &[&str],
    name: &str,
    entry: &Map<String, Json>,
) -> Result<String, &'static str> {
    let root = parse(source)?;
    let mut section = root.object_value().ok_or(UNSUPPORTED_LAYOUT)?;
    for key in path {
        section = section.object_value_or_set(key);
    }
    let entry = input(&Json::Object(entry.clone()));
    match section.get(name) {
        Some(old) => old.set_value(entry),
        None => {
            section.append(name, entry);
        }
    }
    Ok(root.to_string())
}

/// Removes an entry.
pub(super) fn take(source: &Source, path: &[&str], name: &str) -> Result<String, &'static str> {
    let root = parse(source)?;
    let top = root.object_value().ok_or(NO_SECTION)?;
    let section: Option<CstObject> = path.iter().try_fold(top, |section, key| section.object_value(key));
    section.ok_or(NO_SECTION)?.get(name).ok_or("it has no such entry")?.remove();
    Ok(root.to_string())
}

fn parse(source: &Source) -> Result<CstRootNode, &'static str> {
    CstRootNode::parse(source.text(), &ParseOptions::default()).map_err(|_| "it is not valid JSON")
}

fn input(json: &Json) -> CstInputValue {
    match json {
        Json::Null => CstInputValue::Null,
        Json::Bool(flag) => CstInputValue::Bool(*flag),
        Json::Number(number) => CstInputValue::Number(number.to_string()),
        Json::String(text) => CstInputValue::String(text.clone()),
        Json::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Json::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
