//! One tool as its backend describes it in `tools/list`.

use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

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

/// A tool object, parsed on first use: most tools that are loaded from the cache are never inspected.
#[derive(Debug)]
struct Raw {
    text: Option<Box<RawValue>>,
    value: OnceLock<Value>,
    /// Of the search, made when a search first needs it.
    vector: OnceLock<Box<QuantisedVector>>,
}

impl Tool {
    /// Reads a tool object of `tools/list`; `None` if it has no name.
    pub fn from_raw(raw: Value) -> Option<Self> {
        let name = raw.get("name")?.as_str()?.to_owned();
        Some(Self { name, raw: Arc::new(Raw { text: None, value: raw.into(), vector: OnceLock::new() }) })
    }

    /// The tool object as the backend sent it.
    pub fn raw(&self) -> &Value {
        self.raw.value.get_or_init(|| self.read_text())
    }

    /// An owned copy of [`raw`](Self::raw).
    pub fn to_raw(&self) -> Value {
        self.raw.value.get().cloned().unwrap_or_else(|| self.read_text())
    }

    /// The tool object as JSON text, if it was read from text that clients can receive unchanged.
    pub fn text(&self) -> Option<&str> {
        self.raw.text.as_deref().map(RawValue::get).filter(|text| is_plain(text))
    }

    /// Parses the text. A text that exceeds the nesting limit becomes an object with only the name.
    fn read_text(&self) -> Value {
        let text = self.raw.text.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(text).unwrap_or_else(|_| json!({ "name": self.name }))
    }

    /// The tool's description.
    pub fn description(&self) -> Option<&str> {
        self.raw().get("description")?.as_str()
    }

    /// JSON Schema of the arguments object; accepts any object if the backend declares none.
    pub fn input_schema(&self) -> &Value {
        self.schema("inputSchema").unwrap_or(&ANY_OBJECT)
    }

    /// JSON Schema of the structured result, if the backend declares one.
    pub fn output_schema(&self) -> Option<&Value> {
        self.schema("outputSchema")
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
    let mut before = 0_u8;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' if !skip_plain_string(&mut bytes) => return false,
            b'e' | b'E' if before.is_ascii_digit() => return false,
            b'\n' | b'\r' => return false,
            _ => {}
        }
        if depth > MAX_NESTING {
            return false;
        }
        before = byte;
    }
    true
}

/// Skips the rest of a string after its opening quote; false if the string has a `\u` escape or does not end.
fn skip_plain_string(bytes: &mut std::str::Bytes<'_>) -> bool {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return true,
            b'\\' if bytes.next() == Some(b'u') => return false,
            _ => {}
        }
    }
    false
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.raw, &other.raw) || self.raw() == other.raw()
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.raw.text {
            Some(text) => text.serialize(to),
            None => self.raw().serialize(to),
        }
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
        Ok(Tool { name, raw: Arc::new(Raw { text: Some(text), value: OnceLock::new(), vector: OnceLock::new() }) })
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
