//! The walk over a program: which place is checked for what.

use super::{FindingCode, Inspector};
use crate::{erase::shorten, integers::is_rounded_literal, literal, reach};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    syntax::{operator::BinaryOperator, scope::ScopeFlags},
};

impl<'a> Visit<'a> for Inspector<'_, 'a> {
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        self.check_call(it);
        self.check_passed_promises(it);
        // The callee does not test for existence; the object before it may contain more calls.
        match (self.reached(&it.callee), it.optional) {
            (Some(_), false) => {}
            _ => self.visit_expression(&it.callee),
        }
        for argument in &it.arguments {
            self.visit_argument(argument);
        }
    }

    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        if self.result != Some(it.span) {
            self.check_dropped(&it.expression);
        }
        walk::walk_expression_statement(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let Some(init) = &it.init {
            self.check_bound_promise(&it.id, init);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if !it.r#await {
            self.check_looped_promise(&it.right);
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_numeric_literal(&mut self, it: &NumericLiteral<'a>) {
        if let Some(raw) = it.raw.as_ref().filter(|raw| is_rounded_literal(raw)) {
            let message = format!("`{}` is rounded: JavaScript's integers are exact up to 2^53", shorten(raw));
            let advice = "Write it as a string, or send the call as JSON.".to_owned();
            self.warn(FindingCode::RoundedNumber, it.span.start, message, Some(advice));
        }
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.check_busy_wait(it.span.start, Some(&it.test), &it.body);
        walk::walk_while_statement(self, it);
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.check_busy_wait(it.span.start, Some(&it.test), &it.body);
        walk::walk_do_while_statement(self, it);
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        self.check_busy_wait(it.span.start, it.test.as_ref(), &it.body);
        walk::walk_for_statement(self, it);
    }

    fn visit_spread_element(&mut self, it: &SpreadElement<'a>) {
        self.check_looped_promise(&it.argument);
        walk::walk_spread_element(self, it);
    }

    fn visit_template_literal(&mut self, it: &TemplateLiteral<'a>) {
        it.expressions.iter().for_each(|hole| self.check_counted_promise(hole));
        walk::walk_template_literal(self, it);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if it.operator.is_arithmetic() || it.operator.is_compare() {
            self.check_counted_promise(&it.left);
            self.check_counted_promise(&it.right);
        }
        if it.operator == BinaryOperator::In
            && let Some(name) = literal::text(&it.left)
            && let Some((_, Some(backend))) = reach::backend(self.parsed, &it.right, self.tools)
        {
            self.probed.insert((backend, name.to_owned()));
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        let (name, at) = (it.property.name.as_str(), it.property.span.start);
        self.check_used_promise(&it.object, name, at);
        if let Some((_, Some(backend))) = reach::backend(self.parsed, &it.object, self.tools) {
            self.probed.insert((backend, name.to_owned()));
        }
        self.is_anything_changed |= gives_access(name);
        if !self.check_global_member(&it.object, name) {
            walk::walk_static_member_expression(self, it);
        }
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        self.check_used_promise(&it.object, "[…]", it.span.start);
        walk::walk_computed_member_expression(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        // Backends are frozen, so this fails; what happens after it is not the preflight's to say.
        if let Some(member) = it.left.as_simple_assignment_target().and_then(|target| target.as_member_expression()) {
            match reach::backend(self.parsed, member.object(), self.tools) {
                Some((_, Some(backend))) => drop(self.changed.insert(backend)),
                _ => self.is_anything_changed |= is_named(member.object(), "Promise"),
            }
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        // With the global object in hand, or code made at run time, a program can change any global.
        let name = it.name.as_str();
        self.is_anything_changed |=
            matches!(name, "globalThis" | "eval" | "Function" | "AsyncFunction") && self.parsed.is_global(it);
    }

    fn visit_this_expression(&mut self, _: &ThisExpression) {
        self.is_anything_changed |= self.functions == 0;
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.functions += 1;
        walk::walk_function(self, it, flags);
        self.functions -= 1;
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        self.functions += 1;
        walk::walk_class(self, it);
        self.functions -= 1;
    }
}

/// Whether a property leads to what every object inherits, or to a compiler.
fn gives_access(property: &str) -> bool {
    matches!(property, "constructor" | "prototype" | "__proto__")
}

fn is_named(expression: &Expression<'_>, name: &str) -> bool {
    matches!(expression.get_inner_expression(), Expression::Identifier(id) if id.name == name)
}
