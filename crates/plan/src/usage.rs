//! How a compiled program uses names and properties: what a type checker's findings are judged by.
//!
//! A checker infers types from declarations, and JavaScript does not keep to them: variables take values of other types,
//! objects get new properties, a missing property is a question as often as a mistake. Whatever a program does of that kind
//! is found here, so that only the rest is certain. Every doubt is a doubt. No types, no tools, no I/O.
//!
//! The text for the checker is the program without its comments, which could be directives, references or types. A variable
//! that is assigned later is given the type `any`, and so is a literal or a property that gets values of other types.

mod branches;
mod claims;
mod flow;
mod guards;
mod properties;
mod reader;
mod sources;
mod syntax;
#[cfg(test)]
mod tests;
mod text;

pub use self::claims::TypeClaims;

use self::branches::Branches;
use self::flow::Flow;
use crate::parse::with_parsed;
use oxc::span::Span;
use std::collections::{HashMap, HashSet};

/// How a property is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PropertyAccess {
    /// Its value is used.
    Read,
    /// Its value is only compared with others.
    Compared,
    /// The program asks whether it is there.
    Probed,
    /// It is assigned or removed.
    Written,
}

/// What a program does with names and properties. Offsets are bytes of [`Program::js`](crate::Program::js).
#[derive(Debug, Clone, Default)]
pub struct ProgramUsage {
    /// The text for a type checker.
    pub text: String,
    /// Whether types that are inferred for this program are those that its values have.
    pub is_trusted: bool,
    /// Whether the program handles rejected promises by itself.
    pub handles_rejections: bool,
    /// Offsets in the program at which text was inserted, and how much.
    insertions: Vec<(u32, u32)>,
    accesses: HashMap<u32, (String, PropertyAccess)>,
    /// What the properties are of: hashes of the text before their names.
    objects: HashMap<u32, u64>,
    probed: HashSet<String>,
    /// Those of them that are probed where they are read.
    probed_directly: HashSet<String>,
    written: HashSet<String>,
    guarded: Vec<Span>,
    flow: Flow,
    branches: Branches,
    global_calls: Vec<GlobalCall>,
    /// All other calls.
    other_calls: Vec<Span>,
    /// Object literals that name all of their keys, with these.
    literals: HashMap<u32, Vec<String>>,
    /// The keys of object literals, by where they are.
    literal_keys: HashMap<u32, LiteralKey>,
    /// Properties whose value is called, or has a property read.
    dereferenced: HashSet<u32>,
    /// Identifiers and text literals.
    mentioned: HashSet<String>,
}

/// A key of an object literal.
#[derive(Debug, Clone, Copy)]
struct LiteralKey {
    /// Where the literal begins.
    literal: u32,
    /// Whether JSON of the object has the key: its value is not `undefined`.
    is_in_json: bool,
}

/// A call of a global, or of a property of one.
#[derive(Debug, Clone)]
struct GlobalCall {
    span: Span,
    /// As it is written.
    callee: String,
    /// Where each argument begins.
    arguments: Vec<u32>,
}

impl ProgramUsage {
    /// Reads a compiled program. `None` if it cannot be parsed again.
    pub fn of(js: &str) -> Option<Self> {
        with_parsed(js, |parsed| Ok(reader::read(&parsed))).ok()
    }

    /// The offset in the program of an offset in [`text`](Self::text).
    pub fn offset(&self, in_text: usize) -> usize {
        let mut shift = 0;
        for &(at, length) in &self.insertions {
            if (at as usize) + shift >= in_text {
                break;
            }
            shift += length as usize;
        }
        in_text.saturating_sub(shift)
    }

    /// The property whose name is at an offset, and how it is accessed. A name that is probed or written anywhere counts
    /// as such everywhere.
    pub fn access_at(&self, offset: usize) -> Option<(&str, PropertyAccess)> {
        let (name, access) = self.accesses.get(&u32::try_from(offset).ok()?)?;
        let access = if self.written.contains(name) {
            PropertyAccess::Written
        } else if self.probed.contains(name) {
            PropertyAccess::Probed
        } else {
            *access
        };
        Some((name, access))
    }

    /// Whether the value of the property whose name is at an offset is called, or a property of it is read: if it is not
    /// there, that fails.
    pub fn is_dereferenced(&self, offset: usize) -> bool {
        u32::try_from(offset).is_ok_and(|offset| self.dereferenced.contains(&offset))
    }

    /// Whether the program asks for a property of this name where it reads it, and not by a variable.
    pub fn probes(&self, name: &str) -> bool {
        self.probed_directly.contains(name)
    }

    /// Whether the program compares a property of this name, or asks whether it is there, of the object whose property is
    /// at an offset: it knows of both.
    pub fn asks_beside(&self, offset: usize, name: &str) -> bool {
        let object_at = |at: &u32| self.objects.get(at);
        let object = u32::try_from(offset).ok().and_then(|at| self.objects.get(&at));
        self.accesses.iter().any(|(at, (other, access))| {
            let is_asked = other == name && (*access > PropertyAccess::Read || self.probed.contains(other));
            is_asked && object_at(at).zip(object).is_none_or(|(one, other)| one == other)
        })
    }

    /// Whether the value of the property whose name is at an offset goes into variables that are used in these parts only.
    pub fn is_used_in(&self, offset: usize, parts: &DependentParts) -> bool {
        let property = u32::try_from(offset).into_iter().collect();
        let variables = self.flow.variables_of(&property);
        !variables.is_empty() && self.branches.are_named_in(&variables, |at| parts.contain(at as usize))
    }

    /// The parts of the program that run depending on the values of the properties whose names are at these offsets.
    pub fn depending_on(&self, properties: impl IntoIterator<Item = usize>) -> DependentParts {
        let properties = properties.into_iter().filter_map(|at| u32::try_from(at).ok()).collect();
        let variables = self.flow.variables_of(&properties);
        DependentParts(self.branches.depending_on(&properties, &variables))
    }

    /// Whether the variable that is named at an offset is in a test which decides whether that is reached.
    pub fn is_tested(&self, offset: usize) -> bool {
        u32::try_from(offset).is_ok_and(|offset| self.branches.is_tested(offset))
    }

    /// Whether any property of this name is assigned.
    pub fn writes(&self, name: &str) -> bool {
        self.written.contains(name)
    }

    /// Whether the program has this name, or a text that says just this.
    pub fn mentions(&self, name: &str) -> bool {
        self.mentioned.contains(name)
    }

    /// The names of properties that are assigned.
    pub fn written_names(&self) -> impl Iterator<Item = &str> {
        self.written.iter().map(String::as_str)
    }

    /// Whether an error at an offset may be caught by the program.
    pub fn is_guarded(&self, offset: usize) -> bool {
        self.guarded.iter().any(|span| contains(*span, offset))
    }

    /// The callee of the innermost call around an offset, as it is written (`tracker.get_issue`), if that is one on a
    /// global. What is said inside of another call is about that one's arguments.
    pub fn global_call_at(&self, offset: usize) -> Option<&str> {
        self.innermost_call(offset).map(|call| call.callee.as_str())
    }

    /// The number of arguments of that call.
    pub fn arguments_at(&self, offset: usize) -> Option<usize> {
        self.innermost_call(offset).map(|call| call.arguments.len())
    }

    /// Whether an argument of that call begins at the offset.
    pub fn is_argument_at(&self, offset: usize) -> bool {
        self.innermost_call(offset).is_some_and(|call| call.arguments.iter().any(|at| *at as usize == offset))
    }

    fn innermost_call(&self, offset: usize) -> Option<&GlobalCall> {
        let around = self.global_calls.iter().filter(|call| contains(call.span, offset));
        let innermost = around.min_by_key(|call| call.span.size())?;
        let is_inside = |other: &Span| contains(*other, offset) && other.size() < innermost.span.size();
        (!self.other_calls.iter().any(is_inside)).then_some(innermost)
    }

    /// The keys of the object literal that starts at an offset, or whose own key does, if all of them are written there.
    pub fn literal_keys(&self, offset: usize) -> Option<&[String]> {
        self.literals.get(&u32::try_from(offset).ok()?).map(Vec::as_slice)
    }

    /// The keys of the object literal in which a key is at an offset, if all of them are written there.
    pub fn keys_beside(&self, offset: usize) -> Option<&[String]> {
        let key = self.literal_keys.get(&u32::try_from(offset).ok()?)?;
        self.literal_keys(key.literal as usize)
    }

    /// Whether the value of the key at an offset of an object literal is certainly in the JSON of the object.
    pub fn is_in_json(&self, offset: usize) -> bool {
        u32::try_from(offset).ok().and_then(|at| self.literal_keys.get(&at)).is_some_and(|key| key.is_in_json)
    }
}

/// Parts of a program that run depending on what is tested.
#[derive(Debug, Clone, Default)]
pub struct DependentParts(Vec<Span>);

impl DependentParts {
    /// Whether an offset is in one of them.
    pub fn contain(&self, offset: usize) -> bool {
        self.0.iter().any(|span| contains(*span, offset))
    }
}

fn contains(span: Span, offset: usize) -> bool {
    (span.start as usize..span.end as usize).contains(&offset)
}
