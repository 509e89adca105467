//! What an expression is, by its syntax alone.

use oxc::ast::ast::*;

/// The keys of an object literal, if all of them are written there.
pub(super) fn written_keys(it: &ObjectExpression<'_>) -> Option<Vec<String>> {
    let key = |one: &ObjectPropertyKind<'_>| match one {
        ObjectPropertyKind::ObjectProperty(it) if !it.computed && it.kind == PropertyKind::Init => {
            it.key.static_name().map(|name| name.into_owned())
        }
        ObjectPropertyKind::ObjectProperty(_) | ObjectPropertyKind::SpreadProperty(_) => None,
    };
    it.properties.iter().map(key).collect()
}

/// The parameters of a function that is written as an argument.
pub(super) fn parameters_of<'p, 'a>(argument: &'p Argument<'a>) -> Option<&'p FormalParameters<'a>> {
    match argument.as_expression()?.get_inner_expression() {
        Expression::ArrowFunctionExpression(it) => Some(&it.params),
        Expression::FunctionExpression(it) => Some(&it.params),
        _ => None,
    }
}

pub(super) fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.get_inner_expression(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

/// Whether a call is one of a method of these names.
pub(super) fn is_method(it: &CallExpression<'_>, names: &[&str]) -> bool {
    match it.callee.get_inner_expression() {
        Expression::StaticMemberExpression(it) => names.contains(&it.property.name.as_str()),
        _ => false,
    }
}

pub(super) fn is_nullish(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::NullLiteral(_) => true,
        Expression::Identifier(id) => id.name == "undefined",
        Expression::UnaryExpression(it) => it.operator == UnaryOperator::Void,
        _ => false,
    }
}

pub(super) fn is_empty(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::ArrayExpression(it) => it.elements.is_empty(),
        Expression::ObjectExpression(_) => true,
        Expression::NewExpression(it) => it.arguments.is_empty(),
        _ => false,
    }
}
