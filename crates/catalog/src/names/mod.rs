//! How backends and tools are spelt in the sandbox.
//!
//! A name that an MCP server chose may be anything: `my-search`, `delete`,
//! `"];evil//`, ten thousand characters. Code needs identifiers. A [`NameTable`]
//! gives every original name one ASCII identifier and resolves both spellings.
//! Two names never share a spelling: an exact original always wins, and what
//! collides after sanitising is numbered in the order of the originals, so the
//! same set of names gives the same table whatever order it arrives in.
//!
//! It knows nothing of tools; names are data here and never become source text.

use std::collections::{HashMap, HashSet};

use toolgate_plan::words;

/// Longest identifier before a number is added; longer names are cut and end in a hash of the whole.
pub const MAX_IDENTIFIER: usize = 64;

/// The host function that stands beside `api`.
const HOST_FUNCTION: &str = "httpCall";

/// Where an identifier has to be usable, which decides the words it must avoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A variable of its own, as a backend is: no reserved word, no global of the sandbox.
    Global,
    /// A property after a dot, as a tool is: no reserved word, nothing that JavaScript calls behind the scenes.
    Member,
}

impl Scope {
    /// Whether `word` already means something else there.
    pub fn reserves(self, word: &str) -> bool {
        let taken = words::is_reserved(word) || words::is_object_member(word);
        taken || (self == Self::Global && (words::is_sandbox_global(word) || word == HOST_FUNCTION))
    }
}

/// One name in both spellings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// As its owner wrote it.
    pub original: String,
    /// As code writes it after a dot or as a variable.
    pub identifier: String,
}

/// A set of names with one distinct identifier each.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    names: Vec<Name>,
    positions: HashMap<String, usize>,
}

impl NameTable {
    /// Gives identifiers to `originals`; a name that comes twice is one name.
    pub fn new<S: Into<String>>(originals: impl IntoIterator<Item = S>, scope: Scope) -> Self {
        let mut originals: Vec<String> = originals.into_iter().map(Into::into).collect();
        originals.sort_unstable();
        originals.dedup();
        let identifiers = assign(&originals, scope);
        let names: Vec<Name> = originals
            .into_iter()
            .zip(identifiers)
            .map(|(original, identifier)| Name { original, identifier })
            .collect();
        let mut positions = HashMap::with_capacity(names.len() * 2);
        for (position, name) in names.iter().enumerate() {
            positions.insert(name.identifier.clone(), position);
            positions.insert(name.original.clone(), position);
        }
        Self { names, positions }
    }

    /// The position, in [`names`](Self::names), of what `spelling` means.
    pub fn resolve(&self, spelling: &str) -> Option<usize> {
        self.positions.get(spelling).copied()
    }

    /// As [`resolve`](Self::resolve), for an original spelling alone.
    pub fn resolve_original(&self, original: &str) -> Option<usize> {
        self.resolve(original)
            .filter(|&position| self.names.get(position).is_some_and(|name| name.original == original))
    }

    /// As [`resolve`](Self::resolve), for a variable: a backend called `Math` never hides the built-in.
    pub fn resolve_variable(&self, spelling: &str) -> Option<usize> {
        if Scope::Global.reserves(spelling) {
            return None;
        }
        self.resolve(spelling)
    }

    /// All names, sorted by their originals.
    pub fn names(&self) -> &[Name] {
        &self.names
    }
}

/// The identifier that `name` gets where nothing else wants the same one.
pub fn sanitise(name: &str, scope: Scope) -> String {
    let mut identifier: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '$' { c } else { '_' }).collect();
    if identifier.is_empty() || identifier.starts_with(|c: char| c.is_ascii_digit()) {
        identifier.insert(0, '_');
    }
    if identifier.len() > MAX_IDENTIFIER {
        let hash = format!("_{:016x}", fnv1a(name.as_bytes()));
        identifier.truncate(MAX_IDENTIFIER - hash.len());
        identifier.push_str(&hash);
    }
    if scope.reserves(&identifier) {
        identifier.push('_');
    }
    identifier
}

/// Whether `text` is a plain ASCII identifier; says nothing about reserved words.
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Distinct identifiers for sorted, distinct originals.
///
/// Every original counts as taken from the start: otherwise `a-b` could become `a_b` and be shadowed by a real `a_b`.
fn assign(originals: &[String], scope: Scope) -> Vec<String> {
    let mut taken: HashSet<String> = originals.iter().cloned().collect();
    let mut next_number: HashMap<String, usize> = HashMap::new();
    originals
        .iter()
        .map(|original| {
            let base = sanitise(original, scope);
            if base == *original || taken.insert(base.clone()) {
                return base;
            }
            let number = next_number.entry(base.clone()).or_insert(2);
            loop {
                let candidate = format!("{base}_{number}");
                *number += 1;
                if taken.insert(candidate.clone()) {
                    return candidate;
                }
            }
        })
        .collect()
}

/// A hash that stays the same across builds and machines, unlike the standard library's.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
