//! Divides lists into pages.
//!
//! A cursor contains the name and the index of the last entry sent. The name is used where entries were added or removed
//! between two requests; the index, where the named entry itself was removed. Clients treat the cursor as opaque. No state is
//! kept between two pages.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use super::message::{RpcError, invalid_params};

/// Entries per page. Large, because many clients never request a second page.
pub(super) const PAGE_SIZE: usize = 500;

/// The page of `entries` that follows the cursor, and the cursor of the next one, if there is one.
pub(super) fn page<T>(
    entries: Vec<T>,
    name_of: impl Fn(&T) -> &str,
    cursor: Option<&Value>,
) -> Result<(Vec<T>, Option<String>), RpcError> {
    let start = match cursor {
        None | Some(Value::Null) => 0,
        Some(cursor) => after(cursor, &entries, &name_of).ok_or_else(|| invalid_params("invalid cursor"))?,
    };
    let end = start.saturating_add(PAGE_SIZE).min(entries.len());
    let last = end.checked_sub(1).and_then(|last| entries.get(last)).filter(|_| end < entries.len());
    let next = last.map(|last| encode(end, name_of(last)));
    Ok((entries.into_iter().skip(start).take(PAGE_SIZE).collect(), next))
}

fn encode(place: usize, last: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{place}:{last}"))
}

fn after<T>(cursor: &Value, entries: &[T], name_of: impl Fn(&T) -> &str) -> Option<usize> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor.as_str()?).ok()?).ok()?;
    let (place, last) = text.split_once(':')?;
    let place: usize = place.parse().ok()?;
    let is_last = |entry: &T| name_of(entry) == last;
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

    fn tools(names: impl Iterator<Item = usize>) -> Vec<String> {
        names.map(|name| format!("t{name}")).collect()
    }

    fn cut(entries: Vec<String>, cursor: Option<&Value>) -> Result<(Vec<String>, Option<Value>), RpcError> {
        page(entries, |name| name, cursor).map(|(shown, next)| (shown, next.map(Value::String)))
    }

    fn first_of(entries: Vec<String>, cursor: &Value) -> String {
        cut(entries, Some(cursor)).unwrap().0.remove(0)
    }

    #[test]
    fn pages_cover_the_list_once_and_in_order() {
        let all = tools(0..PAGE_SIZE * 2 + 3);
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let (shown, next) = cut(all.clone(), cursor.as_ref()).unwrap();
            seen.extend(shown);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_short_list_and_a_full_page_have_no_cursor() {
        for length in [0, 1, PAGE_SIZE] {
            assert_eq!(cut(tools(0..length), None).unwrap().1, None);
        }
    }

    #[test]
    fn a_cursor_survives_entries_that_come_and_go() {
        let cursor = cut(tools(0..PAGE_SIZE + 2), None).unwrap().1.unwrap();
        let next = format!("t{PAGE_SIZE}");
        assert_eq!(first_of(tools(0..PAGE_SIZE + 2), &cursor), next);
        assert_eq!(first_of(tools(5..PAGE_SIZE + 2), &cursor), next);
        let without_last = tools((0..PAGE_SIZE + 2).filter(|name| *name != PAGE_SIZE - 1));
        assert_eq!(first_of(without_last, &cursor), format!("t{}", PAGE_SIZE + 1));
    }

    #[test]
    fn a_cursor_of_another_making_is_refused() {
        for cursor in [json!("x"), json!(3), json!(""), json!("OTk5")] {
            assert_eq!(cut(tools(0..3), Some(&cursor)).unwrap_err().code, -32602);
        }
    }
}
