//! Tools, resources and prompts as the suite names them.

use serde_json::{Map, Value, json};

use crate::questions;

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const PLAIN: [(&str, &str); 12] = [
    ("test_simple_text", "Answers with a text."),
    ("test_image_content", "Answers with an image."),
    ("test_audio_content", "Answers with a sound."),
    ("test_embedded_resource", "Answers with a resource."),
    ("test_multiple_content_types", "Answers with a text, an image and a resource."),
    ("test_error_handling", "Fails."),
    ("test_tool_with_progress", "Reports its progress."),
    ("test_missing_capability", "Needs a client that can sample."),
    ("test_streaming_elicitation", "Answers without asking anything."),
    ("test_logging_tool", "Answers without logging anything."),
    ("test_trigger_tool_change", "Announces that the tools changed."),
    ("test_trigger_prompt_change", "Announces that the prompts changed."),
];

/// Every tool.
pub(crate) fn tools() -> Vec<Value> {
    let nothing = json!({ "type": "object", "properties": {} });
    let plain = PLAIN.iter().map(|(name, description)| tool(name, description, nothing.clone()));
    let headers =
        json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let special = [
        tool("test_x_mcp_header", "Repeats an argument in a header.", headers),
        tool("json_schema_2020_12_tool", "Has a schema with everything.", rich_schema()),
    ];
    let asking = questions::TOOLS.map(|name| tool(name, "Asks first.", nothing.clone()));
    plain.chain(special).chain(asking).collect()
}

/// A tool that comes and goes.
pub(crate) fn changed_tool() -> Value {
    tool("test_changed_tool", "Is there after a change.", json!({ "type": "object" }))
}

fn tool(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn rich_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef", "type": "object", "properties": { "street": text, "city": text },
        } },
        "properties": {
            "name": text,
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": text,
            "email": text,
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// A result that is one text.
pub(crate) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// What a tool answers, whatever its arguments.
pub(crate) fn result_of(tool: &str) -> Option<Value> {
    let image = json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" });
    Some(match tool {
        "test_image_content" => json!({ "content": [image] }),
        "test_audio_content" => json!({ "content": [{ "type": "audio", "data": SILENCE, "mimeType": "audio/wav" }] }),
        "test_embedded_resource" => json!({ "content": [embedded(
            "test://embedded-resource", "text/plain", "This is an embedded resource content.",
        )] }),
        "test_multiple_content_types" => json!({ "content": [
            { "type": "text", "text": "Multiple content types test:" },
            image,
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ] }),
        "test_error_handling" => {
            let mut failed = text("This tool intentionally returns an error for testing");
            failed["isError"] = json!(true);
            failed
        }
        name if tools().iter().any(|tool| tool["name"] == name) => text("This is a simple text response for testing."),
        _ => return None,
    })
}

fn embedded(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}

/// Every resource.
pub(crate) fn resources() -> Vec<Value> {
    [("static-text", "text/plain"), ("static-binary", "image/png"), ("watched-resource", "text/plain")]
        .map(|(name, kind)| {
            json!({ "uri": format!("test://{name}"), "name": name, "description": "A resource.", "mimeType": kind })
        })
        .to_vec()
}

/// What a resource holds.
pub(crate) fn contents_of(uri: &str) -> Option<Vec<Value>> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, id) {
        ("test://static-text", _) => {
            json!({ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." })
        }
        ("test://static-binary", _) => json!({ "uri": uri, "mimeType": "image/png", "blob": PIXEL }),
        ("test://watched-resource", _) => json!({ "uri": uri, "mimeType": "text/plain", "text": "Watched." }),
        (_, Some(id)) => {
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
        }
        _ => return None,
    };
    Some(vec![content])
}

/// Every prompt.
pub(crate) fn prompts() -> Vec<Value> {
    let argument = |name: &str| json!({ "name": name, "description": "An argument.", "required": true });
    let prompt =
        |name: &str, arguments: Vec<Value>| json!({ "name": name, "description": "A prompt.", "arguments": arguments });
    vec![
        prompt("test_simple_prompt", vec![]),
        prompt("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
        prompt("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
        prompt("test_prompt_with_image", vec![]),
        prompt(questions::PROMPT, vec![]),
    ]
}

/// A prompt filled in.
pub(crate) fn messages_of(prompt: &str, arguments: &Map<String, Value>) -> Option<Value> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = |text: &str| json!({ "type": "text", "text": text });
    let contents = match prompt {
        "test_simple_prompt" | questions::PROMPT => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            embedded(argument("resourceUri"), "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        _ => return None,
    };
    let messages: Vec<_> = contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Some(json!({ "messages": messages }))
}
