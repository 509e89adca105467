//! What a program asks about values: whether they are there, and whether they are others.

use oxc::ast::ast::*;

use super::Reader;
use crate::usage::flow::Question;
use crate::usage::syntax::{called_member, is_nullish};

impl<'a> Reader<'_, 'a> {
    /// The program asks whether the value of an expression is there.
    pub(super) fn probe(&mut self, expression: &Expression<'a>) {
        self.ask(expression, Question::Presence);
    }

    /// The same for a part of an expression; parts that have such parts themselves are visited by themselves.
    pub(super) fn probe_part(&mut self, part: &Expression<'a>) {
        let inner = part.get_inner_expression();
        if !matches!(inner, Expression::LogicalExpression(_) | Expression::ConditionalExpression(_)) {
            self.probe(part);
        }
    }

    /// The program asks about the value of an expression, or about what that value is made of.
    pub(super) fn ask(&mut self, expression: &Expression<'a>, question: Question) {
        match expression.get_inner_expression() {
            Expression::LogicalExpression(it) => {
                self.ask(&it.left, question);
                self.ask(&it.right, question);
            }
            Expression::ConditionalExpression(it) => {
                self.ask(&it.consequent, question);
                self.ask(&it.alternate, question);
            }
            Expression::UnaryExpression(it) => self.ask(&it.argument, question),
            Expression::AwaitExpression(it) => self.ask(&it.argument, question),
            Expression::BinaryExpression(it) => self.compare(it),
            Expression::CallExpression(it) if is_conversion(it) => {
                it.arguments.iter().filter_map(|one| one.as_expression()).for_each(|one| self.ask(one, question));
            }
            it => self.flow.ask(it, question, &self.parsed.scoping),
        }
    }

    /// A comparison asks whether a value is another one, or whether it is there.
    pub(super) fn compare(&mut self, it: &BinaryExpression<'a>) {
        let question = match it.operator {
            BinaryOperator::Instanceof => return self.probe(&it.left),
            _ if it.operator.is_equality() && (is_nullish(&it.left) || is_nullish(&it.right)) => Question::Presence,
            _ if it.operator.is_compare() || it.operator.is_equality() || it.operator == BinaryOperator::In => {
                Question::Comparison
            }
            _ => return,
        };
        for side in [&it.left, &it.right] {
            // Comparisons in a comparison are visited by themselves.
            if !matches!(side.get_inner_expression(), Expression::BinaryExpression(_)) {
                self.ask(side, question);
            }
        }
    }

    /// What a call asks about its arguments and about the items of its list.
    pub(super) fn probe_call(&mut self, it: &CallExpression<'a>) {
        let arguments = || it.arguments.iter().filter_map(|one| one.as_expression());
        match (it.callee.get_inner_expression(), called_member(it)) {
            (Expression::Identifier(id), _) if matches!(id.name.as_str(), "Boolean" | "isNaN" | "isFinite") => {
                arguments().for_each(|one| self.probe(one));
            }
            (_, Some((_, "isArray" | "hasOwn" | "isInteger" | "isSafeInteger" | "isFinite" | "isNaN"))) => {
                arguments().for_each(|one| self.probe(one))
            }
            (_, Some((_, "includes" | "indexOf" | "lastIndexOf" | "has" | "test"))) => {
                arguments().for_each(|one| self.ask(one, Question::Comparison));
            }
            (_, Some((list, method))) if is_predicated(method) => {
                match arguments().next().map(Expression::get_inner_expression) {
                    Some(Expression::ArrowFunctionExpression(it)) => {
                        self.flow.ask_body(it.span.start, Question::Presence);
                    }
                    Some(Expression::FunctionExpression(it)) => {
                        self.flow.ask_body(it.span.start, Question::Presence);
                    }
                    Some(Expression::Identifier(id)) if self.symbol_of(id).is_some() => {
                        self.flow.ask_returned(&id.name, Question::Presence);
                    }
                    // `Boolean`, `Array.isArray`.
                    _ => self.flow.ask_items(list, Question::Presence, &self.parsed.scoping),
                }
            }
            _ => {}
        }
    }

    /// Notes which values a call gives to functions of the program.
    pub(super) fn give_arguments(&mut self, it: &CallExpression<'a>) {
        let scoping = &self.parsed.scoping;
        let member = called_member(it);
        let name = match it.callee.get_inner_expression() {
            Expression::Identifier(id) => Some(id.name.as_str()),
            _ => member.map(|(_, method)| method),
        };
        for (index, argument) in it.arguments.iter().enumerate() {
            let Some(value) = argument.as_expression() else { break };
            if let Some(name) = name {
                self.flow.give_argument(name, index, value, scoping);
            }
            let Some((list, method)) = member else { continue };
            let parameters = match value.get_inner_expression() {
                Expression::ArrowFunctionExpression(it) => &it.params,
                Expression::FunctionExpression(it) => &it.params,
                Expression::Identifier(id) => {
                    self.flow.give_items(&id.name, list, scoping);
                    continue;
                }
                _ => continue,
            };
            let item = parameters.items.get(usize::from(matches!(method, "reduce" | "reduceRight")));
            let item = item.and_then(|one| one.pattern.get_binding_identifier());
            if let Some(symbol) = item.and_then(|id| id.symbol_id.get()) {
                self.flow.bind_items(symbol, list, scoping);
            }
        }
    }
}

/// Whether a method of a list asks a function about each item.
fn is_predicated(method: &str) -> bool {
    matches!(method, "filter" | "find" | "findIndex" | "findLast" | "findLastIndex" | "some" | "every")
}

/// Whether a call makes a number, a text or a boolean of its argument, whatever that is: `Number(x) || 0`.
fn is_conversion(it: &CallExpression<'_>) -> bool {
    match it.callee.get_inner_expression() {
        Expression::Identifier(id) => {
            matches!(id.name.as_str(), "Number" | "parseInt" | "parseFloat" | "String" | "Boolean")
        }
        _ => matches!(called_member(it), Some((_, "parseInt" | "parseFloat"))),
    }
}
