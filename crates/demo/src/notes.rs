//! Notes by name, in memory.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Outcome, arguments};

/// Maximum number of notes, and maximum size of one.
const MAX_NOTES: usize = 1000;
const MAX_NOTE_BYTES: usize = 64 << 10;
const SCHEME: &str = "demo://note/";

/// All notes.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<String, String>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    name: String,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    name: String,
}

impl Notes {
    /// Saves a note and returns its name.
    pub(super) fn create(&mut self, given: Map<String, Value>) -> Result<String, String> {
        let Note { name, text } = arguments(given)?;
        let is_name =
            !name.is_empty() && name.len() <= 100 && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if !is_name {
            return Err("a name has 1 to 100 letters, digits, dots, dashes or underscores".to_owned());
        }
        if text.len() > MAX_NOTE_BYTES {
            return Err(format!("a note has at most {MAX_NOTE_BYTES} bytes"));
        }
        if self.0.len() >= MAX_NOTES && !self.0.contains_key(&name) {
            return Err(format!("there is room for {MAX_NOTES} notes"));
        }
        self.0.insert(name.clone(), text);
        Ok(name)
    }

    pub(super) fn read(&self, given: Map<String, Value>) -> Outcome {
        let Which { name } = arguments(given)?;
        let text = self.0.get(&name).ok_or_else(|| missing(&name))?;
        Ok(json!({ "name": name, "text": text }))
    }

    pub(super) fn list(&self) -> Value {
        let notes: Vec<_> = self.0.iter().map(|(name, text)| json!({ "name": name, "bytes": text.len() })).collect();
        json!({ "notes": notes })
    }

    /// Deletes a note and gives its name.
    pub(super) fn delete(&mut self, given: Map<String, Value>) -> Result<String, String> {
        let Which { name } = arguments(given)?;
        self.0.remove(&name).ok_or_else(|| missing(&name))?;
        Ok(name)
    }

    /// The notes as resources.
    pub(super) fn resources(&self) -> Vec<Value> {
        let resource = |name: &String| json!({ "uri": uri(name), "name": name, "mimeType": "text/plain" });
        self.0.keys().map(resource).collect()
    }

    /// The text at a URI.
    pub(super) fn at(&self, uri: &str) -> Option<String> {
        self.0.get(uri.strip_prefix(SCHEME)?).cloned()
    }
}

/// Where a note is read as a resource.
pub(super) fn uri(name: &str) -> String {
    format!("{SCHEME}{name}")
}

fn missing(name: &str) -> String {
    format!("there is no note {name}")
}
