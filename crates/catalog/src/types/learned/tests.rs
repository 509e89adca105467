//! A learned type accepts what it was learned from, merges in any order, and holds no value.

use proptest::prelude::*;
use serde_json::json;

use super::super::super::{BackendState, Catalog, Listing, Tool};
use super::*;

fn learn(results: &[Value]) -> LearnedType {
    let mut learned = LearnedType::default();
    for result in results {
        learned.merge(&LearnedType::of(&result.to_string()).unwrap());
    }
    learned
}

#[track_caller]
fn check(results: &[Value], expected: &str) {
    assert_eq!(learn(results).typescript(), expected);
}

#[test]
fn a_type_is_what_was_seen() {
    check(&[json!("a")], "string");
    check(&[json!(1), json!(null), json!(1.5)], "number | null");
    check(&[json!([])], "unknown[]");
    check(&[json!([]), json!([1, "a"])], "(string | number)[]");
    check(&[json!({})], "{}");
    check(&[], "unknown");
}

#[test]
fn a_format_that_all_strings_have_is_shown() {
    let row = |at: &str| json!({ "at": at, "links": ["https://example.com/a"] });
    let rows = [row("2026-01-31T12:00:00Z"), row("2026-02-01T12:00:00Z")];
    check(&rows, "{ at: string /* date-time */; links: string /* uri */[] }");
    check(&[row("2026-01-31T12:00:00Z"), row("soon")], "{ at: string; links: string /* uri */[] }");
}

#[test]
fn a_key_that_not_every_object_has_is_optional() {
    check(&[json!([{ "id": 1, "title": "a" }, { "id": 2 }])], "{ id: number; title?: string }[]");
    check(&[json!({ "a": { "b": true } }), json!({ "a": null })], "{ a: { b: boolean } | null }");
    let repeated = LearnedType::of(r#"[{"a":1,"a":2},{}]"#).unwrap();
    assert_eq!(repeated.typescript(), "{ a?: number }[]");
}

#[test]
fn keys_that_most_objects_have_come_first() {
    check(&[json!([{ "z": 1, "a": 1 }, { "z": 2 }])], "{ z: number; a?: number }[]");
}

/// A record of so many keys; `last` is in every record, the others in one of two.
fn wide_records(keys: u8) -> LearnedType {
    let name = |n: u8| format!("field_{}{}", char::from(b'a' + n / 26), char::from(b'a' + n % 26));
    let mut record: serde_json::Map<String, Value> = (0..keys - 1).map(|n| (name(n), json!("text"))).collect();
    record.insert("last".into(), json!({ "deep": 1 }));
    learn(&[json!([record]), json!([{ "last": { "deep": 2 } }])])
}

#[test]
fn a_type_of_many_keys_is_shortened_and_not_dropped() {
    let learned = wide_records(45);
    let shown = learned.typescript();
    assert!(shown.starts_with("{ last: { deep: number }; field_aa?: string; "), "{shown}");
    assert!(shown.len() <= 600 && shown.ends_with(" /* and 29 more */ }[]"), "{shown}");
    let short = "{ last: { deep: unknown }; field_aa?: string; /* and 43 more */ }[]";
    assert_eq!(learned.typescript_within(80).as_deref(), Some(short));
    assert_eq!(learned.typescript_within(5), None);
}

#[test]
fn a_declaration_file_and_a_hit_show_a_type_of_many_keys() {
    let tools: Vec<Tool> = [json!({ "name": "wide", "description": "Lists wide records." })]
        .into_iter()
        .filter_map(Tool::from_raw)
        .collect();
    let listing = Listing { name: "b".into(), state: BackendState::Ready, tools, tags: Vec::new() };
    let catalog = Catalog::new(vec![listing]);
    let mut types = LearnedTypes::default();
    types.add("b", "wide", &wide_records(45));
    let file = super::super::declaration_with(&catalog, &types);
    assert!(file.contains("field_br?: string") && !file.contains("more */"), "{file}");
    let hits = catalog.search("wide records", 1, None);
    let line = hits[0].line_with(catalog.tool("b", "wide").unwrap(), &types);
    assert!(line.starts_with("b.wide(): Promise<{ last: { deep: number }; field_aa?: string; "), "{line}");
    assert!(line.len() <= 280 && line.ends_with("— Lists wide records. // learned from 2 results"), "{line}");
}

#[test]
fn keys_that_may_be_data_are_not_stored() {
    let by_address = json!({ "anna@example.com": 1, "bob@example.com": 2 });
    check(&[by_address], "{ [key: string]: number }");
    check(&[json!({ "count": 1, "7f3a9c2e": true })], "{ count: number; [key: string]: unknown }");
    let many: serde_json::Map<String, Value> =
        (0..=MAX_FIELDS).map(|n| (format!("k{}{}", n / 26, char::from(b'a' + (n % 26) as u8)), json!(n))).collect();
    let learned = learn(&[Value::Object(many.clone())]);
    assert_eq!(learned.typescript(), "{ [key: string]: number }");
    assert!(!learned.export().to_string().contains("k1"));
}

#[test]
fn keys_of_many_results_become_a_map() {
    let results: Vec<Value> = (0..80)
        .map(|n| json!({ (format!("{}{}", char::from(b'a' + n / 26), char::from(b'a' + n % 26))): n }))
        .collect();
    check(&results, "{ [key: string]: number }");
}

#[test]
fn a_declared_result_is_never_replaced() {
    let tools = vec![
        json!({ "name": "declared", "outputSchema": { "type": "object", "properties": { "n": {} } } }),
        json!({ "name": "silent", "inputSchema": { "properties": { "q": { "type": "string" } }, "required": ["q"] } }),
    ];
    let tools = tools.into_iter().filter_map(Tool::from_raw).collect();
    let listing = Listing { name: "b".into(), state: BackendState::Ready, tools, tags: Vec::new() };
    let catalog = Catalog::new(vec![listing]);
    let signature = |tool: &str, learned: &LearnedType| learned_signature(catalog.tool("b", tool).unwrap(), learned);
    let learned = learn(&[json!([{ "id": 1 }]), json!([])]);
    assert_eq!(
        signature("silent", &learned),
        "silent(args: { q: string }): Promise<{ id: number }[]> // learned from 2 results"
    );
    assert_eq!(signature("silent", &LearnedType::default()), "silent(args: { q: string }): Promise<any>");
    assert_eq!(signature("declared", &learned), super::super::signature(catalog.tool("b", "declared").unwrap()));
}

#[test]
fn keys_are_known_where_objects_were_seen() {
    let learned = learn(&[json!({ "items": [{ "id": 1, "user": { "login": "a" } }] })]);
    assert_eq!(learned.keys_at(&[]), Some(vec!["items"]));
    assert_eq!(learned.keys_at(&["items"]), Some(vec!["id", "user"]));
    assert_eq!(learned.keys_at(&["items", "user"]), Some(vec!["login"]));
    assert_eq!(learned.keys_at(&["items", "id"]), None);
    assert_eq!(learn(&[json!({ "a b": 1 })]).keys_at(&[]), None);
}

#[test]
fn a_new_kind_or_key_does_not_fit() {
    let learned = learn(&[json!({ "id": 1, "name": "a" }), json!({ "id": 2 })]);
    assert!(learned.accepts(&json!({ "id": 3 })));
    for other in [json!({}), json!({ "id": "3" }), json!({ "id": 3, "nam": "a" }), json!([])] {
        assert!(!learned.accepts(&other), "{other}");
    }
}

#[test]
fn a_string_is_known_by_its_format_only() {
    for (text, format) in [
        ("2026-01-31", "date"),
        ("2026-01-31T12:00:00.25Z", "date-time"),
        ("2026-01-31T12:00:00+01:00", "date-time"),
        ("https://example.com", "uri"),
        ("anna@example.com", "email"),
        ("123e4567-e89b-12d3-a456-426614174000", "uuid"),
    ] {
        let formats = learn(&[json!(text)]).export()["shape"]["formats"].clone();
        assert_eq!(formats, json!({ format: 1 }), "{text}");
    }
    for text in ["", "x", "2026-1-31", "a@b", "@a.b", "2026-01-31 12:00"] {
        assert_eq!(learn(&[json!(text)]).export()["shape"]["formats"], Value::Null, "{text}");
    }
}

#[test]
fn a_type_is_bounded_whatever_is_seen() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let learned = LearnedType::of(&deep).unwrap();
    assert!(learned.export().to_string().len() < 2_000);
    assert!(learned.accepts(&serde_json::from_str(&deep).unwrap()));
    assert!(LearnedType::of(&"[".repeat(100_000)).is_err());
    let wide = |levels: usize| {
        (0..levels).fold(json!(1), |inner, _| (0..40).map(|n| (format!("k{n}"), inner.clone())).collect())
    };
    let huge = learn(&[wide(3)]);
    assert_eq!((huge.typescript().as_str(), huge.results()), ("any", 1));
    assert!(learn(&[wide(1), wide(2)]).export().to_string().len() < 200_000);
}

#[test]
fn what_is_imported_keeps_the_rules() {
    let shape = json!({ "objects": 1, "fields": { "anna@example.com": { "present": 1, "shape": { "strings": 1 } } } });
    let imported = LearnedType::import(&json!({ "version": 1, "results": 1, "shape": shape })).unwrap();
    assert!(!imported.export().to_string().contains("anna"));
    for damaged in [json!(7), json!({}), json!({ "version": 1, "results": -1, "shape": {} })] {
        assert!(matches!(LearnedType::import(&damaged), Err(LearnError::Damaged(_))), "{damaged}");
    }
    let newer = LearnedType::import(&json!({ "version": 2, "odd": 1 }));
    assert!(matches!(newer, Err(LearnError::Version { found: 2 })));
}

/// Results as tools give them, every string of which contains the canary.
fn result() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{0,8}".prop_map(|text| json!(format!("CANARY{text}"))),
        Just(json!("https://example.com/CANARY")),
        Just(json!("CANARY@example.com")),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
        text
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof!["[a-e]", "[a-c] [0-9]{4,6}", Just("CANARY@example.com".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::hash_map(key, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_type_accepts_all_that_it_was_learned_from(results in prop::collection::vec(result(), 1..8)) {
        let learned = learn(&results);
        prop_assert_eq!(learned.results(), results.len() as u64);
        for result in &results {
            prop_assert!(learned.accepts(result), "{} of {}", result, learned.export());
        }
    }

    #[test]
    fn merging_is_commutative_and_associative(a in result(), b in result(), c in result()) {
        let [a, b, c] = [a, b, c].map(|result| learn(&[result]));
        let merged = |first: &LearnedType, second: &LearnedType| {
            let mut both = first.clone();
            both.merge(second);
            both
        };
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    }

    #[test]
    fn wide_objects_merge_in_any_order(keys in prop::collection::vec("[a-z]{2}", 0..120), cut in 0usize..120) {
        let entry = |key: &String| (key.clone(), json!({ (key.clone()): 1 }));
        let object = |keys: &[String]| Value::Object(keys.iter().map(entry).collect());
        let cut = cut.min(keys.len());
        let [a, b] = [learn(&[object(&keys[..cut])]), learn(&[object(&keys[cut..])])];
        let (mut one, mut other) = (a.clone(), b.clone());
        one.merge(&b);
        other.merge(&a);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn no_value_is_stored(results in prop::collection::vec(result(), 1..6)) {
        let exported = learn(&results).export().to_string();
        prop_assert!(!exported.contains("CANARY"), "{}", exported);
    }

    #[test]
    fn what_is_exported_is_imported(results in prop::collection::vec(result(), 0..6)) {
        let learned = learn(&results);
        prop_assert_eq!(LearnedType::import(&learned.export()).unwrap(), learned);
    }
}
