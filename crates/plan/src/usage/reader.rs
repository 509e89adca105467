//! Walks a compiled program once and notes what it does with names and properties.
//!
//! What it notes is read by [`ProgramUsage`]; what it cannot follow makes the program untrusted.

use super::guards::{Guards, NamedCall};
use super::properties::{PropertyValues, private_name};
use super::sources::{Source, Sources, StoreKind};
use super::syntax::{
    called_member, function_parameters, is_empty, is_function, is_in_json, is_nullish, is_of_tested, is_storing,
    parameters_of, written_keys,
};
use super::text::{Cast, checked_text};
use super::{GlobalCall, LiteralKey, ProgramUsage, PropertyAccess};
use crate::parse::Parsed;
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    semantic::SymbolId,
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};
use std::collections::{HashMap, HashSet};

pub(super) fn read(parsed: &Parsed<'_>) -> ProgramUsage {
    let mut reader = Reader {
        parsed,
        usage: ProgramUsage { is_trusted: true, ..ProgramUsage::default() },
        assigned: HashSet::new(),
        initialisers: HashMap::new(),
        bound: HashSet::new(),
        guards: Guards::default(),
        sources: Sources::default(),
        properties: PropertyValues::default(),
        called: HashSet::new(),
        statements: HashSet::new(),
        casts: Vec::new(),
    };
    reader.visit_program(parsed.program);
    reader.finish()
}

/// What a variable is declared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Initialiser {
    /// Nothing.
    None,
    /// `[]`, `{}`, or `new Name()`: what is put into it later decides its type.
    Empty,
    /// Something else, at this place.
    Value(Span),
}

struct Reader<'p, 'a> {
    parsed: &'p Parsed<'a>,
    usage: ProgramUsage,
    /// Variables with an assignment that may change their type.
    assigned: HashSet<SymbolId>,
    /// Variables that are declared by their name alone, with what each declaration says.
    initialisers: HashMap<SymbolId, Vec<Initialiser>>,
    /// Variables that a loop, a pattern or a function given to a call declares.
    bound: HashSet<SymbolId>,
    guards: Guards,
    sources: Sources,
    properties: PropertyValues,
    /// Where the names of methods are that are called.
    called: HashSet<u32>,
    /// Where statements begin that are expressions.
    statements: HashSet<u32>,
    casts: Vec<Cast>,
}

impl<'a> Reader<'_, 'a> {
    fn finish(mut self) -> ProgramUsage {
        self.cast_variables();
        match self.sources.literals_stored_in(&self.parsed.scoping) {
            Some(literals) => self.casts.extend(literals.into_iter().map(Cast::around)),
            None => self.usage.is_trusted = false,
        }
        match self.properties.changed() {
            Some(values) => self.casts.extend(values.into_iter().map(|(span, name)| Cast { span, name })),
            None => self.usage.is_trusted = false,
        }
        (self.usage.text, self.usage.insertions) = checked_text(self.parsed, self.casts);
        self.usage.guarded = self.guards.guarded();
        self.usage
    }

    /// Gives variables that change the type `any`. A variable with several declarations changes with each.
    fn cast_variables(&mut self) {
        let scoping = &self.parsed.scoping;
        let is_redeclared = |symbol: &SymbolId| !scoping.symbol_redeclarations(*symbol).is_empty();
        self.assigned.extend(scoping.symbol_ids().filter(is_redeclared));
        for symbol in &self.assigned {
            let is_function = scoping.symbol_flags(*symbol).is_function() && is_redeclared(symbol);
            let initialisers = self.initialisers.get(symbol).filter(|_| !self.bound.contains(symbol) && !is_function);
            let Some(initialisers) = initialisers else {
                self.usage.is_trusted = false;
                continue;
            };
            for initialiser in initialisers {
                match initialiser {
                    Initialiser::None => {}
                    // `let x = []` and then `x = other`: an array that is assigned keeps no element type.
                    Initialiser::Empty => self.usage.is_trusted = false,
                    Initialiser::Value(span) => self.casts.push(Cast::around(*span)),
                }
            }
        }
    }

    fn symbol_of(&self, id: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.parsed.scoping.get_reference(id.reference_id.get()?).symbol_id()
    }

    fn note(&mut self, at: u32, name: &str, access: PropertyAccess) {
        let entry = self.usage.accesses.entry(at).or_insert_with(|| (name.to_owned(), access));
        if access != PropertyAccess::Read {
            entry.1 = access;
            let names = if access == PropertyAccess::Probed { &mut self.usage.probed } else { &mut self.usage.written };
            names.insert(name.to_owned());
        }
    }

    fn mention(&mut self, text: &str) {
        if !self.usage.mentioned.contains(text) {
            self.usage.mentioned.insert(text.to_owned());
        }
    }

    fn dereference(&mut self, expression: &Expression<'a>) {
        if let Expression::StaticMemberExpression(it) = expression.get_inner_expression() {
            self.usage.dereferenced.insert(it.property.span.start);
        }
    }

    /// Marks the property that an expression ends with as one that may be missing.
    fn probe(&mut self, expression: &Expression<'a>) {
        match expression.get_inner_expression() {
            Expression::StaticMemberExpression(it) => {
                self.note(it.property.span.start, &it.property.name, PropertyAccess::Probed)
            }
            Expression::LogicalExpression(it) => {
                self.probe(&it.left);
                self.probe(&it.right);
            }
            Expression::ConditionalExpression(it) => {
                self.probe(&it.consequent);
                self.probe(&it.alternate);
            }
            Expression::UnaryExpression(it) => self.probe(&it.argument),
            Expression::AwaitExpression(it) => self.probe(&it.argument),
            Expression::ChainExpression(it) => {
                if let ChainElement::StaticMemberExpression(it) = &it.expression {
                    self.note(it.property.span.start, &it.property.name, PropertyAccess::Probed);
                }
            }
            Expression::BinaryExpression(it) if it.operator.is_equality() => self.probe_compared(it),
            _ => {}
        }
    }

    fn probe_compared(&mut self, it: &BinaryExpression<'a>) {
        if is_nullish(&it.left) || is_nullish(&it.right) {
            self.probe(&it.left);
            self.probe(&it.right);
        }
    }

    fn source_of(&self, expression: &Expression<'a>) -> Source {
        Source::of(expression, &self.parsed.scoping)
    }

    /// Something is assigned. An operator such as `+=` has no value here: it keeps numbers numbers and texts texts.
    fn assign_to(&mut self, target: &SimpleAssignmentTarget<'a>, value: Option<&Expression<'a>>) {
        match target {
            SimpleAssignmentTarget::AssignmentTargetIdentifier(id) => match (self.symbol_of(id), value) {
                (Some(symbol), Some(value)) => {
                    self.assigned.insert(symbol);
                    self.sources.add(symbol, self.source_of(value));
                }
                (Some(_), None) => {}
                // A global, which may be a backend.
                (None, _) => self.usage.is_trusted = false,
            },
            SimpleAssignmentTarget::StaticMemberExpression(it) => {
                self.note(it.property.span.start, &it.property.name, PropertyAccess::Written);
                self.assign_property(it.property.name.to_string(), value);
            }
            SimpleAssignmentTarget::ComputedMemberExpression(it) => match it.static_property_name() {
                Some(name) => {
                    self.usage.written.insert(name.to_string());
                    self.assign_property(name.to_string(), value);
                }
                // `object[key] = value` gives an object properties that are not known.
                None => {
                    let value = value.map(|value| self.source_of(value));
                    self.sources.store(StoreKind::Key, self.source_of(&it.object), value);
                }
            },
            SimpleAssignmentTarget::PrivateFieldExpression(it) => {
                self.assign_property(private_name(&it.field), value);
            }
            _ => {}
        }
    }

    fn assign_property(&mut self, name: String, value: Option<&Expression<'a>>) {
        if let Some(value) = value {
            self.sources.assign_property(&name, self.source_of(value));
            self.properties.assign(name, value);
        }
    }

    fn check_call(&mut self, it: &CallExpression<'a>) {
        if let Some((object, method)) = called_member(it) {
            let is_literal = |argument: Option<&Argument<'a>>| {
                matches!(argument, Some(Argument::ObjectExpression(_) | Argument::ArrayExpression(_)))
            };
            match method {
                // A tool may have such a name.
                _ if is_storing(method) && !self.is_on_global(object) => {
                    let scoping = &self.parsed.scoping;
                    let values: Vec<Source> =
                        it.arguments.iter().map(|one| Source::of_argument(one, scoping)).collect();
                    self.sources.store(StoreKind::Method, Source::of(object, scoping), values);
                }
                "assign" if !is_literal(it.arguments.first()) => self.usage.is_trusted = false,
                "defineProperty" | "defineProperties" | "setPrototypeOf" => self.usage.is_trusted = false,
                "catch" | "allSettled" => self.usage.handles_rejections = true,
                "then" if it.arguments.len() > 1 => self.usage.handles_rejections = true,
                "isArray" | "hasOwn" => {
                    it.arguments.iter().filter_map(|one| one.as_expression()).for_each(|one| self.probe(one))
                }
                // Without a start, the accumulator is first an item and then what the function returns.
                "reduce" | "reduceRight" if it.arguments.len() == 1 => self.cast_call(it),
                _ => {}
            }
        }
        if let Expression::Identifier(id) = it.callee.get_inner_expression()
            && id.name == "Boolean"
        {
            it.arguments.iter().filter_map(|one| one.as_expression()).for_each(|one| self.probe(one));
        }
        if self.is_on_global(&it.callee) {
            let callee = it.callee.span();
            let written = self.parsed.code.get(callee.start as usize..callee.end as usize).unwrap_or_default();
            let arguments = it.arguments.iter().map(|one| one.span().start).collect();
            self.usage.global_calls.push(GlobalCall { span: it.span, callee: written.to_owned(), arguments });
        } else {
            self.usage.other_calls.push(it.span);
        }
    }

    /// Gives the value of a call the type `any`.
    fn cast_call(&mut self, it: &CallExpression<'a>) {
        // A bracket at the beginning of a statement may continue the one before.
        if self.statements.contains(&it.span.start) {
            self.usage.is_trusted = false;
        } else {
            self.casts.push(Cast::around(it.span));
        }
    }

    /// `backend.tool` and `tools.backend.tool`, or a function that the program does not declare.
    fn is_on_global(&self, callee: &Expression<'a>) -> bool {
        match callee.get_inner_expression() {
            Expression::StaticMemberExpression(it) => self.is_on_global(&it.object),
            Expression::ComputedMemberExpression(it) => self.is_on_global(&it.object),
            Expression::Identifier(id) => self.symbol_of(id).is_none(),
            _ => false,
        }
    }

    fn declare(&mut self, it: &VariableDeclarator<'a>) {
        match &it.id {
            BindingPattern::BindingIdentifier(id) => {
                let initialiser = match &it.init {
                    None => Initialiser::None,
                    Some(init) if is_empty(init, &self.parsed.scoping) => Initialiser::Empty,
                    Some(init) => Initialiser::Value(init.span()),
                };
                if let Some(symbol) = id.symbol_id.get().filter(|symbol| !self.bound.contains(symbol)) {
                    self.initialisers.entry(symbol).or_default().push(initialiser);
                    if let Some(init) = &it.init {
                        self.sources.add(symbol, self.source_of(init));
                        if let Some(parameters) = function_parameters(init) {
                            self.sources.declare_function(symbol, parameters, &self.parsed.scoping);
                        }
                    }
                }
            }
            pattern => self.bind(pattern),
        }
    }

    fn bind(&mut self, pattern: &BindingPattern<'a>) {
        for id in pattern.get_binding_identifiers() {
            if let Some(symbol) = id.symbol_id.get() {
                self.bound.insert(symbol);
                self.sources.add(symbol, Source::Elsewhere);
            }
        }
    }

    /// Notes what the functions of a call get: one that is called by its name or where it is written gets the arguments; to
    /// one that is an argument, what calls it gives values of its own, except the start of a `reduce`.
    fn bind_callbacks(&mut self, it: &CallExpression<'a>) {
        let scoping = &self.parsed.scoping;
        let start = || it.arguments.get(1).map(|start| Source::of_argument(start, scoping));
        let start =
            called_member(it).filter(|(_, name)| matches!(*name, "reduce" | "reduceRight")).and_then(|_| start());
        for parameters in it.arguments.iter().filter_map(parameters_of) {
            let items = parameters.items.iter().skip(usize::from(start.is_some()));
            items.for_each(|one| self.bind(&one.pattern));
        }
        match it.callee.get_inner_expression() {
            Expression::Identifier(id) => {
                if let Some(function) = self.symbol_of(id) {
                    self.sources.call_named(function, &it.arguments, scoping);
                }
            }
            callee => {
                if let Some(parameters) = function_parameters(callee) {
                    let arguments = it.arguments.iter().map(|one| Source::of_argument(one, scoping)).collect();
                    self.sources.call_inline(parameters, arguments);
                }
            }
        }
        let Some(start) = start else { return };
        match it.arguments.first() {
            Some(Argument::Identifier(id)) => {
                if let Some(function) = self.symbol_of(id) {
                    self.sources.reduce_named(function, start);
                }
            }
            Some(first) => {
                if let Some(parameters) = parameters_of(first) {
                    self.sources.call_inline(parameters, vec![start]);
                }
            }
            None => {}
        }
    }

    /// Notes a function by its name.
    fn name_function(&mut self, name: &str, span: Span) {
        self.guards.functions.entry(name.to_owned()).or_default().push(span);
    }

    /// Notes a call of a function that the program may declare.
    fn name_call(&mut self, it: &CallExpression<'a>) {
        let name = match it.callee.get_inner_expression() {
            Expression::Identifier(id) => id.name.as_str(),
            Expression::StaticMemberExpression(it) => it.property.name.as_str(),
            _ => return,
        };
        let inline = it.arguments.iter().filter(|one| parameters_of(one).is_some()).map(GetSpan::span).collect();
        let named = it.arguments.iter().filter_map(|one| match one {
            Argument::Identifier(id) => Some(id.name.to_string()),
            _ => None,
        });
        let call = NamedCall { name: name.to_owned(), at: it.span.start, inline, named: named.collect() };
        self.guards.calls.push(call);
    }

    fn bind_loop(&mut self, left: &ForStatementLeft<'a>) {
        match left {
            ForStatementLeft::VariableDeclaration(it) => it.declarations.iter().for_each(|one| self.bind(&one.id)),
            _ => self.usage.is_trusted = false,
        }
    }
}

impl<'a> Visit<'a> for Reader<'_, 'a> {
    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        self.note(it.property.span.start, &it.property.name, PropertyAccess::Read);
        if it.optional {
            self.probe(&it.object);
        } else {
            self.dereference(&it.object);
        }
        if matches!(it.property.name.as_str(), "prototype" | "__proto__" | "constructor") {
            self.usage.is_trusted = false;
        }
        // `rows.push.apply(rows, x)`, `rows.push.bind(rows)`: what is stored is not seen.
        if is_storing(&it.property.name) && !self.called.contains(&it.property.span.start) {
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
        if matches!(it.name.as_str(), "eval" | "Function" | "Reflect" | "arguments") && self.symbol_of(it).is_none() {
            self.usage.is_trusted = false;
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        // `+=` and the like keep numbers numbers and texts texts.
        let changes_type = it.operator == AssignmentOperator::Assign || it.operator.is_logical();
        match it.left.as_simple_assignment_target() {
            Some(target) => self.assign_to(target, changes_type.then_some(&it.right)),
            None => self.usage.is_trusted = false,
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_update_expression(&mut self, it: &UpdateExpression<'a>) {
        self.assign_to(&it.argument, None);
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
        self.probe(&it.left);
        self.probe(&it.right);
        walk::walk_logical_expression(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.probe(&it.test);
        // `row ? row.a : 1` asks for the row, and not for its property.
        if !is_of_tested(&it.test, &it.consequent) {
            self.probe(&it.consequent);
        }
        self.probe(&it.alternate);
        walk::walk_conditional_expression(self, it);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if it.operator.is_equality() {
            self.probe_compared(it);
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.probe(&it.test);
        walk::walk_if_statement(self, it);
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.probe(&it.test);
        walk::walk_while_statement(self, it);
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.probe(&it.test);
        walk::walk_do_while_statement(self, it);
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        if let Some(test) = &it.test {
            self.probe(test);
        }
        walk::walk_for_statement(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.bind_loop(&it.left);
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
        self.bind_callbacks(it);
        self.name_call(it);
        walk::walk_call_expression(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if let Some(id) = &it.id {
            self.name_function(&id.name, it.span);
            if let Some(function) = id.symbol_id.get().filter(|_| it.is_declaration()) {
                self.sources.declare_function(function, &it.params, &self.parsed.scoping);
            }
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if let Some(name) = it.key.static_name() {
            self.name_function(&name, it.span);
        }
        self.properties.add_method(it);
        walk::walk_method_definition(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let Some(name) = it.key.static_name().filter(|_| is_function(&it.value)) {
            self.name_function(&name, it.span);
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
        if let (BindingPattern::BindingIdentifier(id), Some(init)) = (&it.id, &it.init)
            && is_function(init)
        {
            self.name_function(&id.name, init.span());
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
            // `const { push } = rows`.
            if is_storing(&key.name) {
                self.usage.is_trusted = false;
            }
            let has_default = matches!(&it.value, BindingPattern::AssignmentPattern(_));
            self.note(
                key.span.start,
                &key.name,
                if has_default { PropertyAccess::Probed } else { PropertyAccess::Read },
            );
        }
        walk::walk_binding_property(self, it);
    }
}
