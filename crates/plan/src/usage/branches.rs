//! Which parts of a program run only if a test says so.
//!
//! What is read where a test of the same value decides whether it is read is not certain to be wrong:
//! `if (reply.isError) return reply.content[0].text`. Places only: what the tests mean is not looked at, except that the
//! statements behind `if (!reply.ok) return …` run if the property is there.

use oxc::{
    ast::ast::*,
    semantic::SymbolId,
    span::{GetSpan, Span},
};
use std::collections::HashSet;

use super::syntax::is_nullish;

/// A part of a program, and the test that decides whether it runs.
#[derive(Debug, Clone, Copy)]
struct Branch {
    span: Span,
    test: Span,
}

/// The branches of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct Branches {
    inside: Vec<Branch>,
    /// Behind an `if` that ends what it is in, where the test fails for a property that is not there.
    behind_missing: Vec<Branch>,
    /// Behind any such `if`.
    behind: Vec<Branch>,
    /// Where variables are named.
    references: Vec<(u32, SymbolId)>,
}

impl Branches {
    /// Something runs if a test says so.
    pub(super) fn add(&mut self, span: Span, test: Span) {
        self.inside.push(Branch { span, test });
    }

    /// Variables are named here, sorted by place.
    pub(super) fn with_references(self, references: Vec<(u32, SymbolId)>) -> Self {
        Branches { references, ..self }
    }

    /// The statements of a block, of which one may end it.
    pub(super) fn add_statements(&mut self, statements: &[Statement<'_>]) {
        let Some(end) = statements.last().map(|one| one.span().end) else { return };
        for statement in statements {
            if let Statement::IfStatement(it) = statement
                && exits(&it.consequent)
            {
                let span = Span::new(it.span.end, end);
                self.behind.push(Branch { span, test: it.test.span() });
                negated(&it.test, &mut |test| self.behind_missing.push(Branch { span, test }));
            }
        }
    }

    /// The parts that run depending on these properties, or on variables that have values of them.
    pub(super) fn depending_on(&self, properties: &HashSet<u32>, variables: &HashSet<SymbolId>) -> Vec<Span> {
        let named = self.references.iter().filter(|(_, variable)| variables.contains(variable)).map(|(at, _)| *at);
        let mut places: Vec<u32> = properties.iter().copied().chain(named).collect();
        places.sort_unstable();
        let branches = self.inside.iter().chain(&self.behind_missing);
        branches.filter(|branch| has_any(&places, branch.test)).map(|branch| branch.span).collect()
    }

    /// Whether these variables are named in places of this kind only.
    pub(super) fn are_named_in(&self, variables: &HashSet<SymbolId>, is_there: impl Fn(u32) -> bool) -> bool {
        self.references.iter().filter(|(_, variable)| variables.contains(variable)).all(|(at, _)| is_there(*at))
    }

    /// Whether the variable that is named at an offset is named in a test that decides whether the offset is reached.
    pub(super) fn is_tested(&self, offset: u32) -> bool {
        let Some((_, variable)) = self.references.iter().find(|(at, _)| *at == offset) else { return false };
        let mut places: Vec<u32> =
            self.references.iter().filter(|(_, other)| other == variable).map(|(at, _)| *at).collect();
        places.sort_unstable();
        let around = |branch: &&Branch| (branch.span.start..branch.span.end).contains(&offset);
        self.inside.iter().chain(&self.behind).filter(around).any(|branch| has_any(&places, branch.test))
    }
}

/// Whether one of these sorted places is in a span.
fn has_any(places: &[u32], span: Span) -> bool {
    places.get(places.partition_point(|at| *at < span.start)).is_some_and(|at| *at < span.end)
}

/// Whether a statement ends the block that it is in.
fn exits(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::ReturnStatement(_)
        | Statement::ThrowStatement(_)
        | Statement::ContinueStatement(_)
        | Statement::BreakStatement(_) => true,
        Statement::BlockStatement(it) => it.body.last().is_some_and(exits),
        _ => false,
    }
}

/// The parts of a test that hold for a property that is not there.
fn negated(test: &Expression<'_>, found: &mut dyn FnMut(Span)) {
    match test.get_inner_expression() {
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::LogicalNot => found(it.argument.span()),
        Expression::LogicalExpression(it) => {
            negated(&it.left, found);
            negated(&it.right, found);
        }
        Expression::BinaryExpression(it) if it.operator.is_equality() => {
            let is_same = matches!(it.operator, BinaryOperator::Equality | BinaryOperator::StrictEquality);
            let is_text =
                |one: &Expression<'_>| matches!(one, Expression::StringLiteral(it) if it.value == "undefined");
            let is_missing = [&it.left, &it.right].into_iter().any(|one| is_nullish(one) || is_text(one));
            if is_same == is_missing {
                found(it.span);
            }
        }
        _ => {}
    }
}
