//! What the members of a union or an intersection have in common.
//!
//! A union is declared only where all members are of one kind: a method that one kind has and another has not is no mistake
//! of a program that knows which it gets.

use super::super::shape::{Field, Type};

/// What methods a value has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    Number,
    Boolean,
    List,
    Object,
}

/// The kind of all values of a type, if they have one.
pub(super) fn kind_of(shape: &Type) -> Option<ValueKind> {
    match shape {
        Type::Word("string") => Some(ValueKind::Text),
        Type::Word("number") => Some(ValueKind::Number),
        Type::Word("boolean") => Some(ValueKind::Boolean),
        Type::Literal(text) if text.starts_with('"') => Some(ValueKind::Text),
        Type::Literal(text) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => Some(ValueKind::Number),
        Type::Literal(_) => Some(ValueKind::Boolean),
        Type::Array(_) => Some(ValueKind::List),
        // A reference is declared only inside of an object that contains itself, an intersection only of objects.
        Type::Object { .. } | Type::Named(_) | Type::Intersection(_) => Some(ValueKind::Object),
        Type::Recursive { of, .. } => kind_of(of),
        Type::Word(_) | Type::Tuple { .. } | Type::Union(_) => None,
    }
}

/// The one kind that all members have, `null` aside: `"open" | "closed"` are texts.
pub(super) fn common_word(members: &[Type]) -> Option<&'static str> {
    let mut words = members.iter().filter(|member| **member != Type::Word("null")).map(|member| match member {
        Type::Word(word @ ("string" | "number" | "boolean")) => Some(*word),
        Type::Literal(text) if text.starts_with('"') => Some("string"),
        _ => None,
    });
    let first = words.next()??;
    words.all(|word| word == Some(first)).then_some(first)
}

/// The fields of all members, if all are objects, and whether there may be others.
pub(super) fn merged(members: &[Type]) -> Option<(Vec<Field>, bool)> {
    let mut fields: Vec<Field> = Vec::new();
    let mut is_open = false;
    for member in members {
        let Type::Object { fields: own, omitted, index } = member else { return None };
        is_open |= *omitted > 0 || index.is_some() || own.is_empty();
        for field in own {
            if fields.iter().any(|known| known.name == field.name) {
                return None;
            }
            fields.push(field.clone());
        }
    }
    (!fields.is_empty()).then_some((fields, is_open))
}
