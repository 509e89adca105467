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
    // Cyrillic: the model has no tokens for it, so that the names do not decide.
    let twin = || vec![json!({ "name": "б_пинг" }), json!({ "name": "а_пинг" })];
    let catalog = Catalog::new(vec![listing("три", &[], twin()), listing("два", &[], twin())]);
    let hits = catalog.search("пинг", 9, None);
    let found: Vec<String> = hits.iter().map(|hit| format!("{}.{}", hit.backend, hit.tool)).collect();
    assert_eq!(found, ["два.а_пинг", "два.б_пинг", "три.а_пинг", "три.б_пинг"]);
    assert!(hits.windows(2).take(1).all(|pair| pair[0].score == pair[1].score));
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

/// A catalog of tools that share few words with each other.
fn varied() -> Catalog {
    let tool = |name: &str, about: &str| json!({ "name": name, "description": about });
    Catalog::new(vec![
        listing(
            "files",
            &[],
            vec![
                tool("read_file", "Read the contents of a file."),
                tool("write_file", "Write text to a file."),
                tool("list_directory", "List the entries of a directory."),
            ],
        ),
        listing(
            "chat",
            &[],
            vec![
                tool("post_message", "Post a message to a channel."),
                tool("list_channels", "List all channels of the workspace."),
                tool("invite_member", "Invite a person to a channel."),
            ],
        ),
        listing(
            "shop",
            &[],
            vec![
                tool("order_food", "Buys food from a supermarket."),
                tool("track_parcel", "Where a parcel is."),
                tool("pay_invoice", "Pay an open invoice."),
            ],
        ),
        listing(
            "home",
            &[],
            vec![
                tool("set_thermostat", "Sets the temperature of a room."),
                tool("lock_door", "Locks a door."),
                tool("dim_lights", "Dims the lights of a room."),
            ],
        ),
    ])
}

#[track_caller]
fn check_varied(query: &str, limit: usize, expected: &[&str]) {
    let found: Vec<String> = varied().search(query, limit, None).into_iter().map(|hit| hit.tool).collect();
    assert!(expected.iter().all(|tool| found.iter().any(|found| found == tool)), "{query}: {found:?}");
}

#[test]
fn a_tool_is_found_by_meaning_where_no_word_matches() {
    check_varied("purchase some groceries", 1, &["order_food"]);
    check_varied("shipment delivery tracking", 1, &["track_parcel"]);
}

#[test]
fn a_task_of_several_steps_finds_the_tool_of_each() {
    check_varied("read the log files and post a summary", 5, &["read_file", "post_message"]);
    check_varied(
        "pay the invoice, then lock the door and dim the lights",
        6,
        &["pay_invoice", "lock_door", "dim_lights"],
    );
}

#[test]
fn tools_that_a_task_of_several_steps_names_go_first() {
    let query = "call dim_lights and run lock_door, then use track_parcel, then send pay_invoice, then do read_file";
    let hits = varied().search(query, 5, None);
    let mut found: Vec<&str> = hits.iter().map(|hit| hit.tool.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["dim_lights", "lock_door", "pay_invoice", "read_file", "track_parcel"]);
}

#[test]
fn a_tools_vector_is_made_once_and_shared_by_snapshots() {
    let first = varied();
    let second = first.without("home");
    let vector = |catalog: &Catalog| std::ptr::from_ref(catalog.tool("shop", "pay_invoice").unwrap().tool().vector());
    assert_eq!(vector(&first), vector(&second));
}

#[test]
fn a_narrowed_search_has_as_many_hits_as_there_are() {
    let found =
        varied().search_where("invite a member, read or write a file", 2, |tool| tool.backend.name() == "files");
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|hit| hit.backend == "files"));
}

#[test]
fn the_first_hits_do_not_depend_on_the_limit() {
    let names =
        |limit| varied().search("write a message", limit, None).into_iter().map(|hit| hit.tool).collect::<Vec<_>>();
    assert_eq!(names(10)[..2], names(2)[..]);
}

#[test]
fn hostile_texts_and_queries_are_read_in_part() {
    let parameters: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("参数{n}"), json!({}))).collect();
    let hostile = |name: &str| json!({ "name": name, "description": "東京 🔥 file ".repeat(300_000), "inputSchema": { "properties": parameters } });
    let tools = vec![hostile(&"read_file_".repeat(200_000)), hostile("🔥"), json!({ "name": "", "description": "" })];
    let catalog = Catalog::new(vec![listing(&"b ".repeat(10_000), &[], tools)]);
    for query in
        ["file", "🔥", "東京", &"read the file and ".repeat(200_000), &"\u{0}".repeat(100_000), &"x".repeat(1_000_000)]
    {
        let hits = catalog.search(query, 10, None);
        assert!(hits.len() <= 3);
    }
    assert!(catalog.search("file", 10, None).len() >= 2);
}

#[test]
fn a_server_brings_a_bounded_number_of_words_and_takes_none_from_others() {
    let described = |n: usize| {
        let words: Vec<String> = (0..300).map(|word| format!("word{n}x{word}")).collect();
        json!({ "name": format!("tool_{n}"), "description": words.join(" ") })
    };
    let hostile = listing("a_hostile", &[], (0..400).map(described).collect());
    let catalog = Catalog::new(vec![hostile, listing("weather", &[], vec![json!({ "name": "forecast" })])]);
    let index = index::Index::new(&catalog);
    let most = 30_000;
    assert!(index.terms.len() < most, "{} words", index.terms.len());
    let hits = catalog.search("forcast", 1, None);
    assert_eq!(hits.first().map(|hit| hit.tool.as_str()), Some("forecast"));
    let hits = catalog.search("tool_399", 1, None);
    assert_eq!(hits.first().map(|hit| hit.tool.as_str()), Some("tool_399"), "exact names are not bounded");
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
fn check_line(tool: Value, expected: &str) {
    let catalog = Catalog::new(vec![listing("b", &[], vec![tool])]);
    assert_eq!(line(catalog.tools().next().unwrap()), expected);
}

#[test]
fn a_hit_on_one_line_has_what_a_call_needs() {
    check_line(json!({ "name": "now" }), "b.now()");
    check_line(
        json!({
            "name": "find", "description": "Finds\nthings.",
            "inputSchema": { "properties": { "limit": { "type": "integer" }, "q": { "type": "string" } }, "required": ["q"] },
            "outputSchema": { "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] },
        }),
        "b.find({ limit?: number; q: string }): Promise<{ n: number }> — Finds things.",
    );
}

#[test]
fn a_line_is_bounded_and_keeps_the_required_fields() {
    let mut properties: serde_json::Map<String, Value> = (0..60)
        .map(|n| (format!("optional_field_number_{n}"), json!({ "enum": ["first value", "second value", "third"] })))
        .collect();
    properties.insert("z_required".into(), json!({ "type": "string" }));
    let schema = json!({ "type": "object", "properties": properties, "required": ["z_required"] });
    let tool =
        json!({ "name": "t", "description": "word ".repeat(500), "inputSchema": schema, "outputSchema": schema });
    let catalog = Catalog::new(vec![listing("b", &[], vec![tool])]);
    let line = line(catalog.tools().next().unwrap());
    assert!(line.chars().count() <= 300 && line.starts_with("b.t({ z_required: string; "), "{line}");
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
