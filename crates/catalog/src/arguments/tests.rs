//! Arguments that break a schema are refused with the path and what was expected.

use super::*;
use serde_json::json;

#[track_caller]
fn check(schema: Value, arguments: Value, expected: &[(&str, &str)]) {
    let checker = Checker::new(&schema);
    assert_eq!(checker.unusable_because(), None);
    let problems = checker.check(&schema, &arguments);
    let found: Vec<(&str, &str)> = problems.iter().map(|p| (p.path.as_str(), p.message.as_str())).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn check_unusable(schema: Value) {
    let checker = Checker::new(&schema);
    assert!(checker.unusable_because().is_some(), "{schema}");
    assert_eq!(checker.check(&schema, &json!({ "anything": 1 })), []);
}

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
            "sort": { "enum": ["asc", "desc"] },
            "filters": { "type": "array", "items": { "$ref": "#/$defs/filter" } },
            "since": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        },
        "required": ["query"],
        "additionalProperties": false,
        "$defs": { "filter": {
            "type": "object",
            "properties": { "name": { "type": "string" }, "odd key": { "type": ["number", "null"] } },
            "required": ["name"],
        } },
    })
}

#[test]
fn arguments_that_fit_have_no_problem() {
    check(
        search(),
        json!({ "query": "x", "limit": 3, "sort": "asc", "filters": [{ "name": "n" }], "since": null }),
        &[],
    );
}

#[test]
fn a_wrong_type_says_what_was_wanted_and_what_came() {
    check(search(), json!({ "query": "x", "limit": "3" }), &[("limit", "`limit` must be an integer, got a string")]);
    check(search(), json!([]), &[("", "the argument must be an object, got an array")]);
}

#[test]
fn a_missing_property_is_named_with_its_type() {
    check(search(), json!({}), &[("query", "`query` is required (string)")]);
}

#[test]
fn an_unknown_property_comes_with_the_nearest_known_one() {
    check(
        search(),
        json!({ "query": "x", "limt": 3 }),
        &[("limt", "`limt` is not a known property; did you mean `limit`?")],
    );
    check(
        search(),
        json!({ "query": "x", "zzz": 3 }),
        &[("zzz", "`zzz` is not a known property; there are query, limit, sort, filters, since")],
    );
}

#[test]
fn an_enum_lists_its_values() {
    check(search(), json!({ "query": "x", "sort": "up" }), &[("sort", "`sort` must be one of \"asc\", \"desc\"")]);
}

#[test]
fn a_path_leads_through_arrays_and_odd_keys() {
    check(
        search(),
        json!({ "query": "x", "filters": [{ "name": "n" }, { "name": 7, "odd key": "x" }] }),
        &[
            ("filters[1].name", "`filters[1].name` must be a string, got a number"),
            ("filters[1][\"odd key\"]", "`filters[1][\"odd key\"]` must be null or a number, got a string"),
        ],
    );
    check(
        search(),
        json!({ "query": "x", "filters": [{}] }),
        &[("filters[0].name", "`filters[0].name` is required (string)")],
    );
}

#[test]
fn alternatives_are_told_as_a_type() {
    check(search(), json!({ "query": "x", "since": 1 }), &[("since", "`since` must be string | null, got a number")]);
}

#[test]
fn limits_are_told_with_their_number() {
    check(
        search(),
        json!({ "query": "", "limit": 99 }),
        &[("query", "`query` must have at least 1 characters"), ("limit", "`limit` must be at most 50")],
    );
}

#[test]
fn problems_are_few_and_short() {
    let schema = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let arguments: Value =
        (0..1_000).map(|n| (format!("{}{n}", "k".repeat(5_000)), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let problems = Checker::new(&schema).check(&schema, &arguments);
    assert_eq!(problems.len(), MAX_PROBLEMS);
    assert!(problems.iter().all(|problem| problem.path.len() < 1_000 && problem.message.len() < 1_000));
}

#[test]
fn what_is_no_schema_checks_nothing() {
    check_unusable(json!("string"));
    check_unusable(json!(true));
    check_unusable(json!(null));
    check_unusable(json!({ "type": "strin" }));
    check_unusable(json!({ "properties": 7 }));
    check_unusable(json!({ "pattern": "(" , "type": "string" }));
}

#[test]
fn nothing_is_fetched() {
    check_unusable(json!({ "$ref": "https://example.com/schema.json" }));
    check_unusable(json!({ "$ref": "file:///etc/passwd" }));
    check_unusable(json!({ "properties": { "a": { "$ref": "#/$defs/missing" } } }));
}

#[test]
fn a_recursive_schema_checks_as_deep_as_the_value_goes() {
    let tree = json!({
        "type": "object",
        "properties": { "children": { "type": "array", "items": { "$ref": "#" } }, "name": { "type": "string" } },
    });
    check(
        tree,
        json!({ "children": [{ "children": [{ "name": 1 }] }] }),
        &[("children[0].children[0].name", "`children[0].children[0].name` must be a string, got a number")],
    );
}

#[test]
fn a_schema_that_is_only_itself_is_harmless() {
    let schema = json!({ "$ref": "#" });
    assert_eq!(Checker::new(&schema).check(&schema, &json!({ "a": 1 })), []);
    let schema =
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } });
    assert_eq!(Checker::new(&schema).check(&schema, &json!({ "a": 1 })), []);
}

#[test]
fn references_that_multiply_are_not_followed() {
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/a{}", n + 1) });
        defs.insert(format!("a{n}"), json!({ "allOf": [next, next] }));
    }
    defs.insert("a40".into(), json!({ "type": "object" }));
    check_unusable(json!({ "$ref": "#/$defs/a0", "$defs": defs }));
}

#[test]
fn a_value_too_deep_for_a_branching_recursion_passes_unchecked() {
    let next = json!({ "properties": { "a": { "$ref": "#" } }, "required": ["z"] });
    let schema = json!({ "anyOf": [next, next, next, next] });
    let mut arguments = json!({});
    for _ in 0..60 {
        arguments = json!({ "a": arguments });
    }
    assert_eq!(Checker::new(&schema).check(&schema, &arguments), []);
    assert_ne!(Checker::new(&schema).check(&schema, &json!({ "a": {} })), []);
}

#[test]
fn a_pattern_that_never_ends_gives_up_without_a_verdict() {
    let schema = json!({ "properties": { "a": { "type": "string", "pattern": "^(?=(a+)+$)(a|aa)+\\1$" } } });
    let problems = Checker::new(&schema).check(&schema, &json!({ "a": format!("{}!", "a".repeat(60)) }));
    assert!(problems.len() <= 1);
}

#[test]
fn a_pattern_too_large_to_compile_checks_nothing() {
    check_unusable(json!({ "properties": { "a": { "pattern": "(((a{1000}){1000}){1000}){1000}" } } }));
}

#[test]
fn a_schema_too_deep_or_too_large_checks_nothing() {
    let mut deep = json!({ "type": "object" });
    for _ in 0..120 {
        deep = json!({ "properties": { "a": deep } });
    }
    check_unusable(deep);
    let wide: serde_json::Map<String, Value> = (0..60_000).map(|n| (n.to_string(), json!({}))).collect();
    check_unusable(json!({ "properties": wide }));
}

#[test]
fn of_many_wrong_values_the_first_is_told() {
    let schema = json!({ "type": "object", "properties": { "x": { "type": "array", "items": { "type": "string" } } } });
    let arguments = json!({ "x": vec![1; 100_000] });
    let problems = Checker::new(&schema).check(&schema, &arguments);
    let found: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(found, ["`x[0]` must be a string, got a number"]);
}

#[test]
fn a_check_that_could_take_long_is_not_begun() {
    let constants: Vec<Value> = (0..500).map(|n| json!({ "const": n })).collect();
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "array", "items": { "anyOf": constants } } } });
    let checker = Checker::new(&schema);
    assert!(!checker.check(&schema, &json!({ "x": [1_000] })).is_empty());
    assert!(checker.check(&schema, &json!({ "x": vec![1_000; 3_000_000] })).is_empty(), "left to the backend");
}
