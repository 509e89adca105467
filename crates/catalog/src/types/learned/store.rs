//! The learned types of many tools: in memory, in a file, and merged from others.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LearnError, LearnedType};
use crate::cache::replace_file;

/// Maximum number of tools of which a type is learned.
const MAX_TOOLS: usize = 5_000;
/// Maximum size of a file of learned types, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Version of the file.
const VERSION: u32 = 1;

/// The learned types of tools, by backend and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LearnedTypes {
    types: BTreeMap<String, BTreeMap<String, LearnedType>>,
}

/// What one more result changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It is the first of its tool.
    First,
    /// It has the type that was known.
    Fits,
    /// The type is wider now.
    Widened,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    backends: BTreeMap<String, BTreeMap<String, Value>>,
}

impl LearnedTypes {
    /// Takes in a result, given as JSON text.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn observe(&mut self, backend: &str, tool: &str, json: &str) -> Result<Learned, LearnError> {
        let seen = LearnedType::of(json)?;
        let Some(known) = self.entry(backend, tool) else { return Ok(Learned::Fits) };
        if known.results() == 0 {
            *known = seen;
            return Ok(Learned::First);
        }
        let before = known.typescript();
        known.merge(&seen);
        Ok(if known.typescript() == before { Learned::Fits } else { Learned::Widened })
    }

    fn entry(&mut self, backend: &str, tool: &str) -> Option<&mut LearnedType> {
        let is_known = self.get(backend, tool).is_some();
        if !is_known && self.len() >= MAX_TOOLS {
            return None;
        }
        Some(self.types.entry(backend.to_owned()).or_default().entry(tool.to_owned()).or_default())
    }

    /// What was learned of a tool.
    pub fn get(&self, backend: &str, tool: &str) -> Option<&LearnedType> {
        self.types.get(backend)?.get(tool)
    }

    /// The number of tools.
    pub fn len(&self) -> usize {
        self.types.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Takes in what was learned elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (backend, tools) in &other.types {
            for (tool, learned) in tools {
                if let Some(known) = self.entry(backend, tool) {
                    known.merge(learned);
                }
            }
        }
    }

    /// Everything as JSON, for a file or another gateway.
    pub fn export(&self) -> Value {
        let exported = |tools: &BTreeMap<String, LearnedType>| {
            tools.iter().map(|(tool, learned)| (tool.clone(), learned.export())).collect()
        };
        let backends = self.types.iter().map(|(backend, tools)| (backend.clone(), exported(tools))).collect();
        serde_json::to_value(File { version: VERSION, backends }).unwrap_or_default()
    }

    /// Reads what was exported. The bounds of each type hold afterwards, whatever it says.
    ///
    /// # Errors
    /// If it is of another version, or damaged.
    pub fn import(exported: &Value) -> Result<Self, LearnError> {
        let version = exported.get("version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
        if let Some(found) = version.filter(|&found| found != VERSION) {
            return Err(LearnError::Version { found });
        }
        let file = File::deserialize(exported).map_err(LearnError::Damaged)?;
        let mut types = Self::default();
        for (backend, tools) in &file.backends {
            for (tool, exported) in tools {
                let learned = LearnedType::import(exported)?;
                if let Some(known) = types.entry(backend, tool) {
                    *known = learned;
                }
            }
        }
        Ok(types)
    }

    /// Reads a file. One that is not there is empty; one that cannot be used is empty too, with a warning.
    pub fn load(path: &Path) -> Self {
        match read(path) {
            Ok(types) => types,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ignoring the learned types");
                Self::default()
            }
        }
    }

    /// Writes a file as a whole, with mode 0600.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &self.export())
    }
}

fn read(path: &Path) -> io::Result<LearnedTypes> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    let exported: Value = serde_json::from_slice(&text)?;
    LearnedTypes::import(&exported).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_widen_a_type_and_say_so() {
        let mut types = LearnedTypes::default();
        assert_eq!(types.observe("b", "t", r#"{"a":1}"#).unwrap(), Learned::First);
        assert_eq!(types.observe("b", "t", r#"{"a":2}"#).unwrap(), Learned::Fits);
        assert_eq!(types.observe("b", "t", r#"{"a":null}"#).unwrap(), Learned::Widened);
        assert!(types.observe("b", "t", "{").is_err());
        assert_eq!(types.get("b", "t").unwrap().results(), 3);
    }

    #[test]
    fn a_file_holds_shapes_and_no_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let mut types = LearnedTypes::default();
        types.observe("b", "t", r#"[{"name":"canary-5f1d","token":"canary-77aa","id":90210}]"#).unwrap();
        types.save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary") && !text.contains("90210") && text.contains("token"), "{text}");
        assert_eq!(LearnedTypes::load(&path), types);
        std::fs::write(&path, r#"{"version":9}"#).unwrap();
        assert!(LearnedTypes::load(&path).is_empty());
    }

    #[test]
    fn replicas_merge_what_they_learned() {
        let (mut one, mut two) = (LearnedTypes::default(), LearnedTypes::default());
        one.observe("b", "t", r#"{"a":1}"#).unwrap();
        two.observe("b", "t", r#"{"a":"x","b":1}"#).unwrap();
        let (mut first, mut second) = (one.clone(), two.clone());
        first.merge(&two);
        second.merge(&one);
        assert_eq!(first, second);
        assert_eq!(first.get("b", "t").unwrap().typescript(), "{ a: string | number; b?: number }");
    }
}
