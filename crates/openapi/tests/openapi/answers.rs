//! Answers become results.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolgate_openapi::{AnswerFuture, ApiAnswer, ApiRequest, ApiTransport, META_KEY, TransportError};

use crate::{EVERYTHING, load, object, settings};

/// Gives prepared answers and keeps what was asked.
#[derive(Clone, Default)]
struct Prepared {
    answers: Arc<Mutex<Vec<ApiAnswer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ApiTransport for Prepared {
    fn send(&self, request: ApiRequest) -> AnswerFuture {
        self.asked.lock().unwrap().push(format!("{} {}", request.method, request.url));
        let mut answers = self.answers.lock().unwrap();
        let answer =
            if answers.is_empty() { Err(TransportError::Lost("no more".to_owned())) } else { Ok(answers.remove(0)) };
        Box::pin(std::future::ready(answer))
    }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> ApiAnswer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ApiAnswer { status, headers, body: body.to_vec() }
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

async fn call(tool: &str, arguments: Value, answers: Vec<ApiAnswer>) -> (Value, Vec<String>) {
    let transport = Prepared { answers: Arc::new(Mutex::new(answers)), ..Prepared::default() };
    let api = load(EVERYTHING);
    let result = api.call(&transport, tool, &object(arguments)).await;
    let result = result.unwrap_or_else(|error| json!({ "error": error.to_string() }));
    (result, transport.asked.lock().unwrap().clone())
}

async fn one(tool: &str, arguments: Value, one: ApiAnswer) -> Value {
    call(tool, arguments, vec![one]).await.0
}

#[tokio::test]
async fn an_object_is_structured_content_and_anything_else_is_wrapped() {
    let item = one("getItem", json!({"id": "1"}), answer(200, &[JSON], br#"{"id":"1"}"#)).await;
    assert_eq!(item["structuredContent"], json!({"id": "1"}));
    assert_eq!(item["content"], json!([{"type": "text", "text": "{\"id\":\"1\"}"}]));
    assert_eq!(item["_meta"], json!({ META_KEY: {"status": 200} }));
    let shape = json!({"body": {"kind": "circle", "radius": 1}});
    let list = one("addShape", shape, answer(201, &[JSON], b"[]")).await;
    assert_eq!(list["structuredContent"], json!({"result": []}));
    assert_eq!(list["_meta"]["fastmcp"], json!({"wrap_result": true}));
    let none = one("deleteItem", json!({"id": "1"}), answer(204, &[], b"")).await;
    assert_eq!(none["structuredContent"], json!({"result": null}));
    let text = one("addNote", json!({}), answer(200, &[("content-type", "text/plain")], b"42")).await;
    assert_eq!(text["structuredContent"], json!({"result": "42"}));
    let broken = one("getItem", json!({"id": "1"}), answer(200, &[JSON], b"{oops")).await;
    assert_eq!(broken["structuredContent"], json!({"result": "{oops"}));
}

#[tokio::test]
async fn bytes_have_the_form_that_a_file_argument_takes() {
    let headers = [("content-type", "image/png"), ("content-disposition", "attachment; filename=\"../a.png\"")];
    let image = one("upload", json!({"file": "x"}), answer(200, &headers, b"\x89PNG")).await;
    assert_eq!(image["structuredContent"], json!({"base64": "iVBORw==", "type": "image/png", "filename": "a.png"}));
    assert_eq!(image["content"], json!([{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]));
    let again = load(EVERYTHING).request("upload", &object(json!({ "file": image["structuredContent"] }))).unwrap();
    assert!(again.body.unwrap().windows(4).any(|window| window == b"\x89PNG"));
    let zip = one("upload", json!({"file": "x"}), answer(200, &[("content-type", "application/zip")], b"PK")).await;
    assert_eq!(zip["content"], json!([{"type": "text", "text": "2 bytes of application/zip"}]));
}

#[tokio::test]
async fn text_in_windows_1252_is_decoded_by_its_table() {
    for charset in ["windows-1252", "ISO-8859-1", "latin1"] {
        let kind = format!("text/plain; charset={charset}");
        let body = b"\x80 \x93caf\xe9\x94 \x81 \x9f \xa0 \xff";
        let found = one("addNote", json!({}), answer(200, &[("content-type", &kind)], body)).await;
        let expected = "\u{20ac} \u{201c}caf\u{e9}\u{201d} \u{81} \u{178} \u{a0} \u{ff}";
        assert_eq!(found["structuredContent"], json!({"result": expected}), "{charset}");
    }
}

#[tokio::test]
async fn a_refusal_names_no_scheme_that_takes_no_credential() {
    let document = json!({
        "openapi": "3.1.0", "security": [{"tls": [], "key": [], "undeclared": []}], "paths": {"/x": {"get": {"operationId": "x"}}},
        "components": {"securitySchemes": {"tls": {"type": "mutualTLS"}, "key": {"type": "apiKey", "in": "header", "name": "K"}}},
    });
    let transport = Prepared { answers: Arc::new(Mutex::new(vec![answer(401, &[], b"")])), ..Prepared::default() };
    let found = load(&document.to_string()).call(&transport, "x", &object(json!({}))).await.unwrap();
    let text = found["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("(no credential is configured for key: set it under `auth`)"), "{text}");
}

#[tokio::test]
async fn an_error_status_is_a_failure_with_status_and_body() {
    let found = one("getItem", json!({"id": "1"}), answer(404, &[JSON], br#"{"message":"no such item"}"#)).await;
    assert_eq!(found["isError"], json!(true));
    assert_eq!(found["structuredContent"], json!({"status": 404, "body": {"message": "no such item"}}));
    assert_eq!(found["content"][0]["text"], json!("the API answered 404 Not Found: {\"message\":\"no such item\"}"));
    let busy = one("getItem", json!({"id": "1"}), answer(429, &[("retry-after", " 30")], b"")).await;
    assert_eq!(busy["structuredContent"], json!({"status": 429, "body": null, "retryAfter": 30}));
    assert_eq!(busy["_meta"][META_KEY]["retryAfter"], json!(30));
    let unauthorised = one("getItem", json!({"id": "1"}), answer(401, &[], b"")).await;
    let text = unauthorised["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("(no credential is configured for key: set it under `auth`)"), "{text}");
    let large = one("getItem", json!({"id": "1"}), answer(500, &[], "x".repeat(1 << 20).as_bytes())).await;
    assert!(large.to_string().len() < 80 << 10);
}

#[tokio::test]
async fn links_to_further_pages_are_told_with_their_arguments() {
    let link =
        "<https://api.example.com/v1/items/1?tags=b&api_key=secret>; rel=\"next\", </v1/other>; rel=last, broken";
    let found = one("getItem", json!({"id": "1"}), answer(200, &[JSON, ("link", link)], b"{}")).await;
    let links = &found["_meta"][META_KEY]["links"];
    let expected = json!({"url": "https://api.example.com/v1/items/1?tags=b", "arguments": {"tags": ["b"]}});
    assert_eq!(links["next"], expected);
    assert_eq!(links["last"], json!({"url": "https://api.example.com/v1/other"}));
}

#[tokio::test]
async fn the_arguments_of_a_link_fit_the_tool() {
    let api = load(EVERYTHING);
    let schema = crate::tool(&api, "getItem")["inputSchema"].clone();
    for arguments in [
        json!({"tags": ["x", "y,z"], "ids": [1, 2], "words": ["a", "b"], "flag": true}),
        json!({"spaced": ["a", "b"], "piped": ["c", "d"], "where": {"value": 1}, "flag": false}),
    ] {
        let mut all = arguments.clone();
        all["id"] = json!("1");
        let next = api.request("getItem", &object(all)).unwrap().url;
        // A comma of the link is none between links.
        let link = format!("<{next}>; title=\"a, b\"; rel=\"next prefetch\", <{next}>; rel=first");
        let found = one("getItem", json!({"id": "1"}), answer(200, &[JSON, ("link", &link)], b"{}")).await;
        let links = &found["_meta"][META_KEY]["links"];
        for relation in ["next", "prefetch", "first"] {
            assert_eq!(links[relation]["arguments"], arguments, "{relation} of {link}");
        }
        let mut again = links["next"]["arguments"].clone();
        again["id"] = json!("1");
        assert!(jsonschema::is_valid(&schema, &again), "{again}");
    }
}

#[tokio::test]
async fn a_link_of_a_schema_that_refers_to_itself_is_read() {
    let itself = vec![json!({"$ref": "#/components/schemas/A"}); 900];
    let parameter = json!({"name": "cursor", "in": "query", "schema": {"$ref": "#/components/schemas/A"}});
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/list": {"get": {"operationId": "list", "parameters": [parameter]}}},
        "components": {"schemas": {"A": {"anyOf": itself}}},
    });
    let api = load(&document.to_string());
    assert!(crate::tool(&api, "list").to_string().matches("$ref").count() > 900);
    let link = [JSON, ("link", "<?cursor=7>; rel=next")];
    let transport = Prepared { answers: Arc::new(Mutex::new(vec![answer(200, &link, b"[]")])), ..Prepared::default() };
    let found = api.call(&transport, "list", &object(json!({}))).await.unwrap();
    assert_eq!(found["_meta"][META_KEY]["links"]["next"]["arguments"], json!({"cursor": "7"}));
}

/// A list whose further pages are named by links, and a key in the query.
fn paged() -> toolgate_openapi::Api {
    let items = json!({"type": "array", "items": {"type": "integer"}});
    let document = json!({
        "openapi": "3.0.3", "security": [{"key": []}],
        "paths": {
            "/list": {"get": {"operationId": "list", "parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}],
                "responses": {"200": {"headers": {"link": {"schema": {"type": "string"}}}, "content": {"application/json": {"schema": items}}}}}},
            "/plain": {"get": {"operationId": "plain", "responses": {"200": {"content": {"application/json": {"schema": items}}}}}},
        },
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}}},
    });
    toolgate_openapi::Api::load(&document.to_string(), settings(&[("key", "k")])).unwrap()
}

fn page(items: &str, next: Option<&str>) -> ApiAnswer {
    let link = next.map(|next| format!("<{next}>; rel=\"next\"")).unwrap_or_default();
    answer(200, &[JSON, ("link", &link)], items.as_bytes())
}

async fn all_pages(answers: Vec<ApiAnswer>) -> (Value, Vec<String>) {
    let transport = Prepared { answers: Arc::new(Mutex::new(answers)), ..Prepared::default() };
    let result = paged().call(&transport, "list", &object(json!({"page": 1, "all_pages": true}))).await;
    let result = result.unwrap_or_else(|error| json!({ "error": error.to_string() }));
    (result, transport.asked.lock().unwrap().clone())
}

#[tokio::test]
async fn all_pages_of_a_list_are_one_result_if_the_caller_asks() {
    let api = paged();
    let offered = |name: &str| crate::tool(&api, name)["inputSchema"]["properties"].get("all_pages").is_some();
    assert!(offered("list") && !offered("plain"));
    let pages =
        vec![page("[1,2]", Some("?page=2&key=theirs")), page("[]", Some("/v1/other?page=3")), page("[3]", None)];
    let (found, asked) = all_pages(pages).await;
    assert_eq!(found["structuredContent"], json!({"result": [1, 2, 3]}));
    let expected = ["/list?page=1&key=k", "/list?page=2&key=k", "/other?page=3&key=k"];
    assert_eq!(asked, expected.map(|it| format!("GET https://api.example.com/v1{it}")));
    // A failure on the way is the failure of the call.
    let (found, _) = all_pages(vec![page("[1]", Some("?page=2")), answer(500, &[], b"")]).await;
    assert_eq!((found["isError"].clone(), found["structuredContent"]["status"].clone()), (json!(true), json!(500)));
    let endless = (0..200).map(|n| page("[1]", Some(&format!("?page={}", n + 2)))).collect();
    let (found, asked) = all_pages(endless).await;
    assert!(
        asked.len() == 100 && found["content"][0]["text"].as_str().unwrap().contains("more than 100 pages"),
        "{found}"
    );
}

#[tokio::test]
async fn a_list_that_goes_on_elsewhere_is_a_failure_and_no_part() {
    for (link, place) in [
        ("https://evil.test:8443/list?page=2&key=secret", "the next page is at https://evil.test:8443, "),
        ("http://api.example.com/v1/list", "the next page is at http://api.example.com, "),
        ("data:text/plain,1", "the next page is at data:, "),
        ("https://", "the next page is at a place that is no URL, "),
        ("?page=1&key=k", "a page at https://api.example.com names itself as the next page: "),
        ("?page=1", "a page at https://api.example.com names itself as the next page: "),
    ] {
        let (found, asked) = all_pages(vec![page("[1]", Some(link)), page("[2]", None)]).await;
        let text = found["content"][0]["text"].as_str().unwrap();
        assert_eq!((found["isError"].clone(), asked.len()), (json!(true), 1), "{link}");
        assert!(
            text.starts_with(place) && text.contains("ask for one page at a time") && text.contains("`all_pages`"),
            "{text}"
        );
        assert!(!found.to_string().contains("secret") && found.get("structuredContent").is_none(), "{found}");
        // One page is what it was.
        let answers = Arc::new(Mutex::new(vec![page("[1]", Some(link))]));
        let transport = Prepared { answers, ..Prepared::default() };
        let found = paged().call(&transport, "list", &object(json!({"page": 1}))).await.unwrap();
        assert_eq!(found["structuredContent"], json!({"result": [1]}), "{link}");
    }
    // Of several links, one that can be followed is.
    let both = answer(200, &[JSON, ("link", "<//evil.test>; rel=next, <?page=2>; rel=next")], b"[1]");
    let (found, _) = all_pages(vec![both, page("[2]", None)]).await;
    assert_eq!(found["structuredContent"], json!({"result": [1, 2]}));
}

#[test]
fn a_call_that_reads_all_pages_is_known_before() {
    let api = paged();
    let reads_all = |tool: &str, arguments: Value| api.reads_all_pages(tool, &object(arguments));
    assert!(reads_all("list", json!({"all_pages": true})));
    assert!(!reads_all("list", json!({"all_pages": false})) && !reads_all("list", json!({})));
    assert!(!reads_all("plain", json!({"all_pages": true})) && !reads_all("none", json!({"all_pages": true})));
}

#[tokio::test]
async fn names_and_charsets_of_answers_are_read() {
    let named = async |disposition: &str| {
        let headers = [("content-type", "application/pdf"), ("content-disposition", disposition)];
        one("upload", json!({"file": "x"}), answer(200, &headers, b"%PDF")).await["structuredContent"]["filename"]
            .clone()
    };
    assert_eq!(named("attachment; filename=\"a; b.pdf\"").await, json!("a; b.pdf"));
    assert_eq!(named("attachment; filename=x; filename*=UTF-8''%E2%82%AC.pdf").await, json!("€.pdf"));
    assert_eq!(named("attachment; filename*=UTF-8''..%2F..%2Fpasswd").await, json!("passwd"));
    assert_eq!(named("inline").await, Value::Null);
    let latin = [("content-type", "text/plain; charset=ISO-8859-1")];
    let text = one("addNote", json!({}), answer(200, &latin, b"caf\xe9")).await;
    assert_eq!(text["structuredContent"], json!({"result": "café"}));
}

#[tokio::test]
async fn the_body_of_a_failure_is_cut_between_characters() {
    let long = format!("x{}", "é".repeat(64 << 10));
    let found =
        one("getItem", json!({"id": "1"}), answer(500, &[("content-type", "text/plain")], long.as_bytes())).await;
    let shown = found["structuredContent"]["body"].as_str().unwrap();
    assert!(shown.starts_with("xéé") && shown.ends_with('é') && shown.len() < 64 << 10, "{}", shown.len());
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_and_only_to_read() {
    let moved = |to: &str| answer(302, &[("location", to)], b"");
    let ok = || answer(200, &[JSON], b"{}");
    let (found, asked) = call("getItem", json!({"id": "1"}), vec![moved("/v1/items/2"), ok()]).await;
    assert_eq!((found["structuredContent"].clone(), asked.len()), (json!({}), 2));
    assert_eq!(asked[1], "GET https://api.example.com/v1/items/2");
    for elsewhere in ["https://evil.test/", "http://api.example.com/v1/x", "//169.254.169.254/latest"] {
        let (found, asked) = call("getItem", json!({"id": "1"}), vec![moved(elsewhere), ok()]).await;
        assert_eq!((found["isError"].clone(), asked.len()), (json!(true), 1), "{elsewhere}");
        assert_eq!(found["structuredContent"]["location"], json!(elsewhere));
    }
    let (found, asked) = call("deleteItem", json!({"id": "1"}), vec![moved("/v1/items/2"), ok()]).await;
    assert_eq!((found["isError"].clone(), asked.len()), (json!(true), 1));
    let (found, asked) = call("getItem", json!({"id": "1"}), vec![moved("/v1/items/1"); 9]).await;
    assert_eq!((found, asked.len()), (json!({"error": "more than 5 redirects"}), 5));
}

#[test]
fn a_request_is_printed_without_its_secrets() {
    let headers = vec![("X-Tenant".to_owned(), "hunter4".to_owned())];
    let settings = toolgate_openapi::ApiSettings { headers, ..settings(&[("key", "hunter2")]) };
    let api = toolgate_openapi::Api::load(EVERYTHING, settings).unwrap();
    let request = api.request("getItem", &object(json!({"id": "1", "tags": ["hunter3"]}))).unwrap();
    let shown = format!("{request:?} {api:?}");
    assert!(!shown.contains("hunter"), "{shown}");
}
