//! Identifiers for backend and tool names.
//!
//! The name of an MCP server or tool may be any text: `my-search`, `delete`, `"];evil//`, ten thousand characters.
//! Programs need identifiers. A [`NameTable`] assigns every original name one ASCII identifier and resolves both. The
//! assignment is unambiguous and deterministic: an original name always resolves to itself, and names whose identifiers
//! collide are numbered in the order of the originals, independent of the order of input.
//!
//! Names are data here and never become source text.

use std::collections::{HashMap, HashSet};

use toolgate_plan::words;

/// Maximum length of an identifier before a number is appended; a longer name is truncated and ends in a hash of the whole.
const MAX_IDENTIFIER_LENGTH: usize = 64;

/// The built-in host function that is also a global.
const HOST_FUNCTION: &str = "httpCall";

/// Where an identifier is used, which decides the words it must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// A global variable, such as a backend: neither a reserved word nor a global of the sandbox.
    Global,
    /// A property after a dot, such as a tool: neither a reserved word nor a member that JavaScript calls implicitly.
    Member,
}

impl NameScope {
    /// Whether `word` cannot be used as an identifier in this scope.
    pub fn reserves(self, word: &str) -> bool {
        let taken = words::is_reserved(word) || words::is_object_member(word);
        taken || (self == Self::Global && (words::is_sandbox_global(word) || word == HOST_FUNCTION))
    }
}

/// An original name and its identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name as its owner chose it.
    pub original: String,
    /// The identifier in programs.
    pub identifier: String,
}

/// A set of names with one distinct identifier each.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    names: Vec<Name>,
    positions: HashMap<String, usize>,
}

impl NameTable {
    /// Assigns identifiers to `originals`. Duplicates are ignored.
    pub fn new<S: Into<String>>(originals: impl IntoIterator<Item = S>, scope: NameScope) -> Self {
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

    /// The position in [`names`](Self::names) of an original name or identifier.
    pub fn resolve(&self, spelling: &str) -> Option<usize> {
        self.positions.get(spelling).copied()
    }

    /// As [`resolve`](Self::resolve), for a global variable: a backend called `Math` does not shadow the built-in. One called
    /// `delete` is `globalThis.delete`, since no global has the name of a keyword.
    pub fn resolve_variable(&self, spelling: &str) -> Option<usize> {
        if NameScope::Global.reserves(spelling) && !words::is_keyword(spelling) {
            return None;
        }
        self.resolve(spelling)
    }

    /// All names, sorted by their originals.
    pub fn names(&self) -> &[Name] {
        &self.names
    }
}

/// The identifier of `name` before collisions are resolved.
pub fn sanitise(name: &str, scope: NameScope) -> String {
    let mut identifier: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '$' { c } else { '_' }).collect();
    if identifier.is_empty() || identifier.starts_with(|c: char| c.is_ascii_digit()) {
        identifier.insert(0, '_');
    }
    if identifier.len() > MAX_IDENTIFIER_LENGTH {
        let hash = format!("_{:016x}", fnv1a(name.as_bytes()));
        identifier.truncate(MAX_IDENTIFIER_LENGTH - hash.len());
        identifier.push_str(&hash);
    }
    if scope.reserves(&identifier) {
        identifier.push('_');
    }
    identifier
}

/// Whether `text` is an ASCII identifier. Reserved words are not excluded.
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Distinct identifiers for sorted, distinct originals.
///
/// All originals are taken from the start: otherwise `a-b` could become `a_b` and be shadowed by an original `a_b`.
fn assign(originals: &[String], scope: NameScope) -> Vec<String> {
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

/// FNV-1a: unlike the standard library's hash, stable across builds and machines.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
