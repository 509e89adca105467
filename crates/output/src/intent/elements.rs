//! Filters JSON by element.
//!
//! The sections are the entries of the container that has most of the text: an array of results at any depth, or an object
//! whose members are of similar size. Everything around it stays, so that the result is JSON of the same structure. Both
//! the names and the values of an entry are matched.

use super::Matches;
use super::choice::Choice;
use super::terms::Terms;
use toolgate_json::{Shape, Value, unquote};

/// Maximum depth at which the container is searched.
const MAX_DEPTH: usize = 8;

/// The JSON with only the matching entries, if some match and some do not; `None` if it has no entries of a size to choose from.
pub(super) fn matching(json: Value<'_>, terms: &Terms) -> Option<Matches> {
    let (offset, container) = main_container(json)?;
    let (mut chosen, mut last) = (Choice::default(), 1);
    for entry in container.entries() {
        let written = container.text().get(entry.lead..entry.end)?;
        chosen.push(terms.match_in(&unescaped(written)), written.len() + 1);
        last = entry.end;
    }
    if !chosen.leaves_out() {
        return Some(Matches::nothing_left_out(&chosen));
    }
    let (before, after) = (json.text().get(..=offset)?, json.text().get(offset + last..)?);
    let mut text = String::with_capacity(before.len() + chosen.bytes + after.len());
    text.push_str(before);
    for (place, entry) in container.entries().enumerate().filter(|(place, _)| chosen.has(*place)) {
        text.push_str(if chosen.is_first(place) { "" } else { "," });
        text.push_str(container.text().get(entry.lead..entry.end)?);
    }
    text.push_str(after);
    Some(Matches { kept: chosen.kept, all: chosen.all, text })
}

/// The text with its escapes decoded: `\n` would join the words around it.
fn unescaped(written: &str) -> std::borrow::Cow<'_, str> {
    // The text is not a single string, but removing quotes at its ends joins no words.
    unquote(written)
}

/// The container whose entries are the sections, and its offset in the text.
fn main_container(json: Value<'_>) -> Option<(usize, Value<'_>)> {
    let (mut offset, mut value) = (0, json);
    for _ in 0..MAX_DEPTH {
        let mut others = value.entries();
        let mut largest = others.next()?;
        // An array with at least two elements is the container.
        let dominates = if value.shape() == Shape::Array {
            others.next().is_none()
        } else {
            largest = others.fold(largest, |one, other| if other.value.len() > one.value.len() { other } else { one });
            largest.value.len() > value.len() / 2
        };
        if !dominates {
            return Some((offset, value));
        }
        if !largest.value.is_container() {
            return None;
        }
        offset += largest.start;
        value = largest.value;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, intent: &str, expected: Option<&str>) {
        let terms = Terms::of(intent).expect("a term");
        let matches = matching(Value::of(json), &terms).filter(Matches::leave_out);
        assert_eq!(matches.map(|matches| matches.text).as_deref(), expected, "{json}");
    }

    #[test]
    fn the_layout_around_what_stays_is_kept() {
        check(r#"[ "a", "b" , "c b" ]"#, "b", Some(r#"[ "b", "c b" ]"#));
        check("{\n  \"list\": [\n    \"a\",\n    \"b\"\n  ]\n}", "b", Some("{\n  \"list\": [\n    \"b\"\n  ]\n}"));
    }

    #[test]
    fn a_nested_array_is_filtered_where_it_sits() {
        check(
            r#"{"n":2,"r":[{"i":["aa","bb cc dd"]}],"z":1}"#,
            "bb",
            Some(r#"{"n":2,"r":[{"i":["bb cc dd"]}],"z":1}"#),
        );
    }

    #[test]
    fn members_of_a_size_are_sections_with_their_names() {
        check(r#"{"errors":[1],"warnings":[2],"notes":[3]}"#, "error", Some(r#"{"errors":[1]}"#));
    }

    #[test]
    fn escapes_separate_words() {
        check(r#"["a\nerror","b","\u0065rror"]"#, "error", Some(r#"["a\nerror","\u0065rror"]"#));
    }

    #[test]
    fn all_none_or_one_long_string_change_nothing() {
        check(r#"["b","b"]"#, "b", None);
        check(r#"["a","c"]"#, "b", None);
        check(r#"{"text":"b and a great deal more of it","type":"text"}"#, "b", None);
        check("[]", "b", None);
    }
}
