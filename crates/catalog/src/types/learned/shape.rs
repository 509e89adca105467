//! What was seen at one place of a result: how often each kind of value, and what was inside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::{Field, Fields};
use super::{MAX_DEPTH, MAX_FIELDS};

/// Maximum length of a stored key.
const MAX_KEY: usize = 40;
/// Maximum number of digits of a stored key: more are a number or an id.
const MAX_KEY_DIGITS: usize = 3;

/// The values at one place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Shape {
    /// Values that were too deep to look at, or a type that became too large: may be anything.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) any: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) nulls: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) booleans: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) integers: u64,
    /// Numbers that are not integers.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fractions: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) strings: u64,
    /// How many of the strings had each format.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) formats: BTreeMap<Format, u64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) arrays: u64,
    /// All items of all arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) items: Option<Box<Shape>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) objects: u64,
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub(super) fields: Fields,
    /// The values of keys that are not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) others: Option<Box<Shape>>,
    /// The objects have more keys than are stored: every key is one of `others`.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) map: bool,
}

/// The formats that strings are recognised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    Date,
    DateTime,
    Email,
    Uri,
    Uuid,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Shape {
    pub(super) fn any() -> Self {
        Self { any: true, ..Self::default() }
    }

    /// Whether a key looks like the name of a field rather than like data.
    pub(super) fn is_field_name(key: &str) -> bool {
        let letters = key.strip_prefix('@').unwrap_or(key);
        let begins = letters.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
        let digits = letters.bytes().filter(u8::is_ascii_digit).count();
        key.len() <= MAX_KEY && begins && letters.chars().all(plain) && digits <= MAX_KEY_DIGITS
    }

    /// The place of the values of `key` in an object that was just counted, and the position of its field. `before` is the
    /// position of the key before it.
    pub(super) fn enter(&mut self, key: &str, before: Option<usize>) -> (&mut Shape, Option<usize>) {
        let object = self.objects;
        // Most keys are known already: the rules for new ones are checked once.
        let mut position = self.fields.find_after(before, key);
        if position.is_none() && self.add_field(key) {
            position = self.fields.find_after(None, key);
        }
        match position.and_then(|position| self.fields.at(position)) {
            Some(field) => (field.count_in(object), position),
            None => (self.others.get_or_insert_default(), None),
        }
    }

    /// The same for a key whose field is known.
    pub(super) fn enter_known(&mut self, position: usize) -> Option<&mut Shape> {
        let object = self.objects;
        self.fields.at(position).map(|field| field.count_in(object))
    }

    /// Adds a key, unless it is one of those that are not stored.
    fn add_field(&mut self, key: &str) -> bool {
        if self.map || !Self::is_field_name(key) {
            return false;
        }
        if self.fields.len() >= MAX_FIELDS {
            self.forget_fields();
            return false;
        }
        self.fields.entry(key).is_some()
    }

    /// Turns the object into a map: all its values are of one type, and its keys are forgotten.
    fn forget_fields(&mut self) {
        self.map = true;
        let fields = std::mem::take(&mut self.fields);
        let others = self.others.get_or_insert_default();
        for field in fields.into_values() {
            others.merge(&field.shape);
        }
    }

    /// Forgets what only one observation needs.
    pub(super) fn settle(&mut self) {
        self.fields.settle();
        self.items.iter_mut().chain(&mut self.others).for_each(|inside| inside.settle());
    }

    /// The number of parts.
    pub(super) fn nodes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(_, field)| field.shape.nodes()).sum();
        let inside: usize = self.items.iter().chain(&self.others).map(|inside| inside.nodes()).sum();
        1 + fields + inside
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.merge_at(other, 0);
    }

    fn merge_at(&mut self, other: &Self, depth: usize) {
        if self.any || other.any || depth > MAX_DEPTH {
            *self = Self::any();
            return;
        }
        for (count, more) in [
            (&mut self.nulls, other.nulls),
            (&mut self.booleans, other.booleans),
            (&mut self.integers, other.integers),
            (&mut self.fractions, other.fractions),
            (&mut self.strings, other.strings),
            (&mut self.arrays, other.arrays),
            (&mut self.objects, other.objects),
        ] {
            *count = count.saturating_add(more);
        }
        for (&format, &more) in &other.formats {
            let count = self.formats.entry(format).or_default();
            *count = count.saturating_add(more);
        }
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().merge_at(items, depth + 1);
        }
        self.merge_fields(other, depth);
    }

    fn merge_fields(&mut self, other: &Self, depth: usize) {
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().merge_at(others, depth + 1);
        }
        if other.map && !self.map {
            self.forget_fields();
        }
        for (key, field) in other.fields.iter() {
            let stored = self.fields.get(key).is_some() || self.add_field(key);
            match if stored { self.fields.entry(key) } else { None } {
                Some(own) => {
                    own.present = own.present.saturating_add(field.present);
                    own.shape.merge_at(&field.shape, depth + 1);
                }
                None => self.others.get_or_insert_default().merge_at(&field.shape, depth + 1),
            }
        }
    }

    pub(super) fn accepts(&self, value: &Value, depth: usize) -> bool {
        if self.any || depth > MAX_DEPTH {
            return true;
        }
        match value {
            Value::Null => self.nulls > 0,
            Value::Bool(_) => self.booleans > 0,
            // TypeScript has one type for both.
            Value::Number(_) => self.integers > 0 || self.fractions > 0,
            Value::String(_) => self.strings > 0,
            Value::Array(items) => {
                let accepted = |item| self.items.as_ref().is_some_and(|shape| shape.accepts(item, depth + 1));
                self.arrays > 0 && items.iter().all(accepted)
            }
            Value::Object(object) => {
                let accepted = |(key, value): (&String, &Value)| {
                    let place = self.fields.get(key).map(|field| &field.shape).or(self.others.as_deref());
                    place.is_some_and(|shape| shape.accepts(value, depth + 1))
                };
                let has_required =
                    self.fields.iter().all(|(key, field)| !self.is_required(field) || object.contains_key(key));
                self.objects > 0 && has_required && object.iter().all(accepted)
            }
        }
    }

    /// Whether every object had the key.
    pub(super) fn is_required(&self, field: &Field) -> bool {
        field.present >= self.objects
    }

    /// Whether both describe the same values. Counts matter only where they say that something was never seen, or always.
    pub(super) fn is_same_type(&self, other: &Self) -> bool {
        let kinds = |one: &Self| {
            let numbers = one.integers > 0 || one.fractions > 0;
            let plain = [one.any, one.nulls > 0, one.booleans > 0, numbers, one.strings > 0];
            (plain, one.arrays > 0, one.objects > 0, one.map, one.common_format())
        };
        let inner = |one: &Option<Box<Self>>, other: &Option<Box<Self>>| match (one, other) {
            (Some(one), Some(other)) => one.is_same_type(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        kinds(self) == kinds(other)
            && inner(&self.items, &other.items)
            && inner(&self.others, &other.others)
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(other.fields.iter()).all(|((key, own), (other_key, its))| {
                key == other_key
                    && self.is_required(own) == other.is_required(its)
                    && own.shape.is_same_type(&its.shape)
            })
    }

    /// The format that all strings have.
    pub(super) fn common_format(&self) -> Option<Format> {
        let (format, count) = self.formats.iter().next()?;
        (self.formats.len() == 1 && *count == self.strings).then_some(*format)
    }

    pub(super) fn keys_at(&self, path: &[&str]) -> Option<Vec<&str>> {
        if self.objects == 0 {
            return self.items.as_ref()?.keys_at(path);
        }
        match path.split_first() {
            None if self.any || self.others.is_some() => None,
            None => Some(self.fields.iter().map(|(key, _)| key).collect()),
            Some((key, rest)) => {
                let field = self.fields.get(key).map(|field| &field.shape).or(self.others.as_deref());
                field?.keys_at(rest)
            }
        }
    }
}
