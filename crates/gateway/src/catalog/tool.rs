//! One tool as its backend describes it.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The deepest text that is read as a value.
const DEEPEST: usize = 127;

static ANY_OBJECT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));

/// A tool as its backend lists it. There may be thousands, so a clone shares what the backend sent.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The backend's own name for it, unsanitised.
    pub name: String,
    raw: Arc<Raw>,
}

/// A tool object as a value, or as text until somebody looks into it: most tools of a cache are never looked into.
#[derive(Debug)]
struct Raw {
    text: Option<Box<RawValue>>,
    value: OnceLock<Value>,
}

impl Tool {
    /// Reads a tool object of `tools/list`; `None` where it has no name to call it by.
    pub fn from_raw(raw: Value) -> Option<Self> {
        let name = raw.get("name")?.as_str()?.to_owned();
        Some(Self { name, raw: Arc::new(Raw { text: None, value: raw.into() }) })
    }

    /// The tool object as the backend sent it, for clients that want all of it.
    pub fn raw(&self) -> &Value {
        self.raw.value.get_or_init(|| self.read_text())
    }

    /// The same, for the caller to change.
    pub fn to_raw(&self) -> Value {
        self.raw.value.get().cloned().unwrap_or_else(|| self.read_text())
    }

    /// The tool object as text. What came as text is not read for it, unless it nests too deeply to be passed on.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.raw.text {
            Some(text) if depth(text.get()) <= DEEPEST => Cow::Borrowed(text.get()),
            _ => Cow::Owned(self.raw().to_string()),
        }
    }

    /// A text that nests deeper than any value we take says nothing but the name.
    fn read_text(&self) -> Value {
        let text = self.raw.text.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(text).unwrap_or_else(|_| json!({ "name": self.name }))
    }

    /// What it does, for a reader.
    pub fn description(&self) -> Option<&str> {
        self.raw().get("description")?.as_str()
    }

    /// JSON Schema of its one argument object; any object, where the backend gives none.
    pub fn input_schema(&self) -> &Value {
        self.schema("inputSchema").unwrap_or(&ANY_OBJECT)
    }

    /// JSON Schema of its structured result, where the backend declares one.
    pub fn output_schema(&self) -> Option<&Value> {
        self.schema("outputSchema")
    }

    fn schema(&self, key: &str) -> Option<&Value> {
        self.raw().get(key).filter(|schema| schema.is_object())
    }
}

/// How deeply a JSON text nests.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

/// Goes past the end of a string whose opening quote was read.
fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
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
        Ok(Tool { name, raw: Arc::new(Raw { text: Some(text), value: OnceLock::new() }) })
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
            assert_eq!(serde_json::from_str::<Value>(&tool.text()).unwrap(), tool.to_raw(), "{text}");
        }
        assert_eq!(depth(&nested(126)), 127);
        assert_eq!(depth(r#"{"a":"[[[","b\"{{":[]}"#), 2);
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
        assert_eq!(tool.text(), r#"{"name":"deep"}"#);
        assert_eq!(*tool.input_schema(), json!({ "type": "object" }));
    }
}
