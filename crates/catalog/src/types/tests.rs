//! Declarations are valid TypeScript and say what the schemas say.

use super::super::{BackendState, Catalog, Listing, Tool};
use super::*;
use oxc::allocator::Allocator;
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use proptest::prelude::*;
use serde_json::json;

fn catalog(tools: Vec<Value>) -> Catalog {
    let tools = tools.into_iter().filter_map(Tool::from_raw).collect();
    Catalog::new(vec![Listing { name: "exa".into(), state: BackendState::Ready, tools, tags: Vec::new() }])
}

fn one(input: Value, output: Option<Value>) -> Catalog {
    catalog(vec![json!({ "name": "t", "inputSchema": input, "outputSchema": output })])
}

/// The complaints of a TypeScript parser about a declaration file.
fn complaints(source: &str) -> Vec<String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::d_ts()).parse();
    let mut found: Vec<String> = parsed.diagnostics.iter().map(ToString::to_string).collect();
    if found.is_empty() {
        let checked = SemanticBuilder::new().with_check_syntax_error(true).build(&parsed.program);
        found.extend(checked.diagnostics.iter().map(ToString::to_string));
    }
    found
}

#[track_caller]
fn assert_parses(catalog: &Catalog) {
    let whole = declaration(catalog);
    assert_eq!(complaints(&whole), [""; 0], "{whole}");
    for tool in catalog.tools() {
        let alone = tool_declaration(tool);
        assert_eq!(complaints(&alone), [""; 0], "{alone}");
        let line = signature(tool);
        assert_eq!(complaints(&format!("declare const x: {{ {line} }}")), [""; 0], "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn the_parser_would_tell() {
    assert_ne!(complaints("declare const a: { b: };"), [""; 0]);
    assert_ne!(complaints("declare const a: string; declare const a: string;"), [""; 0]);
}

/// The type of the argument, on one line.
#[track_caller]
fn check(input: Value, expected: &str) {
    let catalog = one(json!({ "type": "object", "properties": { "v": input }, "required": ["v"] }), None);
    assert_parses(&catalog);
    let tool = catalog.tool("exa", "t").unwrap();
    assert_eq!(signature(tool), format!("t(args: {{ v: {expected} }}): Promise<any>"));
}

#[test]
fn plain_types_are_words() {
    check(json!({ "type": "string" }), "string");
    check(json!({ "type": "integer" }), "number");
    check(json!({ "type": "null" }), "null");
    check(json!({}), "unknown");
    check(json!(true), "unknown");
    check(json!(false), "never");
    check(json!({ "type": "strin" }), "unknown");
    check(json!(7), "unknown");
}

#[test]
fn a_schema_that_says_nothing_requires_nothing() {
    for nothing in [json!({}), json!({ "description": "d" }), json!({ "type": "strin" })] {
        let catalog = one(nothing.clone(), Some(nothing));
        assert_parses(&catalog);
        let tool = catalog.tool("exa", "t").unwrap();
        assert_eq!(signature(tool), "t(args?: {}): Promise<any>");
        assert!(tool_declaration(tool).contains("t(args?: {}): Promise<any>;"), "{}", tool_declaration(tool));
    }
}

#[test]
fn several_types_are_a_union() {
    check(json!({ "type": ["string", "null"] }), "string | null");
    check(json!({ "type": ["integer", "number"] }), "number");
    check(json!({ "type": "string", "nullable": true }), "string | null");
}

#[test]
fn enums_and_constants_are_literals() {
    check(json!({ "enum": ["a", "b\"*/", 1, null, true] }), r#""a" | "b\"*/" | 1 | null | true"#);
    check(json!({ "const": -1.5 }), "-1.5");
    check(json!({ "const": { "a b": [1, {}] } }), "{ \"a b\": [1, {}] }");
    check(json!({ "enum": [] }), "never");
}

#[test]
fn a_long_enum_is_its_type() {
    let values: Vec<String> = (0..300).map(|n| format!("v{n}")).collect();
    check(json!({ "type": "string", "enum": values }), "string");
}

#[test]
fn alternatives_are_unions_and_conjunctions_intersections() {
    check(
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
        "string | string[]",
    );
    check(json!({ "oneOf": [{ "type": "string" }, {}] }), "unknown");
    let part =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    check(json!({ "allOf": [part("a"), part("b")] }), "{ a: string } & { b: string }");
    check(
        json!({ "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "null" }] } }),
        "(string | null)[]",
    );
}

#[test]
fn alternatives_that_only_require_add_nothing() {
    check(
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
        "{ a?: string }",
    );
}

#[test]
fn tuples_keep_their_places() {
    let pair = json!([{ "type": "string" }, { "type": "number" }]);
    check(json!({ "type": "array", "prefixItems": pair, "items": false }), "[string, number]");
    check(json!({ "type": "array", "items": pair, "minItems": 1, "maxItems": 2 }), "[string, number?]");
    check(json!({ "type": "array", "prefixItems": pair, "items": { "type": "null" } }), "[string, number, ...null[]]");
}

#[test]
fn open_objects_have_an_index_signature() {
    check(json!({ "type": "object" }), "{ [key: string]: unknown }");
    check(json!({ "type": "object", "additionalProperties": { "type": "number" } }), "{ [key: string]: number }");
    check(
        json!({ "type": "object", "patternProperties": { "^x": { "type": "number" } }, "additionalProperties": false }),
        "{ [key: string]: number }",
    );
    check(json!({ "type": "object", "additionalProperties": false }), "{}");
}

#[test]
fn an_index_signature_never_contradicts_a_field() {
    check(
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": { "type": "number" } }),
        "{ a?: string; [key: string]: unknown }",
    );
}

#[test]
fn odd_property_names_are_quoted() {
    check(
        json!({ "type": "object", "properties": { "a-b": {}, "1": {}, "new": {}, "\"];//": {}, "": {}, "__proto__": {} } }),
        r#"{ "a-b"?: unknown; "1"?: unknown; new?: unknown; "\"];//"?: unknown; ""?: unknown; __proto__?: unknown }"#,
    );
}

#[test]
fn defaults_are_comments_that_cannot_be_left() {
    check(
        json!({ "type": "object", "properties": { "n": { "type": "integer", "default": 10 }, "s": { "default": "*/ evil()" } } }),
        r#"{ n?: number /* default 10 */; s?: unknown /* default "*\/ evil()" */ }"#,
    );
}

#[test]
fn references_are_written_in_place_on_one_line() {
    let schema = json!({
        "type": "object",
        "properties": { "v": { "$ref": "#/$defs/point" }, "w": { "$ref": "#/definitions/line%20a" }, "x": { "$ref": "#/nowhere" } },
        "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] } },
        "definitions": { "line a": { "type": "array", "items": { "$ref": "#/$defs/point" } } },
    });
    let catalog = one(schema, None);
    assert_parses(&catalog);
    insta::assert_snapshot!(
        signature(catalog.tool("exa", "t").unwrap()),
        @"t(args?: { v?: { x: number }; w?: { x: number }[]; x?: unknown }): Promise<any>"
    );
}

#[test]
fn a_cycle_shows_its_name_on_one_line() {
    let schema = json!({
        "type": "object",
        "properties": { "root": { "$ref": "#/$defs/tree_node" } },
        "$defs": { "tree_node": { "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/$defs/tree_node" } } } } },
    });
    let catalog = one(schema, None);
    assert_parses(&catalog);
    insta::assert_snapshot!(
        signature(catalog.tool("exa", "t").unwrap()),
        @"t(args?: { root?: { children?: TreeNode[] } }): Promise<any>"
    );
}

#[test]
fn a_wrapped_result_is_shown_as_code_receives_it() {
    let output =
        json!({ "type": "object", "properties": { "result": { "type": "string" } }, "x-fastmcp-wrap-result": true });
    let catalog = one(json!({ "type": "object" }), Some(output));
    assert_eq!(signature(catalog.tool("exa", "t").unwrap()), "t(args?: {}): Promise<string>");
}

#[test]
fn a_whole_file_reads_well() {
    let catalog = Catalog::new(vec![
        Listing {
            name: "my-search".into(),
            state: BackendState::Ready,
            tags: Vec::new(),
            tools: vec![
                Tool::from_raw(json!({
                    "name": "web-search",
                    "description": "Search the web.\nEnds no comment: */ evil() /*",
                    "inputSchema": {
                        "type": "object",
                        "properties": {
                            "query": { "type": "string", "description": "What to look for", "minLength": 1 },
                            "limit": { "type": "integer", "default": 10, "minimum": 1, "maximum": 50 },
                            "filter": { "$ref": "#/$defs/filter" },
                        },
                        "required": ["query"],
                        "$defs": { "filter": {
                            "description": "A condition, or several",
                            "anyOf": [
                                { "type": "object", "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/filter" } } }, "required": ["and"] },
                                { "type": "string" },
                            ],
                        } },
                    },
                    "outputSchema": { "type": "object", "properties": { "hits": { "type": "array", "items": { "$ref": "#" } } } },
                }))
                .unwrap(),
                Tool::from_raw(json!({ "name": "delete" })).unwrap(),
            ],
        },
        Listing { name: "Math".into(), state: BackendState::Starting, tags: Vec::new(), tools: Vec::new() },
    ]);
    assert_parses(&catalog);
    insta::assert_snapshot!(declaration(&catalog));
}

#[test]
fn hostile_names_stay_names() {
    let names = ["__proto__", "constructor", "then", "delete", "new", "get", "\"];evil//", "*/", "🔥", "", "a`${b}`"];
    let mut listings: Vec<Listing> = names
        .iter()
        .map(|name| Listing {
            name: (*name).into(),
            state: BackendState::Ready,
            tags: Vec::new(),
            tools: names
                .iter()
                .filter_map(|name| Tool::from_raw(json!({ "name": name, "description": name, "inputSchema": { "properties": { *name: { "$ref": "#" } } } })))
                .collect(),
        })
        .collect();
    listings.push(Listing {
        name: "x".repeat(10_000),
        state: BackendState::Ready,
        tags: Vec::new(),
        tools: Vec::new(),
    });
    assert_parses(&Catalog::new(listings));
}

#[test]
fn schemas_that_are_only_circles_end() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }], "anyOf": [{ "$ref": "#" }, { "type": "string" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "null" }] } } }),
    ] {
        assert_parses(&one(schema.clone(), Some(schema)));
    }
}

#[test]
fn a_huge_schema_gives_a_bounded_text() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..120 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/a{}", n + 1) });
        defs.insert(format!("a{n}"), json!({ "anyOf": [next, next, { "const": n }] }));
    }
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("property_{n}"), json!({ "type": "string" }))).collect();
    let text = "x".repeat(1_000_000);
    for schema in [
        deep,
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a0" } }, "$defs": defs }),
        json!({ "type": "object", "properties": wide, "required": ["property_19999"] }),
        json!({ "type": "object", "description": text, "properties": { "a": { "const": text, "description": text, "pattern": text } } }),
    ] {
        let catalog = one(schema.clone(), Some(schema));
        assert_parses(&catalog);
        assert!(signature(catalog.tool("exa", "t").unwrap()).len() <= MAX_SIGNATURE + 1);
        assert!(declaration(&catalog).len() < 400_000);
    }
}

#[test]
fn what_a_call_needs_is_shown_when_not_all_fits() {
    let wide: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("property_{n}"), json!({ "type": "string" }))).collect();
    let catalog = one(json!({ "type": "object", "properties": wide, "required": ["property_199"] }), None);
    let line = signature(catalog.tool("exa", "t").unwrap());
    assert!(line.starts_with("t(args: { property_199: string;"), "{line}");
    assert!(line.contains("more */"), "{line}");
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}",
        "\\PC{0,6}",
        Just("*/".to_owned()),
        Just("new".to_owned()),
        Just("\n\u{2028}'\"`\\".to_owned())
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        proptest::sample::select(vec!["string", "integer", "null", "object", "array", "what"])
            .prop_map(|kind| json!({ "type": kind })),
        any_text().prop_map(|text| json!({ "const": text, "description": text })),
        (any::<f64>(), any::<i64>()).prop_map(|(float, int)| json!({ "enum": [float, int, null], "default": int })),
        proptest::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#x", "http://x/y"])
            .prop_map(|to| json!({ "$ref": to })),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let several = proptest::collection::vec(inner.clone(), 0..4);
        let named = proptest::collection::vec((any_text(), inner.clone()), 0..4)
            .prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
            .boxed();
        prop_oneof![
            (named.clone(), named.clone(), proptest::option::of(inner.clone()), proptest::collection::vec(any_text(), 0..3)).prop_map(
                |(properties, defs, rest, required)| json!({
                    "type": "object", "properties": properties, "$defs": defs, "additionalProperties": rest, "required": required,
                })
            ),
            (several.clone(), inner.clone(), 0..3u8).prop_map(|(tuple, rest, least)| json!({
                "type": "array", "prefixItems": tuple, "items": rest, "minItems": least,
            })),
            inner.clone().prop_map(|items| json!({ "items": items })),
            several.clone().prop_map(|branches| json!({ "anyOf": branches, "nullable": true })),
            (several, named).prop_map(|(branches, patterns)| json!({ "allOf": branches, "patternProperties": patterns })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_the_schema_the_types_parse(input in any_schema(), output in any_schema(), name in any_text(), about in any_text()) {
        let tool = json!({ "name": name, "description": about, "inputSchema": input, "outputSchema": output });
        assert_parses(&catalog(vec![tool]));
    }
}
