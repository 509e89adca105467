//! Pictures, sounds and resources that a program returns, as the content blocks that a client really shows.
//!
//! A value is content if it is a block, a list with a block in it (beside blocks and strings), or `{content: […]}` as tools
//! give it; several texts stay several. A picture or a sound anywhere else in the value is shown beside it, and named where
//! it was. Whatever does not fit entirely is data like any other: better to show an object as JSON than to lose a part of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::answer::{bounded, text_block};
use toolgate_mcp::bounded_tree;
use toolgate_output::results::{Kept, Kind, ResultId};

/// Nested lists of blocks, as `Promise.all` over picture tools gives them.
const MAX_DEPTH: usize = 3;

/// Bytes for the line that names the whole result where texts are cut.
const FOOTER_ROOM: usize = 96;

/// The blocks that a returned value consists of, with at most `room` bytes of text; none if it is data. Pictures are what
/// they are. `keep` receives the value if a text does not fit.
pub(super) fn blocks(
    returned: &str,
    room: usize,
    keep: impl FnOnce(Kept<'_>) -> Option<ResultId>,
) -> Option<Vec<Value>> {
    let blocks = parts(returned)?;
    let texts: usize = blocks.iter().filter_map(|block| block["text"].as_str()).map(str::len).sum();
    if texts <= room {
        return Some(blocks);
    }
    let id = keep(Kept { kind: Kind::Json, text: returned.into() });
    let footer = id.map(|id| format!("[Full result: {id} — read_result / query_result]"));
    let mut blocks = within(blocks, room.saturating_sub(FOOTER_ROOM));
    blocks.extend(footer.filter(|footer| footer.len() <= room).map(text_block));
    Some(blocks)
}

/// Each text gets an equal share of what the shorter ones before it left.
fn within(blocks: Vec<Value>, room: usize) -> Vec<Value> {
    let mut room = room;
    let mut left = blocks.iter().filter(|block| block["text"].is_string()).count();
    let shorten = |mut block: Value| {
        if let Some(text) = block["text"].as_str() {
            let text = bounded(text.to_owned(), room / left.max(1));
            room = room.saturating_sub(text.len());
            left = left.saturating_sub(1);
            block["text"] = Value::String(text);
        }
        block
    };
    blocks.into_iter().map(shorten).collect()
}

fn parts(returned: &str) -> Option<Vec<Value>> {
    // Most values are no content: that is seen without parsing them.
    let says = |word: &str| memchr::memmem::find(returned.as_bytes(), word.as_bytes()).is_some();
    let kinds = ["\"image\"", "\"audio\"", "\"resource\"", "\"resource_link\""];
    let begins = |text: &str| returned.trim_start().starts_with(text);
    let may_be_texts = says("\"text\"") && (begins("[{\"type\"") || begins("{\"content\""));
    if !says("\"type\"") || !(may_be_texts || kinds.iter().any(|it| says(it))) {
        return None;
    }
    let value = tree(returned)?;
    let are_texts = is_list_of_texts(value.get("content").unwrap_or(&value));
    let mut blocks = Vec::new();
    collect(value, MAX_DEPTH, &mut blocks)?;
    (are_texts || blocks.iter().any(is_media)).then_some(blocks)
}

/// The tree of a value that may be content. Pictures and texts are long strings, of which a tree takes little more than the text;
/// a list of numbers takes forty times as much, and is no content.
fn tree(returned: &str) -> Option<Value> {
    const MAX_FACTOR: usize = 3;
    const SMALL_BYTES: usize = 4 << 20;
    bounded_tree(returned, returned.len().saturating_mul(MAX_FACTOR).max(SMALL_BYTES)).ok()
}

/// Text blocks as a tool gives them, at least one. Data that only looks like them has members of its own.
fn is_list_of_texts(value: &Value) -> bool {
    let is_block = |value: &Value| {
        let mut members = value.as_object().into_iter().flat_map(|block| block.keys());
        is_text(value) && members.all(|key| matches!(key.as_str(), "type" | "text" | "annotations" | "_meta"))
    };
    value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_block))
}

/// A value with pictures and sounds in it.
pub(super) struct Media {
    /// The value as JSON, with a text in the place of each picture that names it.
    pub(super) text: String,
    /// The pictures and sounds.
    pub(super) blocks: Vec<Value>,
}

/// Takes pictures, sounds and binary resources out of a value; none if it has none.
pub(super) fn media(returned: &str) -> Option<Media> {
    let says = |word: &str| memchr::memmem::find(returned.as_bytes(), word.as_bytes()).is_some();
    let is_possible = (says("\"mimeType\"") && (says("\"image\"") || says("\"audio\""))) || says("\"blob\"");
    let mut value = is_possible.then(|| tree(returned)).flatten()?;
    let mut blocks = Vec::new();
    take_media(&mut value, &mut blocks);
    (!blocks.is_empty()).then(|| Media { text: value.to_string(), blocks })
}

/// Values that can be parsed have at most 128 levels.
fn take_media(value: &mut Value, blocks: &mut Vec<Value>) {
    if let Some(named) = name_of(value, blocks.len() + 1) {
        blocks.push(std::mem::replace(value, Value::String(named)));
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| take_media(item, blocks)),
        Value::Object(members) => members.values_mut().for_each(|member| take_media(member, blocks)),
        _ => {}
    }
}

/// `[image 1: image/png, 3.2 KB, shown below]`; none if the value is no picture, sound or binary resource.
fn name_of(value: &Value, number: usize) -> Option<String> {
    let (data, kind) = match value["type"].as_str()? {
        kind @ ("image" | "audio") => (&value["data"], kind),
        "resource" => (&value["resource"]["blob"], "resource"),
        _ => return None,
    };
    if !is_media(value) {
        return None;
    }
    let mime = value["mimeType"].as_str().or(value["resource"]["mimeType"].as_str()).unwrap_or("unknown type");
    let mime: String = mime.chars().take(64).collect();
    let bytes = data.as_str()?.len() / 4 * 3;
    Some(format!("[{kind} {number}: {mime}, {:.1} KB, shown below]", bytes as f64 / 1024.0))
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
        assert_eq!(parts(&value.to_string()), expected, "{value}");
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

    /// The tree of such a list would take forty times its text.
    #[test]
    fn many_values_beside_a_picture_are_data() {
        let many: Vec<Value> = std::iter::once(image()).chain(std::iter::repeat_n(json!(1), 200_000)).collect();
        let text = Value::from(many).to_string();
        assert!(tree(&text).is_none() && parts(&text).is_none() && media(&text).is_none());
        let picture = json!({ "type": "image", "data": "A".repeat(8 << 20), "mimeType": "image/png" });
        check(picture.clone(), Some(vec![picture]));
    }

    #[test]
    fn anything_else_is_data() {
        check(json!({ "type": "image", "size": 7 }), None);
        check(json!([image(), { "id": 1 }]), None);
        check(json!([image(), 5]), None);
        check(json!({ "content": [image()], "total": 3 }), None);
        check(json!({ "type": "image", "data": "not base64!", "mimeType": "image/png" }), None);
        check(json!([{ "type": "text", "id": 1 }, { "type": "text", "text": "a" }]), None);
        check(json!([{ "type": "text", "text": "a", "id": 1 }, { "type": "text", "text": "b", "id": 2 }]), None);
        check(json!({ "type": "text", "text": "one" }), None);
        check(json!([]), None);
        check(json!({ "kind": "image", "type": "row" }), None);
        check(json!("\"type\" \"image\""), None);
    }

    #[test]
    fn several_texts_stay_several() {
        let texts = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }]);
        check(texts.clone(), texts.as_array().cloned());
        check(json!({ "content": texts }), texts.as_array().cloned());
    }

    #[test]
    fn texts_that_do_not_fit_are_kept_and_the_last_one_is_not_lost() {
        let long =
            json!([{ "type": "text", "text": "a".repeat(5_000) }, { "type": "text", "text": "short" }]).to_string();
        let mut kept = None;
        let shown = blocks(&long, 1_000, |whole| {
            kept = Some(whole.text.into_owned());
            ResultId::parse("res_00112233445566778899aabbccddeeff").ok()
        });
        let shown = shown.expect("blocks");
        assert_eq!((shown.len(), kept.as_deref()), (3, Some(long.as_str())));
        assert_eq!(shown[1]["text"], "short");
        assert!(shown[2]["text"].as_str().is_some_and(|text| text.contains("res_0011")), "{shown:?}");
        let total: usize = shown.iter().filter_map(|block| block["text"].as_str()).map(str::len).sum();
        assert!(total <= 1_000, "{total}");
    }

    #[test]
    fn a_picture_inside_an_object_is_shown_and_named() {
        let value = json!({ "title": "a", "shots": [image(), image()], "icon": { "type": "image", "size": 7 } });
        let found = media(&value.to_string()).expect("pictures");
        assert_eq!(found.blocks, [image(), image()]);
        let expected = json!({
            "title": "a",
            "shots": ["[image 1: image/png, 0.0 KB, shown below]", "[image 2: image/png, 0.0 KB, shown below]"],
            "icon": { "type": "image", "size": 7 },
        });
        assert_eq!(serde_json::from_str::<Value>(&found.text).expect("JSON"), expected);
        assert!(media(&json!({ "kind": "image", "mimeType": 1 }).to_string()).is_none());
    }
}
