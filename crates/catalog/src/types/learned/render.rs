//! A learned type as TypeScript.

use super::super::super::backend::ToolRef;
use super::super::declares_result;
use super::super::print::{Layout, print};
use super::super::shape::{Field as TypeField, Notes, Type, UNKNOWN};
use super::super::signature::{self, MAX_SIGNATURE};
use super::fields::Field;
use super::shape::{Format, Shape};
use super::{LearnedType, LearnedTypes, MAX_DEPTH};

/// How much of a type is printed.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// What is deeper is `unknown`.
    depth: usize,
    /// Fields of one object, those that most objects have first.
    fields: usize,
}

/// How much is printed on one line, most first; the first that fits is used. All keys are worth more than the types of
/// what lies deep below them.
const DETAILS: [Detail; 14] = [
    Detail { depth: 8, fields: usize::MAX },
    Detail { depth: 5, fields: usize::MAX },
    Detail { depth: 3, fields: usize::MAX },
    Detail { depth: 2, fields: usize::MAX },
    Detail { depth: 5, fields: 32 },
    Detail { depth: 5, fields: 16 },
    Detail { depth: 3, fields: 16 },
    Detail { depth: 5, fields: 8 },
    Detail { depth: 3, fields: 8 },
    Detail { depth: 3, fields: 4 },
    Detail { depth: 2, fields: 4 },
    Detail { depth: 3, fields: 2 },
    Detail { depth: 2, fields: 2 },
    Detail { depth: 1, fields: 2 },
];

impl LearnedType {
    /// The type on one line: `{ id: number; title?: string }[]`.
    pub fn typescript(&self) -> String {
        self.typescript_within(MAX_SIGNATURE).unwrap_or_else(|| "any".to_owned())
    }

    /// The type on one line of at most `max` bytes, with fewer fields and levels if need be.
    pub fn typescript_within(&self, max: usize) -> Option<String> {
        DETAILS.iter().map(|&detail| self.printed(detail)).find(|text| text.len() <= max)
    }

    /// The type on one line with everything that is known of it, for a file.
    pub(in super::super) fn whole_typescript(&self) -> String {
        self.printed(Detail { depth: MAX_DEPTH + 1, fields: usize::MAX })
    }

    /// What is said beside the type: `// learned from 37 results`.
    pub fn remark(&self) -> String {
        let plural = if self.results == 1 { "" } else { "s" };
        format!("// learned from {} result{plural}", self.results)
    }

    /// The type down to `depth` levels.
    pub(in super::super) fn shape_for_check(&self, depth: usize) -> Type {
        type_of(&self.shape, Detail { depth, fields: usize::MAX })
    }

    fn printed(&self, detail: Detail) -> String {
        let mut text = String::new();
        print(&mut text, &type_of(&self.shape, detail), Layout::Line);
        text
    }
}

/// The signature of a tool with its learned result: `list(args?: {}): Promise<Item[]> // learned from 37 results`.
///
/// A tool that declares its result, or of which nothing was learned, has its declared signature.
pub fn learned_signature(tool: ToolRef<'_>, learned: &LearnedType) -> String {
    let declared = signature::signature(tool);
    // A result that says nothing is `any` or an object without keys, which quote no text of the server.
    match declared.rsplit_once("): Promise<") {
        Some((call, _)) if !declares_result(tool.tool()) && learned.results > 0 => {
            format!("{call}): Promise<{}> {}", learned.typescript(), learned.remark())
        }
        _ => declared,
    }
}

/// The signature of a tool with what is known of its results.
pub fn known_signature(tool: ToolRef<'_>, learned: &LearnedTypes) -> String {
    match learned.get(tool.backend.name(), &tool.tool().name) {
        Some(learned) => learned_signature(tool, learned),
        None => signature::signature(tool),
    }
}

/// The type of a place.
fn type_of(shape: &Shape, detail: Detail) -> Type {
    if shape.any {
        return Type::Word("any");
    }
    let Some(depth) = detail.depth.checked_sub(1) else { return UNKNOWN };
    let below = Detail { depth, ..detail };
    let mut members: Vec<Type> = string(shape).into_iter().collect();
    for (count, word) in [(shape.integers.saturating_add(shape.fractions), "number"), (shape.booleans, "boolean")] {
        if count > 0 {
            members.push(Type::Word(word));
        }
    }
    if shape.arrays > 0 {
        let items = shape.items.as_deref().map_or(UNKNOWN, |items| type_of(items, below));
        members.push(Type::Array(Box::new(items)));
    }
    if shape.objects > 0 {
        members.push(object(shape, below));
    }
    if shape.nulls > 0 {
        members.push(Type::Word("null"));
    }
    match (members.pop(), members.is_empty()) {
        (None, _) => UNKNOWN,
        (Some(one), true) => one,
        (Some(last), false) => {
            members.push(last);
            Type::Union(members)
        }
    }
}

/// The type of objects; `below` is for the values of their fields.
fn object(shape: &Shape, below: Detail) -> Type {
    let mut fields: Vec<(&str, &Field)> = shape.fields.iter().collect();
    // Keys that every object has come first: they are what a reader looks for.
    fields.sort_by_key(|(_, field)| std::cmp::Reverse(field.present));
    let omitted = fields.len().saturating_sub(below.fields);
    let fields = fields.into_iter().take(below.fields).map(|(name, field)| TypeField {
        name: name.to_owned(),
        optional: !shape.is_required(field),
        shape: type_of(&field.shape, below),
        notes: Notes::default(),
    });
    let fields: Vec<TypeField> = fields.collect();
    // An index signature must fit the named fields too, so beside them it is `unknown`.
    let others = shape.others.as_deref();
    let index = others.map(|others| if fields.is_empty() { type_of(others, below) } else { UNKNOWN });
    Type::Object { fields, omitted, index: index.map(Box::new) }
}

/// The type of strings, with the format that all of them have: `string /* date-time */`.
fn string(shape: &Shape) -> Option<Type> {
    if shape.strings == 0 {
        return None;
    }
    let Some(format) = shape.common_format() else { return Some(Type::Word("string")) };
    let name = match format {
        Format::Date => "date",
        Format::DateTime => "date-time",
        Format::Email => "email",
        Format::Uri => "uri",
        Format::Uuid => "uuid",
    };
    Some(Type::Named(format!("string /* {name} */")))
}
