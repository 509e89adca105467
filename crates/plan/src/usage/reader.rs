//! Walks a compiled program once and notes what it does with names and properties.
//!
//! What it notes is read by [`ProgramUsage`]; what it cannot follow makes the program untrusted. `visit` says what each
//! part of the syntax means, `probes` what a program asks about values.

mod probes;
mod visit;

use super::branches::Branches;
use super::flow::{Flow, Question};
use super::guards::{Guards, NamedCall};
use super::properties::{PropertyValues, private_name};
use super::sources::{Source, Sources, StoreKind};
use super::syntax::{called_member, function_parameters, is_empty, is_number, is_storing, parameters_of};
use super::text::{Cast, checked_text};
use super::{GlobalCall, ProgramUsage, PropertyAccess};
use crate::parse::Parsed;
use oxc::{
    ast::ast::*,
    ast_visit::Visit,
    semantic::{Scoping, SymbolId},
    span::{GetSpan, Span},
};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) fn read(parsed: &Parsed<'_>) -> ProgramUsage {
    let mut reader = Reader {
        parsed,
        usage: ProgramUsage { is_trusted: true, ..ProgramUsage::default() },
        assigned: HashSet::new(),
        counted: HashSet::new(),
        initialisers: HashMap::new(),
        bound: HashSet::new(),
        references: Vec::new(),
        flow: Flow::default(),
        branches: Branches::default(),
        functions: Vec::new(),
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

/// Bytes of an expression that is compared with others.
const MAX_OBJECT: u32 = 200;

/// What a variable is declared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Initialiser {
    /// Nothing.
    None,
    /// `[]`, `{}`, or `new Name()`, at this place: what is put into it later decides its type.
    Empty(Span),
    /// A number, at this place.
    Number(Span),
    /// Something else, at this place.
    Value(Span),
}

impl Initialiser {
    fn of(value: &Expression<'_>, scoping: &Scoping) -> Self {
        match value.span() {
            span if is_empty(value, scoping) => Self::Empty(span),
            span if is_number(value) => Self::Number(span),
            span => Self::Value(span),
        }
    }
}

struct Reader<'p, 'a> {
    parsed: &'p Parsed<'a>,
    usage: ProgramUsage,
    /// Variables with an assignment that may change their type.
    assigned: HashSet<SymbolId>,
    /// Variables that `++` or `*=` makes numbers.
    counted: HashSet<SymbolId>,
    /// Variables that are declared by their name alone, with what each declaration says.
    initialisers: HashMap<SymbolId, Vec<Initialiser>>,
    /// Variables that a loop, a pattern or a function given to a call declares.
    bound: HashSet<SymbolId>,
    /// Where variables are named.
    references: Vec<(u32, SymbolId)>,
    flow: Flow,
    branches: Branches,
    /// Where the functions begin that are being read.
    functions: Vec<u32>,
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
        self.usage.is_trusted &= !self.flow.is_overfull();
        self.usage.probed_directly = self.flow.probed_directly();
        for (at, name, question) in self.flow.questions() {
            let access = match question {
                Question::Presence => PropertyAccess::Probed,
                Question::Comparison => PropertyAccess::Compared,
            };
            self.note(at, &name, access);
        }
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
        self.references.sort_unstable_by_key(|(at, _)| *at);
        self.usage.guarded = self.guards.guarded(&self.references);
        self.usage.branches = self.branches.with_references(self.references);
        self.usage.flow = self.flow;
        self.usage
    }

    /// Gives variables that change the type `any`. A variable with several declarations changes with each.
    fn cast_variables(&mut self) {
        let scoping = &self.parsed.scoping;
        let is_redeclared = |symbol: &SymbolId| !scoping.symbol_redeclarations(*symbol).is_empty();
        self.assigned.extend(scoping.symbol_ids().filter(is_redeclared));
        // What starts as a number stays one.
        let is_number = |one: &Initialiser| matches!(one, Initialiser::Number(_));
        let stays = |symbol: &SymbolId| self.initialisers.get(symbol).is_some_and(|all| all.iter().all(is_number));
        self.assigned.extend(self.counted.iter().filter(|symbol| !stays(symbol)));
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
                    Initialiser::Empty(span) | Initialiser::Number(span) | Initialiser::Value(span) => {
                        self.casts.push(Cast::around(*span));
                    }
                }
            }
        }
    }

    fn symbol_of(&self, id: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.parsed.scoping.get_reference(id.reference_id.get()?).symbol_id()
    }

    fn note(&mut self, at: u32, name: &str, access: PropertyAccess) {
        let entry = self.usage.accesses.entry(at).or_insert_with(|| (name.to_owned(), access));
        entry.1 = entry.1.max(access);
        let names = match access {
            PropertyAccess::Read | PropertyAccess::Compared => return,
            PropertyAccess::Probed => &mut self.usage.probed,
            PropertyAccess::Written => &mut self.usage.written,
        };
        names.insert(name.to_owned());
    }

    /// Notes what a property is of.
    fn note_object(&mut self, at: u32, object: Span) {
        if object.size() <= MAX_OBJECT {
            let text = self.parsed.code.get(object.start as usize..object.end as usize);
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            self.usage.objects.insert(at, hasher.finish());
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

    fn source_of(&self, expression: &Expression<'a>) -> Source {
        Source::of(expression, &self.parsed.scoping)
    }

    /// Something is assigned. `+=` has no value here: it keeps numbers numbers and texts texts, or a checker says that it
    /// does not.
    fn assign_to(&mut self, target: &SimpleAssignmentTarget<'a>, value: Option<&Expression<'a>>) {
        match target {
            SimpleAssignmentTarget::AssignmentTargetIdentifier(id) => match (self.symbol_of(id), value) {
                (Some(symbol), Some(value)) => {
                    self.assigned.insert(symbol);
                    self.sources.add(symbol, self.source_of(value));
                    self.flow.bind(symbol, value, &self.parsed.scoping);
                    self.guards.given.entry(symbol).or_default().push(value.span());
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
            self.flow.give_property(&name, value, &self.parsed.scoping);
            self.properties.assign(name, value);
        }
    }

    /// `*=` and `++` make a number of what was there.
    fn count(&mut self, target: &SimpleAssignmentTarget<'a>) {
        match target {
            SimpleAssignmentTarget::AssignmentTargetIdentifier(id) => self.counted.extend(self.symbol_of(id)),
            SimpleAssignmentTarget::PrivateFieldExpression(it) => self.properties.count(private_name(&it.field)),
            _ => {
                let name = target.as_member_expression().and_then(|it| it.static_property_name());
                name.into_iter().for_each(|name| self.properties.count(name.to_owned()));
            }
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
                    if let Expression::Identifier(id) = object.get_inner_expression()
                        && let Some(symbol) = self.symbol_of(id)
                    {
                        let given = self.guards.given.entry(symbol).or_default();
                        given.extend(it.arguments.iter().map(GetSpan::span));
                    }
                }
                "assign" if !is_literal(it.arguments.first()) => self.usage.is_trusted = false,
                "defineProperty" | "defineProperties" | "setPrototypeOf" => self.usage.is_trusted = false,
                "catch" => self.handle_rejections(object.span()),
                "allSettled" => self.handle_rejections(it.span),
                "then" if it.arguments.len() > 1 => self.handle_rejections(object.span()),
                // Without a start, the accumulator is first an item and then what the function returns.
                "reduce" | "reduceRight" if it.arguments.len() == 1 => self.cast_call(it),
                _ => {}
            }
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

    fn handle_rejections(&mut self, promises: Span) {
        self.usage.handles_rejections = true;
        self.guards.handled.push(promises);
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
                let scoping = &self.parsed.scoping;
                let initialiser = it.init.as_ref().map_or(Initialiser::None, |init| Initialiser::of(init, scoping));
                if let (Some(symbol), Some(init)) = (id.symbol_id.get(), &it.init) {
                    self.flow.bind(symbol, init, scoping);
                    self.guards.given.entry(symbol).or_default().push(init.span());
                }
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
            pattern => {
                self.bind(pattern);
                if let Some(init) = &it.init {
                    self.bind_items(pattern, init);
                    // What a checker says about the list is said at the pattern.
                    if let Expression::Identifier(id) = init.get_inner_expression() {
                        let list = self.symbol_of(id).map(|symbol| (pattern.span().start, symbol));
                        self.references.extend(list);
                    }
                }
            }
        }
    }

    /// What a pattern of items or a loop declares gets the items of a list.
    fn bind_items(&mut self, pattern: &BindingPattern<'a>, list: &Expression<'a>) {
        let scoping = &self.parsed.scoping;
        let elements = match pattern {
            BindingPattern::ArrayPattern(it) => it.elements.iter().flatten().collect(),
            BindingPattern::BindingIdentifier(_) => vec![pattern],
            _ => Vec::new(),
        };
        for one in elements {
            if let Some(symbol) = one.get_binding_identifier().and_then(|id| id.symbol_id.get()) {
                self.flow.bind_items(symbol, list, scoping);
            }
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

    /// Notes a function that is an expression by its name.
    fn name_expression(&mut self, name: &str, span: Span, function: &Expression<'a>) {
        if let Some(parameters) = function_parameters(function) {
            self.name_function(name, span);
            self.flow.name_function(name, function.get_inner_expression().span().start, parameters);
        }
    }

    /// Notes a call of a function that the program may declare.
    fn name_call(&mut self, it: &CallExpression<'a>) {
        let name = match it.callee.get_inner_expression() {
            Expression::Identifier(id) => id.name.as_str(),
            Expression::StaticMemberExpression(it) => it.property.name.as_str(),
            _ => return,
        };
        let is_tool = |one: &Argument<'a>| {
            one.as_expression().is_some_and(|one| one.is_member_expression() && self.is_on_global(one))
        };
        let inline = it.arguments.iter().filter(|one| parameters_of(one).is_some() || is_tool(one));
        let inline = inline.map(GetSpan::span).collect();
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
