//! Walks a compiled program once and notes what it does with names and properties.
//!
//! What it notes is read by [`ProgramUsage`]; what it cannot follow makes the program untrusted.

use super::guards::{Guards, NamedCall};
use super::syntax::{is_empty, is_function, is_method, is_nullish, parameters_of, written_keys};
use super::{GlobalCall, ProgramUsage, PropertyAccess};
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
    /// Variables that are declared by their name alone.
    initialisers: HashMap<SymbolId, Initialiser>,
    /// Variables that a loop, a pattern or a function given to a call declares.
    bound: HashSet<SymbolId>,
    guards: Guards,
    casts: Vec<Span>,
}

impl<'a> Reader<'_, 'a> {
    fn finish(mut self) -> ProgramUsage {
        for symbol in &self.assigned {
            match self.initialisers.get(symbol) {
                Some(Initialiser::None) => {}
                // `let x = []` and then `x = other`: an array that is assigned keeps no element type.
                Some(Initialiser::Empty) => self.usage.is_trusted = false,
                Some(Initialiser::Value(span)) => self.casts.push(*span),
                None => self.usage.is_trusted = false,
            }
        }
        self.casts.sort_by_key(|span| span.start);
        self.casts.dedup();
        self.write_text();
        self.usage.guarded = self.guards.guarded();
        self.usage
    }

    /// The text without comments, and with casts around the values of variables that change.
    fn write_text(&mut self) {
        const BEFORE: &str = "/** @type {any} */(";
        let code = self.parsed.code;
        let mut blank = code.to_owned().into_bytes();
        for comment in &self.parsed.program.comments {
            for at in comment.span.start as usize..comment.span.end as usize {
                if let Some(byte) = blank.get_mut(at).filter(|byte| !matches!(**byte, b'\n' | b'\r')) {
                    *byte = b' ';
                }
            }
        }
        // A comment with characters of several bytes has become more characters, which shifts columns only inside it and
        // after it on its line; offsets in bytes are what is mapped.
        let blank = String::from_utf8(blank).unwrap_or_default();
        let mut inserts: Vec<(u32, &str)> = Vec::new();
        for span in &self.casts {
            inserts.extend([(span.start, BEFORE), (span.end, ")")]);
        }
        inserts.sort_by_key(|(at, _)| *at);
        let mut done = 0;
        for (at, text) in inserts {
            self.usage.text.push_str(blank.get(done..at as usize).unwrap_or_default());
            self.usage.text.push_str(text);
            self.usage.insertions.push((at, text.len() as u32));
            done = at as usize;
        }
        self.usage.text.push_str(blank.get(done..).unwrap_or_default());
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

    /// A value is stored in what an expression means.
    fn stored_in(&mut self, object: &Expression<'a>) {
        if !self.takes_anything(object.get_inner_expression()) {
            self.usage.is_trusted = false;
        }
    }

    /// Whether an expression is, or is a part of, what the program made without a type: `[]`, `{}`, `new Map()`, or a
    /// parameter such as the accumulator of a `reduce`.
    fn takes_anything(&self, expression: &Expression<'a>) -> bool {
        match expression.get_inner_expression() {
            Expression::Identifier(id) => match self.symbol_of(id) {
                Some(symbol) => match self.initialisers.get(&symbol) {
                    Some(initialiser) => *initialiser == Initialiser::Empty,
                    None => !self.bound.contains(&symbol),
                },
                None => false,
            },
            Expression::ComputedMemberExpression(it) => self.is_made_here(&it.object),
            Expression::StaticMemberExpression(it) => self.is_made_here(&it.object),
            Expression::CallExpression(it) => match it.callee.get_inner_expression() {
                Expression::StaticMemberExpression(it) if it.property.name == "get" => self.is_made_here(&it.object),
                _ => false,
            },
            Expression::AssignmentExpression(it) => match it.left.as_simple_assignment_target() {
                Some(SimpleAssignmentTarget::ComputedMemberExpression(left)) => {
                    self.takes_anything(&left.object) && is_empty(&it.right)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether an expression is a variable that starts empty, or a part of one.
    fn is_made_here(&self, expression: &Expression<'a>) -> bool {
        match expression.get_inner_expression() {
            Expression::Identifier(id) => {
                let initialiser = self.symbol_of(id).and_then(|symbol| self.initialisers.get(&symbol));
                initialiser == Some(&Initialiser::Empty)
            }
            other => self.takes_anything(other),
        }
    }

    fn assign_to(&mut self, target: &SimpleAssignmentTarget<'a>, changes_type: bool) {
        match target {
            SimpleAssignmentTarget::AssignmentTargetIdentifier(id) => match self.symbol_of(id) {
                Some(symbol) if changes_type => {
                    self.assigned.insert(symbol);
                }
                Some(_) => {}
                // A global, which may be a backend.
                None => self.usage.is_trusted = false,
            },
            SimpleAssignmentTarget::StaticMemberExpression(it) => {
                self.note(it.property.span.start, &it.property.name, PropertyAccess::Written);
            }
            SimpleAssignmentTarget::ComputedMemberExpression(it) => match &it.expression {
                Expression::StringLiteral(name) => {
                    self.usage.written.insert(name.value.to_string());
                }
                _ => self.stored_by_key(&it.object),
            },
            _ => {}
        }
    }

    /// `object[key] = value` gives an object properties that are not known. An accumulator that is a parameter has no
    /// declared type.
    fn stored_by_key(&mut self, object: &Expression<'a>) {
        match object.get_inner_expression() {
            Expression::Identifier(id) => {
                let Some(symbol) = self.symbol_of(id) else { return self.usage.is_trusted = false };
                let is_value = matches!(self.initialisers.get(&symbol), Some(Initialiser::Value(_)));
                if is_value || self.bound.contains(&symbol) {
                    self.usage.is_trusted = false;
                }
            }
            Expression::ComputedMemberExpression(it) => self.stored_by_key(&it.object),
            _ => self.usage.is_trusted = false,
        }
    }

    fn check_call(&mut self, it: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = it.callee.get_inner_expression() {
            let is_literal = |argument: Option<&Argument<'a>>| {
                matches!(argument, Some(Argument::ObjectExpression(_) | Argument::ArrayExpression(_)))
            };
            match member.property.name.as_str() {
                "push" | "unshift" | "splice" | "fill" | "set" => self.stored_in(&member.object),
                "assign" if !is_literal(it.arguments.first()) => self.usage.is_trusted = false,
                "defineProperty" | "defineProperties" | "setPrototypeOf" => self.usage.is_trusted = false,
                "catch" | "allSettled" => self.usage.handles_rejections = true,
                "then" if it.arguments.len() > 1 => self.usage.handles_rejections = true,
                "isArray" | "hasOwn" => {
                    it.arguments.iter().filter_map(|one| one.as_expression()).for_each(|one| self.probe(one))
                }
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
                    Some(init) if is_empty(init) => Initialiser::Empty,
                    Some(init) => Initialiser::Value(init.span()),
                };
                if let Some(symbol) = id.symbol_id.get().filter(|symbol| !self.bound.contains(symbol)) {
                    self.initialisers.insert(symbol, initialiser);
                }
            }
            pattern => self.bind(pattern),
        }
    }

    fn bind(&mut self, pattern: &BindingPattern<'a>) {
        for id in pattern.get_binding_identifiers() {
            if let Some(symbol) = id.symbol_id.get() {
                self.bound.insert(symbol);
            }
        }
    }

    /// Notes the parameters of functions that are written as arguments: what calls them gives them values of its own. The
    /// accumulator of a `reduce` that starts with what the program made is none of them.
    fn bind_callbacks(&mut self, it: &CallExpression<'a>) {
        let reduces =
            is_method(it, &["reduce", "reduceRight"]) && it.arguments.get(1).is_some_and(|start| self.is_new(start));
        for parameters in it.arguments.iter().filter_map(parameters_of) {
            let items = parameters.items.iter().skip(usize::from(reduces));
            items.for_each(|one| self.bind(&one.pattern));
        }
    }

    /// Whether an argument is no value that the program got from elsewhere.
    fn is_new(&self, argument: &Argument<'a>) -> bool {
        match argument.as_expression().map(Expression::get_inner_expression) {
            Some(
                it @ (Expression::Identifier(_)
                | Expression::StaticMemberExpression(_)
                | Expression::ComputedMemberExpression(_)),
            ) => self.takes_anything(it),
            other => other.is_some(),
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
        if matches!(it.name.as_str(), "eval" | "Function" | "Reflect") && self.symbol_of(it).is_none() {
            self.usage.is_trusted = false;
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        // `+=` and the like keep numbers numbers and texts texts.
        let changes_type = it.operator == AssignmentOperator::Assign || it.operator.is_logical();
        match it.left.as_simple_assignment_target() {
            Some(target) => self.assign_to(target, changes_type),
            None => self.usage.is_trusted = false,
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_update_expression(&mut self, it: &UpdateExpression<'a>) {
        self.assign_to(&it.argument, false);
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
        self.probe(&it.consequent);
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

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
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
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if let Some(name) = it.key.static_name() {
            self.name_function(&name, it.span);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let Some(name) = it.key.static_name().filter(|_| is_function(&it.value)) {
            self.name_function(&name, it.span);
        }
        walk::walk_object_property(self, it);
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
