//! Pictures, sounds and resources that a program returns, as the content blocks that a client really shows.
//!
//! A value counts as content if it is a block, a list with a block in it (beside blocks and strings), or
//! `{content: […]}` as tools give it. Whatever does not fit entirely is data like any other: better to show an
//! object as JSON than to lose a part of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::answer::text_block;

/// Nested lists of blocks, as `Promise.all` over picture tools gives them.
const MAX_DEPTH: usize = 3;

/// The blocks that a returned value consists of; none if it is data.
pub(super) fn blocks(returned: &str) -> Option<Vec<Value>> {
    // Most values are no content: that is seen without parsing them.
    let bytes = returned.as_bytes();
    let says = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    if !says("\"type\"") || !["\"image\"", "\"audio\"", "\"resource\"", "\"resource_link\""].iter().any(|it| says(it)) {
        return None;
    }
    let value = serde_json::from_str::<Value>(returned).ok()?;
    let mut blocks = Vec::new();
    collect(value, MAX_DEPTH, &mut blocks)?;
    blocks.iter().any(is_media).then_some(blocks)
}

fn collect(value: Value, depth: usize, blocks: &mut Vec<Value>) -> Option<()> {
    match value {
        Value::Object(mut object) if !object.contains_key("type") => {
            // Anything beside the list would be lost.
            let beside = object.keys().any(|key| !matches!(key.as_str(), "content" | "isError" | "_meta"));
            let Some(Value::Array(list)) = object.shift_remove("content").filter(|_| !beside && depth > 0) else {
                return None;
            };
            list.into_iter().try_for_each(|item| collect(item, depth - 1, blocks))
        }
        Value::Array(list) if depth > 0 => list.into_iter().try_for_each(|item| collect(item, depth - 1, blocks)),
        Value::String(text) => {
            blocks.push(text_block(text));
            Some(())
        }
        block if is_text(&block) || is_media(&block) => {
            blocks.push(block);
            Some(())
        }
        _ => None,
    }
}

fn is_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"].is_string()
}

fn is_media(block: &Value) -> bool {
    let is_string = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    match block["type"].as_str() {
        Some("image" | "audio") => is_string(&block["mimeType"]) && is_base64(&block["data"]),
        Some("resource_link") => is_string(&block["uri"]) && block["name"].is_string(),
        Some("resource") => {
            let resource = &block["resource"];
            is_string(&resource["uri"]) && (resource["text"].is_string() || is_base64(&resource["blob"]))
        }
        _ => false,
    }
}

/// A client decodes it; what can't be decoded would break the whole answer.
fn is_base64(data: &Value) -> bool {
    data.as_str().is_some_and(|text| STANDARD.decode(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn image() -> Value {
        json!({ "type": "image", "data": "AA==", "mimeType": "image/png" })
    }

    fn check(value: Value, expected: Option<Vec<Value>>) {
        assert_eq!(blocks(&value.to_string()), expected, "{value}");
    }

    #[test]
    fn blocks_in_any_of_their_forms_are_content() {
        let text = json!({ "type": "text", "text": "see" });
        check(image(), Some(vec![image()]));
        check(json!([image(), image()]), Some(vec![image(), image()]));
        check(json!(["see", image()]), Some(vec![text.clone(), image()]));
        check(json!({ "content": [text, image()] }), Some(vec![text.clone(), image()]));
        check(json!([{ "content": [image()] }, { "content": [image()] }]), Some(vec![image(), image()]));
        let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a" });
        check(link.clone(), Some(vec![link]));
        let embedded = json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "x" } });
        check(embedded.clone(), Some(vec![embedded]));
    }

    #[test]
    fn anything_else_is_data() {
        check(json!({ "type": "image", "size": 7 }), None);
        check(json!([image(), { "id": 1 }]), None);
        check(json!([image(), 5]), None);
        check(json!({ "content": [image()], "total": 3 }), None);
        check(json!({ "type": "image", "data": "not base64!", "mimeType": "image/png" }), None);
        check(json!([{ "type": "text", "text": "a kind of \"image\"" }]), None);
        check(json!({ "kind": "image", "type": "row" }), None);
        check(json!("\"type\" \"image\""), None);
    }
}
