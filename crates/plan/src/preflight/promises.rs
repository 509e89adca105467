//! Finds promises that are not awaited, and promises that are used like their value.
//!
//! Only the promise of a tool call counts, and a variable to which only such a promise is assigned.

use super::{FindingCode, Inspector};
use crate::reach::{self, Reached};
use oxc::{ast::ast::*, span::GetSpan, syntax::operator::UnaryOperator};

const AWAIT_CALL: &str = "Write `await` before the call.";
const AWAIT_IT: &str = "Write `await` before it.";

impl<'a> Inspector<'_, 'a> {
    /// A promise that is not awaited: the program may end before the call is sent.
    pub(super) fn check_dropped(&mut self, expression: &Expression<'a>) {
        let expression = match expression.get_inner_expression() {
            Expression::UnaryExpression(it) if it.operator == UnaryOperator::Void => &it.argument,
            other => other,
        };
        if let Some(reached) = self.dropped(expression) {
            self.warn_of_dropped(&reached, expression.span().start);
        }
    }

    fn dropped(&self, expression: &Expression<'a>) -> Option<Reached> {
        if let Some(reached) = self.is_tool_call(expression) {
            return Some(reached);
        }
        let Expression::CallExpression(call) = expression.get_inner_expression() else { return None };
        let (object, name, _) = reach::member(&call.callee)?;
        if is_promise_method(name) { self.dropped(object) } else { None }
    }

    fn warn_of_dropped(&mut self, reached: &Reached, at: u32) {
        let message = format!("The call of {}.{} is never awaited", reached.receiver, reached.name);
        self.warn(FindingCode::NotAwaited, at, message, Some(AWAIT_IT.into()));
    }

    /// Records `const p = b.t({…})`; warns about `const { a } = b.t({…})`, which finds no `a`.
    pub(super) fn check_bound_promise(&mut self, pattern: &BindingPattern<'a>, init: &Expression<'a>) {
        match pattern {
            BindingPattern::BindingIdentifier(id) => {
                let (Some(symbol), Some(reached)) = (id.symbol_id.get(), self.is_tool_call(init)) else { return };
                let scoping = &self.parsed.scoping;
                let (is_used, is_changed) =
                    (!scoping.get_resolved_reference_ids(symbol).is_empty(), scoping.symbol_is_mutated(symbol));
                if !is_changed {
                    self.promises.insert(symbol);
                }
                if !is_used {
                    self.warn_of_dropped(&reached, init.span().start);
                }
            }
            BindingPattern::ObjectPattern(it) => {
                let wanted = it.properties.iter().find_map(|one| one.key.static_name());
                if let Some(wanted) = wanted {
                    self.check_used_promise(init, &wanted, init.span().start);
                }
            }
            BindingPattern::ArrayPattern(_) => self.check_looped_promise(init),
            BindingPattern::AssignmentPattern(_) => {}
        }
    }

    /// `b.t({…}).items`, or `p.items` where `p` is such a promise.
    pub(super) fn check_used_promise(&mut self, object: &Expression<'a>, property: &str, at: u32) {
        if !is_promise_method(property) {
            self.warn_of_promise(object, at, &format!("has no `{property}`"));
        }
    }

    /// `for (const x of p)` and `[...p]`.
    pub(super) fn check_looped_promise(&mut self, looped: &Expression<'a>) {
        self.warn_of_promise(looped, looped.span().start, "has no items");
    }

    /// `p + 1`, `p > 1` and `${p}`.
    pub(super) fn check_counted_promise(&mut self, used: &Expression<'a>) {
        self.warn_of_promise(used, used.span().start, "is no number and no text");
    }

    /// `JSON.stringify(p)`, `Object.keys(p)` and other functions that read their argument's properties.
    pub(super) fn check_passed_promises(&mut self, call: &CallExpression<'a>) {
        let Some(first) = call.arguments.first().and_then(|argument| argument.as_expression()) else { return };
        if self.looks_inside(&call.callee) {
            self.warn_of_promise(first, first.span().start, "shows nothing of its value");
        }
    }

    fn looks_inside(&self, callee: &Expression<'a>) -> bool {
        let Some((object, name, _)) = reach::member(callee) else { return false };
        let Expression::Identifier(id) = object.get_inner_expression() else { return false };
        let looks = matches!(
            (id.name.as_str(), name),
            ("JSON", "stringify") | ("Object", "keys" | "values" | "entries") | ("Array", "from" | "isArray")
        );
        looks && self.parsed.is_global(id)
    }

    fn warn_of_promise(&mut self, expression: &Expression<'a>, at: u32, why: &str) {
        if let Some(name) = self.promise_name(expression) {
            let message = format!("`{name}` is a promise, so it {why}");
            self.warn(FindingCode::MissingAwait, at, message, Some(AWAIT_CALL.into()));
        }
    }

    /// The source text of an expression that is the promise of a call.
    fn promise_name(&self, expression: &Expression<'a>) -> Option<String> {
        match expression.get_inner_expression() {
            Expression::Identifier(id) => {
                let symbol = id.reference_id.get().and_then(|it| self.parsed.scoping.get_reference(it).symbol_id());
                symbol.filter(|symbol| self.promises.contains(symbol)).map(|_| id.name.to_string())
            }
            _ => self.is_tool_call(expression).map(|reached| format!("{}.{}(…)", reached.receiver, reached.name)),
        }
    }
}

fn is_promise_method(name: &str) -> bool {
    matches!(name, "then" | "catch" | "finally")
}
