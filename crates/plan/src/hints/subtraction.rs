//! Advice about a subtraction that spells a hyphenated tool: `my_notes.list-notes({…})`.
//!
//! A program that is this one call and nothing else is run as it is meant; in any other program the hyphen is a minus.

use crate::{
    hyphen::is_path_char,
    parse::Parsed,
    tools::{Tools, resolve_path},
};
use oxc::{ast::ast::*, span::GetSpan, syntax::operator::BinaryOperator};

/// The names of which one is not defined, the first and the one behind the last minus, and what to write instead.
pub(super) fn about<'e, 'a>(
    it: &'e BinaryExpression<'a>,
    parsed: &Parsed<'a>,
    tools: &dyn Tools,
) -> Option<(Vec<&'e IdentifierReference<'a>>, String)> {
    if it.operator != BinaryOperator::Subtraction {
        return None;
    }
    let (name, end) = called(&it.right)?;
    let first = first(&it.left)?;
    let path = parsed.code.get(first.span.start as usize..end as usize)?;
    if !parsed.is_global(name) || !path.chars().all(is_path_char) {
        return None;
    }
    let (backend, tool) = resolve_path(path, tools).ok()?;
    let receiver = tools.backends().into_iter().find(|one| tools.backend(one).as_ref() == Some(&backend))?;
    let spelt = tools.tools(&backend).into_iter().find(|one| tools.tool(&backend, one).as_ref() == Some(&tool))?;
    let names = [first, name].into_iter().filter(|one| tools.global(one.name.as_str()).is_none()).collect();
    Some((names, format!("`{path}` is a subtraction in JavaScript. Write `{receiver}.{spelt}({{…}})`.")))
}

/// The name that `name(…)`, `name.tool(…)` or a property of its result begins with, and the end of what is called.
fn called<'e, 'a>(expression: &'e Expression<'a>) -> Option<(&'e IdentifierReference<'a>, u32)> {
    let mut at = expression.get_inner_expression();
    let call = loop {
        match at {
            Expression::CallExpression(call) => break call,
            Expression::StaticMemberExpression(it) => at = it.object.get_inner_expression(),
            _ => return None,
        }
    };
    let mut callee = call.callee.get_inner_expression();
    loop {
        match callee {
            Expression::Identifier(name) => return Some((name, call.callee.span().end)),
            Expression::StaticMemberExpression(it) => callee = it.object.get_inner_expression(),
            _ => return None,
        }
    }
}

/// The name that what is subtracted from begins with, without `await`.
fn first<'e, 'a>(expression: &'e Expression<'a>) -> Option<&'e IdentifierReference<'a>> {
    match expression {
        Expression::AwaitExpression(it) => first(&it.argument),
        Expression::BinaryExpression(it) => first(&it.left),
        Expression::StaticMemberExpression(it) => first(&it.object),
        Expression::Identifier(name) => Some(name),
        _ => None,
    }
}
