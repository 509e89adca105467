//! Finds programs that end without a result: their value is `null`, which is seldom what was meant.
//!
//! A program that prints is left alone, unless it ends with a declaration: what it prints is shown beside its value.

use super::{FindingCode, Inspector};
use crate::{
    compile::{Lone, is_nothing, last_expression, lone_function},
    functions::{self, Body},
    parse::Parsed,
};
use oxc::{
    ast::ast::*,
    ast_visit::Visit,
    span::GetSpan,
    syntax::{scope::ScopeFlags, symbol::SymbolId},
};
use std::collections::HashSet;

impl<'a> Inspector<'_, 'a> {
    /// Warns if nothing that the program runs returns a value.
    pub(super) fn check_result(&mut self) {
        let Some(last) = self.last_without_result() else { return };
        let at = last.span().start;
        match last_variable(last) {
            Some((name, value)) => {
                let message = format!("The program returns nothing: it ends with the declaration of `{name}`");
                let advice = match value {
                    DeclaredValue::Function => format!("End it with `return await {name}()`."),
                    DeclaredValue::Other => format!("End it with `return {name}`."),
                };
                self.warn(FindingCode::NoResult, at, message, Some(advice));
            }
            None if self.prints() => {}
            None => {
                let advice = "`return` what you want to see.".to_owned();
                self.warn(FindingCode::NoResult, at, "The program returns nothing".to_owned(), Some(advice));
            }
        }
    }

    /// Whether the program prints on its way. What it prints when it catches an error is no result.
    fn prints(&self) -> bool {
        let mut console = Console { parsed: self.parsed, is_used: false };
        console.visit_program(self.parsed.program);
        console.is_used
    }

    /// The last statement of the function whose result is the program's, if that function returns nothing.
    fn last_without_result(&self) -> Option<&'a Statement<'a>> {
        let program = self.parsed.program;
        let body = match (functions::exported_main(program), lone_function(program)) {
            (Some(main), _) => main,
            (None, Some(Lone::Declaration(function))) => functions::body(function)?,
            (None, Some(Lone::Expression(function))) => functions::body_of_expression(function)?,
            (None, None) => match last_expression(program) {
                Some(_) if returns_a_value(&program.body) => return None,
                Some(last) => return self.end_of_called(&last.expression),
                None => Body::Statements(&program.body),
            },
        };
        self.end_of(body)
    }

    fn end_of(&self, body: Body<'a, 'a>) -> Option<&'a Statement<'a>> {
        match body {
            Body::Value(value) => self.end_of_called(value),
            Body::Statements(statements) if returns_a_value(statements) => None,
            Body::Statements(statements) => {
                let is_run = |statement: &&Statement<'_>| {
                    !is_nothing(statement) && !matches!(statement, Statement::FunctionDeclaration(_))
                };
                statements.iter().rev().find(is_run).filter(|last| !is_export(last) && !ends_on_purpose(last))
            }
        }
    }

    /// For `main()`, `await main()` or `(async () => { … })()`: the last statement of the function, if it returns nothing.
    fn end_of_called(&self, expression: &'a Expression<'a>) -> Option<&'a Statement<'a>> {
        let functions = functions::named(self.parsed.program);
        let mut entered: HashSet<SymbolId> = HashSet::new();
        let mut at = expression;
        loop {
            let body = match at.get_inner_expression() {
                Expression::AwaitExpression(it) => {
                    at = &it.argument;
                    continue;
                }
                Expression::CallExpression(call) => match call.callee.get_inner_expression() {
                    Expression::Identifier(id) => {
                        let scoping = &self.parsed.scoping;
                        let symbol = scoping.get_reference(id.reference_id.get()?).symbol_id()?;
                        let is_known = !scoping.symbol_is_mutated(symbol) && entered.insert(symbol);
                        *functions.get(&symbol).filter(|_| is_known)?
                    }
                    callee => functions::body_of_expression(callee)?,
                },
                _ => return None,
            };
            match body {
                Body::Value(value) => at = value,
                statements @ Body::Statements(_) => return self.end_of(statements),
            }
        }
    }
}

/// What a variable is declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeclaredValue {
    Function,
    Other,
}

/// The variable of a declaration at the end of a program.
fn last_variable<'s>(statement: &'s Statement<'_>) -> Option<(&'s str, DeclaredValue)> {
    let last = variables(statement)?.declarations.last()?;
    let value = match last.init.as_ref().map(Expression::get_inner_expression) {
        Some(Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)) => DeclaredValue::Function,
        _ => DeclaredValue::Other,
    };
    last.id.get_binding_identifier().map(|id| (id.name.as_str(), value))
}

/// The variables that a statement declares, also one that exports them.
fn variables<'s, 'a>(statement: &'s Statement<'a>) -> Option<&'s VariableDeclaration<'a>> {
    match statement {
        Statement::VariableDeclaration(it) => Some(it),
        Statement::ExportDeclaration(it) => match &it.declaration {
            Declaration::VariableDeclaration(it) => Some(it),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a statement gives the result of the program, or may.
fn is_export(statement: &Statement<'_>) -> bool {
    statement.is_module_declaration() && last_variable(statement).is_none_or(|(name, _)| name == "main")
}

fn ends_on_purpose(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::ThrowStatement(_) | Statement::ReturnStatement(_))
}

fn returns_a_value(statements: &[Statement<'_>]) -> bool {
    let mut returns = Returns(false);
    statements.iter().for_each(|statement| returns.visit_statement(statement));
    returns.0
}

/// Whether there is a `return` with a value, outside of functions inside.
struct Returns(bool);

impl<'a> Visit<'a> for Returns {
    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        self.0 |= it.argument.is_some();
    }

    fn visit_expression(&mut self, _: &Expression<'a>) {}

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_class(&mut self, _: &Class<'a>) {}
}

/// Looks for `console` outside of `catch`.
struct Console<'p, 'a> {
    parsed: &'p Parsed<'a>,
    is_used: bool,
}

impl<'a> Visit<'a> for Console<'_, 'a> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.is_used |= it.name == "console" && self.parsed.is_global(it);
    }

    fn visit_catch_clause(&mut self, _: &CatchClause<'a>) {}
}
