//! Arguments that break a schema are refused with the path and what was expected.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn checker_of(schema: &Value) -> Checker {
    Checker::new(schema, &SchemaMemory::of_server())
}

#[track_caller]
fn check(schema: Value, arguments: Value, expected: &[(&str, &str)]) {
    let checker = checker_of(&schema);
    assert_eq!(checker.unusable_because(), None);
    let problems = checker.check(&schema, &arguments);
    let found: Vec<(&str, &str)> = problems.iter().map(|p| (p.path.as_str(), p.message.as_str())).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn check_unusable(schema: Value) {
    let checker = checker_of(&schema);
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
    let problems = checker_of(&schema).check(&schema, &arguments);
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
    assert_eq!(checker_of(&schema).check(&schema, &json!({ "a": 1 })), []);
    let schema =
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } });
    assert_eq!(checker_of(&schema).check(&schema, &json!({ "a": 1 })), []);
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
    assert_eq!(checker_of(&schema).check(&schema, &arguments), []);
    assert_ne!(checker_of(&schema).check(&schema, &json!({ "a": {} })), []);
}

#[test]
fn a_pattern_that_never_ends_gives_up_without_a_verdict() {
    let schema = json!({ "properties": { "a": { "type": "string", "pattern": "^(?=(a+)+$)(a|aa)+\\1$" } } });
    let problems = checker_of(&schema).check(&schema, &json!({ "a": format!("{}!", "a".repeat(60)) }));
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
    let problems = checker_of(&schema).check(&schema, &arguments);
    let found: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(found, ["`x[0]` must be a string, got a number"]);
}

#[test]
fn a_check_that_could_take_long_is_not_begun() {
    let constants: Vec<Value> = (0..500).map(|n| json!({ "const": n })).collect();
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "array", "items": { "anyOf": constants } } } });
    let checker = checker_of(&schema);
    assert!(!checker.check(&schema, &json!({ "x": [1_000] })).is_empty());
    assert!(checker.check(&schema, &json!({ "x": vec![1_000; 3_000_000] })).is_empty(), "left to the backend");
}

/// Schemas with arguments that take the validator long, one for each keyword that multiplies work.
fn hostile() -> Vec<(&'static str, Value, Value)> {
    let mut mixed: Vec<Value> = (0..20_000).map(|n| json!(f64::from(n) + 0.5)).collect();
    mixed.push(json!("x"));
    let list = |items: Value| json!({ "properties": { "x": { "type": "array", "items": items } } });
    let many = |value: Value, count: usize| json!({ "x": vec![value; count] });
    let text = |length: usize| -> String { (0..length).map(|n| if n * n % 7 < 3 { 'a' } else { 'b' }).collect() };
    let keyed = |count: usize| -> Value {
        json!({ "x": (0..count).map(|n| (format!("a{n}"), json!(n))).collect::<serde_json::Map<_, _>>() })
    };
    let wide: Vec<Value> = (0..3_000).map(|n| json!({ "minimum": n })).collect();
    let formats: Vec<Value> = (0..3_000).map(|n| json!({ "format": "json-pointer", "title": n.to_string() })).collect();
    let names: Vec<String> = (0..20_000).map(|n| format!("n{n}")).collect();
    let lookahead = |n: usize| format!("^(?=(a+)+$)(a|aa)+\\1{{{n}}}$");
    let patterns: serde_json::Map<_, _> = (0..150).map(|n| (lookahead(n), json!({}))).collect();
    let long_patterns: serde_json::Map<_, _> = (0..150).map(|n| (format!("[ab]*a[ab]{{{n}}}c"), json!({}))).collect();
    let properties: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("p{n}"), json!({}))).collect();
    let dependent: serde_json::Map<_, _> = (0..500).map(|n| (format!("a{n}"), json!({ "allOf": [{}, {}] }))).collect();
    let mut deep = json!(1);
    for _ in 0..60 {
        deep = json!({ "a": deep });
    }
    // All of one hash: it leaves out the shape of lists.
    let shapes: Vec<Value> = (0..3_000).map(|n| json!([vec![json!([]); n % 50], n / 50, [n]])).collect();
    let unevaluated = json!({ "anyOf": [{ "properties": { "z": {} } }], "unevaluatedProperties": { "anyOf": wide } });
    vec![
        ("enum", list(json!({ "enum": mixed })), many(json!(19_999.5), 20_000)),
        ("const", list(json!({ "const": vec![1; 20_000] })), many(json!(vec![1; 100]), 1_000)),
        ("enum of texts", list(json!({ "enum": [0.5, text(1 << 20)] })), many(json!(text(1 << 20)), 80)),
        ("anyOf", list(json!({ "anyOf": wide })), many(json!(-1), 2_000)),
        ("oneOf", list(json!({ "oneOf": wide })), many(json!(-1), 2_000)),
        ("allOf", list(json!({ "allOf": wide })), many(json!(9_999), 2_000)),
        ("not", list(json!({ "not": { "anyOf": wide } })), many(json!(-1), 2_000)),
        ("if", list(json!({ "if": { "anyOf": wide }, "then": false })), many(json!(-1), 2_000)),
        ("contains", list(json!({ "contains": { "anyOf": wide } })), many(json!([-1, -1]), 1_000)),
        ("prefixItems", list(json!({ "prefixItems": wide })), many(json!(vec![1; 3_000]), 600)),
        (
            "items of draft 7",
            {
                let mut schema = list(json!({ "items": wide, "additionalItems": { "anyOf": wide } }));
                schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
                schema
            },
            many(json!(vec![-1; 6_000]), 300),
        ),
        ("required", list(json!({ "required": names })), many(json!({}), 2_000)),
        ("properties", list(json!({ "properties": properties })), many(json!({ "a": 1 }), 2_000)),
        (
            "format",
            json!({ "properties": { "x": { "allOf": formats } } }),
            json!({ "x": format!("/{}", text(1 << 20)) }),
        ),
        ("pattern", json!({ "properties": { "x": { "pattern": "[ab]*a[ab]{500}c" } } }), json!({ "x": text(300_000) })),
        ("pattern that looks around", list(json!({ "pattern": lookahead(1) })), many(json!(text(60)), 2_000)),
        ("patternProperties", json!({ "properties": { "x": { "patternProperties": patterns } } }), keyed(1_000)),
        ("long names", json!({ "properties": { "x": { "patternProperties": long_patterns } } }), {
            let names = (0..300).map(|n| (format!("{}{n}", text(3_000)), json!(1)));
            json!({ "x": names.collect::<serde_json::Map<_, _>>() })
        }),
        ("propertyNames", json!({ "properties": { "x": { "propertyNames": { "anyOf": wide } } } }), keyed(2_000)),
        ("additionalProperties", json!({ "properties": { "x": { "additionalProperties": { "anyOf": wide } } } }), {
            json!({ "x": (0..2_000).map(|n| (n.to_string(), json!(-1))).collect::<serde_json::Map<_, _>>() })
        }),
        ("dependentSchemas", list(json!({ "dependentSchemas": dependent })), many(keyed(5)["x"].clone(), 2_000)),
        ("unevaluatedProperties", json!({ "properties": { "x": unevaluated } }), keyed(1_000)),
        ("uniqueItems", json!({ "properties": { "x": { "uniqueItems": true } } }), json!({ "x": shapes })),
        (
            "a property with the name of a keyword",
            json!({ "properties": { "default": { "items": { "anyOf": wide } } } }),
            json!({ "default": vec![-1; 2_000] }),
        ),
        (
            "two ways to one property",
            json!({ "properties": { "a": { "$ref": "#" } }, "patternProperties": {
            "^a": { "$ref": "#" }, "a$": { "$ref": "#" } } }),
            deep,
        ),
    ]
}

#[test]
fn every_keyword_that_multiplies_work_is_counted() {
    for (keyword, schema, arguments) in hostile() {
        let checker = checker_of(&schema);
        assert_eq!(checker.unusable_because(), None, "{keyword}");
        let Checker::Usable(usable) = &checker else { panic!("{keyword}") };
        assert!(!usable.cost.allows(&arguments), "{keyword}: the check would be begun");
        assert_eq!(checker.check(&schema, &arguments), [], "{keyword}");
    }
}

#[test]
fn what_is_expensive_to_compile_is_not_compiled() {
    let mut nested = json!({ "type": "object" });
    for _ in 0..25 {
        nested = json!({ "allOf": [nested], "anyOf": [{}, {}], "unevaluatedProperties": false });
    }
    check_unusable(nested);
    let patterns: serde_json::Map<_, _> = (0..1_000).map(|n| (format!(r"^\w{{{n}}}$"), json!({}))).collect();
    check_unusable(json!({ "patternProperties": patterns }));
    // A chain of references, of which each is known when the next one is met.
    let mut defs = serde_json::Map::new();
    let mut properties = serde_json::Map::new();
    for n in (0..2_000).rev() {
        defs.insert(format!("a{n}"), json!({ "not": { "$ref": format!("#/$defs/a{}", n + 1) } }));
        properties.insert(format!("p{:05}", 2_000 - n), json!({ "$ref": format!("#/$defs/a{n}") }));
    }
    defs.insert("a2000".into(), json!({}));
    check_unusable(json!({ "properties": properties, "$defs": defs }));
}

#[test]
fn a_reference_that_is_not_followed_makes_a_schema_unusable() {
    check_unusable(json!({ "$ref": "#name", "$defs": { "a": { "$anchor": "name" } } }));
    check_unusable(json!({ "$dynamicRef": "#name", "$dynamicAnchor": "name" }));
    check_unusable(json!({ "properties": { "a": { "$id": "http://a/", "$ref": "#/$defs/a", "$defs": { "a": {} } } },
        "$defs": { "a": {} } }));
    let with_ids = json!({ "properties": { "a": { "$id": "http://example.com/a", "type": "string" } } });
    check(with_ids, json!({ "a": 1 }), &[("a", "`a` must be a string, got a number")]);
}

#[test]
fn honest_arguments_are_checked_however_long_their_texts() {
    let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    let schema = json!({ "type": "object", "properties": {
        "to": { "type": "string", "format": "email", "pattern": email },
        "body": { "type": "string", "maxLength": 5_000_000 },
        "rows": { "type": "array", "items": { "type": "object", "properties": { "id": { "type": "integer" } } } },
        "kind": { "enum": (0..200).map(|n| format!("kind {n}")).collect::<Vec<_>>() },
    } });
    let rows: Vec<Value> = (0..20_000).map(|n| json!({ "id": n })).collect();
    let mail = |to: &str, kind: &str| json!({ "to": to, "body": "x".repeat(1 << 20), "rows": rows, "kind": kind });
    check(schema.clone(), mail("ann@example.com", "kind 7"), &[]);
    let checker = checker_of(&schema);
    assert_eq!(checker.check(&schema, &mail("ann@example.com", "kind 700")).len(), 1);
    assert_eq!(checker.check(&schema, &mail("ann@@example.com", "kind 7")).len(), 1);
}

/// Schemas of all keywords that apply others, small and nested.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({ "type": "integer" })),
        Just(json!({ "enum": [1, 2.5, "a", [1], { "a": 1 }] })),
        Just(json!({ "pattern": "^(?=(a+)+$)(a|aa)+\\1$" })),
        Just(json!({ "pattern": "[ab]*a[ab]{50}c" })),
        Just(json!({ "uniqueItems": true })),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "required": ["a", "b"] })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (prop::sample::select(vec!["anyOf", "oneOf", "allOf", "prefixItems"]), list())
                .prop_map(|(keyword, schemas)| json!({ keyword: schemas })),
            (
                prop::sample::select(vec![
                    "not",
                    "items",
                    "contains",
                    "additionalProperties",
                    "propertyNames",
                    "unevaluatedProperties",
                    "unevaluatedItems",
                    "if",
                ]),
                inner.clone(),
                inner.clone()
            )
                .prop_map(|(keyword, schema, beside)| json!({ keyword: schema, "allOf": [beside] })),
            list().prop_map(|schemas| {
                let named = ["a", "b", "default"].iter().zip(schemas).map(|(name, schema)| (name.to_string(), schema));
                json!({ "properties": named.collect::<serde_json::Map<_, _>>() })
            }),
            list().prop_map(|schemas| {
                let named = ["^a", "a$", "."].iter().zip(schemas).map(|(name, schema)| (name.to_string(), schema));
                json!({ "patternProperties": named.collect::<serde_json::Map<_, _>>() })
            }),
            (inner.clone()).prop_map(|schema| json!({ "dependentSchemas": { "a": schema } })),
        ]
    })
}

/// Arguments of many values, deep or wide.
fn any_arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(2.5)),
        Just(json!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")),
        Just(json!("ab".repeat(2_000))),
        Just(json!(null)),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 1..4), 1..40_usize)
                .prop_map(|(items, times)| json!(vec![items; times].concat())),
            prop::collection::btree_map(prop::sample::select(vec!["a", "ba", "b", "default"]), inner, 1..4)
                .prop_map(|entries| json!(entries)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A check that is begun ends: a schema and a value that together take exponential time are refused beforehand.
    #[test]
    fn a_check_of_any_keywords_ends(schema in any_schema(), arguments in any_arguments()) {
        let schema = json!({ "properties": { "x": schema.clone() }, "additionalProperties": schema });
        let since = std::time::Instant::now();
        let _problems = checker_of(&schema).check(&schema, &json!({ "x": arguments.clone(), "y": arguments }));
        prop_assert!(since.elapsed() < std::time::Duration::from_secs(30), "{schema}");
    }
}

/// Whether a task that waits for the only worker of a runtime gets it while another task does `work` again and again.
fn leaves_the_runtime(work: impl Fn() + Send + 'static) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let busy = tokio::spawn(async move {
            let other = tokio::spawn(async {});
            // Without a point at which it waits, so that the worker is left within `work` or not at all.
            (0..500).any(|_| {
                work();
                other.is_finished()
            })
        });
        busy.await.expect("no panic")
    })
}

#[test]
fn a_long_check_leaves_the_runtime_to_other_tasks() {
    let schema = json!({ "type": "object", "properties": { "x": { "type": "array", "items": { "type": "string" } } } });
    let arguments = json!({ "x": vec!["a"; 10_000] });
    let checker = Checker::new(&schema, &SchemaMemory::of_server());
    let (for_tools, tree) = (schema.clone(), arguments.clone());
    assert!(leaves_the_runtime(move || assert!(checker.check(&for_tools, &tree).is_empty())));
    let function = BoundedSchema::without_backtracking(&schema, &SchemaMemory::of_server()).expect("a schema");
    assert!(leaves_the_runtime(move || assert_eq!(function.check(&arguments), SchemaCheck::Fits)));
    assert!(leaves_the_runtime(move || drop(Checker::new(&schema, &SchemaMemory::of_server()))));
    assert!(!leaves_the_runtime(|| ()), "the test can fail");
}
