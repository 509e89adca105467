//! Return types learned from results: what a tool that declares no output schema has returned so far.
//!
//! A [`LearnedType`] is the shape of one result, or of many merged: kinds, keys with the number of objects that had them,
//! items of arrays, formats of strings. It describes exactly what was seen: a key is required if every object had it.
//!
//! # No values
//! No string value is stored, not even where a field had few different ones: a set of values that looks like an
//! enumeration (`open`, `closed`) cannot be told from names of customers or from the one token that every result carried.
//! A format (`date-time`) is stored as a count. Keys are stored if they look like names of fields; other keys may be data
//! (addresses, ids), and their values are learned together, as those of any key. So are those of an object with more than
//! [`MAX_FIELDS`] keys.
//!
//! # Merging
//! [`LearnedType::merge`] is commutative and associative, so replicas may exchange and merge in any order. The bound on
//! the whole size is the exception: a type of more than [`MAX_NODES`] parts becomes `any` for good, as does one that would take all
//! types together above their bound, and in which order these bounds are met may matter.
//!
//! A declared schema always wins: what is learned is shown for tools without one, so it is never narrower.

mod fields;
mod observe;
mod render;
mod scan;
mod shape;
mod store;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use shape::Shape;

pub use render::{known_signature, learned_signature};
pub use store::{Learned, LearnedTypes};

/// Maximum number of keys of one object; with more, it is a map from any key to one type.
pub const MAX_FIELDS: usize = 64;
/// Maximum number of parts (values, keys and items) of a learned type.
pub const MAX_NODES: usize = 2_000;
/// Maximum nesting depth; deeper values may be anything.
pub const MAX_DEPTH: usize = 16;

/// Version of the exported form of a type.
pub const VERSION: u32 = 1;

/// The type of the results of one tool, as far as they were seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LearnedType {
    results: u64,
    shape: Shape,
}

/// Why a text teaches no type.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The text is not JSON, or it nests too deeply to be read.
    #[error("cannot read the result: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// The text is not an exported type.
    #[error("cannot read the learned type: {0}")]
    Damaged(#[source] serde_json::Error),
    /// The exported type is of another version.
    #[error("the learned type has version {found}, expected {VERSION}")]
    Version {
        /// The version that it says.
        found: u32,
    },
}

/// The exported form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exported {
    version: u32,
    results: u64,
    shape: Shape,
}

impl LearnedType {
    /// The type of one result, given as JSON text.
    pub fn of(json: &str) -> Result<Self, LearnError> {
        let mut shape = Shape::default();
        if scan::observe(json, &mut shape).is_none() {
            shape = Shape::default();
            observe::observe(json, &mut shape).map_err(LearnError::Unreadable)?;
        }
        shape.settle();
        Ok(Self { results: 1, shape }.bounded())
    }

    /// Takes in the results that another type was learned from.
    pub fn merge(&mut self, other: &Self) {
        self.results = self.results.saturating_add(other.results);
        self.shape.merge(&other.shape);
        if self.shape.nodes() > MAX_NODES {
            self.forget();
        }
    }

    fn bounded(mut self) -> Self {
        if self.shape.nodes() > MAX_NODES {
            self.forget();
        }
        self
    }

    /// The number of its parts.
    fn nodes(&self) -> usize {
        self.shape.nodes()
    }

    /// Makes it `any` for good.
    fn forget(&mut self) {
        self.shape = Shape::any();
    }

    /// The number of results that it was learned from.
    pub fn results(&self) -> u64 {
        self.results
    }

    /// Whether both describe the same values: kinds, keys and which of them are required, whatever was counted.
    pub(crate) fn is_same_type(&self, other: &Self) -> bool {
        self.shape.is_same_type(&other.shape)
    }

    /// Whether a value has this type: no new kind, no new key, every required key.
    pub fn accepts(&self, value: &Value) -> bool {
        self.shape.accepts(value, 0)
    }

    /// The keys that objects at a path of keys were seen with; arrays on the way are entered. `None` where there was no
    /// object, or where any key is possible.
    pub fn keys_at(&self, path: &[&str]) -> Option<Vec<&str>> {
        self.shape.keys_at(path)
    }

    /// The type as JSON, for a store or another gateway.
    pub fn export(&self) -> Value {
        let exported = Exported { version: VERSION, results: self.results, shape: self.shape.clone() };
        serde_json::to_value(exported).unwrap_or_default()
    }

    /// The text for a store that several gateways add to: what it has of this tool, with these results as well. A text that cannot be
    /// read counts as none. A type whose text is longer than `room` becomes `any`.
    pub fn added_to(&self, kept: Option<&str>, room: usize) -> String {
        let mut all = kept.and_then(|text| Self::read(text).ok()).unwrap_or_default();
        all.merge(self);
        let text = all.export().to_string();
        if text.len() <= room {
            return text;
        }
        all.forget();
        all.export().to_string()
    }

    /// Reads the text of a store, as [`import`](Self::import) does.
    ///
    /// # Errors
    /// If it is no exported type, or of another version.
    pub fn read(text: &str) -> Result<Self, LearnError> {
        Self::import(&serde_json::from_str(text).map_err(LearnError::Damaged)?)
    }

    /// Reads an exported type. Whatever it says, the bounds and the rule for keys hold afterwards.
    pub fn import(exported: &Value) -> Result<Self, LearnError> {
        let version = exported.get("version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
        if let Some(found) = version.filter(|&found| found != VERSION) {
            return Err(LearnError::Version { found });
        }
        let exported = Exported::deserialize(exported).map_err(LearnError::Damaged)?;
        // Merging into an empty shape applies the bounds.
        let mut imported = Self::default();
        imported.merge(&Self { results: exported.results, shape: exported.shape });
        Ok(imported)
    }
}

#[cfg(test)]
mod tests;
