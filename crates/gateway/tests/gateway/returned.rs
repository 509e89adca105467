//! What goes back for a value: within one bound, the same for durable runs, with pictures as pictures.

use serde_json::{Value, json};

use crate::support::{World, first_text, fixture};

/// Most bytes of a result, unless configured.
const BOUND: usize = 24_000;

/// The texts of a result, of resources too.
fn texts(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().expect("content").iter();
    blocks.filter_map(|block| block["text"].as_str().or(block["resource"]["text"].as_str())).collect()
}

/// The texts are few and together within the bound, and name the whole.
async fn check_bounded(world: &World, result: &Value, path: &str, expected: &str) {
    assert!(result["content"].as_array().is_some_and(|blocks| blocks.len() <= 4), "a few blocks");
    let all = texts(result).concat();
    assert!(all.len() <= BOUND, "{}", all.len());
    let id = all.split("[Full result: ").nth(1).and_then(|rest| rest.split(' ').next());
    let id = id.unwrap_or_else(|| panic!("it says where the rest is: {}", &all[..200]));
    let part = world.text("read_result", json!({ "result_id": id, "path": path })).await;
    assert!(part.contains(expected), "{part}");
}

#[tokio::test]
async fn embedded_resources_and_many_blocks_stay_within_the_bound() {
    let world = World::up(json!({})).await;
    let resource = "{ type: 'resource', resource: { uri: 'file:///a', text: 'x'.repeat(1 << 20) } }";
    let long = world.call("call_tool_chain", json!({ "code": format!("return {resource}") })).await;
    assert_eq!(long["content"][0]["type"], "resource", "it stays a resource");
    check_bounded(&world, &long, "resource.uri", "file:///a").await;
    for count in [5_000, 100_000] {
        let code = format!("return Array.from({{ length: {count} }}, () => ({{ type: 'text', text: '' }}))");
        let many = world.call("call_tool_chain", json!({ "code": code })).await;
        check_bounded(&world, &many, "[4999].type", "text").await;
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_durable_run_gives_the_same_content_when_it_is_asked_for_later() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    for code in [
        "return await f.picture({})",
        "console.log('here'); return ['one', await f.picture({})]",
        "const shot = await f.picture({}); return { title: 'home', shot: shot.content[0] }",
        "return [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }]",
        "return null",
    ] {
        let result = world.call("call_tool_chain", json!({ "code": code, "durable": true })).await;
        let id = &result["_meta"]["toolgate/report"]["executionId"];
        let mut status = world.call("run_status", json!({ "run_id": id })).await;
        let first = status["content"].as_array_mut().expect("content").remove(0);
        assert!(first["text"].as_str().is_some_and(|text| text.contains("has ended")), "{code}: {first}");
        assert_eq!(status["content"], result["content"], "{code}");
    }
    world.gateway.shut_down().await;
}

/// What is printed and warned of is within the same bound as the value.
#[tokio::test]
async fn a_durable_run_with_a_long_console_stays_within_the_bound() {
    let world = World::up(json!({})).await;
    let code = "for (let n = 0; n < 900; n++) console.log('line ' + n + ' ' + 'y'.repeat(50));
                return Array.from({ length: 20000 }, (_, n) => ({ id: n, name: 'row ' + n }))";
    let result = world.call("call_tool_chain", json!({ "code": code, "durable": true })).await;
    let id = &result["_meta"]["toolgate/report"]["executionId"];
    let status = world.call("run_status", json!({ "run_id": id })).await;
    check_bounded(&world, &status, "[19999].name", "row 19999").await;
    assert!(texts(&status).iter().any(|text| text.starts_with("console:")), "{status}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_snippet_shows_its_pictures() {
    let world = World::up(json!({})).await;
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let result = world.call("run_code", json!({ "code": format!("return {{ title: 'home', shot: {image} }}") })).await;
    let named = json!({ "title": "home", "shot": "[image 1: image/png, 0.0 KB, shown below]" });
    assert_eq!(result["content"][1], image, "{result}");
    assert_eq!(result["structuredContent"]["result"], named, "{result}");
    let brief: Value = serde_json::from_str(&first_text(&result)).expect("JSON");
    assert_eq!(brief["value"], named);
    let large = "return { shot: { type: 'image', data: 'A'.repeat(400_000), mimeType: 'image/png' } }";
    let result = world.call("run_code", json!({ "code": large })).await;
    assert_eq!(result["content"][1]["data"].as_str().map(str::len), Some(400_000), "it is shown whole");
    assert!(result["structuredContent"].to_string().len() < 5_000, "and once");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_description_of_a_tool_stays_within_the_bound() {
    let world = World::up(json!({ "f": fixture(&["--wide", "2000"]) })).await;
    let full = world.call("tool_info", json!({ "tool_name": "f.wide", "detail": "full" })).await;
    check_bounded(&world, &full, "input_schema.properties.argument_1999.description", "argument 1999").await;
    let small = world.text("tool_info", json!({ "tool_name": "f.echo", "detail": "full" })).await;
    assert!(serde_json::from_str::<Value>(&small).is_ok_and(|about| about["input_schema"].is_object()), "{small}");
    world.gateway.shut_down().await;
}
