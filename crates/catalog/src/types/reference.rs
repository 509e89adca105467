//! Resolves `$ref` within its own document. Remote references are never fetched.

use serde_json::Value;
use toolgate_wire::http_text::percent_decode;

/// The JSON pointer of a local reference (`#`, `#/$defs/x`), or `None` for a remote reference or an anchor.
pub(crate) fn pointer(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let pointer = percent_decode(fragment)?;
    (pointer.is_empty() || pointer.starts_with('/')).then_some(pointer)
}

/// The target of `schema`'s `$ref` within `root`, with its pointer.
pub(crate) fn target<'a>(root: &'a Value, schema: &Value) -> Option<(String, &'a Value)> {
    resolve(root, schema.get("$ref")?.as_str()?)
}

/// The target of a reference within `root`, with its pointer.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<(String, &'a Value)> {
    let pointer = pointer(reference)?;
    let target = root.pointer(&pointer)?;
    Some((pointer, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reference: &str, expected: Option<&str>) {
        assert_eq!(pointer(reference).as_deref(), expected);
    }

    #[test]
    fn only_pointers_into_the_same_document_count() {
        check("#", Some(""));
        check("#/$defs/a", Some("/$defs/a"));
        check("#/$defs/List%5Bint%5D", Some("/$defs/List[int]"));
        check("#anchor", None);
        check("https://example.com/schema.json", None);
        check("other.json#/a", None);
    }

    #[test]
    fn broken_escapes_are_no_pointer() {
        check("#/%", None);
        check("#/%4", None);
        check("#/%zz", None);
        check("#/%ff", None);
    }
}
