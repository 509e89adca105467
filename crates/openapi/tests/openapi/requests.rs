//! Arguments become requests.

use serde_json::{Value, json};
use toolgate_openapi::{Api, ApiCallError};

use crate::{EVERYTHING, SWAGGER_2, load, object, settings};

/// Method, URL, headers other than `accept`, and body of a call.
pub(crate) fn shown(api: &Api, tool: &str, arguments: Value) -> String {
    match api.request(tool, &object(arguments)) {
        Ok(request) => {
            let mut lines = vec![format!("{} {}", request.method, request.url)];
            lines.extend(
                request.headers.iter().filter(|it| it.0 != "accept").map(|(name, value)| format!("{name}: {value}")),
            );
            lines.extend(request.body.map(|body| String::from_utf8_lossy(&body).into_owned()));
            lines.join("\n")
        }
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(tool: &str, arguments: Value, expected: &str) {
    assert_eq!(shown(&load(EVERYTHING), tool, arguments), expected);
}

pub(crate) const BASE: &str = "https://api.example.com/v1";

#[test]
fn lists_and_objects_are_written_in_their_style() {
    check("getItem", json!({"id": "a b"}), &format!("GET {BASE}/items/a%20b"));
    check("getItem", json!({"id": "1", "tags": ["x", "y&z"]}), &format!("GET {BASE}/items/1?tags=x&tags=y%26z"));
    check("getItem", json!({"id": "1", "ids": [1, 2]}), &format!("GET {BASE}/items/1?ids=1,2"));
    check("getItem", json!({"id": "1", "words": ["a,b", "c"]}), &format!("GET {BASE}/items/1?words=a%2Cb,c"));
    check("getItem", json!({"id": "1", "spaced": ["a", "b"]}), &format!("GET {BASE}/items/1?spaced=a%20b"));
    check("getItem", json!({"id": "1", "piped": ["a", "b"]}), &format!("GET {BASE}/items/1?piped=a%7Cb"));
    check(
        "getItem",
        json!({"id": "1", "filter": {"min": 1, "max": 2}}),
        &format!("GET {BASE}/items/1?filter[min]=1&filter[max]=2"),
    );
    check(
        "getItem",
        json!({"id": "1", "where": {"value": 1}}),
        &format!("GET {BASE}/items/1?where=%7B%22value%22%3A1%7D"),
    );
    check("getItem", json!({"id": "1", "flag": true, "tags": null}), &format!("GET {BASE}/items/1?flag=true"));
    check(
        "getItem",
        json!({"id": "1", "X-Nums": [1, 2], "X-Kind": "a"}),
        &format!("GET {BASE}/items/1\nx-kind: a\nx-nums: 1,2"),
    );
    check("getItem", json!({"id": "1", "session": "s;t"}), &format!("GET {BASE}/items/1\ncookie: session=s%3Bt"));
    let pairs =
        json!({"label": 1, "labels": [1, 2], "matrix": 3, "matrices": ["a", "b"], "pairs": {"min": 1, "max": 2}});
    check("styles", pairs, &format!("GET {BASE}/styles/.1/.1.2/;matrix=3/;matrices=a;matrices=b/min,1,max,2"));
}

#[test]
fn bodies_are_written_in_their_content_type() {
    check(
        "putItem",
        json!({"path_id": "p", "body_id": "b", "name": null}),
        &format!("PUT {BASE}/items/p\ncontent-type: application/json\n{{\"id\":\"b\",\"name\":null}}"),
    );
    check("addNote", json!({}), &format!("POST {BASE}/notes"));
    check(
        "addNote",
        json!({"body": {"text": "t"}}),
        &format!("POST {BASE}/notes\ncontent-type: application/json\n{{\"text\":\"t\"}}"),
    );
    let form = json!({"name": "a b", "colours": ["r", "g"], "range": {"min": 1}, "deep": {"min": 2}});
    let encoded = "name=a%20b&colours=r&colours=g&range=%7B%22min%22%3A1%7D&deep[min]=2";
    check("sendForm", form, &format!("POST {BASE}/form\ncontent-type: application/x-www-form-urlencoded\n{encoded}"));
    check(
        "putRaw",
        json!({"body": {"base64": "aGk="}}),
        &format!("PUT {BASE}/raw\ncontent-type: application/octet-stream\nhi"),
    );
    check("putRaw", json!({"body": {"base64": "?"}}), "the argument `body` has a `base64` that is not base64");
}

#[test]
fn a_file_is_a_part_of_a_multipart_body() {
    let file = json!({"base64": "aGk=", "filename": "a\"b.txt", "type": "text/plain"});
    let sent = shown(&load(EVERYTHING), "upload", json!({"file": file, "title": "t", "about": {"min": 1}}));
    let boundary = sent.split("boundary=").nth(1).unwrap().lines().next().unwrap().to_owned();
    let sent = sent.replace(&boundary, "B").replace('\r', "");
    let expected = "content-type: multipart/form-data; boundary=B\n--B\nContent-Disposition: form-data; name=\"file\"; \
        filename=\"a%22b.txt\"\nContent-Type: text/plain\n\nhi\n--B\nContent-Disposition: form-data; name=\"title\"\n\nt\n\
        --B\nContent-Disposition: form-data; name=\"about\"\nContent-Type: application/json\n\n{\"min\":1}\n--B--\n";
    assert_eq!(sent, format!("POST {BASE}/upload\n{expected}"));
}

/// The parts of a multipart body that is shown, each without what all of them begin with.
pub(crate) fn parts_of(sent: &str) -> Vec<String> {
    let boundary = sent.split("boundary=").nth(1).unwrap_or_else(|| panic!("{sent}")).lines().next().unwrap();
    let separator = format!("--{boundary}");
    let parts = sent.split(&separator).filter_map(|part| part.split_once("Content-Disposition: form-data; "));
    parts.map(|(_, part)| part.trim().replace("\r\n", "|")).collect()
}

#[test]
fn a_part_that_is_declared_as_json_is_json() {
    let document = json!({
        "openapi": "3.0.3",
        "paths": {"/x": {"post": {"operationId": "x", "requestBody": {"required": true, "content": {"multipart/form-data": {
            "schema": {"type": "object", "properties": {
                "tags": {"type": "array", "items": {"type": "string"}}, "name": {"type": "string"}, "plain": {"type": "array", "items": {"type": "string"}},
                "kinds": {"type": "string"},
            }},
            "encoding": {"tags": {"contentType": "application/json"}, "name": {"contentType": "application/json; charset=utf-8"},
                         "kinds": {"contentType": "text/plain, text/html"}},
        }}}}}},
    });
    let api = load(&document.to_string());
    let given = json!({"tags": ["a", "b"], "name": "n", "plain": ["c", "d"], "kinds": "k"});
    let parts = parts_of(&shown(&api, "x", given));
    let expected = [
        "name=\"tags\"|Content-Type: application/json||[\"a\",\"b\"]",
        "name=\"name\"|Content-Type: application/json; charset=utf-8||\"n\"",
        "name=\"plain\"||c",
        "name=\"plain\"||d",
        "name=\"kinds\"||k",
    ];
    assert_eq!(parts, expected);
}

#[test]
fn swagger_2_has_its_own_lists_and_forms() {
    let api = load(SWAGGER_2);
    let sent = shown(&api, "listPets", json!({"tags": ["a", "b"], "csv": [1, 2], "ssv": [3, 4], "limit": 5}));
    assert_eq!(sent, format!("GET {BASE}/pets?tags=a&tags=b&csv=1,2&ssv=3%204&limit=5"));
    let sent = shown(&api, "addPet", json!({"name": "Rex"}));
    assert_eq!(sent, format!("POST {BASE}/pets\ncontent-type: application/json\n{{\"name\":\"Rex\"}}"));
    let sent = shown(&api, "post_pets_id_photo", json!({"id": 7, "photo": "bytes"}));
    assert!(sent.starts_with(&format!("POST {BASE}/pets/7/photo\ncontent-type: multipart/form-data")), "{sent}");
    assert!(sent.contains("filename=\"photo\"\r\nContent-Type: application/octet-stream\r\n\r\nbytes"), "{sent}");
}

#[track_caller]
fn check_auth(text: &str, auth: &[(&str, &str)], tool: &str, arguments: Value, expected: &[&str]) {
    let api = Api::load(text, settings(auth)).unwrap();
    let request = api.request(tool, &object(arguments)).unwrap();
    let mut found = vec![request.url.query().unwrap_or_default().to_owned()];
    found.extend(request.headers.iter().filter(|it| it.0 != "accept").map(|(name, value)| format!("{name}: {value}")));
    assert_eq!(found, expected);
}

#[test]
fn credentials_go_where_their_scheme_says() {
    let one = |scheme: &str| EVERYTHING.replace("security: [{key: []}]", &format!("security: [{{{scheme}: []}}]"));
    let id = || json!({"id": "1"});
    check_auth(&one("key"), &[("key", "k")], "getItem", id(), &["", "x-api-key: k"]);
    check_auth(&one("query_key"), &[("query_key", "a&b")], "getItem", id(), &["api_key=a%26b"]);
    check_auth(
        &one("cookie_key"),
        &[("cookie_key", "c")],
        "getItem",
        json!({"id": "1", "session": "s"}),
        &["", "cookie: session=s; token=c"],
    );
    // What a server issued comes back as it was; only what a cookie cannot have is escaped.
    check_auth(&one("cookie_key"), &[("cookie_key", "a+b/c==")], "getItem", id(), &["", "cookie: token=a+b/c=="]);
    check_auth(&one("cookie_key"), &[("cookie_key", "a;b")], "getItem", id(), &["", "cookie: token=a%3Bb"]);
    check_auth(&one("user"), &[("user", "u:p")], "getItem", id(), &["", "authorization: Basic dTpw"]);
    check_auth(&one("token"), &[("token", "t")], "getItem", id(), &["", "authorization: Bearer t"]);
    check_auth(SWAGGER_2, &[("login", "u:p")], "listPets", json!({}), &["", "authorization: Basic dTpw"]);
}

#[test]
fn a_credential_is_sent_where_the_operation_asks_for_it() {
    let open = EVERYTHING.replace("      operationId: getItem\n", "      operationId: getItem\n      security: []\n");
    check_auth(&open, &[("key", "k")], "getItem", json!({"id": "1"}), &[""]);
    let either = EVERYTHING.replace("security: [{key: []}]", "security: [{key: [], user: []}, {token: []}]");
    check_auth(
        &either,
        &[("key", "k"), ("token", "t")],
        "getItem",
        json!({"id": "1"}),
        &["", "authorization: Bearer t"],
    );
    // Without a scheme of that name, `bearer` is sent with every request.
    check_auth(&open, &[("bearer", "b")], "getItem", json!({"id": "1"}), &["", "authorization: Bearer b"]);
}

#[test]
fn a_credential_is_sent_everywhere_if_the_document_asks_for_none_anywhere() {
    let silent = EVERYTHING.replace("security: [{key: []}]\n", "");
    check_auth(&silent, &[("token", "t")], "getItem", json!({"id": "1"}), &["", "authorization: Bearer t"]);
    check_auth(
        &silent,
        &[("key", "k"), ("query_key", "q")],
        "getItem",
        json!({"id": "1"}),
        &["api_key=q", "x-api-key: k"],
    );
    // One operation that asks for a scheme says that the others need none.
    let open = silent.replace("operationId: putItem\n", "operationId: putItem\n      security: [{token: []}]\n");
    check_auth(&open, &[("token", "t")], "getItem", json!({"id": "1"}), &[""]);
}

#[test]
fn no_argument_adds_a_second_credential() {
    let document = json!({
        "openapi": "3.2.0", "security": [{"q": [], "c": []}],
        "paths": {"/x?api_key=theirs&a=1": {"get": {"operationId": "x", "parameters": [
            {"name": "all", "in": "querystring", "content": {"application/x-www-form-urlencoded": {"schema": {"type": "string"}}}},
            {"name": "jar", "in": "cookie", "schema": {"type": "object"}},
        ]}}},
        "components": {"securitySchemes": {
            "q": {"type": "apiKey", "in": "query", "name": "api_key"}, "c": {"type": "apiKey", "in": "cookie", "name": "sid"},
        }},
    });
    let auth = &[("q", "ours"), ("c", "mine")];
    let given = json!({"all": "b=2&api%5Fkey=x&c=ä#d", "jar": {"sid": "stolen", "theme": "dark"}});
    check_auth(
        &document.to_string(),
        auth,
        "x",
        given,
        &["a=1&b=2&c=%C3%A4%23d&api_key=ours", "cookie: theme=dark; sid=mine"],
    );
}

#[test]
fn an_argument_cannot_replace_a_credential() {
    let declared = EVERYTHING
        .replace("- {name: flag,", "- {name: X-Api-Key, in: header, schema: {type: string}}\n        - {name: flag,");
    let api = Api::load(&declared, settings(&[("key", "k")])).unwrap();
    let tool = crate::tool(&api, "getItem");
    assert!(tool["inputSchema"]["properties"].get("X-Api-Key").is_none(), "{tool}");
    let request = api.request("getItem", &object(json!({"id": "1", "X-Api-Key": "other"}))).unwrap();
    let keys: Vec<_> = request.headers.iter().filter(|it| it.0 == "x-api-key").map(|it| it.1.as_str()).collect();
    assert_eq!(keys, ["k"]);
}

#[test]
fn an_argument_cannot_replace_a_header_of_the_configuration() {
    let headers = vec![("X-KIND".to_owned(), "configured".to_owned())];
    let api = Api::load(EVERYTHING, toolgate_openapi::ApiSettings { headers, ..settings(&[]) }).unwrap();
    let request = api.request("getItem", &object(json!({"id": "1", "X-Kind": "a"}))).unwrap();
    let kinds: Vec<_> = request.headers.iter().filter(|it| it.0 == "x-kind").map(|it| it.1.as_str()).collect();
    assert_eq!(kinds, ["configured"]);
}

#[test]
fn a_scheme_cannot_name_more_than_a_header_or_a_cookie() {
    for name in ["token: a\\r\\nX-Evil", "a=1; admin"] {
        let hostile = EVERYTHING.replace("in: cookie, name: token", &format!("in: cookie, name: \"{name}\""));
        let error = Api::load(&hostile, settings(&[("cookie_key", "c")])).unwrap_err().to_string();
        assert!(error.contains("no security scheme `cookie_key`"), "{error}");
    }
}

#[test]
fn a_credential_without_its_scheme_is_an_error() {
    let error = Api::load(EVERYTHING, settings(&[("kye", "k")])).unwrap_err().to_string();
    assert!(error.contains("no security scheme `kye`") && error.contains("cookie_key"), "{error}");
    assert!(!format!("{:?}", settings(&[("key", "hunter2")])).contains("hunter2"));
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    check("getItem", json!({}), "the argument `id` is missing");
    check(
        "addTree",
        json!({"children": []}),
        &format!("POST {BASE}/trees\ncontent-type: application/json\n{{\"children\":[]}}"),
    );
    let unknown = load(EVERYTHING).request("nothing", &object(json!({})));
    assert_eq!(unknown, Err(ApiCallError::Unknown("nothing".to_owned())));
}

#[test]
fn an_idempotency_key_is_made_where_the_operation_takes_one() {
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {"/pay": {"post": {"operationId": "pay", "parameters": [
            {"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}},
        ]}}},
    });
    let api = load(&document.to_string());
    let tool = crate::tool(&api, "pay");
    assert_eq!(tool["inputSchema"]["required"], Value::Null, "{tool}");
    let key = |arguments: Value| {
        let request = api.request("pay", &object(arguments)).unwrap();
        request.headers.into_iter().find(|(name, _)| name == "idempotency-key").unwrap().1
    };
    let (one, other) = (key(json!({})), key(json!({"Idempotency-Key": null})));
    assert!(one.len() == 36 && other.len() == 36 && one != other, "{one} {other}");
    assert_eq!(key(json!({"Idempotency-Key": "mine"})), "mine");
}

#[test]
fn a_credential_is_sent_beside_a_scheme_that_takes_none() {
    let document = |security: Value| {
        let key = |name: &str| json!({"type": "apiKey", "in": "header", "name": name});
        let schemes = json!({"m": {"type": "mutualTLS"}, "k": key("X-K"), "other": key("X-Other")});
        json!({"openapi": "3.1.0", "security": security, "paths": {"/x": {"get": {"operationId": "x"}}}, "components": {"securitySchemes": schemes}}).to_string()
    };
    let both = document(json!([{"m": [], "k": []}]));
    check_auth(&both, &[("k", "s")], "x", json!({}), &["", "x-k: s"]);
    check_auth(&both, &[("other", "s")], "x", json!({}), &[""]);
    // An alternative without one comes first.
    let either = document(json!([{"m": [], "k": []}, {"m": []}, {"other": []}]));
    check_auth(&either, &[("k", "s"), ("other", "o")], "x", json!({}), &["", "x-other: o"]);
    check_auth(&document(json!([{"m": [], "k": [], "other": []}])), &[("k", "s")], "x", json!({}), &[""]);
    let note = "the security scheme `m` asks for a client certificate, and none is sent";
    assert_eq!(load(&both).notes(), [note]);
    assert!(load(&document(json!([{"k": []}]))).notes().is_empty());
}
