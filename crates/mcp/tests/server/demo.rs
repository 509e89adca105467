//! The demo server: what it promises is what it does.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_demo::Demo;

use crate::peer::{Pipe, assert_fits, notification, request};

/// The result of a call; what is announced meanwhile is passed over.
async fn call(pipe: &mut Pipe, tool: &str, arguments: Value) -> Value {
    pipe.send(request("call", "tools/call", json!({ "name": tool, "arguments": arguments }))).await;
    loop {
        let mut message = pipe.receive().await;
        if message["id"] == "call" {
            return message["result"].take();
        }
    }
}

#[tokio::test]
async fn every_tool_has_a_schema_and_correct_annotations() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    let tools = pipe.ask(request(1, "tools/list", json!({}))).await["result"]["tools"].take();
    let shown: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let hints = &tool["annotations"];
            let effect = match (&hints["readOnlyHint"], &hints["destructiveHint"]) {
                (Value::Bool(true), _) => "reads",
                (_, Value::Bool(true)) => "destroys",
                _ => "writes",
            };
            assert!(tool["inputSchema"]["type"] == "object" && tool["description"].is_string());
            format!(
                "{} {effect}{}",
                tool["name"].as_str().unwrap(),
                if tool["outputSchema"].is_object() { " typed" } else { "" }
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    list_issues reads typed
    search_issues reads typed
    get_issue reads typed
    update_issue writes typed
    create_note writes typed
    read_note reads typed
    list_notes reads typed
    delete_note destroys typed
    current_time reads typed
    slow_task reads typed
    always_fails reads
    show_logo reads
    ");
}

#[tokio::test]
async fn structured_results_fit_the_output_schema() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    let tools = pipe.ask(request(1, "tools/list", json!({}))).await["result"]["tools"].take();
    for (name, arguments) in [
        ("list_issues", json!({ "state": "open", "offset": 5 })),
        ("search_issues", json!({ "query": "search" })),
        ("get_issue", json!({ "number": 240 })),
        ("update_issue", json!({ "number": 1, "assignee": "" })),
        ("create_note", json!({ "name": "a", "text": "b" })),
        ("read_note", json!({ "name": "a" })),
        ("list_notes", json!({})),
        ("delete_note", json!({ "name": "a" })),
        ("current_time", json!({ "utc_offset_minutes": 120 })),
        ("slow_task", json!({ "seconds": 0 })),
    ] {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        assert!(jsonschema::is_valid(&tool["inputSchema"], &arguments), "{name} {arguments}");
        let result = call(&mut pipe, name, arguments).await;
        let schema = jsonschema::validator_for(&tool["outputSchema"]).unwrap();
        assert!(schema.is_valid(&result["structuredContent"]), "{name} {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    }
}

#[tokio::test]
async fn notes_are_resources_whose_changes_are_announced() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    let uri = "demo://note/todo";
    let early = pipe.ask(request(0, "resources/subscribe", json!({ "uri": uri }))).await;
    assert_fits(&early, &json!({ "error": { "code": -32002 } }));
    call(&mut pipe, "create_note", json!({ "name": "todo", "text": "work" })).await;
    pipe.send(request(1, "resources/subscribe", json!({ "uri": uri }))).await;
    while pipe.receive().await["id"] != 1 {}
    pipe.send(request(
        2,
        "tools/call",
        json!({ "name": "create_note", "arguments": { "name": "todo", "text": "rest" } }),
    ))
    .await;
    let mut messages = [pipe.receive().await, pipe.receive().await, pipe.receive().await];
    messages.sort_by_key(|message| message["method"].to_string());
    assert_fits(&messages[0], &notification("notifications/resources/list_changed", json!({})));
    assert_fits(&messages[1], &notification("notifications/resources/updated", json!({ "uri": uri })));
    assert_fits(&messages[2], &json!({ "id": 2 }));
    let read = pipe.ask(request(3, "resources/read", json!({ "uri": uri }))).await;
    assert_fits(&read, &json!({ "result": { "contents": [{ "uri": uri, "text": "rest" }] } }));
}

#[tokio::test]
async fn resources_are_read_and_completed() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    let issue = pipe.ask(request(1, "resources/read", json!({ "uri": "demo://issue/12" }))).await;
    assert_fits(&issue, &json!({ "result": { "contents": [{ "mimeType": "application/json", "text": "*" }] } }));
    let reference = json!({ "type": "ref/resource", "uri": "demo://issue/{number}" });
    let typed = json!({ "ref": reference, "argument": { "name": "number", "value": "24" } });
    let found = pipe.ask(request(1, "completion/complete", typed)).await;
    let completion = json!({ "values": ["24", "240"], "total": 2, "hasMore": false });
    assert_eq!(found["result"]["completion"], completion);
    let all = json!({ "ref": reference, "argument": { "name": "number", "value": "" } });
    let found = pipe.ask(request(1, "completion/complete", all)).await;
    assert_fits(&found["result"]["completion"], &json!({ "total": 240, "hasMore": true }));
    assert_eq!(found["result"]["completion"]["values"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn failures_are_results_with_is_error() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    for (tool, arguments, reason) in [
        ("always_fails", json!({}), "this tool always fails"),
        ("get_issue", json!({ "number": 0 }), "there is no issue 0; they are numbered 1 to 240"),
        ("read_note", json!({ "name": "none" }), "there is no note none"),
        ("slow_task", json!({ "seconds": -1 }), "seconds lies between 0 and 600, steps between 1 and 1000"),
        ("slow_task", json!({ "seconds": 1, "steps": 0 }), "seconds lies between 0 and 600, steps between 1 and 1000"),
        (
            "create_note",
            json!({ "name": "../x", "text": "" }),
            "a name has 1 to 100 letters, digits, dots, dashes or underscores",
        ),
    ] {
        let expected = json!({ "content": [{ "type": "text", "text": reason }], "isError": true });
        assert_eq!(call(&mut pipe, tool, arguments).await, expected);
    }
}

#[tokio::test]
async fn the_logo_is_an_image_and_a_link() {
    let mut pipe = Pipe::legacy(Arc::new(Demo::default())).await;
    let result = call(&mut pipe, "show_logo", json!({})).await;
    let kinds: Vec<_> =
        result["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "resource_link"]);
    let link = json!({ "uri": result["content"][2]["uri"] });
    assert_fits(&pipe.ask(request(1, "resources/read", link)).await, &json!({ "result": { "contents": "*" } }));
}
