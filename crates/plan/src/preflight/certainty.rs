//! Finds the calls whose failure certainly is the failure of the program.
//!
//! Such a call is reached whenever the program runs to its end, and its promise is awaited or returned where nothing
//! handles a rejection. A call in a branch, a loop, a callback, a `try` with a `catch`, after a possible `return`, or with a
//! `.catch(…)` is none: a program with such a call may run correctly although the call fails. Every doubt is a no.

use crate::{
    compile::{Lone, last_expression, lone_function},
    functions::{self, Body},
    parse::Parsed,
    reach,
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::Span,
    syntax::{scope::ScopeFlags, symbol::SymbolId},
};
use std::collections::{HashMap, HashSet};

/// The calls of a program whose rejected promise ends it.
pub(super) struct FatalCalls(HashSet<Span>);

impl FatalCalls {
    pub(super) fn of(parsed: &Parsed<'_>) -> Self {
        let mut walker = Walker {
            parsed,
            functions: functions::named(parsed.program),
            entered: HashSet::new(),
            bodies: Vec::new(),
            found: HashSet::new(),
        };
        walker.walk_program();
        FatalCalls(walker.found)
    }

    /// Whether the program fails if the promise of this call is rejected.
    pub(super) fn has(&self, call: Span) -> bool {
        self.0.contains(&call)
    }
}

/// Whether statements after this one certainly run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoesOn,
    MayEnd,
}

struct Walker<'p, 'a> {
    parsed: &'p Parsed<'a>,
    /// Functions that the program declares at its top level and never reassigns.
    functions: HashMap<SymbolId, Body<'p, 'a>>,
    /// Functions whose body was or will be walked.
    entered: HashSet<SymbolId>,
    /// Bodies of functions that are certainly called and whose result is awaited.
    bodies: Vec<Body<'p, 'a>>,
    found: HashSet<Span>,
}

impl<'p, 'a> Walker<'p, 'a> {
    fn walk_program(&mut self) {
        let program = self.parsed.program;
        match lone_function(program) {
            Some(Lone::Declaration(function)) => self.bodies.extend(functions::body(function)),
            Some(Lone::Expression(function)) => self.bodies.extend(functions::body_of_expression(function)),
            None => {
                if self.walk_statements(&program.body) == Flow::GoesOn {
                    if let Some(last) = last_expression(program) {
                        self.mark_awaited(&last.expression);
                    }
                    self.bodies.extend(functions::exported_main(program));
                }
            }
        }
        while let Some(body) = self.bodies.pop() {
            self.walk_body(body);
        }
    }

    fn walk_body(&mut self, body: Body<'_, 'a>) {
        match body {
            Body::Statements(statements) => drop(self.walk_statements(statements)),
            Body::Value(value) => {
                self.visit_expression(value);
                self.mark_awaited(value);
            }
        }
    }

    fn walk_statements(&mut self, statements: &[Statement<'a>]) -> Flow {
        for statement in statements {
            let flow = match statement {
                Statement::BlockStatement(it) => self.walk_statements(&it.body),
                _ => {
                    self.walk_statement(statement);
                    if may_return(statement) { Flow::MayEnd } else { Flow::GoesOn }
                }
            };
            if flow == Flow::MayEnd {
                return flow;
            }
        }
        Flow::GoesOn
    }

    /// Visits the parts of a statement that certainly run.
    fn walk_statement(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::ExpressionStatement(it) => self.visit_expression(&it.expression),
            Statement::VariableDeclaration(it) => self.walk_variables(it),
            Statement::ExportDeclaration(it) => {
                if let Declaration::VariableDeclaration(variables) = &it.declaration {
                    self.walk_variables(variables);
                }
            }
            Statement::ReturnStatement(it) => {
                if let Some(argument) = &it.argument {
                    self.visit_expression(argument);
                    self.mark_awaited(argument);
                }
            }
            Statement::ThrowStatement(it) => self.visit_expression(&it.argument),
            Statement::IfStatement(it) => self.visit_expression(&it.test),
            Statement::SwitchStatement(it) => self.visit_expression(&it.discriminant),
            Statement::WhileStatement(it) => self.visit_expression(&it.test),
            Statement::ForOfStatement(it) => self.visit_expression(&it.right),
            Statement::ForInStatement(it) => self.visit_expression(&it.right),
            Statement::ForStatement(it) => match &it.init {
                Some(ForStatementInit::VariableDeclaration(variables)) => self.walk_variables(variables),
                Some(init) => init.as_expression().into_iter().for_each(|init| self.visit_expression(init)),
                None => {}
            },
            Statement::TryStatement(it) => self.walk_try(it),
            _ => {}
        }
    }

    fn walk_try(&mut self, it: &TryStatement<'a>) {
        // A `finally` that returns or leaves a loop drops the error.
        let keeps_errors = it.handler.is_none() && it.finalizer.as_ref().is_none_or(|last| !may_leave(&last.body));
        if keeps_errors {
            self.walk_statements(&it.block.body);
        }
        if let Some(last) = &it.finalizer {
            self.walk_statements(&last.body);
        }
    }

    fn walk_variables(&mut self, variables: &VariableDeclaration<'a>) {
        for init in variables.declarations.iter().filter_map(|one| one.init.as_ref()) {
            self.visit_expression(init);
        }
    }

    /// The calls whose rejection is that of `expression`, which is awaited.
    fn mark_awaited(&mut self, expression: &Expression<'a>) {
        match expression.get_inner_expression() {
            Expression::AwaitExpression(it) => self.mark_awaited(&it.argument),
            Expression::CallExpression(call) if !call.optional => self.mark_awaited_call(call),
            _ => {}
        }
    }

    fn mark_awaited_call(&mut self, call: &CallExpression<'a>) {
        if !self.found.insert(call.span) {
            return;
        }
        match call.callee.get_inner_expression() {
            Expression::Identifier(id) => self.enter_function(id),
            callee @ (Expression::FunctionExpression(_) | Expression::ArrowFunctionExpression(_)) => {
                if let Some(body) = functions::body_of_expression(callee) {
                    self.walk_body(body);
                }
            }
            callee => self.mark_passed_on(callee, call),
        }
    }

    /// `p.then(f)` and `p.finally(f)` reject when `p` does, `Promise.all([p])` too.
    fn mark_passed_on(&mut self, callee: &Expression<'a>, call: &CallExpression<'a>) {
        let Some((object, name, _)) = reach::member(callee) else { return };
        match (name, call.arguments.as_slice()) {
            ("then" | "finally", [only]) if !only.is_spread() => self.mark_awaited(object),
            ("all", [Argument::ArrayExpression(list)]) if self.is_global_promise(object) => {
                for one in list.elements.iter().filter_map(|one| one.as_expression()) {
                    self.mark_awaited(one);
                }
            }
            _ => {}
        }
    }

    fn is_global_promise(&self, expression: &Expression<'a>) -> bool {
        matches!(expression.get_inner_expression(), Expression::Identifier(id) if id.name == "Promise" && self.parsed.is_global(id))
    }

    fn enter_function(&mut self, id: &IdentifierReference<'a>) {
        let scoping = &self.parsed.scoping;
        let Some(symbol) = id.reference_id.get().and_then(|it| scoping.get_reference(it).symbol_id()) else { return };
        if scoping.symbol_is_mutated(symbol) {
            return;
        }
        if let Some(body) = self.functions.get(&symbol)
            && self.entered.insert(symbol)
        {
            self.bodies.push(*body);
        }
    }
}

/// Visits what is certainly evaluated when an expression is.
impl<'a> Visit<'a> for Walker<'_, 'a> {
    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        self.mark_awaited(&it.argument);
        walk::walk_await_expression(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.visit_expression(&it.test);
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.visit_expression(&it.left);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if !it.operator.is_logical() {
            self.visit_expression(&it.right);
        }
    }

    fn visit_chain_expression(&mut self, _: &ChainExpression<'a>) {}

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}

    fn visit_class(&mut self, _: &Class<'a>) {}
}

fn may_return(statement: &Statement<'_>) -> bool {
    let mut exits = Exits::default();
    exits.visit_statement(statement);
    exits.returns
}

fn may_leave(statements: &[Statement<'_>]) -> bool {
    let mut exits = Exits::default();
    statements.iter().for_each(|statement| exits.visit_statement(statement));
    exits.returns || exits.jumps
}

/// Ways in which statements end early, other than by an error.
#[derive(Default)]
struct Exits {
    returns: bool,
    jumps: bool,
}

impl<'a> Visit<'a> for Exits {
    fn visit_return_statement(&mut self, _: &ReturnStatement<'a>) {
        self.returns = true;
    }

    fn visit_break_statement(&mut self, _: &BreakStatement<'a>) {
        self.jumps = true;
    }

    fn visit_continue_statement(&mut self, _: &ContinueStatement<'a>) {
        self.jumps = true;
    }

    fn visit_expression(&mut self, _: &Expression<'a>) {}

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_class(&mut self, _: &Class<'a>) {}
}
