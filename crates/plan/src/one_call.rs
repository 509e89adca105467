//! Recognises a program that is one tool call with literal arguments, in the forms in which models write it.

use crate::{
    compile::is_nothing,
    integers::is_rounded_literal,
    literal::{Arguments, arguments},
    parse::Parsed,
    reach::{self, Target, is_peculiar},
    tools::{Call, Foreseen, Tools},
    words,
};
use oxc::{ast::ast::*, ast_visit::Visit};

/// The call, if the program is one call and making it directly certainly gives the same result.
pub(crate) fn read(parsed: &Parsed<'_>, tools: &dyn Tools) -> Option<Call> {
    let call = only_call(parsed)?;
    let reached = reach::callee(parsed, &call.callee, tools)?;
    let Target::Tool { backend, tool } = reached.target else { return None };
    // A tool whose own name is called implicitly is named by its identifier in the calls of a report.
    if is_peculiar(&reached.name) || is_peculiar(&reached.receiver) || words::is_called_implicitly(&tool) {
        return None;
    }
    let Arguments::Known(arguments) = arguments(call) else { return None };
    // The preflight warns about an integer that loses digits, and a fast path has no preflight.
    if has_rounded_number(call) {
        return None;
    }
    // Arguments that do not fit the schema are reported by the preflight, as for every other program.
    let fits = arguments.is_object()
        && tools.check_arguments(&backend, &tool, &arguments).is_empty()
        && tools.foresee(&backend, &tool, Some(&arguments)) == Foreseen::Free;
    fits.then_some(Call { backend, tool, arguments })
}

/// The call whose value is the program's result, if the program does nothing else.
pub(crate) fn only_call<'p, 'a>(parsed: &'p Parsed<'a>) -> Option<&'p CallExpression<'a>> {
    let mut statements = parsed.program.body.iter().filter(|statement| !is_nothing(statement));
    match (statements.next()?, statements.next(), statements.next()) {
        (only, None, None) => of_program(only),
        (first, Some(second), None) => of_pair(first, second, Place::Program),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The last expression is the result.
    Program,
    /// Only `return` gives a result.
    Function,
}

fn of_program<'p, 'a>(statement: &'p Statement<'a>) -> Option<&'p CallExpression<'a>> {
    match statement {
        Statement::ExpressionStatement(it) => {
            of_function_expression(&it.expression).or_else(|| awaited(&it.expression))
        }
        Statement::ReturnStatement(it) => awaited(it.argument.as_ref()?),
        Statement::FunctionDeclaration(it) => of_function(it),
        Statement::ExportDefaultDeclaration(it) => match &it.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => of_function(function),
            other => of_function_expression(other.as_expression()?),
        },
        Statement::ExportDeclaration(it) => match &it.declaration {
            Declaration::FunctionDeclaration(function) if function.id.as_ref()?.name == "main" => of_function(function),
            Declaration::VariableDeclaration(variables) => {
                let (name, init) = only_variable(variables)?;
                if name == "main" { of_function_expression(init) } else { None }
            }
            _ => None,
        },
        _ => None,
    }
}

/// `const r = await b.t({…}); return r;`
fn of_pair<'p, 'a>(
    first: &'p Statement<'a>,
    second: &'p Statement<'a>,
    place: Place,
) -> Option<&'p CallExpression<'a>> {
    let Statement::VariableDeclaration(variables) = first else { return None };
    let (name, init) = only_variable(variables)?;
    let result = match second {
        Statement::ReturnStatement(it) => it.argument.as_ref()?,
        Statement::ExpressionStatement(it) if place == Place::Program => &it.expression,
        _ => return None,
    };
    let Expression::Identifier(id) = result.get_inner_expression() else { return None };
    if id.name == name { awaited(init) } else { None }
}

fn only_variable<'p, 'a>(variables: &'p VariableDeclaration<'a>) -> Option<(&'p str, &'p Expression<'a>)> {
    let [one] = variables.declarations.as_slice() else { return None };
    let plain = matches!(
        variables.kind,
        VariableDeclarationKind::Var | VariableDeclarationKind::Let | VariableDeclarationKind::Const
    );
    match (&one.id, &one.init) {
        (BindingPattern::BindingIdentifier(id), Some(init)) if plain && !variables.declare => Some((&id.name, init)),
        _ => None,
    }
}

fn of_function_expression<'p, 'a>(expression: &'p Expression<'a>) -> Option<&'p CallExpression<'a>> {
    match expression.get_inner_expression() {
        Expression::FunctionExpression(function) => of_function(function),
        Expression::ArrowFunctionExpression(arrow) => {
            if has_parameters(&arrow.params) {
                return None;
            }
            match &arrow.body {
                ArrowFunctionBody::FunctionBody(body) => of_body(body),
                body => awaited(body.as_expression()?),
            }
        }
        _ => None,
    }
}

fn of_function<'p, 'a>(function: &'p Function<'a>) -> Option<&'p CallExpression<'a>> {
    if function.generator || has_parameters(&function.params) {
        return None;
    }
    of_body(function.body.as_ref()?)
}

fn has_parameters(parameters: &FormalParameters<'_>) -> bool {
    !parameters.items.is_empty() || parameters.rest.is_some()
}

fn of_body<'p, 'a>(body: &'p FunctionBody<'a>) -> Option<&'p CallExpression<'a>> {
    let mut statements = body.statements.iter().filter(|statement| !is_nothing(statement));
    match (statements.next()?, statements.next(), statements.next()) {
        (Statement::ReturnStatement(it), None, None) => awaited(it.argument.as_ref()?),
        (first, Some(second), None) => of_pair(first, second, Place::Function),
        _ => None,
    }
}

/// A call, with or without `await`: an async function awaits what it returns.
fn awaited<'p, 'a>(expression: &'p Expression<'a>) -> Option<&'p CallExpression<'a>> {
    match expression.get_inner_expression() {
        Expression::AwaitExpression(it) => awaited(&it.argument),
        Expression::CallExpression(call) if !call.optional => Some(call),
        _ => None,
    }
}

fn has_rounded_number(call: &CallExpression<'_>) -> bool {
    let mut numbers = RoundedNumbers(false);
    numbers.visit_call_expression(call);
    numbers.0
}

struct RoundedNumbers(bool);

impl<'a> Visit<'a> for RoundedNumbers {
    fn visit_numeric_literal(&mut self, it: &NumericLiteral<'a>) {
        self.0 |= it.raw.as_ref().is_some_and(|raw| is_rounded_literal(raw));
    }
}
