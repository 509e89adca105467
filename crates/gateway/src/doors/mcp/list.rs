//! Long lists, page by page.
//!
//! A cursor holds the last entry shown and its place. The name finds the way when entries come or
//! go in between; the place does when the named entry itself is gone. To a client it is opaque.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::message::{RpcError, invalid_params};

/// Entries of one page. Large, since many clients never ask for a second one.
pub(super) const PAGE: usize = 500;

/// One page of `entries` under `key`, each known by its string `name`.
pub(super) fn page(
    entries: Vec<Value>,
    key: &str,
    name: &str,
    cursor: Option<&Value>,
) -> Result<Map<String, Value>, RpcError> {
    let start = match cursor {
        None | Some(Value::Null) => 0,
        Some(cursor) => after(cursor, &entries, name).ok_or_else(|| invalid_params("no such cursor"))?,
    };
    let end = start.saturating_add(PAGE).min(entries.len());
    let next = (end < entries.len()).then(|| entries.get(end.wrapping_sub(1)).map(|last| encode(end, last, name)));
    let shown: Vec<Value> = entries.into_iter().skip(start).take(PAGE).collect();
    let mut result = Map::new();
    result.insert(key.to_owned(), Value::Array(shown));
    result.extend(next.flatten().map(|next| ("nextCursor".to_owned(), Value::String(next))));
    Ok(result)
}

fn name_of<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn encode(place: usize, last: &Value, name: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{place}:{}", name_of(last, name)))
}

fn after(cursor: &Value, entries: &[Value], name: &str) -> Option<usize> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor.as_str()?).ok()?).ok()?;
    let (place, last) = text.split_once(':')?;
    let place: usize = place.parse().ok()?;
    let is_last = |entry: &Value| name_of(entry, name) == last;
    if place.checked_sub(1).and_then(|before| entries.get(before)).is_some_and(is_last) {
        return Some(place);
    }
    let found = entries.iter().position(is_last).map(|index| index + 1);
    Some(found.unwrap_or(place).min(entries.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools(names: impl Iterator<Item = usize>) -> Vec<Value> {
        names.map(|name| json!({ "name": format!("t{name}") })).collect()
    }

    fn first_of(entries: Vec<Value>, cursor: &Value) -> Value {
        page(entries, "tools", "name", Some(cursor)).unwrap()["tools"][0]["name"].clone()
    }

    #[test]
    fn pages_cover_the_list_once_and_in_order() {
        let all = tools(0..PAGE * 2 + 3);
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let mut result = page(all.clone(), "tools", "name", cursor.as_ref()).unwrap();
            seen.extend(result["tools"].as_array().unwrap().clone());
            cursor = result.remove("nextCursor");
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_short_list_and_a_full_page_have_no_cursor() {
        for length in [0, 1, PAGE] {
            assert!(!page(tools(0..length), "tools", "name", None).unwrap().contains_key("nextCursor"));
        }
    }

    #[test]
    fn a_cursor_survives_entries_that_come_and_go() {
        let cursor = page(tools(0..PAGE + 2), "tools", "name", None).unwrap()["nextCursor"].clone();
        let next = format!("t{PAGE}");
        assert_eq!(first_of(tools(0..PAGE + 2), &cursor), json!(next));
        assert_eq!(first_of(tools(5..PAGE + 2), &cursor), json!(next));
        let without_last = tools((0..PAGE + 2).filter(|name| *name != PAGE - 1));
        assert_eq!(first_of(without_last, &cursor), json!(format!("t{}", PAGE + 1)));
    }

    #[test]
    fn a_cursor_of_another_making_is_refused() {
        for cursor in [json!("x"), json!(3), json!(""), json!("OTk5")] {
            assert_eq!(page(tools(0..3), "tools", "name", Some(&cursor)).unwrap_err().code, -32602);
        }
    }
}
