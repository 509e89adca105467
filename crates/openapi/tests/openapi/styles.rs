//! Arguments are written in the styles, encodings and content types that the document gives them.

use serde_json::{Value, json};
use toolgate_openapi::Api;

use crate::load;
use crate::requests::{BASE, parts_of, shown};

/// A document of 3.2 with one operation `x`.
fn with_operation(path: &str, method: &str, operation: Value) -> Api {
    let mut operation = operation;
    operation["operationId"] = json!("x");
    load(&json!({"openapi": "3.2.0", "paths": {path: {method: operation}}}).to_string())
}

/// An operation `x` at `/x` that takes one parameter `p`.
#[track_caller]
fn check_parameter(parameter: Value, given: Value, expected: &str) {
    let mut parameter = parameter;
    parameter["name"] = json!("p");
    let path = if parameter["in"] == "path" { "/x/{p}" } else { "/x" };
    let api = with_operation(path, "get", json!({"parameters": [parameter]}));
    let sent = shown(&api, "x", json!({ "p": given }));
    assert_eq!(sent.strip_prefix(&format!("GET {BASE}/x")).unwrap_or(&sent), expected);
}

#[test]
fn a_collection_format_of_swagger_2_holds_in_every_place() {
    let parameter = |name: &str, place: &str, format: Value| json!({"name": name, "in": place, "type": "array", "items": {"type": "string"}, "collectionFormat": format});
    let document = json!({"swagger": "2.0", "paths": {"/x/{p}": {"post": {
        "operationId": "x", "consumes": ["multipart/form-data"],
        "parameters": [
            parameter("p", "path", json!("pipes")), parameter("ssv", "header", json!("ssv")),
            parameter("pipes", "header", json!("pipes")), parameter("csv", "header", json!(null)),
            parameter("one", "formData", json!(null)), parameter("piped", "formData", json!("pipes")),
            parameter("several", "formData", json!("multi")), {"name": "text", "in": "formData", "type": "string"},
        ],
    }}}});
    let api = load(&document.to_string());
    let list = json!(["a", "b"]);
    let sent = shown(&api, "x", json!({"p": list, "ssv": list, "pipes": list, "csv": list}));
    assert_eq!(sent, format!("POST {BASE}/x/a%7Cb\nssv: a b\npipes: a|b\ncsv: a,b"));
    let sent = shown(&api, "x", json!({"p": list, "one": [1, 2], "piped": list, "several": list, "text": "a,b"}));
    let expected = ["one||1,2", "piped||a|b", "several||a", "several||b", "text||a,b"];
    let expected =
        expected.map(|part| part.split_once("||").map(|(name, text)| format!("name=\"{name}\"||{text}")).unwrap());
    assert_eq!(parts_of(&sent), expected);
    for (name, item) in [("p", "a|b"), ("ssv", "a b"), ("pipes", "a|b"), ("one", "a,b"), ("piped", "a|b")] {
        let mut given = json!({"p": list});
        given[name] = json!([item, "c"]);
        let sent = shown(&api, "x", given);
        assert!(sent.starts_with(&format!("the argument `{name}` has an item with")), "{name}: {sent}");
    }
}

#[test]
fn the_parts_of_3_1_have_the_style_of_their_encoding() {
    let content = |media_type: &str| {
        json!({media_type: {
            "schema": {"type": "object", "properties": {"joined": {}, "repeated": {}, "deep": {}, "piped": {}, "file": {"type": "array", "items": {"format": "binary"}}}},
            "encoding": {
                "joined": {"explode": false, "contentType": "application/json"}, "repeated": {"style": "form"}, "deep": {"style": "deepObject"},
                "piped": {"style": "pipeDelimited"}, "file": {"style": "form", "explode": false},
            },
        }})
    };
    let list = || json!(["a", "b"]);
    let given = json!({"joined": list(), "repeated": list(), "deep": {"k": 1}, "piped": list(), "file": ["c"]});
    let sent = |version: &str, media_type: &str| {
        let document = json!({"openapi": version, "paths": {"/x": {"post": {
            "operationId": "x", "requestBody": {"required": true, "content": content(media_type)},
        }}}});
        parts_of(&shown(&load(&document.to_string()), "x", given.clone()))
    };
    let file = "name=\"file\"; filename=\"file\"|Content-Type: application/octet-stream||c";
    let styled = ["joined||a,b", "repeated||a", "repeated||b", "deep[k]||1", "piped||a|b"];
    let mut styled = styled.map(|part| format!("name=\"{}", part.replacen("||", "\"||", 1))).to_vec();
    styled.push(file.to_owned());
    assert_eq!(sent("3.1.0", "multipart/form-data"), styled);
    // Before 3.1, and in other content types, styles of parts are ignored.
    for (version, media_type) in [("3.0.3", "multipart/form-data"), ("3.1.0", "multipart/mixed")] {
        let parts = sent(version, media_type);
        assert_eq!(parts[0], "name=\"joined\"|Content-Type: application/json||[\"a\",\"b\"]", "{version} {media_type}");
        assert_eq!(parts.len(), 7, "{parts:?}");
    }
}

#[test]
fn a_form_that_is_one_argument_has_the_encodings_of_its_members() {
    let schema = json!({"type": "object", "required": ["list"], "properties": {"list": {}, "file": {"type": "string", "format": "binary"}}});
    let encoding = json!({"list": {"explode": false}, "other": {"style": "pipeDelimited"}});
    let api = |media_type: &str| {
        let content = json!({media_type: {"schema": schema, "encoding": encoding}});
        with_operation("/x", "post", json!({"requestBody": {"content": content}}))
    };
    let given = json!({"body": {"list": ["a", "b"], "other": ["c", "d"], "free": ["e", "f"]}});
    let sent = shown(&api("application/x-www-form-urlencoded"), "x", given.clone());
    assert_eq!(sent.lines().last(), Some("list=a,b&other=c%7Cd&free=e&free=f"));
    let refused = shown(&api("application/x-www-form-urlencoded"), "x", json!({"body": {"other": ["c|", "d"]}}));
    assert_eq!(refused, "the argument `body.other` has an item with '|', which separates its items");
    let sent = shown(&api("multipart/form-data"), "x", json!({"body": {"list": ["a", "b"], "file": "c"}}));
    let file = "name=\"file\"; filename=\"file\"|Content-Type: application/octet-stream||c";
    assert_eq!(parts_of(&sent), ["name=\"list\"||a,b", file]);
}

#[test]
fn a_part_with_a_content_encoding_is_no_plain_text() {
    let api = |version: &str| {
        let properties = json!({"one": {"type": "string", "contentEncoding": "base64"}, "several": {"type": "array", "items": {"$ref": "#/components/schemas/B"}}});
        let content = json!({"multipart/form-data": {"schema": {"type": "object", "properties": properties}}});
        let document = json!({
            "openapi": version, "paths": {"/x": {"post": {"operationId": "x", "requestBody": {"required": true, "content": content}}}},
            "components": {"schemas": {"B": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}}},
        });
        load(&document.to_string())
    };
    let given = || json!({"one": "aGk=", "several": ["aGk="]});
    let part = |name: &str| format!("name=\"{name}\"|Content-Type: application/octet-stream||aGk=");
    assert_eq!(parts_of(&shown(&api("3.1.0"), "x", given())), [part("one"), part("several")]);
    assert_eq!(parts_of(&shown(&api("3.0.3"), "x", given()))[0], "name=\"one\"||aGk=");
}

#[test]
fn a_list_of_parts_is_no_tool_unless_there_is_another_content_type() {
    let parts = json!({"schema": {"type": "array", "items": {}}, "itemEncoding": {"contentType": "image/png"}});
    for (media_type, media) in [
        ("multipart/mixed", parts.clone()),
        ("multipart/mixed", json!({"itemSchema": {}})),
        ("application/x-www-form-urlencoded", json!({"schema": {"type": "string"}})),
    ] {
        let content = json!({media_type: media, "application/octet-stream": {}});
        let api = with_operation("/x", "post", json!({"requestBody": {"required": true, "content": content}}));
        let sent = shown(&api, "x", json!({"body": "b"}));
        assert_eq!(sent, format!("POST {BASE}/x\ncontent-type: application/octet-stream\nb"));
    }
    let content = json!({"multipart/mixed": parts});
    let document =
        json!({"openapi": "3.2.0", "paths": {"/x": {"post": {"requestBody": {"content": content}}, "get": {}}}});
    let api = load(&document.to_string());
    let reasons: Vec<&str> = api.skipped().iter().map(|it| it.reason.as_str()).collect();
    let reason = "its body of type multipart/mixed is no object, and only the members of one are sent as a form";
    assert_eq!(reasons, [reason]);
}

#[test]
fn a_content_type_may_be_a_reference() {
    let reference = json!({"application/json": {"$ref": "#/components/mediaTypes/J"}});
    let document = json!({
        "openapi": "3.2.0",
        "paths": {"/x": {"post": {
            "operationId": "x", "parameters": [{"name": "q", "in": "query", "content": reference}],
            "requestBody": {"required": true, "content": reference}, "responses": {"200": {"content": reference}},
        }, "get": {"requestBody": {"content": {"application/json": {"$ref": "#/components/mediaTypes/None"}}}}}},
        "components": {"mediaTypes": {
            "J": {"$ref": "#/components/mediaTypes/K"},
            "K": {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
        }},
    });
    let api = load(&document.to_string());
    let tool = crate::tool(&api, "x");
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    assert_eq!(tool["inputSchema"]["properties"], json!({"q": object, "a": {"type": "integer"}}));
    assert_eq!(tool["outputSchema"], object);
    assert_eq!(api.skipped()[0].reason, "the reference #/components/mediaTypes/None leads nowhere");
}

#[test]
fn a_cookie_of_its_own_style_is_not_escaped() {
    let cookie = || json!({"in": "cookie", "style": "cookie", "schema": {}});
    check_parameter(cookie(), json!("a+b/c=%20 d"), "\ncookie: p=a+b/c=%20 d");
    check_parameter(cookie(), json!(["a", "b"]), "\ncookie: p=a; p=b");
    check_parameter(cookie(), json!({"a": "1", "b": "2"}), "\ncookie: a=1; b=2");
    let joined = || json!({"in": "cookie", "style": "cookie", "explode": false, "schema": {}});
    check_parameter(joined(), json!(["a", "b"]), "\ncookie: p=a,b");
    check_parameter(joined(), json!(["a,b"]), "the argument `p` has an item with ',', which separates its items");
    let refused =
        "the argument `p` is a cookie: `;`, control characters and non-ASCII text must be escaped by the caller";
    for value in [
        json!("a;b"),
        json!("a\r\nb"),
        json!("\t"),
        json!("ä"),
        json!(["a", ";"]),
        json!({"a=b": 1}),
        json!({"a;b": 1}),
    ] {
        check_parameter(cookie(), value, refused);
    }
}

#[test]
fn reserved_characters_stay_where_they_cannot_leave_their_place() {
    let reserved = |place: &str| json!({"in": place, "allowReserved": true, "schema": {}});
    check_parameter(reserved("query"), json!("a:b/c?d@e"), "?p=a:b/c?d@e");
    check_parameter(reserved("query"), json!("a&b=c+d#e"), "?p=a%26b%3Dc%2Bd%23e");
    check_parameter(reserved("query"), json!("a%2Fb%zz%2"), "?p=a%2Fb%25zz%252");
    check_parameter(reserved("path"), json!("a:b@c"), "/a:b@c");
    check_parameter(reserved("path"), json!("a/b?c#d%2Fe"), "/a%2Fb%3Fc%23d%2Fe");
    check_parameter(reserved("cookie"), json!("a:b;c,d"), "\ncookie: p=a:b%3Bc%2Cd");
    check_parameter(json!({"in": "path", "schema": {}}), json!("a:b%2Fc"), "/a%3Ab%252Fc");
    let refused = "the argument `p` must not contain `.` or `..` as a step of a path, or control characters";
    for value in ["..", "%2e%2E", "a%2F..%2Fb", "a%5c..%5Cb", "%ff%2F..", "a%0Ab", "%00"] {
        check_parameter(reserved("path"), json!(value), refused);
    }
    for version in ["3.0.3", "3.1.1"] {
        let old = json!({"openapi": version, "paths": {"/x/{p}": {"get": {"operationId": "x", "parameters": [
            {"name": "p", "in": "path", "allowReserved": true, "schema": {}},
        ]}}}});
        let sent = shown(&load(&old.to_string()), "x", json!({"p": "a:50%20"}));
        assert_eq!(sent, format!("GET {BASE}/x/a%3A50%2520"), "{version}");
    }
    let list = |place: &str| json!({"in": place, "explode": false, "allowReserved": true, "schema": {}});
    for place in ["query", "path"] {
        let refused = "the argument `p` has an item with ',', which separates its items";
        check_parameter(list(place), json!(["a,b", "c"]), refused);
    }
    check_parameter(list("query"), json!(["a:b", "c"]), "?p=a:b,c");
}

#[test]
fn a_whole_query_is_written_as_a_form() {
    let form = |media: Value| json!({"in": "querystring", "content": {"application/x-www-form-urlencoded": media}});
    let plain = || form(json!({"schema": {"type": "object"}}));
    let encoding = json!({"a": {"explode": false}, "d": {"style": "deepObject"}, "s": {"style": "spaceDelimited"}});
    let encoded = || form(json!({"schema": {"type": "object"}, "encoding": encoding}));
    check_parameter(plain(), json!({"a": [1, 2], "o": {"k": 1}}), "?a=1&a=2&o=%7B%22k%22%3A1%7D");
    check_parameter(encoded(), json!({"a": [1, 2], "d": {"k": 1}, "b": [3, 4]}), "?a=1,2&d[k]=1&b=3&b=4");
    check_parameter(
        encoded(),
        json!({"s": ["a b"]}),
        "the argument `p.s` has an item with ' ', which separates its items",
    );
    check_parameter(encoded(), json!({}), "");
    check_parameter(encoded(), json!("b=2"), "?b=2");
}

#[test]
fn an_empty_value_has_nothing_behind_its_name() {
    for style in ["form", "spaceDelimited", "pipeDelimited"] {
        for empty in [json!({}), json!([])] {
            check_parameter(json!({"in": "query", "style": style, "explode": false, "schema": {}}), empty, "");
        }
    }
    let matrix = |explode: bool| json!({"in": "path", "style": "matrix", "explode": explode, "schema": {}});
    check_parameter(matrix(false), json!(""), "/;p");
    check_parameter(matrix(false), json!("a"), "/;p=a");
    check_parameter(matrix(true), json!(["", "a"]), "/;p;p=a");
    check_parameter(matrix(true), json!({"a": "", "b": 1}), "/;a;b=1");
}
