//! Search finds tools by what they do.

use super::super::{BackendState, Catalog, Listing, Tool};
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn listing(name: &str, tags: &[&str], tools: Vec<Value>) -> Listing {
    Listing {
        name: name.into(),
        state: BackendState::Ready,
        tools: tools.into_iter().filter_map(Tool::from_raw).collect(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

fn catalog() -> Catalog {
    let tool = |name: &str, about: &str| json!({ "name": name, "description": about });
    Catalog::new(vec![
        listing(
            "files",
            &["local", "Disk"],
            vec![
                tool("read_file", "Read the contents of a file."),
                tool("create_directory", "Create a new directory."),
                tool("searchFiles", "Find files by pattern."),
            ],
        ),
        listing(
            "tracker",
            &["work"],
            vec![
                tool("create_issue", "Create an issue in a project."),
                tool("list_issues", "List issues. Also mentions read_file and files and files."),
                tool("delete-issue", "Delete an issue."),
            ],
        ),
        listing("weather", &[], vec![tool("forecast", "Weather forecast for a city.")]),
    ])
}

#[track_caller]
fn check(query: &str, expected: &[&str]) {
    check_tagged(query, None, expected);
}

#[track_caller]
fn check_tagged(query: &str, tag: Option<&str>, expected: &[&str]) {
    let hits = catalog().search(query, expected.len().max(1), tag);
    let found: Vec<String> = hits.iter().map(|hit| format!("{}.{}", hit.backend, hit.tool)).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_exact_name_goes_first_in_any_spelling() {
    check("read_file", &["files.read_file"]);
    check("files.read_file", &["files.read_file"]);
    check("ReadFile", &["files.read_file"]);
    check("search_files", &["files.searchFiles"]);
    check("delete_issue", &["tracker.delete-issue"]);
    check("how do I call `delete-issue` here", &["tracker.delete-issue"]);
}

#[test]
fn a_slip_of_the_fingers_still_finds() {
    check("wether forcast", &["weather.forecast"]);
    check("creat direcotry", &["files.create_directory"]);
}

#[test]
fn another_word_for_the_same_finds() {
    check("make a folder", &["files.create_directory"]);
    check("remove a ticket", &["tracker.delete-issue"]);
}

#[test]
fn a_tag_narrows_the_search() {
    check_tagged("create", Some("work"), &["tracker.create_issue"]);
    check_tagged("create", Some("disk"), &["files.create_directory"]);
    check_tagged("create", Some("nope"), &[]);
}

#[test]
fn nothing_asked_is_nothing_found() {
    for query in ["", "   ", "the of and", "!!!", "🔥", "qqqqqqqqqqqq"] {
        check(query, &[]);
    }
    assert_eq!(catalog().search("create", 0, None), []);
    assert_eq!(Catalog::default().search("create", 10, None), []);
}

#[test]
fn every_tool_comes_once_and_in_the_same_order_every_time() {
    let first = catalog().search("create list read delete files issue", 100, None);
    assert_eq!(first.len(), 6);
    for _ in 0..5 {
        assert_eq!(catalog().search("create list read delete files issue", 100, None), first);
    }
}

#[test]
fn what_scores_the_same_is_ordered_by_backend_and_name() {
    let twin = || vec![json!({ "name": "b_ping" }), json!({ "name": "a_ping" })];
    let catalog = Catalog::new(vec![listing("two", &[], twin()), listing("one", &[], twin())]);
    let found: Vec<String> =
        catalog.search("ping", 9, None).iter().map(|hit| format!("{}.{}", hit.backend, hit.tool)).collect();
    assert_eq!(found, ["one.a_ping", "one.b_ping", "two.a_ping", "two.b_ping"]);
}

#[test]
fn what_is_done_decides_between_the_tools_for_one_thing() {
    check("remove the issue", &["tracker.delete-issue"]);
    check("which issues are there", &["tracker.list_issues"]);
    check("raise an issue", &["tracker.create_issue"]);
}

#[test]
fn a_value_stands_for_its_kind() {
    check("what does notes.md say", &["files.read_file"]);
}

#[test]
fn a_name_is_no_slip() {
    check("the wether of it", &["weather.forecast"]);
    check("the Wether of it", &[]);
}

#[test]
fn what_a_thing_is_made_with_finds_the_tools_for_it() {
    let takes =
        |name: &str, parameter: &str| json!({ "name": name, "inputSchema": { "properties": { parameter: {} } } });
    let tools = vec![takes("create_net", "subnet"), takes("get_net", "id"), takes("get_pod", "id")];
    let hits = Catalog::new(vec![listing("b", &[], tools)]).search("what is the subnet", 9, None);
    let mut found: Vec<&str> = hits.iter().map(|hit| hit.tool.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["create_net", "get_net"]);
}

#[test]
fn two_tools_for_one_thing_let_another_thing_pass() {
    let tools = ["get_pod", "list_pods", "read_pod", "get_pod_log"].map(|name| json!({ "name": name })).to_vec();
    let hits = Catalog::new(vec![listing("b", &[], tools)]).search("show the pods", 3, None);
    assert!(hits.iter().any(|hit| hit.tool == "get_pod_log"), "{hits:?}");
}

#[test]
fn a_change_of_state_keeps_the_results() {
    let before = catalog();
    let after = before.with_state("files", BackendState::Failed { reason: "gone".into() });
    assert_eq!(after.search("read file", 3, None), before.search("read file", 3, None));
}

#[test]
fn a_hit_says_all_that_a_call_needs() {
    let catalog = Catalog::new(vec![listing(
        "my-search",
        &[],
        vec![json!({
            "name": "web-search",
            "description": "Search\n the web. ".repeat(50),
            "inputSchema": {
                "type": "object",
                "properties": { "query": { "type": "string" }, "limit": { "type": "integer", "default": 10 } },
                "required": ["query"],
            },
        })],
    )]);
    let hit = catalog.search("web search", 1, None).remove(0);
    assert_eq!(hit.call, "await my_search.web_search({ query: \"…\" })");
    assert_eq!(hit.signature, "web_search(args: { query: string; limit?: number /* default 10 */ }): Promise<any>");
    assert_eq!(hit.description.lines().count(), 1);
    assert!(hit.description.chars().count() <= MAX_DESCRIPTION && hit.description.ends_with('…'));
}

#[track_caller]
fn check_call(schema: Value, expected: &str) {
    let catalog = Catalog::new(vec![listing("b", &[], vec![json!({ "name": "t", "inputSchema": schema })])]);
    assert_eq!(ready_call(catalog.tool("b", "t").unwrap()), expected);
}

#[test]
fn a_tool_that_needs_nothing_is_called_with_nothing() {
    check_call(json!({ "type": "object", "properties": { "a": { "type": "string" } } }), "await b.t()");
    check_call(json!(7), "await b.t()");
    check_call(json!({ "type": "string" }), "await b.t({})");
}

#[test]
fn placeholders_come_from_the_schema() {
    let required = |properties: Value| {
        let names: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        json!({ "type": "object", "properties": properties, "required": names })
    };
    check_call(
        required(
            json!({ "a": { "enum": ["x", "y"] }, "b": { "examples": [7] }, "c": { "default": false }, "d": { "const": 1 } }),
        ),
        "await b.t({ a: \"x\", b: 7, c: false, d: 1 })",
    );
    check_call(
        required(
            json!({ "n": { "type": "integer", "minimum": 5 }, "u": { "type": "string", "format": "uri" }, "f": { "type": "boolean" } }),
        ),
        "await b.t({ n: 5, u: \"https://example.com\", f: true })",
    );
    check_call(
        required(
            json!({ "list": { "type": "array", "items": required(json!({ "id": { "type": ["null", "number"] } })) }, "z": { "anyOf": [{ "type": "null" }, { "type": "string" }] } }),
        ),
        "await b.t({ list: [{ id: 1 }], z: \"…\" })",
    );
    check_call(
        required(json!({ "odd key": {}, "__proto__": {} })),
        "await b.t({ \"odd key\": \"…\", [\"__proto__\"]: \"…\" })",
    );
}

#[test]
fn a_recursive_or_endless_schema_gives_a_bounded_call() {
    check_call(
        json!({ "type": "object", "properties": { "a": { "$ref": "#" } }, "required": ["a"] }),
        "await b.t({ a: { a: { a: null } } })",
    );
    let wide: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("{}{n}", "k".repeat(100)), json!({}))).collect();
    let names: Vec<&String> = wide.keys().collect();
    check_call(
        json!({ "type": "object", "required": names, "properties": wide }),
        "await b.t({ /* see its interface */ })",
    );
}

proptest! {
    #[test]
    fn whatever_is_asked_the_answer_is_bounded_and_ordered(query in "\\PC{0,60}", limit in 0usize..5) {
        let hits = catalog().search(&query, limit, None);
        prop_assert!(hits.len() <= limit);
        prop_assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn a_description_is_one_bounded_line(text in "(\\PC|\n|\t){0,400}") {
        let line = one_line(&text);
        prop_assert!(line.chars().count() <= MAX_DESCRIPTION);
        prop_assert!(!line.contains(char::is_control));
    }
}
