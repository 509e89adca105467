//! What the types that a program writes say about values.
//!
//! A checker gets the program without its types, so that no annotation hides a mistake. All the same `reply as any` says that
//! the writer knows more than the schema, and `interface Reply { extra: string }` that there is an `extra`. Values of the
//! first kind are followed through variables, members, calls and callbacks; of the second kind the names are kept.
//!
//! It reads the user's own text, and only if a finding depends on it. Every doubt is a claim of the program.

use std::collections::HashSet;

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    semantic::{Scoping, SymbolId},
    span::GetSpan,
    syntax::scope::ScopeFlags,
};

use crate::compile::Program;
use crate::parse::{Parsed, with_parsed};

/// Rounds of following values through variables that are declared after their use.
const MAX_ROUNDS: usize = 8;

/// What a program's own types claim.
#[derive(Debug, Clone, Default)]
pub struct TypeClaims {
    /// Whether the text could not be read, so that anything may be claimed.
    is_unknown: bool,
    /// The keys of the types that the program declares.
    keys: HashSet<String>,
    /// Where values are whose type is said to be open, and names of properties of such values, in the user's text.
    open: HashSet<usize>,
}

impl TypeClaims {
    /// The claims of a program.
    pub fn of(program: &Program) -> Self {
        let read = with_parsed(program.source(), |parsed| Ok(read(&parsed)));
        read.unwrap_or_else(|_| TypeClaims { is_unknown: true, ..TypeClaims::default() })
    }

    /// Whether the program claims that there is a property of this name, at an offset of its compiled text, or that the
    /// value there may be anything.
    pub fn have(&self, program: &Program, offset: usize, name: &str) -> bool {
        let is_open = || program.source_offset(offset).is_none_or(|at| self.open.contains(&at));
        self.is_unknown || self.keys.contains(name) || is_open()
    }
}

fn read(parsed: &Parsed<'_>) -> TypeClaims {
    let mut reader = ClaimReader { parsed, claims: TypeClaims::default(), variables: HashSet::new() };
    for _ in 0..MAX_ROUNDS {
        let known = reader.variables.len();
        reader.visit_program(parsed.program);
        if reader.variables.len() == known {
            break;
        }
    }
    reader.claims
}

struct ClaimReader<'p, 'a> {
    parsed: &'p Parsed<'a>,
    claims: TypeClaims,
    /// Variables whose values are open, and functions whose results are.
    variables: HashSet<SymbolId>,
}

impl<'a> ClaimReader<'_, 'a> {
    fn open_at(&mut self, offset: u32) {
        self.claims.open.insert(self.parsed.source_offset(offset));
    }

    fn open_pattern(&mut self, pattern: &BindingPattern<'a>) {
        self.open_at(pattern.span().start);
        self.variables.extend(pattern.get_binding_identifiers().iter().filter_map(|id| id.symbol_id.get()));
        PatternKeys(self).visit_binding_pattern(pattern);
    }

    fn open_parameters(&mut self, parameters: &FormalParameters<'a>) {
        parameters.items.iter().for_each(|one| self.open_pattern(&one.pattern));
    }

    fn is_open_type(&self, annotation: Option<&TSTypeAnnotation<'a>>) -> bool {
        annotation.is_some_and(|it| has_open(&it.type_annotation, &self.parsed.scoping))
    }

    /// Whether the program says that the type of a value is open.
    fn is_open(&self, expression: &Expression<'a>) -> bool {
        let has_open = |of: &TSType<'a>| has_open(of, &self.parsed.scoping);
        match expression {
            Expression::TSAsExpression(it) => has_open(&it.type_annotation) || self.is_open(&it.expression),
            Expression::TSTypeAssertion(it) => has_open(&it.type_annotation) || self.is_open(&it.expression),
            Expression::TSSatisfiesExpression(it) => self.is_open(&it.expression),
            Expression::TSNonNullExpression(it) => self.is_open(&it.expression),
            Expression::ParenthesizedExpression(it) => self.is_open(&it.expression),
            Expression::AwaitExpression(it) => self.is_open(&it.argument),
            Expression::StaticMemberExpression(it) => self.is_open(&it.object),
            Expression::ComputedMemberExpression(it) => self.is_open(&it.object),
            Expression::CallExpression(it) => self.is_open_call(it),
            Expression::ChainExpression(it) => match &it.expression {
                ChainElement::CallExpression(it) => self.is_open_call(it),
                ChainElement::TSNonNullExpression(it) => self.is_open(&it.expression),
                other => other.member_expression().is_some_and(|it| self.is_open(it.object())),
            },
            Expression::LogicalExpression(it) => self.is_open(&it.left) || self.is_open(&it.right),
            Expression::ConditionalExpression(it) => self.is_open(&it.consequent) || self.is_open(&it.alternate),
            Expression::Identifier(id) => self.symbol_of(id).is_some_and(|symbol| self.variables.contains(&symbol)),
            _ => false,
        }
    }

    /// Also `Object.values(reply)` and `Promise.all(jobs)`.
    fn is_open_call(&self, it: &CallExpression<'a>) -> bool {
        let types = it
            .type_arguments
            .as_ref()
            .is_some_and(|all| all.params.iter().any(|one| has_open(one, &self.parsed.scoping)));
        types
            || self.is_open(&it.callee)
            || it.arguments.iter().filter_map(|one| one.as_expression()).any(|one| self.is_open(one))
    }

    fn symbol_of(&self, id: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.parsed.scoping.get_reference(id.reference_id.get()?).symbol_id()
    }
}

impl<'a> Visit<'a> for ClaimReader<'_, 'a> {
    fn visit_ts_property_signature(&mut self, it: &TSPropertySignature<'a>) {
        self.claims.keys.extend(it.key.static_name().map(|name| name.into_owned()));
        walk::walk_ts_property_signature(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if self.is_open(&it.object) {
            self.open_at(it.property.span.start);
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.symbol_of(it).is_some_and(|symbol| self.variables.contains(&symbol)) {
            self.open_at(it.span.start);
        }
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        if has_open(&it.type_annotation, &self.parsed.scoping) {
            self.open_at(it.expression.span().start);
        }
        walk::walk_ts_as_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if self.is_open_type(it.type_annotation.as_deref()) || it.init.as_ref().is_some_and(|init| self.is_open(init)) {
            self.open_pattern(&it.id);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if let Some(SimpleAssignmentTarget::AssignmentTargetIdentifier(id)) = it.left.as_simple_assignment_target()
            && self.is_open(&it.right)
        {
            self.variables.extend(self.symbol_of(id));
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(left) = &it.left
            && self.is_open(&it.right)
        {
            left.declarations.iter().for_each(|one| self.open_pattern(&one.id));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if self.is_open_type(it.type_annotation.as_deref()) {
            self.open_pattern(&it.pattern);
        }
        walk::walk_formal_parameter(self, it);
    }

    /// A function that is given to a method of an open value gets open values.
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if self.is_open(&it.callee) {
            for argument in it.arguments.iter().filter_map(|one| one.as_expression()) {
                match argument.get_inner_expression() {
                    Expression::ArrowFunctionExpression(it) => self.open_parameters(&it.params),
                    Expression::FunctionExpression(it) => self.open_parameters(&it.params),
                    _ => {}
                }
            }
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if self.is_open_type(it.return_type.as_deref()) {
            self.variables.extend(it.id.as_ref().and_then(|id| id.symbol_id.get()));
        }
        walk::walk_function(self, it, flags);
    }
}

/// Notes the keys of a pattern for an open value.
struct PatternKeys<'r, 'p, 'a>(&'r mut ClaimReader<'p, 'a>);

impl<'a> Visit<'a> for PatternKeys<'_, '_, 'a> {
    fn visit_binding_property(&mut self, it: &BindingProperty<'a>) {
        if let PropertyKey::StaticIdentifier(key) = &it.key {
            self.0.open_at(key.span.start);
        }
        walk::walk_binding_property(self, it);
    }
}

/// Whether a type has a part that may be anything: `any`, `unknown`, or a type that the program does not declare.
fn has_open(of: &TSType<'_>, scoping: &Scoping) -> bool {
    let mut types = OpenTypes { scoping, found: false };
    types.visit_ts_type(of);
    types.found
}

struct OpenTypes<'s> {
    scoping: &'s Scoping,
    found: bool,
}

/// Types of the language that say nothing by themselves.
const KNOWN: [&str; 15] = [
    "Array",
    "ReadonlyArray",
    "Promise",
    "Record",
    "Map",
    "Set",
    "Date",
    "Partial",
    "Required",
    "Readonly",
    "Pick",
    "Omit",
    "NonNullable",
    "Awaited",
    "Error",
];

impl<'a> Visit<'a> for OpenTypes<'_> {
    fn visit_ts_any_keyword(&mut self, _: &TSAnyKeyword) {
        self.found = true;
    }

    fn visit_ts_unknown_keyword(&mut self, _: &TSUnknownKeyword) {
        self.found = true;
    }

    fn visit_ts_object_keyword(&mut self, _: &TSObjectKeyword) {
        self.found = true;
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let reference = it.reference_id.get().map(|id| self.scoping.get_reference(id));
        let is_declared = reference.is_some_and(|reference| reference.symbol_id().is_some());
        self.found |= !is_declared && !KNOWN.contains(&it.name.as_str());
    }
}
