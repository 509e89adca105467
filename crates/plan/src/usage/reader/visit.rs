//! What each part of a program's syntax means to its reader.

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::GetSpan,
    syntax::scope::ScopeFlags,
};

use super::Reader;
use crate::usage::flow::Question;
use crate::usage::syntax::{is_error, is_in_json, is_of_tested, is_redefining, is_storing, written_keys};
use crate::usage::{LiteralKey, PropertyAccess};

impl<'a> Visit<'a> for Reader<'_, 'a> {
    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        self.note(it.property.span.start, &it.property.name, PropertyAccess::Read);
        self.note_object(it.property.span.start, it.object.span());
        if it.optional {
            self.probe(&it.object);
        } else {
            self.dereference(&it.object);
        }
        if matches!(it.property.name.as_str(), "prototype" | "__proto__" | "constructor") {
            self.usage.is_trusted = false;
        }
        // `rows.push.apply(rows, x)`, `rows.push.bind(rows)`: what is stored is not seen.
        let is_changing = is_storing(&it.property.name) || is_redefining(&it.property.name);
        if is_changing && !self.called.contains(&it.property.span.start) {
            self.usage.is_trusted = false;
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        if it.optional {
            self.probe(&it.object);
        } else {
            self.dereference(&it.object);
        }
        if it.static_property_name().is_some_and(|name| is_redefining(&name)) {
            self.usage.is_trusted = false;
        }
        walk::walk_computed_member_expression(self, it);
    }

    fn visit_identifier_name(&mut self, it: &IdentifierName<'a>) {
        self.mention(&it.name);
    }

    fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
        self.mention(&it.name);
    }

    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        self.mention(&it.value);
    }

    fn visit_template_element(&mut self, it: &TemplateElement<'a>) {
        if let Some(cooked) = &it.value.cooked {
            self.mention(cooked);
        }
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.mention(&it.name);
        match self.symbol_of(it) {
            Some(symbol) => self.references.push((it.span.start, symbol)),
            None if matches!(it.name.as_str(), "eval" | "Function" | "Reflect" | "Proxy" | "arguments") => {
                self.usage.is_trusted = false;
            }
            None => {}
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let has_value = it.operator == AssignmentOperator::Assign || it.operator.is_logical();
        match it.left.as_simple_assignment_target() {
            Some(target) => {
                self.assign_to(target, has_value.then_some(&it.right));
                if !has_value && it.operator != AssignmentOperator::Addition {
                    self.count(target);
                }
            }
            None => self.usage.is_trusted = false,
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_update_expression(&mut self, it: &UpdateExpression<'a>) {
        self.assign_to(&it.argument, None);
        self.count(&it.argument);
        walk::walk_update_expression(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        match (it.operator, it.argument.get_inner_expression()) {
            (UnaryOperator::Delete, Expression::StaticMemberExpression(member)) => {
                self.note(member.property.span.start, &member.property.name, PropertyAccess::Written);
            }
            (UnaryOperator::LogicalNot | UnaryOperator::Typeof | UnaryOperator::Void, argument) => self.probe(argument),
            _ => {}
        }
        walk::walk_unary_expression(self, it);
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.probe_part(&it.left);
        self.probe_part(&it.right);
        self.branches.add(it.right.span(), it.left.span());
        walk::walk_logical_expression(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.probe(&it.test);
        // `row ? row.a : 1` asks for the row, and not for its property.
        if !is_of_tested(&it.test, &it.consequent) {
            self.probe_part(&it.consequent);
        }
        self.probe_part(&it.alternate);
        self.branches.add(it.consequent.span(), it.test.span());
        self.branches.add(it.alternate.span(), it.test.span());
        walk::walk_conditional_expression(self, it);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        self.compare(it);
        walk::walk_binary_expression(self, it);
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.probe(&it.test);
        self.branches.add(it.consequent.span(), it.test.span());
        if let Some(alternate) = &it.alternate {
            self.branches.add(alternate.span(), it.test.span());
        }
        walk::walk_if_statement(self, it);
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.ask(&it.discriminant, Question::Comparison);
        for case in &it.cases {
            case.test.iter().for_each(|test| self.ask(test, Question::Comparison));
            self.branches.add(case.span, it.discriminant.span());
            case.test.iter().for_each(|test| self.branches.add(case.span, test.span()));
        }
        walk::walk_switch_statement(self, it);
    }

    fn visit_statements(&mut self, it: &oxc::allocator::Vec<'a, Statement<'a>>) {
        self.branches.add_statements(it);
        walk::walk_statements(self, it);
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        if let (Some(function), Some(value)) = (self.functions.last(), &it.argument) {
            self.flow.give_back(*function, value, &self.parsed.scoping);
        }
        walk::walk_return_statement(self, it);
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.probe(&it.test);
        self.branches.add(it.body.span(), it.test.span());
        walk::walk_while_statement(self, it);
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.probe(&it.test);
        walk::walk_do_while_statement(self, it);
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        if let Some(test) = &it.test {
            self.probe(test);
            self.branches.add(it.body.span(), test.span());
        }
        walk::walk_for_statement(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.bind_loop(&it.left);
        if let ForStatementLeft::VariableDeclaration(left) = &it.left {
            left.declarations.iter().for_each(|one| self.bind_items(&one.id, &it.right));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_for_in_statement(&mut self, it: &ForInStatement<'a>) {
        self.bind_loop(&it.left);
        walk::walk_for_in_statement(self, it);
    }

    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        self.statements.insert(it.span.start);
        walk::walk_expression_statement(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = it.callee.get_inner_expression() {
            self.called.insert(member.property.span.start);
        }
        if it.optional {
            self.probe(&it.callee);
        } else {
            self.dereference(&it.callee);
        }
        self.check_call(it);
        self.probe_call(it);
        self.give_arguments(it);
        self.bind_callbacks(it);
        self.name_call(it);
        walk::walk_call_expression(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if let Some(id) = &it.id {
            self.name_function(&id.name, it.span);
            self.flow.name_function(&id.name, it.span.start, &it.params);
            if let Some(function) = id.symbol_id.get().filter(|_| it.is_declaration()) {
                self.sources.declare_function(function, &it.params, &self.parsed.scoping);
            }
        }
        self.guards.bodies.push(it.span);
        self.functions.push(it.span.start);
        walk::walk_function(self, it, flags);
        self.functions.pop();
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.guards.bodies.push(it.span);
        if let Some(value) = it.body.as_expression() {
            self.flow.give_back(it.span.start, value, &self.parsed.scoping);
        }
        self.functions.push(it.span.start);
        walk::walk_arrow_function_expression(self, it);
        self.functions.pop();
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if let Some(id) = it.pattern.get_binding_identifier().filter(|_| it.initializer.is_some())
            && let Some(symbol) = id.symbol_id.get()
        {
            self.flow.ask_variable(symbol, Question::Presence);
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        // `Rows.from(list)` has methods that a checker does not know.
        let parent = it.heritage.as_ref().map(|heritage| &heritage.expression);
        if parent.is_some_and(|of| self.is_on_global(of) && !is_error(of)) {
            self.usage.is_trusted = false;
        }
        walk::walk_class(self, it);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if let Some(name) = it.key.static_name() {
            self.name_function(&name, it.span);
            self.flow.name_function(&name, it.value.span.start, &it.value.params);
        }
        self.properties.add_method(it);
        walk::walk_method_definition(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let Some(name) = it.key.static_name() {
            self.name_expression(&name, it.span, &it.value);
            self.flow.give_property(&name, &it.value, &self.parsed.scoping);
        }
        self.properties.add_property(it);
        walk::walk_object_property(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        self.properties.add_field(it);
        walk::walk_property_definition(self, it);
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        self.usage.other_calls.push(it.span);
        walk::walk_new_expression(self, it);
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        if it.handler.is_some() || it.finalizer.is_some() {
            self.guards.blocks.push(it.block.span);
        }
        if it.handler.is_some() {
            self.guards.catching.push(it.span.start);
        }
        walk::walk_try_statement(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        self.declare(it);
        if let (BindingPattern::BindingIdentifier(id), Some(init)) = (&it.id, &it.init) {
            self.name_expression(&id.name, init.span(), init);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_object_expression(&mut self, it: &ObjectExpression<'a>) {
        for one in &it.properties {
            if let ObjectPropertyKind::ObjectProperty(one) = one {
                let key = LiteralKey { literal: it.span.start, is_in_json: is_in_json(&one.value) };
                self.usage.literal_keys.insert(one.key.span().start, key);
            }
        }
        if let Some(keys) = written_keys(it) {
            self.usage.literals.insert(it.span.start, keys);
            // A missing property of a property's value is reported at its key.
            for one in &it.properties {
                if let ObjectPropertyKind::ObjectProperty(one) = one
                    && let Expression::ObjectExpression(value) = one.value.get_inner_expression()
                    && let Some(keys) = written_keys(value)
                {
                    self.usage.literals.insert(one.key.span().start, keys);
                }
            }
        }
        walk::walk_object_expression(self, it);
    }

    fn visit_binding_property(&mut self, it: &BindingProperty<'a>) {
        if let PropertyKey::StaticIdentifier(key) = &it.key {
            // `const { push } = rows`, `const { assign } = Object`.
            if is_storing(&key.name) || is_redefining(&key.name) {
                self.usage.is_trusted = false;
            }
            let has_default = matches!(&it.value, BindingPattern::AssignmentPattern(_));
            self.note(
                key.span.start,
                &key.name,
                if has_default { PropertyAccess::Probed } else { PropertyAccess::Read },
            );
            let bound = it.value.get_binding_identifier().and_then(|id| id.symbol_id.get());
            bound.into_iter().for_each(|symbol| self.flow.bind_property(symbol, key.span.start, &key.name));
        }
        walk::walk_binding_property(self, it);
    }
}
