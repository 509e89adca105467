//! One tool as its backend describes it in `tools/list`.

use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_json::scan::skip_string;

use super::arguments::SchemaMemory;
use super::search::QuantisedVector;

/// Maximum nesting depth of a tool object; serde_json parses no deeper.
const MAX_NESTING: usize = 127;

static ANY_OBJECT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));

/// A tool as its backend lists it. A clone shares the tool object, because there may be thousands of tools.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The name that the backend uses, unsanitised.
    pub name: String,
    raw: Arc<Raw>,
}

/// A tool object as text. Its tree of values takes ten times as much, so that it is made when the tool is used, and kept only while
/// its server's tools take no more than they may together.
#[derive(Debug, Default)]
struct Raw {
    text: Box<RawValue>,
    texts: OnceLock<ToolTexts>,
    value: OnceLock<Value>,
    /// Of all tools of the server; absent for a tool that is in no catalog.
    memory: OnceLock<Arc<SchemaMemory>>,
    /// Of the search, made when a search first needs it.
    vector: OnceLock<Box<QuantisedVector>>,
}

/// What a search and every call read of a tool, kept without its tree.
#[derive(Debug, Default)]
pub(crate) struct ToolTexts {
    /// Its own, or that of its annotations.
    pub(crate) title: String,
    description: Option<String>,
    /// The names of its first parameters.
    pub(crate) parameters: Vec<String>,
    annotations: Option<Value>,
}

/// Names of parameters that are kept for the search; more have no room in a vector.
const MAX_PARAMETERS: usize = 64;

/// The annotations that the protocol has; a server may send others, of any size.
fn short_annotations(all: &Value) -> Value {
    let known = |(_, value): &(&String, &Value)| {
        value.is_boolean() || value.as_str().is_some_and(|text| text.len() <= MAX_ANNOTATION)
    };
    let known = all.as_object().into_iter().flatten().filter(known).take(MAX_ANNOTATIONS);
    Value::Object(known.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Annotations of a tool that are kept, and the longest text of one.
const MAX_ANNOTATIONS: usize = 32;
const MAX_ANNOTATION: usize = 1_000;

impl ToolTexts {
    fn of(raw: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let properties = raw.pointer("/inputSchema/properties").and_then(Value::as_object);
        let names = properties.into_iter().flatten().take(MAX_PARAMETERS).map(|(name, _)| name.clone());
        let title = raw.get("title").or_else(|| raw.pointer("/annotations/title"));
        ToolTexts {
            title: text(title).unwrap_or_default(),
            description: text(raw.get("description")),
            parameters: names.collect(),
            annotations: raw.get("annotations").map(short_annotations),
        }
    }
}

/// Bytes of a value in a tree, and what an object and a list take besides, with room that they do not use.
const VALUE_BYTES: u64 = 80;
const OBJECT_BYTES: u64 = 500;
const LIST_BYTES: u64 = 300;

/// Bytes that the tree of a JSON text takes at most. Commas and brackets in strings count, too.
pub(super) fn tree_bytes(text: &str) -> u64 {
    let bytes = |byte: u8| match byte {
        b',' => VALUE_BYTES,
        b'{' => OBJECT_BYTES,
        b'[' => LIST_BYTES,
        _ => 0,
    };
    text.bytes().map(bytes).sum::<u64>() + VALUE_BYTES + text.len() as u64
}

impl Tool {
    /// Reads a tool object of `tools/list`; `None` if it has no name.
    pub fn from_raw(raw: Value) -> Option<Self> {
        let name = raw.get("name")?.as_str()?.to_owned();
        let text = RawValue::from_string(raw.to_string()).ok()?;
        Some(Self { name, raw: Arc::new(Raw { text, ..Raw::default() }) })
    }

    /// The tool object as the backend sent it; without its schemas where they take too much memory with those of the other tools.
    pub fn raw(&self) -> &Value {
        self.raw.value.get_or_init(|| {
            let memory = self.raw.memory.get();
            if memory.is_none_or(|memory| memory.take(tree_bytes(self.raw.text.get()))) {
                return self.to_raw();
            }
            tracing::warn!(tool = ?self.name, "the schemas of its server take too much memory, so this tool is used without one");
            self.without_schemas()
        })
    }

    /// An owned copy of [`raw`](Self::raw), with its schemas. A text that exceeds the nesting limit becomes an object with only the
    /// name.
    pub fn to_raw(&self) -> Value {
        serde_json::from_str(self.raw.text.get()).unwrap_or_else(|_| json!({ "name": self.name }))
    }

    /// What a search and every call read of it.
    pub(crate) fn texts(&self) -> &ToolTexts {
        self.raw.texts.get_or_init(|| ToolTexts::of(&self.to_raw()))
    }

    fn without_schemas(&self) -> Value {
        let mut raw = self.to_raw();
        if let Some(fields) = raw.as_object_mut() {
            fields.retain(|key, _| matches!(key.as_str(), "name" | "title" | "description" | "annotations"));
        }
        raw
    }

    /// The tool object as JSON text, if clients can receive it unchanged.
    pub fn text(&self) -> Option<&str> {
        Some(self.raw.text.get()).filter(|text| is_plain(text))
    }

    /// Has the tool count in what the tools of its server take together.
    pub(crate) fn count_in(&self, memory: &Arc<SchemaMemory>) {
        let _ = self.raw.memory.set(Arc::clone(memory));
    }

    /// The tool's description.
    pub fn description(&self) -> Option<&str> {
        self.texts().description.as_deref()
    }

    /// JSON Schema of the arguments object; accepts any object if the backend declares none.
    pub fn input_schema(&self) -> &Value {
        self.schema("inputSchema").unwrap_or(&ANY_OBJECT)
    }

    /// JSON Schema of the structured result, if the backend declares one.
    pub fn output_schema(&self) -> Option<&Value> {
        self.schema("outputSchema")
    }

    /// An annotation of the tool, such as `readOnlyHint`, if it has one.
    pub fn hint(&self, name: &str) -> Option<bool> {
        self.annotations()?.get(name)?.as_bool()
    }

    /// The annotations of the tool, if it has some.
    pub fn annotations(&self) -> Option<&Value> {
        self.texts().annotations.as_ref()
    }

    /// Whether its annotations say that a call changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.hint("readOnlyHint") == Some(true)
    }

    /// Whether its annotations say that a call may be made again with the same arguments.
    pub fn is_idempotent(&self) -> bool {
        self.hint("idempotentHint") == Some(true)
    }

    /// The same tool with these annotations in place of its own. Of a tool that changes nothing, the annotation that it destroys
    /// something goes, and the other way round: one of the two would contradict the user.
    pub fn with_hints(&self, hints: impl IntoIterator<Item = (&'static str, bool)>) -> Self {
        let mut raw = self.to_raw();
        for (name, value) in hints {
            if !raw["annotations"].is_object() {
                raw["annotations"] = json!({});
            }
            match (name, value) {
                ("readOnlyHint", true) => raw["annotations"]["destructiveHint"] = Value::Bool(false),
                ("destructiveHint", true) => raw["annotations"]["readOnlyHint"] = Value::Bool(false),
                _ => {}
            }
            raw["annotations"][name] = Value::Bool(value);
        }
        Tool::from_raw(raw).unwrap_or_else(|| self.clone())
    }

    /// The tool's vector for the search; clones share it.
    pub(crate) fn vector(&self) -> &QuantisedVector {
        self.raw.vector.get_or_init(|| Box::new(QuantisedVector::of(self)))
    }

    fn schema(&self, key: &str) -> Option<&Value> {
        self.raw().get(key).filter(|schema| schema.is_object())
    }
}

/// Whether a JSON text is one line that every client parses to the same value: within the nesting limit, without `\u`
/// escapes (which may be lone surrogates) and without exponents (which may exceed a double).
fn is_plain(text: &str) -> bool {
    let mut depth = 0_usize;
    let (bytes, mut at, mut before) = (text.as_bytes(), 0, 0_u8);
    while let Some(byte) = bytes.get(at) {
        let mut end = at + 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => match skip_string(bytes, at) {
                // An escaped backslash before a `u` counts as well: such a text is read, which is right for any.
                Ok((after, is_escaped)) if !is_escaped || !text[at..after].contains("\\u") => end = after,
                Ok(_) | Err(_) => return false,
            },
            b'e' | b'E' if before.is_ascii_digit() => return false,
            b'\n' | b'\r' => return false,
            _ => {}
        }
        if depth > MAX_NESTING {
            return false;
        }
        (before, at) = (*byte, end);
    }
    true
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        let is_same_text = Arc::ptr_eq(&self.raw, &other.raw) || self.raw.text.get() == other.raw.text.get();
        // The same object may be written in another way.
        is_same_text || self.to_raw() == other.to_raw()
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.raw.text.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let text = Box::<RawValue>::deserialize(from)?;
        let Named { name } = serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(Tool { name, raw: Arc::new(Raw { text, ..Raw::default() }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_without_a_name_is_none() {
        assert_eq!(Tool::from_raw(json!({ "description": "x" })), None);
        assert_eq!(Tool::from_raw(json!({ "name": 7 })), None);
        assert_eq!(Tool::from_raw(json!("echo")), None);
    }

    #[test]
    fn annotations_of_the_user_take_the_place_of_the_servers() {
        let tool = |annotations: Value| Tool::from_raw(json!({ "name": "t", "annotations": annotations })).unwrap();
        let said = tool(json!({ "title": "T", "readOnlyHint": false, "destructiveHint": true }));
        let reads = said.with_hints([("readOnlyHint", true), ("idempotentHint", true)]);
        assert!(reads.is_read_only() && reads.is_idempotent() && reads.hint("destructiveHint") == Some(false));
        assert_eq!(reads.raw()["annotations"]["title"], "T");
        let destroys = tool(json!({ "readOnlyHint": true })).with_hints([("destructiveHint", true)]);
        assert!(!destroys.is_read_only(), "{:?}", destroys.raw());
        for odd in [json!(null), json!([]), json!({ "readOnlyHint": "yes" })] {
            assert!(!tool(odd.clone()).is_read_only());
            assert!(tool(odd).with_hints([("readOnlyHint", true)]).is_read_only());
        }
    }

    #[test]
    fn a_missing_or_odd_input_schema_takes_any_object() {
        for raw in [json!({ "name": "now" }), json!({ "name": "now", "inputSchema": true, "outputSchema": null })] {
            let tool = Tool::from_raw(raw.clone()).unwrap();
            assert_eq!(*tool.input_schema(), json!({ "type": "object" }));
            assert_eq!(tool.output_schema(), None);
            assert_eq!(*tool.raw(), raw);
        }
    }

    #[test]
    fn a_tool_that_is_read_from_text_is_the_tool_that_was_written() {
        let raw =
            json!({ "name": "now", "description": "The time", "inputSchema": { "type": "object", "z": 1, "a": 2 } });
        let tool = Tool::from_raw(raw.clone()).unwrap();
        let read: Tool = serde_json::from_str(&serde_json::to_string(&tool).unwrap()).unwrap();
        assert_eq!(read.to_raw().to_string(), raw.to_string());
        assert_eq!((&read, read.description(), read.name.as_str()), (&tool, Some("The time"), "now"));
        assert_eq!(serde_json::to_string(&read).unwrap(), raw.to_string());
    }

    #[test]
    fn a_tools_text_is_what_is_read_from_it() {
        let nested =
            |levels: usize| format!(r#"{{"name":"t","a":{}"]}}\""{}}}"#, "[".repeat(levels), "]".repeat(levels));
        for text in [r#"{ "name":"t" , "x":[{"y":"}"}] }"#, &nested(126), &nested(127), &nested(200)] {
            let tool: Tool = serde_json::from_str(text).unwrap();
            let passed_on = tool.text().map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert!(passed_on.is_none_or(|value| value == tool.to_raw()), "{text}");
        }
    }

    fn check_plain(json: &str, expected: bool) {
        assert_eq!(is_plain(json), expected, "{json}");
    }

    #[test]
    fn only_text_that_any_client_reads_is_passed_on() {
        check_plain(r#"{ "a":"[[[\\","b\"{{e1E2":[true,false,-1.5,{}],"e":1}"#, true);
        check_plain(&format!("{}1{}", "[".repeat(127), "]".repeat(127)), true);
        check_plain(&format!("{}1{}", "[".repeat(128), "]".repeat(128)), false);
        check_plain("{\n}", false);
        check_plain("{\r}", false);
        check_plain(r#"["\ud800"]"#, false);
        check_plain("[1e999]", false);
        check_plain("[1E5]", false);
        check_plain("[2.0e5]", false);
    }

    #[test]
    fn a_text_that_is_no_tool_is_refused() {
        for text in ["7", "{}", r#"{"name":7}"#, r#"{"name":"a""#, "null"] {
            assert!(serde_json::from_str::<Tool>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_that_nests_too_deeply_is_a_tool_with_a_name() {
        let text = format!(r#"{{"name":"deep","inputSchema":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!((tool.name.as_str(), tool.description()), ("deep", None));
        assert_eq!(tool.text(), None);
        assert_eq!(*tool.input_schema(), json!({ "type": "object" }));
    }
}
