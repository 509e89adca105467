//! The text of declarations, and what their names mean.

use super::*;
use crate::{BackendState, Catalog, Listing, Tool};
use serde_json::json;

fn catalog(tools: Vec<Value>) -> Catalog {
    let tools = tools.into_iter().filter_map(Tool::from_raw).collect();
    Catalog::new(vec![Listing { name: "my-b".into(), state: BackendState::Ready, tools, tags: Vec::new() }])
}

fn declared(tools: Vec<Value>, learned: Option<&str>) -> Declarations {
    let catalog = catalog(tools);
    let backends: Vec<CheckedBackend<'_>> = catalog
        .backends()
        .iter()
        .map(|backend| CheckedBackend {
            backend,
            tools: backend.tools().iter().collect(),
            broken: HashSet::new(),
            may_have_more: false,
            is_global: true,
        })
        .collect();
    let learned = learned.map(|json| LearnedType::of(json).unwrap());
    Declarations::new(&backends, &[], &|_, _| learned.clone())
}

/// The text for a program that mentions everything.
fn whole(declarations: &Declarations) -> String {
    declarations.text_for(&|_| true)
}

#[test]
fn declared_types_have_names_that_are_theirs() {
    let declarations = declared(
        vec![json!({
            "name": "get-issue",
            "inputSchema": { "type": "object", "required": ["id"], "properties": {
                "id": { "type": "integer" }, "state": { "enum": ["open", "closed"] }, "any": {},
            } },
            "outputSchema": { "type": "object", "properties": {
                "title": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } },
                "author": { "type": ["object", "null"], "properties": { "login": { "type": "string" } } },
                "extra": { "type": "object" }, "either": { "anyOf": [{ "type": "string" }, {}] },
            } },
        })],
        None,
    );
    let text = whole(&declarations);
    let text = text.strip_prefix(GLOBALS).unwrap();
    insta::assert_snapshot!(text, @r#"
    interface $tg0 { "id": number; "state"?: string; "any"?: any; [k: string]: any }
    interface $tg1 { readonly $tg: "$tg1"; "login": $tgs;  }
    interface $tg2 { readonly $tg: "$tg2"; "title": $tgs; "tags": ($tgs)[]; "author": $tg1; "extra": any; "either": any;  }
    interface $tg3 { readonly $tg: "$tg3"; "get_issue"(args: $tg0): Promise<$tg2>; "get-issue"(args: $tg0): Promise<$tg2>;  }
    declare const my_b: $tg3;
    declare const tools: { "my_b": $tg3; "my-b": $tg3; [k: string]: any };
    declare const __backends: { "my_b": $tg3; "my-b": $tg3; [k: string]: any };
    "#);
    let author = declarations.get("$tg1").unwrap();
    assert_eq!((author.shown.as_str(), author.origin), ("my_b.get_issue().author", TypeOrigin::Result));
    assert_eq!(declarations.get("$tg3").unwrap().keys, ["get_issue"]);
    assert!(declarations.get("$tgs").is_none() && declarations.get("$tg4").is_none());
    assert!(declarations.has_result_key("login") && !declarations.has_result_key("id"));
}

#[test]
fn a_type_that_contains_itself_and_a_dictionary_are_declared() {
    let tree = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "kids": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
    } });
    let declarations = declared(
        vec![json!({
            "name": "t",
            "outputSchema": { "type": "object", "$defs": { "tree": tree, "loop": { "$ref": "#/$defs/loop" } }, "properties": {
                "root": { "$ref": "#/$defs/tree" }, "loop": { "$ref": "#/$defs/loop" },
                "by_id": { "type": "object", "additionalProperties": { "type": "object", "properties": { "n": { "type": "number" } } } },
                "free": { "type": "object", "additionalProperties": true },
            } },
        })],
        None,
    );
    let text = whole(&declarations);
    let text = text.strip_prefix(GLOBALS).unwrap();
    let types: Vec<&str> = text.lines().filter(|line| !line.contains("Promise")).take(5).collect();
    insta::assert_snapshot!(types.join("\n"), @r#"
    interface $tg0 { [k: string]: any }
    interface $tg1 { readonly $tg: "$tg1"; "name": $tgs; "kids": ($tg1)[];  }
    interface $tg2 { readonly $tg: "$tg2"; "n": $tgn;  }
    interface $tg3 { [k: string]: $tg2 }
    interface $tg4 { readonly $tg: "$tg4"; "root": $tg1; "loop": any; "by_id": $tg3; "free": any;  }
    "#);
    assert_eq!(declarations.get("$tg1").unwrap().shown, "my_b.t().root");
    assert_eq!(declarations.get("$tg2").unwrap().shown, "my_b.t().by_id[key]");
}

#[test]
fn a_program_gets_the_tools_that_it_mentions() {
    let result = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    let tool = |name: &str| json!({ "name": name, "outputSchema": result });
    let declarations = declared(vec![tool("one"), tool("two-parts"), tool("three"), tool("1e3")], None);
    let text_for = |mentioned: &[&str]| declarations.text_for(&|name| mentioned.contains(&name));
    let text = text_for(&["three"]);
    assert!(text.contains("\"three\"(") && !text.contains("\"one\"") && !text.contains("two"), "{text}");
    // `my_b[1000]` is the tool `1e3`, so to speak; a name that may be a number is declared for all.
    assert!(text.contains("\"1e3\"("), "{text}");
    for spelling in ["two_parts", "two-parts"] {
        let text = text_for(&[spelling]);
        assert!(text.contains("\"two_parts\"(") && text.contains("\"two-parts\"("), "{text}");
    }
    // A name means the same type in every text.
    let (whole, part) = (whole(&declarations), text_for(&["three"]));
    assert!(part.lines().filter(|line| line.contains("\"n\"")).all(|line| whole.contains(line)), "{part}");
    assert!(part.len() < whole.len());
}

#[test]
fn a_result_schema_that_says_nothing_is_none() {
    for schema in [json!({}), json!({ "description": "anything" }), json!({ "type": "object" })] {
        let tool = json!({ "name": "list", "outputSchema": schema });
        let text = whole(&declared(vec![tool], Some(r#"[{"id":1}]"#)));
        assert!(text.contains("Promise<($tg1)[]>"), "{text}");
    }
}

#[test]
fn learned_types_say_nothing_of_single_values() {
    let declarations = declared(vec![json!({ "name": "list" })], Some(r#"[{"id":1,"name":"a"}]"#));
    let text = whole(&declarations);
    assert!(text.contains(r#"interface $tg1 { readonly $tg: "$tg1"; "id": any; "name": any;  }"#), "{text}");
    assert!(text.contains("Promise<($tg1)[]>"), "{text}");
    assert_eq!(declarations.get("$tg1").unwrap().origin, TypeOrigin::Learned);
}

#[test]
fn names_of_a_schema_break_out_of_nothing() {
    let hostile = "a\": any } declare const x: any; interface y { \"\\\n*/";
    let properties = json!({ hostile: { "type": "string" } });
    let declarations = declared(
        vec![json!({
            "name": hostile,
            "inputSchema": { "type": "object", "properties": properties },
            "outputSchema": { "type": "object", "properties": properties },
        })],
        None,
    );
    let text = whole(&declarations);
    let allocator = oxc::allocator::Allocator::default();
    let parsed = oxc::parser::Parser::new(&allocator, &text, oxc::span::SourceType::d_ts()).parse();
    assert!(!parsed.panicked && parsed.diagnostics.is_empty(), "{text}");
    let constants = parsed.program.body.iter().filter(|it| it.is_declaration()).count();
    assert_eq!(constants, text.lines().count(), "one declaration a line");
}

/// The type of a result, and the types that it needs.
fn result_of(schema: Value) -> (String, String) {
    let text = whole(&declared(vec![json!({ "name": "t", "outputSchema": schema })], None));
    let (_, method) = text.split_once("\"t\"(").unwrap();
    let (_, rest) = method.split_once("Promise<").unwrap();
    let (result, _) = rest.split_once(">;").unwrap();
    (result.to_owned(), text)
}

#[test]
fn alternatives_are_declared_if_they_are_of_one_kind() {
    let text = json!({ "type": "string" });
    let item = |name: &str| json!({ "type": "object", "properties": { name: text } });
    let list = |name: &str| json!({ "type": "array", "items": item(name) });
    for (of, expected) in [
        (json!([text, { "type": "number" }]), "any"),
        (json!([list("a"), item("b")]), "any"),
        (json!([text, list("a")]), "any"),
        (json!([{ "const": true }, { "const": "x" }]), "any"),
        (json!([text, { "enum": ["x"] }, { "type": "null" }]), "$tgs"),
        (json!([item("a"), item("b"), { "type": "null" }]), "$tg1 | $tg2"),
        (json!([list("a"), list("b")]), "($tg1)[] | ($tg2)[]"),
    ] {
        let (result, whole) = result_of(json!({ "anyOf": of }));
        assert_eq!(result, expected, "{of}: {whole}");
    }
}

#[test]
fn properties_under_a_condition_make_an_object_open() {
    let extra = json!({ "properties": { "extra": {} } });
    let with = |keyword: &str, value: Value| {
        let mut schema = json!({ "type": "object", "properties": { "id": { "type": "number" } } });
        schema[keyword] = value;
        schema
    };
    let is_open = |schema: &Value| {
        let (result, text) = result_of(schema.clone());
        result == "any" || text.lines().any(|line| line.contains("\"id\"") && line.contains("[k: string]: any"))
    };
    for open in [
        with("then", extra.clone()),
        with("else", extra.clone()),
        with("dependentSchemas", json!({ "id": extra })),
        with("dependencies", json!({ "id": extra })),
        with("unevaluatedProperties", json!(true)),
        with("unevaluatedProperties", json!({ "type": "string" })),
        with("$dynamicRef", json!("#node")),
        with("$ref", json!("https://example.com/other")),
        with("allOf", json!([{ "if": {}, "then": extra }])),
        with("anyOf", json!([extra, { "required": ["id"] }])),
        with("oneOf", json!([{ "$ref": "#/nowhere" }])),
        json!({ "type": "array", "items": with("title", json!("item")), "contains": extra }),
    ] {
        assert!(is_open(&open), "{open}: {}", result_of(open.clone()).1);
    }
    let mut nullable = with("then", extra.clone());
    nullable["type"] = json!(["object", "null"]);
    assert!(is_open(&nullable));
    let tree = json!({ "type": "object", "properties": {
        "id": { "type": "number" }, "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
    } });
    let recursive = json!({ "$defs": { "tree": tree }, "$ref": "#/$defs/tree", "then": extra });
    assert!(is_open(&recursive), "{}", result_of(recursive.clone()).1);
    let mut closed = with("then", extra);
    closed["additionalProperties"] = json!(false);
    for closed in [
        closed,
        with("then", json!({ "required": ["id"] })),
        with("dependencies", json!({ "id": ["other"] })),
        with("anyOf", json!([{ "required": ["id"] }, { "required": ["id"], "description": "d" }])),
        with("unevaluatedProperties", json!(false)),
        json!({ "type": "array", "items": with("title", json!("item")), "contains": { "required": ["id"] } }),
        json!({ "type": "array", "items": with("additionalProperties", json!(false)), "contains": { "properties": { "extra": {} } } }),
    ] {
        assert!(!is_open(&closed), "{closed}");
    }
}

#[test]
fn a_result_that_breaks_its_schema_may_be_anything() {
    let tool = |name: &str| json!({ "name": name, "outputSchema": { "type": "array", "items": { "type": "string" } } });
    let catalog = catalog(vec![tool("kept"), tool("broken")]);
    let backend = &catalog.backends()[0];
    let (tools, broken) = (backend.tools().iter().collect(), HashSet::from(["broken"]));
    let one = CheckedBackend { backend, tools, broken, may_have_more: false, is_global: true };
    let text = whole(&Declarations::new(&[one], &[], &|_, _| None));
    assert!(text.contains(r#""broken"(args?: $tg0): Promise<any>"#), "{text}");
    assert!(text.contains(r#""kept"(args?: $tg1): Promise<($tgs)[]>"#), "{text}");
}
