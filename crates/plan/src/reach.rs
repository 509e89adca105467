//! Finds the tool that a call in the program invokes.
//!
//! Only spellings that need no evaluation count: `b.t`, `globalThis.b.t`, `globalThis["b"].t`, `tools.b.t`,
//! `__backends["b"]["t"]`. A name that the program declares itself is never a backend, in the scope where it is declared.

use crate::{literal, parse::Parsed, tools::Tools, words};
use oxc::{
    ast::ast::*,
    span::{GetSpan, Span},
};

/// A call on a backend, or on a name that is not defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) target: Target,
    /// The backend as the program writes it.
    pub(crate) receiver: String,
    /// The tool as the program writes it.
    pub(crate) name: String,
    /// The position of that name.
    pub(crate) name_span: Span,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Tool { backend: String, tool: String },
    NoSuchTool { backend: String },
    NoSuchBackend,
}

/// The backend and tool of `callee`, if it is a property of a backend.
pub(crate) fn callee(parsed: &Parsed<'_>, callee: &Expression<'_>, tools: &dyn Tools) -> Option<Reached> {
    let (object, name, name_span) = member(callee)?;
    let (receiver, backend) = backend(parsed, object, tools)?;
    let target = match backend {
        None => Target::NoSuchBackend,
        // A tool of such a name is a property by its identifier alone.
        Some(backend) => match tools.tool(&backend, name).filter(|_| !words::is_called_implicitly(name)) {
            Some(tool) => Target::Tool { backend, tool },
            None => Target::NoSuchTool { backend },
        },
    };
    Some(Reached { target, receiver, name: name.to_owned(), name_span })
}

/// The object, the property and its offset, of `object.property` or `object["property"]`.
pub(crate) fn member<'e, 'a>(expression: &'e Expression<'a>) -> Option<(&'e Expression<'a>, &'e str, Span)> {
    match expression.get_inner_expression() {
        Expression::StaticMemberExpression(it) if !it.optional => {
            Some((&it.object, it.property.name.as_str(), it.property.span))
        }
        Expression::ComputedMemberExpression(it) if !it.optional => {
            Some((&it.object, literal::text(&it.expression)?, it.expression.span()))
        }
        _ => None,
    }
}

/// The name and, if it exists, the backend that an expression refers to; `None` for every other expression.
pub(crate) fn backend(
    parsed: &Parsed<'_>,
    expression: &Expression<'_>,
    tools: &dyn Tools,
) -> Option<(String, Option<String>)> {
    if let Expression::Identifier(id) = expression.get_inner_expression() {
        let backend = global_backend(id.name.as_str(), tools).filter(|_| parsed.is_global(id))?;
        return Some((id.name.to_string(), Some(backend)));
    }
    let (object, name, _) = member(expression)?;
    let Expression::Identifier(root) = object.get_inner_expression() else { return None };
    if !parsed.is_global(root) {
        return None;
    }
    match root.name.as_str() {
        "globalThis" => Some((name.to_owned(), Some(global_backend(name, tools)?))),
        "tools" | "__backends" => Some((name.to_owned(), tools.backend(name))),
        _ => None,
    }
}

/// A backend that is a global variable of this name.
pub(crate) fn global_backend(name: &str, tools: &dyn Tools) -> Option<String> {
    if is_built_in(name) { None } else { tools.global(name) }
}

/// Whether JavaScript defines this property on every object, so that a call of it may not be a tool call.
pub(crate) fn is_peculiar(name: &str) -> bool {
    matches!(
        name,
        "then"
            | "constructor"
            | "toString"
            | "toLocaleString"
            | "valueOf"
            | "toJSON"
            | "hasOwnProperty"
            | "isPrototypeOf"
            | "propertyIsEnumerable"
            | "prototype"
            | "call"
            | "apply"
            | "bind"
    ) || name.starts_with("__")
}

/// Whether a global belongs to the language or the sandbox, whatever the names of the backends.
pub(crate) fn is_built_in(name: &str) -> bool {
    words::is_sandbox_global(name) || words::is_reserved(name)
}
