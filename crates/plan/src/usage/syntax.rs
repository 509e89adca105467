//! What an expression is, by its syntax alone.

use oxc::{
    ast::ast::*,
    semantic::{IsGlobalReference, Scoping},
};

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
    argument.as_expression().and_then(function_parameters)
}

/// The parameters of a function that is an expression.
pub(super) fn function_parameters<'p, 'a>(expression: &'p Expression<'a>) -> Option<&'p FormalParameters<'a>> {
    match expression.get_inner_expression() {
        Expression::ArrowFunctionExpression(it) => Some(&it.params),
        Expression::FunctionExpression(it) => Some(&it.params),
        _ => None,
    }
}

/// A class of errors by its name: `Error`, `TypeError`.
pub(super) fn is_error(expression: &Expression<'_>) -> bool {
    matches!(expression.get_inner_expression(), Expression::Identifier(id) if id.name.ends_with("Error"))
}

/// A number that is written there.
pub(super) fn is_number(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::NumericLiteral(_) => true,
        Expression::UnaryExpression(it) => it.operator == UnaryOperator::UnaryNegation && is_number(&it.argument),
        _ => false,
    }
}

/// The object and the name of the method that is called: `rows.push(x)` and `rows['push'](x)`.
pub(super) fn called_member<'p, 'a>(it: &'p CallExpression<'a>) -> Option<(&'p Expression<'a>, &'a str)> {
    let member = it.callee.get_inner_expression().as_member_expression()?;
    Some((member.object(), member.static_property_name()?))
}

/// Whether a method of this name may store values in its object.
pub(super) fn is_storing(method: &str) -> bool {
    matches!(method, "push" | "unshift" | "splice" | "fill" | "set" | "add")
}

/// Whether a function of this name gives an object other properties.
pub(super) fn is_redefining(function: &str) -> bool {
    matches!(function, "assign" | "defineProperty" | "defineProperties" | "setPrototypeOf")
}

/// Whether an expression is certainly not `undefined` and no function, so that it is in the JSON of its object.
pub(super) fn is_in_json(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::TemplateLiteral(_) | Expression::ArrayExpression(_) | Expression::BinaryExpression(_) => true,
        Expression::ObjectExpression(it) => {
            written_keys(it).is_some_and(|keys| !keys.iter().any(|key| key == "toJSON"))
        }
        it => it.is_literal(),
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

/// Whether an expression is a property of the variable that is tested.
pub(super) fn is_of_tested(test: &Expression<'_>, expression: &Expression<'_>) -> bool {
    match (test.get_inner_expression(), expression.get_inner_expression()) {
        (Expression::Identifier(tested), Expression::StaticMemberExpression(it)) => {
            matches!(it.object.get_inner_expression(), Expression::Identifier(object) if object.name == tested.name)
        }
        _ => false,
    }
}

/// `[]`, `{}`, or `new Name()` of a class that the program does not declare: what is put into it later decides its type.
pub(super) fn is_empty(expression: &Expression<'_>, scoping: &Scoping) -> bool {
    match expression.get_inner_expression() {
        Expression::ArrayExpression(it) => it.elements.is_empty(),
        Expression::ObjectExpression(it) => it.properties.is_empty(),
        Expression::NewExpression(it) => {
            let callee = it.callee.get_inner_expression();
            let is_global = |id: &IdentifierReference<'_>| id.is_global_reference(scoping);
            it.arguments.is_empty() && matches!(callee, Expression::Identifier(id) if is_global(id))
        }
        _ => false,
    }
}
