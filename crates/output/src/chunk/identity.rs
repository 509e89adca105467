//! The identity of an object: its id and its names.

use super::page::{clipped, step};
use toolgate_json::{Shape, Value, minified_head, unquote};

/// The members that identify an object, best first.
const KEYS: [&str; 6] = ["id", "name", "title", "slug", "key", "label"];

/// Maximum length of a printed name, in bytes.
const MAX_NAME: usize = 80;

/// `id=4 name="Ada"`; `None` for an object without these members.
pub(super) fn identity(value: Value<'_>) -> Option<String> {
    let mut found: [Option<Value<'_>>; KEYS.len()] = [None; KEYS.len()];
    for entry in value.entries() {
        let Some(place) = entry.key.and_then(position).and_then(|position| found.get_mut(position)) else { continue };
        *place = Some(entry.value).filter(|value| !value.is_container() && value.text() != "null");
    }
    let mut text = String::new();
    for (key, value) in KEYS.iter().zip(found) {
        let Some(value) = value else { continue };
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(key);
        text.push('=');
        text.push_str(&clipped(value.text(), MAX_NAME));
    }
    (!text.is_empty()).then_some(text)
}

/// The first member that is a scalar, for records that have none of the usual members.
pub(super) fn first_scalar(value: Value<'_>) -> Option<String> {
    let is_scalar = |value: Value<'_>| !value.is_container() && value.text() != "null";
    let entry = value.entries().find(|entry| is_scalar(entry.value))?;
    Some(format!("{}={}", step(entry.key?), clipped(entry.value.text(), MAX_NAME)))
}

/// A short form of an array's element: the identity of an object, or the scalar itself.
pub(super) fn glimpse(value: Value<'_>) -> Option<String> {
    match value.shape() {
        Shape::Object => identity(value),
        Shape::String => Some(clipped(value.text(), MAX_NAME).into_owned()),
        Shape::Plain => Some(minified_head(value, MAX_NAME)),
        Shape::Array => None,
    }
}

fn position(key: &str) -> Option<usize> {
    // `unquote` copies only names with escapes, which are rare.
    KEYS.iter().position(|name| unquote(key) == *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<&str>) {
        assert_eq!(identity(Value::of(json)).as_deref(), expected, "{json}");
    }

    #[test]
    fn identities_come_in_one_order_whatever_the_object_has() {
        check(r#"{"label":"L","x":1,"name":"N","id":7}"#, Some(r#"id=7 name="N" label="L""#));
        check(r#"{"title":"T","slug":"s","key":"k"}"#, Some(r#"title="T" slug="s" key="k""#));
    }

    #[test]
    fn a_record_without_a_name_is_known_by_its_first_scalar() {
        let first = |json: &str| first_scalar(Value::of(json));
        assert_eq!(first(r#"{"tags":[1],"gone":null,"city":"Bern","n":1}"#).as_deref(), Some(r#"city="Bern""#));
        assert_eq!(first(r#"{"tags":[1]}"#), None);
    }

    #[test]
    fn what_has_no_name_has_no_identity() {
        check(r#"{"x":1}"#, None);
        check(r#"{"id":null,"name":{"first":"a"}}"#, None);
        check("[1]", None);
    }
}
