//! The second stage: replaces large JSON by an outline with some of its data.
//!
//! Every line begins with a key path that `read_result` accepts. Small values are printed in full, long strings with head
//! and tail. An array of objects with the same keys is printed as count, keys, first items and the identities of the rest
//! ([`uniform`]), anything else as a map of key paths with sizes and identities ([`map`]). Data gets about
//! `chunk_threshold` bytes, lists of identities up to three times as many. The outline is always smaller than the JSON;
//! otherwise there is no outline.

mod identity;
mod map;
mod page;
mod uniform;

use super::body::{Body, BodyForm};
use super::footer::MIN_SAVING;
use super::size::Kb;
use page::Page;
use toolgate_json::{Shape, Value};

/// The budget of identities, as a multiple of the budget of data.
const IDENTITIES: usize = 3;

/// Minimum budget of data in bytes, whatever the threshold.
const MIN_DATA: usize = 512;

/// The outline of a body that is a JSON object or array, within `room` bytes.
pub(super) fn outline(body: &Body<'_>, threshold: usize, room: usize) -> Option<Body<'static>> {
    let json = body.json().filter(|json| json.is_container())?;
    let room = room.min(body.extent().bytes.checked_sub(MIN_SAVING + 1)?);
    let data = threshold.max(MIN_DATA).min(room);
    let mut page = Page::new(room.min(data.saturating_mul(1 + IDENTITIES)));
    let heading =
        format!("[JSON outline: {}, {} as text]", described(json, json.entries().count()), Kb(body.extent().bytes));
    if !page.line(&heading) {
        return None;
    }
    map::describe(&mut page, "", json, data.saturating_sub(heading.len() + 1), 0);
    Some(Body::new(page.into_text().into(), BodyForm::Text))
}

/// `array, 5 items` or `object, 2 keys`, for a container.
fn described(value: Value<'_>, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    match value.shape() {
        Shape::Object => format!("object, {count} key{plural}"),
        _ => format!("array, {count} item{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &serde_json::Value, threshold: usize) -> String {
        let body = Body::new(value.to_string().into(), BodyForm::Pretty);
        let outline = outline(&body, threshold, 200_000).expect("an outline");
        assert!(outline.extent().bytes < body.extent().bytes);
        outline.whole().into_owned()
    }

    fn people(count: usize) -> Vec<serde_json::Value> {
        (0..count).map(|i| json!({"id": i, "name": format!("Person {i}"), "risk": i % 7})).collect()
    }

    #[test]
    fn records_become_count_keys_first_items_and_identities() {
        insta::assert_snapshot!(check(&json!(people(30)), 512));
    }

    #[test]
    fn nested_records_are_found_and_what_is_around_them_stays() {
        insta::assert_snapshot!(check(&json!({"total": 30, "results": people(30), "next": null}), 512));
    }

    #[test]
    fn every_record_is_named_while_names_fit() {
        let text = check(&json!(people(800)), 10_240);
        (5..800).for_each(|i| assert!(text.contains(&format!("[{i}] id={i} name=\"Person {i}\"")), "{i}"));
    }

    #[test]
    fn of_too_many_records_the_first_and_the_last_are_named() {
        let text = check(&json!(people(20_000)), 10_240);
        assert!(text.len() < 41_000, "{}", text.len());
        assert!(text.contains("[19999] id=19999"), "{text}");
        assert!(text.contains("more …"));
    }

    #[test]
    fn other_json_becomes_a_map_with_sizes_and_data() {
        let mixed: Vec<_> = (0..40)
            .map(|i| {
                if i % 3 == 0 {
                    json!({"slug": format!("s{i}"), "body": "x".repeat(300)})
                } else {
                    json!({"title": format!("T{i}"), "tags": [1, 2, i]})
                }
            })
            .collect();
        let value = json!({
            "ok": true,
            "results": {"items": mixed, "page": {"size": 40, "next": "abc"}},
            "log": "begin ".to_owned() + &"middle ".repeat(600) + "end",
        });
        insta::assert_snapshot!(check(&value, 2_000));
    }

    #[test]
    fn many_keys_are_listed_by_name() {
        let value: serde_json::Map<_, _> =
            (0..400).map(|i| (format!("key{i}"), json!({"v": "x".repeat(60)}))).collect();
        insta::assert_snapshot!(check(&value.into(), 1_024));
    }

    #[test]
    fn hostile_depth_and_odd_keys_are_outlined() {
        let deep = "[".repeat(50_000) + &"]".repeat(50_000);
        let body = Body::new(deep.into(), BodyForm::Pretty);
        let deep = outline(&body, 10_240, 200_000).expect("an outline").whole().into_owned();
        assert!(deep.len() < 20_000 && deep.contains("[[[["));
        let odd = json!({"a > b": "x".repeat(900), "": [1], "line\nbreak": {"a.b": 1, "[0]": "y".repeat(900)}});
        insta::assert_snapshot!(check(&odd, 512));
    }
}
