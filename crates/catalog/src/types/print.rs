//! Prints types as TypeScript: on one line for a search hit, or on several lines with comments for a file.

use super::super::names::is_identifier;
use super::shape::{Field, Notes, Type};
use toolgate_wire::foreign_text::{clipped, is_hazard};

/// How a type is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    /// All on one line; the only comments are defaults.
    Line,
    /// One field per line with documentation, indented by this many levels.
    Block(usize),
}

const INDENT: &str = "  ";
/// Maximum length of a default value in a comment, in characters.
const MAX_DEFAULT: usize = 60;
/// Maximum length of the listed constraints in a comment, in characters.
const MAX_CONSTRAINTS: usize = 240;
/// Maximum length of a description in a comment, in characters.
const MAX_DOC: usize = 2_000;

/// Appends `shape`.
pub(super) fn print(out: &mut String, shape: &Type, layout: Layout) {
    match shape {
        Type::Word(word) => out.push_str(word),
        Type::Literal(text) | Type::Named(text) => out.push_str(text),
        Type::Array(item) => {
            operand(out, item, layout);
            out.push_str("[]");
        }
        Type::Tuple { items, required, rest } => tuple(out, items, *required, rest.as_deref(), layout),
        Type::Object { fields, omitted, index } => object(out, fields, *omitted, index.as_deref(), layout),
        Type::Union(members) => joined(out, members, " | ", layout),
        Type::Intersection(members) => joined(out, members, " & ", layout),
        Type::Recursive { of, .. } => print(out, of, layout),
    }
}

fn joined(out: &mut String, members: &[Type], separator: &str, layout: Layout) {
    for (n, member) in members.iter().enumerate() {
        if n > 0 {
            out.push_str(separator);
        }
        operand(out, member, layout);
    }
}

/// Appends `shape` as an operand: unions and intersections in parentheses.
fn operand(out: &mut String, shape: &Type, layout: Layout) {
    let compound = matches!(shape, Type::Union(_) | Type::Intersection(_));
    if compound {
        out.push('(');
    }
    print(out, shape, layout);
    if compound {
        out.push(')');
    }
}

fn tuple(out: &mut String, items: &[Type], required: usize, rest: Option<&Type>, layout: Layout) {
    out.push('[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        operand(out, item, layout);
        if n >= required {
            out.push('?');
        }
    }
    if let Some(rest) = rest {
        out.push_str(if items.is_empty() { "..." } else { ", ..." });
        operand(out, rest, layout);
        out.push_str("[]");
    }
    out.push(']');
}

fn object(out: &mut String, fields: &[Field], omitted: usize, index: Option<&Type>, layout: Layout) {
    if fields.is_empty() && index.is_none() {
        out.push_str("{}");
        return;
    }
    out.push('{');
    let inner = match layout {
        Layout::Line => Layout::Line,
        Layout::Block(level) => Layout::Block(level + 1),
    };
    for field in fields {
        begin(out, inner);
        if let Layout::Block(level) = inner {
            doc(out, &doc_lines(&field.notes), level);
        }
        key(out, &field.name);
        out.push_str(if field.optional { "?: " } else { ": " });
        print(out, &field.shape, inner);
        if let (Layout::Line, Some(default)) = (inner, &field.notes.default) {
            out.push_str(&format!(" /* default {} */", comment(&cut(default, MAX_DEFAULT))));
        }
        out.push(';');
    }
    if let Some(index) = index {
        begin(out, inner);
        out.push_str("[key: string]: ");
        print(out, index, inner);
        out.push(';');
    }
    if omitted > 0 {
        begin(out, inner);
        out.push_str(&format!("/* and {omitted} more */"));
    }
    match layout {
        Layout::Line => {
            if out.ends_with(';') {
                out.pop();
            }
            out.push_str(" }");
        }
        Layout::Block(level) => {
            line(out, level);
            out.push('}');
        }
    }
}

/// Starts a member of an object type.
fn begin(out: &mut String, layout: Layout) {
    match layout {
        Layout::Line => out.push(' '),
        Layout::Block(level) => line(out, level),
    }
}

/// Starts an indented line.
pub(super) fn line(out: &mut String, level: usize) {
    out.push('\n');
    out.push_str(&INDENT.repeat(level));
}

/// Appends a documentation comment and starts the line of the item that it documents.
pub(super) fn doc(out: &mut String, lines: &[String], level: usize) {
    match lines {
        [] => return,
        [one] => out.push_str(&format!("/** {one} */")),
        several => {
            out.push_str("/**");
            for text in several {
                line(out, level);
                out.push_str(format!(" * {text}").trim_end());
            }
            line(out, level);
            out.push_str(" */");
        }
    }
    line(out, level);
}

/// The lines of a value's documentation comment, escaped.
pub(super) fn doc_lines(notes: &Notes) -> Vec<String> {
    let mut lines: Vec<String> = notes.description.iter().flat_map(|text| text_lines(text)).collect();
    if !notes.constraints.is_empty() {
        lines.push(comment(&cut(&notes.constraints.join(", "), MAX_CONSTRAINTS)));
    }
    if let Some(default) = &notes.default {
        lines.push(format!("@default {}", comment(&cut(default, MAX_DEFAULT))));
    }
    lines
}

/// The lines of a description, truncated and escaped for a comment.
pub(super) fn text_lines(text: &str) -> Vec<String> {
    cut(text.trim(), MAX_DOC).lines().map(|line| comment(line.trim_end())).collect()
}

/// Escapes text for a comment: it can neither end the comment nor contain control characters.
fn comment(text: &str) -> String {
    let visible: String = text.chars().map(|c| if is_hazard(c) { ' ' } else { c }).collect();
    visible.replace("*/", "*\\/")
}

/// The first `max` characters of `text`, followed by `…` if it was longer.
pub(super) fn cut(text: &str, max: usize) -> String {
    clipped(text, max).into_owned()
}

/// A property name, quoted unless it is an identifier.
pub(super) fn key(out: &mut String, name: &str) {
    if is_identifier(name) {
        out.push_str(name);
    } else {
        out.push_str(&serde_json::Value::from(name).to_string());
    }
}
