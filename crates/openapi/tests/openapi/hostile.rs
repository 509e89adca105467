//! Documents and arguments that attack: a clear refusal, and nothing leaves its place.

use serde_json::{Value, json};
use toolgate_openapi::{Api, ApiCallError, ArgumentError, LoadError, MAX_DOCUMENT_BYTES, MAX_OPERATIONS};
use url::Url;

use crate::{EVERYTHING, load, object, settings, tool};

fn refusal(text: &str) -> String {
    Api::load(text, settings(&[]))
        .map(|api| format!("{} tools", api.operations().len()))
        .unwrap_or_else(|it| it.to_string())
}

#[test]
fn a_document_that_is_none_is_refused() {
    for (text, expected) in [
        ("", "not an OpenAPI document"),
        ("a: 1", "neither `openapi` nor `swagger`"),
        ("[]", "not an OpenAPI document"),
        ("{", "not an OpenAPI document"),
        (r#"{"openapi":"9.0"}"#, "version \"9.0\" is not supported"),
        (r#"{"openapi":"3.0.0","paths":[]}"#, "`paths` is no object"),
        (r#"{"openapi":"3.0.0"}"#, "no operation can be called"),
        ("a: &a [*a]", "refers to itself"),
    ] {
        let found = refusal(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn a_huge_document_is_refused_unread() {
    let huge = " ".repeat(MAX_DOCUMENT_BYTES + 1);
    assert!(refusal(&huge).contains("at most"), "{}", refusal(&huge));
}

#[test]
fn operations_beyond_the_bound_are_skipped_with_a_sentence() {
    let paths: Vec<String> = (0..MAX_OPERATIONS + 2).map(|n| format!(r#""/p{n}":{{"get":{{}}}}"#)).collect();
    let api = load(&format!(r#"{{"openapi":"3.0.0","paths":{{{}}}}}"#, paths.join(",")));
    assert_eq!((api.operations().len(), api.skipped().len()), (MAX_OPERATIONS, 2));
    assert!(api.skipped()[0].reason.contains("more than"), "{:?}", api.skipped()[0]);
}

#[test]
fn nesting_without_end_is_cut_and_not_followed() {
    let deep = format!("{}{}", r#"{"items":"#.repeat(100), "{}".to_owned() + &"}".repeat(100));
    let text = format!(
        r#"{{"openapi":"3.0.0","paths":{{"/x":{{"post":{{"requestBody":{{"content":{{"application/json":{{"schema":{deep}}}}}}}}}}}}}}}"#
    );
    assert_eq!(load(&text).operations().len(), 1);
    let deeper = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(r#"{{"openapi":"3.0.0","paths":{{"/x":{deeper},"/y":{{"get":{{}}}}}}}}"#);
    let api = load(&text);
    assert_eq!((api.operations().len(), api.skipped().len()), (1, 1));
}

#[test]
fn definitions_that_multiply_stay_within_the_bound() {
    // Each schema refers to the next ten times: 10^40 nodes, were they expanded.
    let schemas: Vec<String> = (0..40)
        .map(|n| {
            let fields: Vec<String> =
                (0..10).map(|f| format!(r##""f{f}":{{"$ref":"#/components/schemas/S{}"}}"##, n + 1)).collect();
            format!(
                r#""S{n}":{{"type":"object","description":"{}","properties":{{{}}}}}"#,
                "d".repeat(5_000),
                fields.join(",")
            )
        })
        .collect();
    let reference = r##"{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}"##;
    let text = format!(
        r##"{{"openapi":"3.0.0","paths":{{"/x":{{"post":{{"operationId":"x","requestBody":{{"required":true,"content":{reference}}},
        "responses":{{"200":{{"content":{reference}}}}}}}}}}},"components":{{"schemas":{{{},"S40":{{"type":"string"}}}}}}}}"##,
        schemas.join(",")
    );
    let api = load(&text);
    assert!(api.operations()[0].tool.get().len() < 64 << 10, "{}", api.operations()[0].tool.get().len());
    let schema = tool(&api, "x")["inputSchema"].clone();
    assert!(jsonschema::is_valid(&schema, &json!({"f0": {"f1": {"f2": {}}}})));
}

#[test]
fn a_reference_to_itself_is_a_sentence() {
    let text = r##"{"openapi":"3.0.0","paths":{"/x":{"get":{"parameters":[{"$ref":"#/components/parameters/A"}]}},"/y":{"$ref":"#/paths/~1y"},
        "/z":{"get":{"parameters":[{"$ref":"http://169.254.169.254/latest"}]}},"/ok":{"get":{}}},
        "components":{"parameters":{"A":{"$ref":"#/components/parameters/A"}}}}"##;
    let api = load(text);
    let reasons: Vec<_> = api.skipped().iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(api.operations().len(), 1);
    assert!(reasons[0].contains("leads to itself") && reasons[1].contains("leads to itself"), "{reasons:?}");
    assert!(reasons[2].contains("leads out of the document"), "{reasons:?}");
}

/// A document with one operation `x` that sends and answers a schema.
fn with_schema(schema: &Value, schemas: &Value) -> String {
    let content = json!({"application/json": {"schema": schema}});
    let operation = json!({"operationId": "x", "requestBody": {"required": true, "content": content},
        "responses": {"200": {"content": content}}});
    let document =
        json!({"openapi": "3.0.0", "paths": {"/x": {"post": operation}}, "components": {"schemas": schemas}});
    document.to_string()
}

#[test]
fn a_reference_of_very_many_steps_is_refused() {
    let reference = json!({"$ref": format!("#{}", "/a".repeat(100_000))});
    let api = load(&with_schema(&reference, &json!({"A": reference})));
    assert_eq!(tool(&api, "x")["inputSchema"]["properties"], json!({"body": {}}));
    let paths = json!({"/x": {"get": {"parameters": [reference]}}, "/y": reference, "/ok": {"get": {}}});
    let api = load(&json!({"openapi": "3.0.0", "paths": paths}).to_string());
    assert_eq!((api.operations().len(), api.skipped().len()), (1, 2));
    for skipped in api.skipped() {
        assert!(skipped.reason.contains("more than 64 steps") && skipped.reason.len() < 400, "{}", skipped.reason);
    }
}

#[test]
fn a_property_that_is_described_very_often_makes_no_deep_schema() {
    let part = |n: usize| json!({"properties": {"a": {"type": "string", "minLength": n}}});
    let all_of = |count: usize| json!({"allOf": (0..count).map(part).collect::<Vec<_>>()});
    let api = load(&with_schema(&all_of(3), &json!({})));
    let merged = &tool(&api, "x")["inputSchema"]["properties"]["a"];
    assert_eq!(merged["allOf"].as_array().map(Vec::len), Some(3), "{merged}");
    let api = load(&with_schema(&all_of(10_000), &json!({})));
    assert!(tool(&api, "x")["inputSchema"]["properties"]["body"].is_object());
}

#[test]
fn parts_that_multiply_are_looked_at_a_bounded_number_of_times() {
    // Each schema is forty times the next: 40^6 parts within the depth that is looked at, and none says that it is an object.
    let part = |n: usize| json!({"allOf": vec![json!({"$ref": format!("#/components/schemas/S{n}")}); 40]});
    let mut schemas: serde_json::Map<String, Value> = (0..6).map(|n| (format!("S{n}"), part(n + 1))).collect();
    schemas.insert("S6".to_owned(), json!({}));
    let api = load(&with_schema(&part(0), &Value::Object(schemas)));
    assert_eq!(tool(&api, "x")["outputSchema"]["x-fastmcp-wrap-result"], json!(true));
}

#[test]
fn alternatives_of_one_large_schema_take_linear_time() {
    let large = json!({"description": "d".repeat(1 << 20), "properties": {"kind": {"enum": ["a"]}}});
    let reference = json!({"$ref": "#/components/schemas/Large"});
    let mapping: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("m{n}"), json!(format!("Other{n}")))).collect();
    let discriminator = json!({"propertyName": "kind", "mapping": mapping});
    let schema = json!({"type": "object", "properties": {"a": {"oneOf": vec![reference; 5_000], "discriminator": discriminator}}});
    let api = load(&with_schema(&schema, &json!({"Large": large})));
    let branches = tool(&api, "x")["inputSchema"]["properties"]["a"]["anyOf"].as_array().map(Vec::len);
    assert_eq!(branches, Some(5_000));
}

#[test]
fn definitions_of_one_name_take_linear_time() {
    let schemas: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("S{n}"), json!({"properties": {"a": {"type": "string"}}}))).collect();
    let reference = |n: usize| json!({"$ref": format!("#/components/schemas/S{n}/properties/a")});
    let schema = json!({"type": "array", "items": {"anyOf": (0..20_000).map(reference).collect::<Vec<_>>()}});
    let api = load(&with_schema(&schema, &Value::Object(schemas)));
    assert!(api.operations()[0].tool.get().contains("#/$defs/a_20000"));
}

#[test]
fn what_operations_share_is_not_copied_without_end() {
    let parameter = json!({"name": "p", "in": "query", "schema": {"enum": ["e".repeat(1 << 20)]}});
    let paths: serde_json::Map<String, Value> = (0..1_000)
        .map(|n| (format!("/p{n}"), json!({"get": {"parameters": [{"$ref": "#/components/parameters/P"}]}})))
        .collect();
    let document = json!({"openapi": "3.0.0", "paths": paths, "components": {"parameters": {"P": parameter}}});
    let api = load(&document.to_string());
    let bytes: usize = api.operations().iter().map(|it| it.tool.get().len()).sum();
    assert!(bytes < 128 << 20, "{bytes}");
    assert_eq!(api.operations().len() + api.skipped().len(), 1_000);
    assert!(api.skipped().iter().all(|it| it.reason.contains("more work")), "{:?}", api.skipped()[0]);
}

#[test]
fn reading_ends_when_it_is_cancelled() {
    let paths: serde_json::Map<String, Value> = (0..1_000).map(|n| (format!("/p{n}"), json!({"get": {}}))).collect();
    let document = json!({"openapi": "3.0.0", "paths": paths}).to_string();
    let asked = std::cell::Cell::new(0_usize);
    let cancelled = Api::load_until(&document, settings(&[]), || {
        asked.set(asked.get() + 1);
        asked.get() > 100
    });
    assert_eq!(cancelled.err(), Some(LoadError::Cancelled));
    assert!(asked.get() < 200, "{}", asked.get());
    // A single operation ends too: what it has left to convert is left out.
    let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("p{n}"), json!({}))).collect();
    asked.set(0);
    let cancelled = Api::load_until(&with_schema(&json!({"properties": many}), &json!({})), settings(&[]), || {
        asked.set(asked.get() + 1);
        asked.get() > 100
    });
    assert_eq!(cancelled.err(), Some(LoadError::Cancelled));
}

#[test]
fn an_operation_with_a_server_elsewhere_is_refused() {
    let text = r#"{"openapi":"3.0.0","servers":[{"url":"https://evil.test"}],"paths":{
        "/a":{"get":{"servers":[{"url":"https://evil.test/steal"}]}},
        "/b":{"servers":[{"url":"//evil.test"}],"get":{}},
        "/c":{"get":{"servers":[{"url":"https://api.example.com/v2"}]}},
        "/d":{"get":{}}}}"#;
    let api = load(text);
    let names: Vec<_> = api.operations().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["get_c", "get_d"]);
    assert!(api.skipped()[0].reason.contains("https://evil.test/steal is not the configured base"));
    // The document's own list of servers decides nothing.
    let url = |name: &str| api.request(name, &object(json!({}))).unwrap().url.to_string();
    assert_eq!(
        (url("get_c"), url("get_d")),
        ("https://api.example.com/v2/c".to_owned(), "https://api.example.com/v1/d".to_owned())
    );
}

#[test]
fn a_path_that_leaves_the_base_is_refused() {
    for path in ["/../admin", "/a/%2e%2E/b", "//evil.test/x", "/a\\\\..\\\\b", "/./x"] {
        let text = format!(r#"{{"openapi":"3.0.0","paths":{{"{path}":{{"get":{{}}}},"/ok":{{"get":{{}}}}}}}}"#);
        let api = load(&text);
        assert_eq!(api.operations().len(), 1, "{path}");
        assert_eq!(api.skipped()[0].reason, "its path leaves the base");
    }
}

#[test]
fn an_argument_stays_in_its_segment_of_the_path() {
    let api = load(EVERYTHING);
    for id in ["..", ".", "../x", "x/../../admin", "a\\..\\b", "%2e%2e", "%2E./x", "", "a\nb", "\0"] {
        let found = api.request("getItem", &object(json!({ "id": id })));
        assert!(matches!(found, Err(ApiCallError::Arguments(ArgumentError::Unfit { .. }))), "{id:?}: {found:?}");
    }
    for (id, expected) in [
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("..a", "..a"),
        ("https://evil.test/", "https%3A%2F%2Fevil.test%2F"),
        ("@evil.test", "%40evil.test"),
        ("ä", "%C3%A4"),
    ] {
        let url = api.request("getItem", &object(json!({ "id": id }))).unwrap().url;
        assert_eq!(url.as_str(), format!("https://api.example.com/v1/items/{expected}"));
    }
}

#[test]
fn an_argument_stays_in_its_header_and_its_query() {
    let free = EVERYTHING.replace("schema: {enum: [a, b]}", "schema: {type: string}");
    let api = load(&free);
    for value in ["a\r\nX-Evil: 1", "a\nb", "\u{7f}", "ä", "a\0"] {
        let found = api.request("getItem", &object(json!({ "id": "1", "X-Kind": value })));
        assert!(matches!(found, Err(ApiCallError::Arguments(_))), "{value:?}");
    }
    let url = api.request("getItem", &object(json!({"id": "1", "tags": ["x&flag=false#y"]}))).unwrap().url;
    assert_eq!(url.query(), Some("tags=x%26flag%3Dfalse%23y"));
    let request = api.request("getItem", &object(json!({"id": "1", "session": "a; admin=1\r\n"}))).unwrap();
    let cookie = request.headers.iter().find(|it| it.0 == "cookie").unwrap();
    assert_eq!(cookie.1, "session=a%3B%20admin%3D1%0D%0A");
}

#[test]
fn a_document_cannot_name_headers_of_the_connection() {
    let names =
        ["Host", "content-length", "Transfer-Encoding", "Authorization", "Cookie", "Proxy-Authorization", "Connection"];
    let parameters: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "in": "header", "schema": {"type": "string"}})).collect();
    let document = json!({"openapi": "3.0.0", "paths": {"/x": {"get": {"operationId": "x", "parameters": parameters}},
        "/y": {"get": {"parameters": [{"name": "a\r\nb", "in": "header"}]}}}});
    let api = load(&document.to_string());
    assert_eq!(tool(&api, "x")["inputSchema"]["properties"], json!({}));
    assert_eq!(api.skipped().len(), 1);
    let sent = api.request("x", &object(json!({"Host": "evil.test"}))).unwrap();
    assert_eq!(sent.headers, [("accept".to_owned(), "application/json, */*".to_owned())]);
}

#[test]
fn a_base_with_secrets_or_another_scheme_is_refused() {
    for base in [
        "https://u:p@api.example.com/",
        "ftp://api.example.com/",
        "https://api.example.com/?key=1",
        "data:text/plain,x",
    ] {
        let settings = toolgate_openapi::ApiSettings { base: Url::parse(base).unwrap(), ..settings(&[]) };
        let found = Api::load(EVERYTHING, settings).unwrap_err().to_string();
        assert!(found.starts_with("base: "), "{found}");
    }
}

#[test]
fn requests_are_bounded() {
    let api = load(EVERYTHING);
    let long = api.request("getItem", &object(json!({"id": "x".repeat(9_000)})));
    assert_eq!(long, Err(ApiCallError::Arguments(ArgumentError::UrlTooLong)));
    let large = api.request("putRaw", &object(json!({"body": "x".repeat((8 << 20) + 1)})));
    assert_eq!(large, Err(ApiCallError::Arguments(ArgumentError::BodyTooLarge((8 << 20) + 1))));
}

proptest::proptest! {
    #[test]
    fn no_text_of_a_path_argument_changes_the_rest_of_the_url(id in ".{1,40}") {
        if let Ok(request) = load(EVERYTHING).request("getItem", &object(json!({ "id": id }))) {
            let segments: Vec<&str> = request.url.path().split('/').collect();
            proptest::prop_assert_eq!(segments.len(), 4);
            proptest::prop_assert_eq!((segments[1], segments[2], request.url.host_str()), ("v1", "items", Some("api.example.com")));
        }
    }
}
