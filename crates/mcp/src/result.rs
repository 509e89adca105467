//! From the envelope of a tool result to the value for programs.
//!
//! Structured content is the value. Without it, a single text that is a JSON object or array is parsed; any other text stays
//! text, because a postcode must not become a number. Content that is not text stays a content block, so that a program can
//! return it to the client. Pure: no schema validation, and the tool's name has no influence.

use serde_json::{Map, Value, json};

/// Whether structured content is the value or contains it under `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// The value itself.
    Plain,
    /// FastMCP wrapped a value that is not an object; its output schema says so.
    FastMcp,
}

impl Wrapping {
    /// The wrapping that a tool's output schema declares.
    pub fn of_schema(schema: Option<&Value>) -> Self {
        let marked = schema.and_then(|schema| schema.get("x-fastmcp-wrap-result"));
        if marked == Some(&Value::Bool(true)) { Self::FastMcp } else { Self::Plain }
    }
}

/// A failure that the tool itself reported.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFault {
    /// Its text.
    pub message: String,
    /// Structured details, if any.
    pub data: Option<Value>,
    /// The result object as the backend sent it.
    pub raw: Value,
}

/// Whether a result requests input from the client instead of completing the request.
pub fn requests_input(result: &Value) -> bool {
    let has_requests = result.get("inputRequests").is_some_and(Value::is_object);
    let has_state = result.get("requestState").is_some_and(Value::is_string);
    result.get("resultType").and_then(Value::as_str) == Some("input_required") && (has_requests || has_state)
}

/// The fault of a result that is marked `isError`.
pub fn fault(result: &Value) -> Option<ToolFault> {
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let texts: Vec<&str> = blocks(result).iter().filter_map(text_of).collect();
    let text = texts.join("\n");
    let message = if text.trim().is_empty() { "the tool reported an error without a message".to_owned() } else { text };
    let structured = result.get("structuredContent").filter(|value| !value.is_null()).cloned();
    let data = structured.or_else(|| if let [only] = texts[..] { parsed(only) } else { None });
    Some(ToolFault { message, data, raw: result.clone() })
}

/// The value of a result that is not marked `isError`.
pub fn value(mut result: Value, wrapping: Wrapping) -> Value {
    let wrapping = if marked_wrapped(&result) { Wrapping::FastMcp } else { wrapping };
    let Some(object) = result.as_object_mut() else { return result };
    match object.shift_remove("structuredContent") {
        None | Some(Value::Null) => {}
        Some(structured) => return unwrapped(structured, wrapping),
    }
    match object.shift_remove("content") {
        Some(Value::Array(content)) => content_value(content),
        // Not a tool result: pass on what was sent instead of dropping it.
        _ => bare(result),
    }
}

fn content_value(mut content: Vec<Value>) -> Value {
    if content.iter().any(|block| text_of(block).is_none()) {
        return json!({ "content": content });
    }
    match &mut content[..] {
        [] => Value::Null,
        [only] => {
            let text = taken_text(only);
            parsed(&text).unwrap_or(Value::String(text))
        }
        several => Value::String(several.iter_mut().map(taken_text).collect::<Vec<_>>().join("\n")),
    }
}

fn blocks(result: &Value) -> &[Value] {
    result.get("content").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text_of(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").and_then(Value::as_str).filter(|_| is_text)
}

fn taken_text(block: &mut Value) -> String {
    match block.get_mut("text").map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Parses only objects and arrays: a single number or word is more often an identifier than data.
fn parsed(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn marked_wrapped(result: &Value) -> bool {
    result.pointer("/_meta/fastmcp/wrap_result") == Some(&Value::Bool(true))
}

fn unwrapped(structured: Value, wrapping: Wrapping) -> Value {
    match (wrapping, structured) {
        (Wrapping::FastMcp, Value::Object(mut object)) if object.len() == 1 => {
            object.shift_remove("result").unwrap_or(Value::Object(object))
        }
        (_, structured) => structured,
    }
}

/// The object without the keys of the envelope; null if nothing is left.
fn bare(mut result: Value) -> Value {
    if let Some(object) = result.as_object_mut() {
        for key in ["_meta", "isError", "resultType"] {
            object.shift_remove(key);
        }
    }
    if result.as_object().is_some_and(Map::is_empty) { Value::Null } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: Value, expected: Value) {
        assert_eq!(value(result, Wrapping::Plain), expected);
    }

    fn text(text: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": text }] })
    }

    #[test]
    fn structured_content_is_the_value() {
        let content = json!([{ "type": "text", "text": "{\"a\":1}" }]);
        check(json!({ "content": content, "structuredContent": { "b": [2] } }), json!({ "b": [2] }));
    }

    #[test]
    fn structured_content_that_is_null_counts_as_absent() {
        check(json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": null }), json!("x"));
    }

    #[test]
    fn structured_content_may_be_any_json_value() {
        check(json!({ "content": [], "structuredContent": [1, 2] }), json!([1, 2]));
        check(json!({ "content": [], "structuredContent": 7 }), json!(7));
    }

    #[test]
    fn a_text_that_is_an_object_or_an_array_is_parsed() {
        check(text(" {\"z\": 1, \"a\": [true]}\n"), json!({ "z": 1, "a": [true] }));
        check(text("[1, 2]"), json!([1, 2]));
    }

    #[test]
    fn a_text_that_is_only_a_number_or_a_word_stays_a_string() {
        for lone in ["42", "00501", "1e5", "true", "null", "\"quoted\"", "hello", "", "{not json}"] {
            check(text(lone), json!(lone));
        }
    }

    #[test]
    fn key_order_and_large_integers_survive() {
        let order = value(text("{\"z\":18446744073709551615,\"a\":-9223372036854775808}"), Wrapping::Plain);
        assert_eq!(order.to_string(), "{\"z\":18446744073709551615,\"a\":-9223372036854775808}");
    }

    #[test]
    fn several_texts_are_joined_and_never_parsed() {
        let two = json!({ "content": [{ "type": "text", "text": "{}" }, { "type": "text", "text": "[]" }] });
        check(two, json!("{}\n[]"));
    }

    #[test]
    fn what_is_not_text_stays_a_content_block() {
        for block in [
            json!({ "type": "image", "data": "AA==", "mimeType": "image/png" }),
            json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" }),
            json!({ "type": "resource_link", "uri": "file:///a", "name": "a" }),
            json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "x" } }),
            json!({ "type": "hologram", "beams": 3 }),
        ] {
            let content = json!([{ "type": "text", "text": "see" }, block]);
            check(json!({ "content": content }), json!({ "content": content }));
        }
    }

    #[test]
    fn no_content_is_null() {
        check(json!({ "content": [] }), Value::Null);
        check(json!({ "resultType": "complete", "_meta": {} }), Value::Null);
    }

    #[test]
    fn a_top_level_tools_key_does_not_hide_the_content() {
        check(json!({ "tools": [], "content": [{ "type": "text", "text": "kept" }] }), json!("kept"));
    }

    #[test]
    fn a_result_without_content_is_shown_as_it_came() {
        check(json!({ "toolResult": 5, "_meta": {} }), json!({ "toolResult": 5 }));
        check(json!("odd"), json!("odd"));
    }

    #[test]
    fn the_fastmcp_wrapper_is_removed_where_it_is_marked() {
        let result = json!({ "content": [], "structuredContent": { "result": [1] } });
        assert_eq!(value(result.clone(), Wrapping::FastMcp), json!([1]));
        assert_eq!(value(result, Wrapping::Plain), json!({ "result": [1] }));
        check(
            json!({ "structuredContent": { "result": 3 }, "_meta": { "fastmcp": { "wrap_result": true } } }),
            json!(3),
        );
    }

    #[test]
    fn a_marked_object_with_other_keys_is_left_alone() {
        let object = json!({ "result": 1, "next": 2 });
        assert_eq!(value(json!({ "structuredContent": object }), Wrapping::FastMcp), object);
    }

    #[test]
    fn the_mark_is_read_from_the_output_schema() {
        assert_eq!(Wrapping::of_schema(Some(&json!({ "x-fastmcp-wrap-result": true }))), Wrapping::FastMcp);
        assert_eq!(Wrapping::of_schema(Some(&json!({ "x-fastmcp-wrap-result": "yes" }))), Wrapping::Plain);
        assert_eq!(Wrapping::of_schema(None), Wrapping::Plain);
    }

    #[test]
    fn a_fault_carries_its_text_and_its_data() {
        let result = json!({ "isError": true, "content": [{ "type": "text", "text": "{\"code\":7}" }] });
        let found = fault(&result).map(|fault| (fault.message, fault.data));
        assert_eq!(found, Some(("{\"code\":7}".to_owned(), Some(json!({ "code": 7 })))));
    }

    #[test]
    fn a_fault_without_text_has_a_message() {
        let found = fault(&json!({ "isError": true, "content": [] })).map(|fault| fault.message);
        assert_eq!(found.as_deref(), Some("the tool reported an error without a message"));
    }

    #[test]
    fn a_result_requests_input_by_its_type_and_a_request_or_a_state() {
        assert!(requests_input(&json!({ "resultType": "input_required", "inputRequests": {} })));
        assert!(requests_input(&json!({ "resultType": "input_required", "requestState": "s" })));
        assert!(!requests_input(&json!({ "resultType": "input_required", "content": [] })));
        assert!(!requests_input(&json!({ "resultType": "complete", "inputRequests": {} })));
        assert!(!requests_input(&json!({ "inputRequests": {} })));
    }

    #[test]
    fn only_a_true_mark_is_a_fault() {
        assert_eq!(fault(&json!({ "isError": false, "content": [] })), None);
        assert_eq!(fault(&json!({ "isError": "true", "content": [] })), None);
    }

    proptest::proptest! {
        #[test]
        fn any_single_text_comes_back_as_itself_or_as_what_it_spells(said in ".*") {
            let found = value(text(&said), Wrapping::Plain);
            let spelled = serde_json::from_str::<Value>(&said).ok();
            let is_itself = found == Value::String(said);
            proptest::prop_assert!(is_itself || Some(found) == spelled);
        }
    }
}
