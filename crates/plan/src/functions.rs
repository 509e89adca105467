//! Functions that a program declares: their bodies, and which names stand for them.
//!
//! Only functions at the top level of the program are found by name. Generators are left out: calling one runs nothing.

use oxc::{ast::ast::*, syntax::symbol::SymbolId};
use std::collections::HashMap;

/// The body of a function.
#[derive(Clone, Copy)]
pub(crate) enum Body<'p, 'a> {
    Statements(&'p [Statement<'a>]),
    /// The value of an arrow function without braces.
    Value(&'p Expression<'a>),
}

/// The functions that the statements of the program declare, by their names.
pub(crate) fn named<'p, 'a>(program: &'p Program<'a>) -> HashMap<SymbolId, Body<'p, 'a>> {
    let mut functions = HashMap::new();
    let mut declare = |id: Option<&BindingIdentifier<'a>>, body: Option<Body<'p, 'a>>| {
        if let (Some(symbol), Some(body)) = (id.and_then(|id| id.symbol_id.get()), body) {
            functions.insert(symbol, body);
        }
    };
    for statement in &program.body {
        match statement {
            Statement::FunctionDeclaration(function) => declare(function.id.as_ref(), body(function)),
            Statement::VariableDeclaration(variables) => {
                for one in &variables.declarations {
                    declare(one.id.get_binding_identifier(), one.init.as_ref().and_then(body_of_expression));
                }
            }
            _ => {}
        }
    }
    functions
}

/// The main function of a module, or the value that it exports by default.
pub(crate) fn exported_main<'p, 'a>(program: &'p Program<'a>) -> Option<Body<'p, 'a>> {
    let default = program.body.iter().find_map(|statement| match statement {
        Statement::ExportDefaultDeclaration(it) => Some(&it.declaration),
        _ => None,
    });
    match default {
        Some(ExportDefaultDeclarationKind::FunctionDeclaration(function)) => body(function),
        Some(other) => {
            let value = other.as_expression()?;
            Some(body_of_expression(value).unwrap_or(Body::Value(value)))
        }
        None => program.body.iter().find_map(declared_main),
    }
}

/// `export async function main() { … }` or `export const main = …`.
fn declared_main<'p, 'a>(statement: &'p Statement<'a>) -> Option<Body<'p, 'a>> {
    let Statement::ExportDeclaration(it) = statement else { return None };
    let is_main = |id: Option<&BindingIdentifier<'a>>| id.is_some_and(|id| id.name == "main");
    match &it.declaration {
        Declaration::FunctionDeclaration(function) if is_main(function.id.as_ref()) => body(function),
        Declaration::VariableDeclaration(variables) => {
            let main = variables.declarations.iter().find(|one| is_main(one.id.get_binding_identifier()))?;
            body_of_expression(main.init.as_ref()?)
        }
        _ => None,
    }
}

/// The body of a function declaration.
pub(crate) fn body<'p, 'a>(function: &'p Function<'a>) -> Option<Body<'p, 'a>> {
    if function.generator {
        return None;
    }
    Some(Body::Statements(&function.body.as_ref()?.statements))
}

/// The body of a function expression or an arrow function.
pub(crate) fn body_of_expression<'p, 'a>(expression: &'p Expression<'a>) -> Option<Body<'p, 'a>> {
    match expression.get_inner_expression() {
        Expression::FunctionExpression(function) => body(function),
        Expression::ArrowFunctionExpression(arrow) => Some(match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => Body::Statements(&body.statements),
            body => Body::Value(body.as_expression()?),
        }),
        _ => None,
    }
}
