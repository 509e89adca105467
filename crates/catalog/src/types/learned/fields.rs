//! The fields of objects, sorted by key.
//!
//! Records of a list have their keys in the same order, so each field remembers which one followed it: looking up the next
//! key is then one comparison instead of a search.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::shape::Shape;

/// The values of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Field {
    /// The number of objects that had the key.
    pub(super) present: u64,
    pub(super) shape: Shape,
    /// The number of the last object that had it, so that a repeated key of one object counts once.
    #[serde(skip)]
    last_object: u64,
    /// The position of the field that followed it in the last object.
    #[serde(skip)]
    next: usize,
}

impl Field {
    /// Counts the object of this number, once, and gives the place of its value.
    pub(super) fn count_in(&mut self, object: u64) -> &mut Shape {
        if self.last_object != object {
            self.last_object = object;
            self.present += 1;
        }
        &mut self.shape
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Field>", into = "BTreeMap<String, Field>")]
pub(super) struct Fields(Vec<(String, Field)>);

impl From<BTreeMap<String, Field>> for Fields {
    fn from(fields: BTreeMap<String, Field>) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl From<Fields> for BTreeMap<String, Field> {
    fn from(Fields(fields): Fields) -> Self {
        fields.into_iter().collect()
    }
}

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().map(|(key, field)| (key.as_str(), field))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        self.0.iter_mut().map(|(_, field)| field)
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = Field> {
        self.0.into_iter().map(|(_, field)| field)
    }

    /// The position of a key, or where it would be.
    fn search(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(key))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Field> {
        self.0.get(self.search(key).ok()?).map(|(_, field)| field)
    }

    /// The position of a key that probably follows the key at `before`.
    pub(super) fn find_after(&mut self, before: Option<usize>, key: &str) -> Option<usize> {
        let guess = before.and_then(|before| self.0.get(before)).map_or(0, |(_, field)| field.next);
        if self.0.get(guess).is_some_and(|(own, _)| own == key) {
            return Some(guess);
        }
        let found = self.search(key).ok()?;
        if let Some((_, field)) = before.and_then(|before| self.0.get_mut(before)) {
            field.next = found;
        }
        Some(found)
    }

    /// The position and the length of the key that probably follows the key at `before`, if `text` begins with it and a
    /// quote. Stored keys are plain, so that they are written in JSON as they are.
    pub(super) fn starts_after(&self, before: Option<usize>, text: &[u8]) -> Option<(usize, usize)> {
        let guess = before.and_then(|before| self.0.get(before)).map_or(0, |(_, field)| field.next);
        let (key, _) = self.0.get(guess)?;
        let (begin, end) = (text.get(..key.len())?, text.get(key.len())?);
        (*end == b'"' && begin == key.as_bytes()).then_some((guess, key.len()))
    }

    pub(super) fn at(&mut self, position: usize) -> Option<&mut Field> {
        self.0.get_mut(position).map(|(_, field)| field)
    }

    /// The field of a key, added if it is new.
    pub(super) fn entry(&mut self, key: &str) -> Option<&mut Field> {
        let position = self.search(key).unwrap_or_else(|position| {
            self.0.insert(position, (key.to_owned(), Field::default()));
            position
        });
        self.at(position)
    }

    /// Forgets what only one observation needs.
    pub(super) fn settle(&mut self) {
        for field in self.values_mut() {
            (field.last_object, field.next) = (0, 0);
            field.shape.settle();
        }
    }
}
