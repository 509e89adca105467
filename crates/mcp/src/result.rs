//! From the envelope of a tool result to the value for programs, as text.
//!
//! Structured content is the value. Without it, a text that is a JSON object or array is parsed; any other text stays text,
//! because a postcode must not become a number. Several texts are a list of them. Content that is not text stays a content block, so that a program can
//! return it to the client. Pure: no schema validation, and the tool's name has no influence.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use toolgate_json::{self as json, Shape};
use toolgate_wire::foreign_text::head;

use crate::json_text::{self, JsonText, off_runtime};

/// The longest message of a fault, in characters; the rest is cut off.
const MAX_FAULT_CHARS: usize = 64 << 10;

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
    /// The beginning of its text.
    pub message: String,
    /// Structured details, if they are small.
    pub data: Option<Value>,
    /// The `_meta` of the result, if it is small.
    pub meta: Option<Value>,
}

/// Whether a result requests input from the client instead of completing the request.
pub fn requests_input(result: &Value) -> bool {
    let has_requests = result.get("inputRequests").is_some_and(Value::is_object);
    let has_state = result.get("requestState").is_some_and(Value::is_string);
    result.get("resultType").and_then(Value::as_str) == Some("input_required") && (has_requests || has_state)
}

/// The result of a tool call, as the server wrote it.
#[derive(Debug, PartialEq)]
pub struct ToolResult {
    text: JsonText,
    /// Found in one walk over the text: a result may have many megabytes.
    members: Members,
}

/// Where the members of an envelope are in the text.
#[derive(Debug, Default, PartialEq)]
struct Members {
    result_type: Option<Range<usize>>,
    request_state: Option<Range<usize>>,
    input_requests: Option<Range<usize>>,
    is_error: Option<Range<usize>>,
    content: Option<Range<usize>>,
    structured_content: Option<Range<usize>>,
    meta: Option<Range<usize>>,
}

impl Members {
    /// Of two members with one name the last counts, as in JavaScript.
    fn of(text: &str) -> Self {
        let mut members = Members::default();
        let result = json::Value::of(text);
        if result.shape() != Shape::Object {
            return members;
        }
        for entry in result.entries() {
            let member = match entry.key.map(json::unquote).as_deref() {
                Some("resultType") => &mut members.result_type,
                Some("requestState") => &mut members.request_state,
                Some("inputRequests") => &mut members.input_requests,
                Some("isError") => &mut members.is_error,
                Some("content") => &mut members.content,
                Some("structuredContent") => &mut members.structured_content,
                Some("_meta") => &mut members.meta,
                _ => continue,
            };
            *member = Some(json_text::range_in(text, entry.value.text()));
        }
        members
    }
}

impl ToolResult {
    /// A result from its text.
    pub fn new(text: JsonText) -> Self {
        let members = off_runtime(text.as_str().len(), || Members::of(text.as_str()));
        Self { text, members }
    }

    /// Its text.
    pub fn into_text(self) -> JsonText {
        self.text
    }

    /// The member at this place.
    fn at(&self, place: &Option<Range<usize>>) -> Option<json::Value<'_>> {
        place.clone().and_then(|place| self.text.as_str().get(place)).map(json::Value::of)
    }

    fn structured_content(&self) -> Option<json::Value<'_>> {
        self.at(&self.members.structured_content).filter(|value| value.text() != "null")
    }

    fn content(&self) -> Option<json::Value<'_>> {
        self.at(&self.members.content).filter(|content| content.shape() == Shape::Array)
    }

    /// `requestState` of a result that requests input.
    pub fn request_state(&self) -> Option<String> {
        let state = self.at(&self.members.request_state).filter(|state| state.shape() == Shape::String)?;
        Some(json::unquote(state.text()).into_owned())
    }

    /// What it says it is, such as `input_required`; none from legacy servers.
    pub fn result_type(&self) -> Option<Cow<'_, str>> {
        let kind = self.at(&self.members.result_type).filter(|kind| kind.shape() == Shape::String)?;
        Some(json::unquote(kind.text()))
    }

    /// Whether it requests input from the client instead of completing the request.
    pub fn requests_input(&self) -> bool {
        let has = |place, shape: Shape| self.at(place).is_some_and(|found| found.shape() == shape);
        let is_request = self.result_type().as_deref() == Some("input_required");
        is_request
            && (has(&self.members.input_requests, Shape::Object) || has(&self.members.request_state, Shape::String))
    }

    /// The input that it requests, as sent; nothing if that is not small.
    pub fn input_requests(&self) -> Value {
        let requests = self.at(&self.members.input_requests);
        requests.and_then(|requests| json_text::small_tree(requests.text())).unwrap_or_default()
    }

    /// Whether it is marked `isError`.
    pub fn is_failure(&self) -> bool {
        self.at(&self.members.is_error).map(json::Value::text) == Some("true")
    }

    /// The bytes of its text.
    #[allow(clippy::len_without_is_empty, reason = "JSON text has at least one byte")]
    pub fn len(&self) -> usize {
        self.text.as_str().len()
    }

    /// Whether it is an object, as results of the protocol are.
    pub fn is_object(&self) -> bool {
        self.text.value().shape() == Shape::Object
    }

    /// Its member of this name, if it has it and the value has this shape.
    pub fn member(&self, name: &str, shape: Shape) -> Option<json::Value<'_>> {
        self.text.value().member(name).filter(|found| found.shape() == shape)
    }

    /// The fault, if it is marked `isError`.
    pub fn fault(&self) -> Option<ToolFault> {
        self.is_failure().then(|| off_runtime(self.len(), || self.read_fault()))
    }

    fn read_fault(&self) -> ToolFault {
        let texts: Vec<json::Value<'_>> = self.blocks().filter_map(text_of).collect();
        let mut message = String::new();
        let mut room = MAX_FAULT_CHARS;
        for text in texts.iter().take(MAX_FAULT_CHARS) {
            if !message.is_empty() {
                message.push('\n');
            }
            let text = json::unquote(text.text());
            let taken = head(&text, room);
            room -= taken.chars().count();
            message.push_str(taken);
        }
        if message.trim().is_empty() {
            message = "the tool reported an error without a message".to_owned();
        }
        let data = match (self.structured_content(), &texts[..]) {
            (Some(structured), _) => json_text::small_tree(structured.text()),
            (None, [only]) => spelled(&json::unquote(only.text())).and_then(json_text::small_tree),
            (None, _) => None,
        };
        let meta = self.at(&self.members.meta).and_then(|meta| json_text::small_tree(meta.text()));
        ToolFault { message, data, meta }
    }

    /// The text of the value for programs. Cut out of the result in place, so that it is held once; a text that spells
    /// JSON is held twice while it is decoded.
    pub fn into_value(self, wrapping: Wrapping) -> JsonText {
        off_runtime(self.len(), || self.cut_value(wrapping))
    }

    fn cut_value(self, wrapping: Wrapping) -> JsonText {
        let part = self.value_part(wrapping);
        let text = self.text;
        match part {
            ValuePart::At(range) => text.cut(range),
            ValuePart::Spelled(range) => text.cut(range).replaced(|literal| {
                let mut decoded = json::unquote(&literal).into_owned();
                decoded.truncate(decoded.trim_end().len());
                decoded.drain(..decoded.len() - decoded.trim_start().len());
                decoded.shrink_to_fit();
                decoded
            }),
            ValuePart::Blocks(range) => text.cut(range).replaced(|blocks| format!("{{\"content\":{blocks}}}")),
            ValuePart::Built(built) => text.replaced(|_| built),
        }
    }

    fn value_part(&self, wrapping: Wrapping) -> ValuePart {
        let whole = self.text.value();
        let at = |part: json::Value<'_>| json_text::range_in(self.text.as_str(), part.text());
        if whole.shape() != Shape::Object {
            return ValuePart::At(at(whole));
        }
        let is_wrapped = wrapping == Wrapping::FastMcp || self.at(&self.members.meta).is_some_and(marks_wrapped);
        if let Some(structured) = self.structured_content() {
            return ValuePart::At(at(if is_wrapped { unwrapped(structured) } else { structured }));
        }
        let Some(content) = self.content() else {
            // Not a tool result: pass on what was sent instead of dropping it.
            return ValuePart::Built(bare(whole));
        };
        let Some(texts) = self.blocks().map(text_of).collect::<Option<Vec<_>>>() else {
            return ValuePart::Blocks(at(content));
        };
        match texts[..] {
            [] => ValuePart::Built("null".to_owned()),
            [only] if spelled(&json::unquote(only.text())).is_some() => ValuePart::Spelled(at(only)),
            [only] => ValuePart::At(at(only)),
            ref several => ValuePart::Built(listed(several)),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = json::Value<'_>> {
        self.content().into_iter().flat_map(|content| content.entries().map(|entry| entry.value))
    }
}

/// Where the value of a result is.
enum ValuePart {
    /// A part of its text.
    At(Range<usize>),
    /// A string whose content is the value.
    Spelled(Range<usize>),
    /// Content blocks, which are the value together.
    Blocks(Range<usize>),
    /// It is put together.
    Built(String),
}

/// The string literal of a text block.
fn text_of(block: json::Value<'_>) -> Option<json::Value<'_>> {
    let (mut kind, mut text) = (None, None);
    for entry in block.entries() {
        match entry.key.map(json::unquote).as_deref() {
            Some("type") => kind = Some(entry.value),
            Some("text") => text = Some(entry.value),
            _ => {}
        }
    }
    let is_text = kind.is_some_and(|kind| kind.shape() == Shape::String && is(kind, "text"));
    text.filter(|text| is_text && text.shape() == Shape::String)
}

fn is(literal: json::Value<'_>, text: &str) -> bool {
    json::unquote(literal.text()) == text
}

/// The object or array that a text spells: a single number or word is more often an identifier than data. One that is nested
/// deeper than a program can read stays a text; a list around it is one level of that.
fn spelled(text: &str) -> Option<&str> {
    let text = text.trim();
    let facts = text.starts_with(['{', '[']).then(|| json::check(text))??;
    (!facts.lone_surrogates && facts.depth < json::scan::MAX_DEPTH as usize).then_some(text)
}

/// A list of several texts, each as it would be alone.
fn listed(literals: &[json::Value<'_>]) -> String {
    let mut list = "[".to_owned();
    for literal in literals {
        list.push_str(if list.len() == 1 { "" } else { "," });
        list.push_str(spelled(&json::unquote(literal.text())).unwrap_or(literal.text()));
    }
    list.push(']');
    list
}

/// Whether the `_meta` of a result says that its value is wrapped.
fn marks_wrapped(meta: json::Value<'_>) -> bool {
    let mark = ["fastmcp", "wrap_result"].iter().try_fold(meta, |value, key| value.member(key));
    mark.map(json::Value::text) == Some("true")
}

fn unwrapped(structured: json::Value<'_>) -> json::Value<'_> {
    if structured.shape() != Shape::Object || structured.entries().nth(1).is_some() {
        return structured;
    }
    structured.member("result").unwrap_or(structured)
}

/// The object without the keys of the envelope; null if nothing is left.
fn bare(result: json::Value<'_>) -> String {
    let is_envelope = |key: &str| {
        matches!(&*json::unquote(key), "_meta" | "isError" | "resultType" | "content" | "structuredContent")
    };
    let members = result.entries().filter_map(|entry| {
        let key = entry.key.filter(|key| !is_envelope(key))?;
        Some(format!("{key}:{}", entry.value.text()))
    });
    let members: Vec<String> = members.collect();
    if members.is_empty() { "null".to_owned() } else { format!("{{{}}}", members.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_text::tests::lets_others_run;
    use serde_json::json;

    fn fault(result: &Value) -> Option<ToolFault> {
        ToolResult::new(JsonText::of(result)).fault()
    }

    fn value(result: Value, wrapping: Wrapping) -> Value {
        let text = ToolResult::new(JsonText::of(&result)).into_value(wrapping);
        serde_json::from_str(text.as_str()).unwrap()
    }

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
    fn a_text_that_is_nested_deeper_than_programs_read_stays_a_string() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let is_text = |result: Value| {
            let value = ToolResult::new(JsonText::of(&result)).into_value(Wrapping::Plain);
            value.as_str().starts_with('"')
        };
        assert!(!is_text(text(&nested(999))));
        assert!(is_text(text(&nested(1_000))) && is_text(text(&nested(100_000))));
        let two =
            json!({ "content": [{ "type": "text", "text": nested(999) }, { "type": "text", "text": nested(1_000) }] });
        let list = ToolResult::new(JsonText::of(&two)).into_value(Wrapping::Plain);
        assert_eq!(json::check(list.as_str()).map(|facts| facts.depth), Some(1_000));
    }

    #[test]
    fn key_order_and_large_integers_survive() {
        let order = value(text("{\"z\":18446744073709551615,\"a\":-9223372036854775808}"), Wrapping::Plain);
        assert_eq!(order.to_string(), "{\"z\":18446744073709551615,\"a\":-9223372036854775808}");
    }

    #[test]
    fn several_texts_stay_several_each_as_it_would_be_alone() {
        let texts = |texts: &[&str]| {
            let blocks = texts.iter().map(|text| json!({ "type": "text", "text": text }));
            json!({ "content": blocks.collect::<Vec<_>>() })
        };
        check(texts(&["one", "two\n"]), json!(["one", "two\n"]));
        check(texts(&[" {\"a\":1}", "[2]", "3"]), json!([{ "a": 1 }, [2], "3"]));
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
    fn white_space_and_spelling_of_the_value_stay() {
        let read = |text: &str| {
            let permit = toolgate_wire::ByteBudget::unlimited().empty_permit();
            ToolResult::new(JsonText::read(text.as_bytes().to_vec(), permit).unwrap())
        };
        let value = |text: &str| read(text).into_value(Wrapping::Plain).into_parts().0;
        assert_eq!(value(r#"{"content":[], "structuredContent": { "a" : 1.0e2 } }"#), r#"{ "a" : 1.0e2 }"#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"[1,\u0020\"\\n\"]"}]}"#), r#"[1, "\n"]"#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"a\u0022b"}]}"#), r#""a\u0022b""#);
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
    fn of_members_with_one_name_the_last_counts() {
        let read = |text: &str| ToolResult::new(JsonText::of_text(text));
        let twice = r#"{"structuredContent":1,"isError":true,"content":[],"isError":false,"structuredContent":2}"#;
        assert!(!read(twice).is_failure());
        assert_eq!(read(twice).into_value(Wrapping::Plain).as_str(), "2");
        let block = r#"{"content":[{"type":"x","text":"a","type":"text","text":"b"}]}"#;
        assert_eq!(read(block).into_value(Wrapping::Plain).as_str(), r#""b""#);
    }

    #[test]
    fn large_results_are_read_beside_the_tasks_of_the_runtime() {
        let blocks = vec![json!({ "type": "text", "text": "x" }); 20_000];
        let (value, fault) = (json!({ "content": blocks }), json!({ "content": blocks, "isError": true }));
        let result = |of: &Value| ToolResult { text: JsonText::of(of), members: Members::of(&of.to_string()) };
        let of_text = value.to_string();
        assert!(lets_others_run(move || drop(ToolResult::new(JsonText::of_text(&of_text)))));
        assert!(lets_others_run(move || drop(result(&value).into_value(Wrapping::Plain))));
        assert!(lets_others_run(move || drop(result(&fault).fault())));
    }

    #[test]
    fn a_fault_carries_its_text_and_its_data() {
        let result = json!({ "isError": true, "content": [{ "type": "text", "text": "{\"code\":7}" }] });
        let found = fault(&result).map(|fault| (fault.message, fault.data));
        assert_eq!(found, Some(("{\"code\":7}".to_owned(), Some(json!({ "code": 7 })))));
    }

    #[test]
    fn a_fault_is_bounded() {
        let result = json!({
            "isError": true,
            "content": [{ "type": "text", "text": "x".repeat(2_000_000) }, { "type": "text", "text": "y" }],
            "structuredContent": vec![1; 1_000_000],
        });
        let found = fault(&result).unwrap();
        assert_eq!((found.message.len(), found.data), (MAX_FAULT_CHARS + 1, None));
    }

    #[test]
    fn a_fault_without_text_has_a_message() {
        let found = fault(&json!({ "isError": true, "content": [] })).map(|fault| fault.message);
        assert_eq!(found.as_deref(), Some("the tool reported an error without a message"));
    }

    #[test]
    fn a_result_requests_input_by_its_type_and_a_request_or_a_state() {
        for (result, expected) in [
            (json!({ "resultType": "input_required", "inputRequests": {} }), true),
            (json!({ "resultType": "input_required", "requestState": "s" }), true),
            (json!({ "resultType": "input_required", "content": [] }), false),
            (json!({ "resultType": "complete", "inputRequests": {} }), false),
            (json!({ "inputRequests": {} }), false),
        ] {
            assert_eq!(requests_input(&result), expected, "{result}");
            assert_eq!(ToolResult::new(JsonText::of(&result)).requests_input(), expected, "{result}");
        }
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
