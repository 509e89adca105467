//! Pictures, sounds and resources that a program returns, as the content blocks that a client really shows.
//!
//! A value is content if it is a block, a list with a block in it (beside blocks and strings), or `{content: […]}` as tools
//! give it; several texts stay several. A picture or a sound anywhere else in the value is shown beside it, and named where
//! it was. Whatever does not fit entirely is data like any other: better to show an object as JSON than to lose a part of it.
//!
//! Pictures, sounds and binary resources cost no room: a client shows them beside the text. Everything else of a block does,
//! its text and what is around it, so that neither long resources nor many blocks exceed the bound of an answer.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use toolgate_wire::foreign_text::clipped;

use super::answer::{bounded, text_block};
use toolgate_mcp::bounded_tree;
use toolgate_output::results::{Kept, Kind, ResultId};

/// Nested lists of blocks, as `Promise.all` over picture tools gives them.
const MAX_DEPTH: usize = 3;

/// Bytes for the block with the sizes and the id of the whole result where texts are cut.
const FOOTER_ROOM: usize = 160;

/// The blocks that a returned value consists of, with at most `room` bytes beside their pictures; none if it is data, also where
/// so many blocks would not fit without their texts. `keep` receives the value if a text does not fit.
pub(super) fn blocks(
    returned: &str,
    room: usize,
    keep: impl FnOnce(Kept<'_>) -> Option<ResultId>,
) -> Option<Vec<Value>> {
    let blocks = parts(returned)?;
    let around = blocks.iter().map(bytes_around).sum::<usize>();
    if around.saturating_add(text_bytes(&blocks)) <= room {
        return Some(blocks);
    }
    let room = room.checked_sub(around.saturating_add(FOOTER_ROOM))?;
    let id = keep(Kept { kind: Kind::Json, text: returned.into() });
    let processed = text_bytes(&blocks);
    let mut blocks = within(blocks, room);
    let id = id.map(|id| format!("\n[Full result: {id} — read_result / query_result]")).unwrap_or_default();
    let sizes = toolgate_output::sizes(text_bytes(&blocks), processed);
    blocks.push(text_block(format!("{sizes}{id}")));
    Some(blocks)
}

/// The bytes of the texts of blocks.
pub(super) fn text_bytes(blocks: &[Value]) -> usize {
    blocks.iter().filter_map(text_of).map(str::len).sum()
}

/// Each text gets an equal share of what the shorter ones before it left.
fn within(blocks: Vec<Value>, room: usize) -> Vec<Value> {
    let mut room = room;
    let mut left = blocks.iter().filter(|block| text_of(block).is_some()).count();
    let shorten = |mut block: Value| {
        let shortened = text_of(&block).map(|text| bounded(text.to_owned(), room / left.max(1)));
        if let Some((text, place)) = shortened.zip(block.pointer_mut(text_place(&block))) {
            room = room.saturating_sub(text.len());
            left = left.saturating_sub(1);
            *place = Value::String(text);
        }
        block
    };
    blocks.into_iter().map(shorten).collect()
}

/// The text of a block, or of the resource in it.
fn text_of(block: &Value) -> Option<&str> {
    block.pointer(text_place(block))?.as_str()
}

fn text_place(block: &Value) -> &'static str {
    if block["type"] == "resource" { "/resource/text" } else { "/text" }
}

/// What a client decodes and shows: the data of a picture or a sound, or a binary resource.
fn picture_of(block: &Value) -> Option<&Value> {
    match block["type"].as_str()? {
        "image" | "audio" => block.get("data"),
        // Beside a text, nothing says that it can be decoded.
        "resource" if text_of(block).is_none() => block.pointer("/resource/blob"),
        _ => None,
    }
}

/// The bytes of a block as JSON beside its text and its picture: its kind, its address, its annotations.
fn bytes_around(block: &Value) -> usize {
    let text = block.pointer(text_place(block)).filter(|text| text.is_string());
    let inside: usize = text.into_iter().chain(picture_of(block)).map(json_bytes).sum();
    json_bytes(block).saturating_sub(inside)
}

/// The length of a value as JSON; nothing is written, since pictures are long.
fn json_bytes(value: &Value) -> usize {
    let mut written = WrittenBytes(0);
    // A tree of JSON can be written, and this writer takes everything.
    let _ = serde_json::to_writer(&mut written, value);
    written.0
}

struct WrittenBytes(usize);

impl io::Write for WrittenBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    /// The value, with a text in the place of each picture that names it.
    pub(super) value: Value,
    /// The pictures and sounds.
    pub(super) blocks: Vec<Value>,
    /// The bytes of these blocks beside the pictures themselves.
    pub(super) bytes_around: usize,
}

/// Takes pictures, sounds and binary resources out of a value, as many as need at most `room` bytes beside their data; none if
/// it has none.
pub(super) fn media(returned: &str, room: usize) -> Option<Media> {
    let says = |word: &str| memchr::memmem::find(returned.as_bytes(), word.as_bytes()).is_some();
    let is_possible = (says("\"mimeType\"") && (says("\"image\"") || says("\"audio\""))) || says("\"blob\"");
    let value = is_possible.then(|| tree(returned)).flatten()?;
    let mut media = Media { value: Value::Null, blocks: Vec::new(), bytes_around: 0 };
    media.value = media.without_pictures(value, room);
    (!media.blocks.is_empty()).then_some(media)
}

impl Media {
    /// Moves the pictures of a value to the blocks. Values that can be parsed have at most 128 levels.
    fn without_pictures(&mut self, value: Value, room: usize) -> Value {
        if let Some(named) = name_of(&value, self.blocks.len() + 1) {
            let bytes_around = self.bytes_around.saturating_add(bytes_around(&value));
            if bytes_around <= room {
                self.bytes_around = bytes_around;
                self.blocks.push(value);
                return Value::String(named);
            }
        }
        match value {
            Value::Array(items) => items.into_iter().map(|item| self.without_pictures(item, room)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(key, member)| (key, self.without_pictures(member, room))).collect()
            }
            other => other,
        }
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
    let mime = clipped(mime, 64);
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
        assert!(tree(&text).is_none() && parts(&text).is_none() && media(&text, 24_000).is_none());
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
        let found = media(&value.to_string(), 1_000).expect("pictures");
        assert_eq!(found.blocks, [image(), image()]);
        let expected = json!({
            "title": "a",
            "shots": ["[image 1: image/png, 0.0 KB, shown below]", "[image 2: image/png, 0.0 KB, shown below]"],
            "icon": { "type": "image", "size": 7 },
        });
        assert_eq!(found.value, expected);
        assert!(media(&json!({ "kind": "image", "mimeType": 1 }).to_string(), 1_000).is_none());
    }

    /// What is shown of a value, its blocks with everything but pictures counted, and whether the whole of it was kept.
    fn shown(value: &Value, room: usize) -> (Option<usize>, bool) {
        let mut is_kept = false;
        let shown = blocks(&value.to_string(), room, |_| {
            is_kept = true;
            ResultId::parse("res_00112233445566778899aabbccddeeff").ok()
        });
        (shown.map(|blocks| blocks.iter().map(bytes_around).sum::<usize>() + text_bytes(&blocks)), is_kept)
    }

    #[test]
    fn the_text_of_a_resource_counts_and_is_cut() {
        let resource = |text: String| json!({ "type": "resource", "resource": { "uri": "file:///a", "text": text } });
        let (bytes, is_kept) = shown(&resource("x".repeat(1 << 20)), 24_000);
        assert!(is_kept && bytes.is_some_and(|bytes| bytes <= 24_000 && bytes > 20_000), "{bytes:?}");
        let (bytes, is_kept) = shown(&json!([resource("y".repeat(9_000)), "z", image()]), 24_000);
        assert!(!is_kept && bytes.is_some_and(|bytes| bytes > 9_000), "{bytes:?}");
    }

    /// What a block has beside its text and its picture has no end of its own.
    #[test]
    fn blocks_that_do_not_fit_without_their_texts_are_data() {
        let many = Value::from(vec![json!({ "type": "text", "text": "" }); 5_000]);
        assert!(parts(&many.to_string()).is_some(), "they are blocks");
        assert_eq!(shown(&many, 24_000), (None, false));
        let long = "x".repeat(100_000);
        let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a", "description": long });
        assert_eq!(shown(&link, 24_000), (None, false));
        let undecoded = json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "x", "blob": long } });
        assert_eq!(shown(&undecoded, 24_000), (None, false));
        let picture = json!({ "type": "image", "data": "A".repeat(100_000), "mimeType": "image/png" });
        assert!(shown(&picture, 24_000).0.is_some_and(|bytes| bytes < 100), "a picture costs nothing");
    }

    #[test]
    fn pictures_in_an_object_are_as_many_as_fit() {
        let value = json!({ "shots": vec![image(); 5_000] });
        let found = media(&value.to_string(), 12_000).expect("pictures");
        assert!(found.bytes_around <= 12_000 && found.blocks.len() > 100, "{}", found.blocks.len());
        let shots = found.value["shots"].as_array().expect("a list");
        assert_eq!((shots.len(), &shots[4_999]), (5_000, &image()), "the others stay in the value");
    }
}
