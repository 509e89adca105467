//! Checks the calls of a program before the first of them has an effect.
//!
//! An error is a call that certainly fails, a tool that does not exist or literal arguments that do not fit, at a place
//! where its failure certainly is the failure of the program. Everything less certain is a warning, so no program that
//! would run correctly is refused. The check follows names, not values: a backend that was assigned to a variable is not
//! recognised.

mod certainty;
mod clock;
mod promises;
mod result;

use self::certainty::FatalCalls;
use crate::{
    direct::{self, Unusable},
    erase::shorten,
    fault::SyntaxFault,
    hints::is_meta_tool,
    hyphen,
    integers::is_rounded_literal,
    literal::{self, Arguments, argument_start, arguments},
    parse::{Parsed, with_parsed},
    reach::{self, Reached, Target, global_backend},
    suggest::{nearest, question},
    tools::{ArgumentProblem, Call, Foreseen, Tools},
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::Span,
    syntax::{
        operator::BinaryOperator,
        scope::ScopeFlags,
        symbol::{SymbolFlags, SymbolId},
    },
};
use std::collections::{HashMap, HashSet};
use toolgate_wire::position::Position;

/// Calls that are listed.
const MAX_CALLS: usize = 1_000;
/// Errors, and warnings, that are listed.
const MAX_FINDINGS: usize = 100;
/// Names for which suggestions are looked up: each is compared with every tool.
const MAX_GUESSES: usize = 20;

/// What is known about a program's calls without running it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preflight {
    /// The tool calls in the program, in the order of its text.
    pub calls: Vec<PlannedCall>,
    /// What certainly fails: the run must not start.
    pub errors: Vec<Finding>,
    /// What probably fails.
    pub warnings: Vec<Finding>,
}

/// A call that the program would make.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    /// Original name of the backend.
    pub backend: String,
    /// Original name of the tool.
    pub tool: String,
    /// The position of the call; `None` if the text is JSON and not a program.
    pub position: Option<Position>,
    /// Its arguments, as far as they are known.
    pub arguments: Arguments,
}

/// An error or a warning about a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub code: FindingCode,
    /// What is wrong: one sentence.
    pub message: String,
    /// The position.
    pub position: Position,
    /// What to do instead.
    pub suggestion: Option<String>,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingCode {
    /// The backend has no such tool.
    UnknownTool,
    /// There is no such backend.
    UnknownBackend,
    /// The backend's tools are not known yet.
    NotReady,
    /// Arguments do not fit the tool's input schema.
    InvalidArguments,
    /// The policy denies the call.
    Denied,
    /// A person is asked about the call.
    Asked,
    /// A call's promise is dropped.
    NotAwaited,
    /// A promise is used as if it were its value.
    MissingAwait,
    /// A variable hides a backend.
    ShadowedBackend,
    /// The program ends without a result.
    NoResult,
    /// A loop waits for the clock, which stands still.
    BusyWait,
    /// An integer has more digits than JavaScript's numbers hold.
    RoundedNumber,
    /// A value has no such property.
    UnknownProperty,
}

impl FindingCode {
    /// The name of the kind in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::UnknownBackend => "unknown_backend",
            Self::NotReady => "not_ready",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::Asked => "asked",
            Self::NotAwaited => "not_awaited",
            Self::MissingAwait => "missing_await",
            Self::ShadowedBackend => "shadowed_backend",
            Self::NoResult => "no_result",
            Self::BusyWait => "busy_wait",
            Self::RoundedNumber => "rounded_number",
            Self::UnknownProperty => "unknown_property",
        }
    }
}

/// Checks a text without running it, as `toolgate check` does.
pub fn preflight(source: &str, tools: &dyn Tools) -> Result<Preflight, SyntaxFault> {
    if let Some(direct) = direct::read(source, tools) {
        return direct.map(|call| preflight_call(&call, tools)).map_err(Unusable::into_fault);
    }
    if let Some(script) = hyphen::script(source, tools) {
        return Ok(script.preflight);
    }
    with_parsed(source, |parsed| Ok(inspect(&parsed, tools)))
}

/// Checks a call that came as JSON. Its text has no positions, so findings are at its start.
pub fn preflight_call(call: &Call, tools: &dyn Tools) -> Preflight {
    let written = format!("{}.{}", shorten(&call.backend), shorten(&call.tool));
    let position = Position { line: 1, column: 1 };
    let problems = tools.check_arguments(&call.backend, &call.tool, &call.arguments);
    let finding = |problem| Finding {
        code: FindingCode::InvalidArguments,
        message: tell(&written, &problem),
        position,
        suggestion: None,
    };
    let mut errors: Vec<Finding> = problems.into_iter().map(finding).collect();
    let mut warnings = Vec::new();
    if let Some((code, message)) =
        tell_policy(&written, &tools.foresee(&call.backend, &call.tool, Some(&call.arguments)))
    {
        let list = if code == FindingCode::Denied { &mut errors } else { &mut warnings };
        list.push(Finding { code, message, position, suggestion: None });
    }
    let arguments = Arguments::Known(call.arguments.clone());
    let planned = PlannedCall { backend: call.backend.clone(), tool: call.tool.clone(), position: None, arguments };
    Preflight { calls: vec![planned], errors, warnings }
}

/// What the policy does to a call, in a sentence.
fn tell_policy(written: &str, foreseen: &Foreseen) -> Option<(FindingCode, String)> {
    match foreseen {
        Foreseen::Free => None,
        Foreseen::Asked(reason) => Some((FindingCode::Asked, format!("a person is asked about {written}: {reason}"))),
        Foreseen::Denied(reason) => {
            Some((FindingCode::Denied, format!("DENIED: {written} is denied by the policy: {reason}")))
        }
    }
}

pub(crate) fn inspect(parsed: &Parsed<'_>, tools: &dyn Tools) -> Preflight {
    let mut inspector = Inspector {
        parsed,
        tools,
        preflight: Preflight::default(),
        fatal: FatalCalls::of(parsed),
        certain: Vec::new(),
        is_anything_changed: false,
        functions: 0,
        loops: 0,
        result: result_span(parsed),
        promises: HashSet::new(),
        changed: HashSet::new(),
        probed: HashSet::new(),
        guesses: HashMap::new(),
    };
    inspector.visit_program(parsed.program);
    inspector.find_written_globals();
    inspector.find_shadows();
    inspector.check_result();
    inspector.finish()
}

/// The statement whose value is the program's result, so that its promise is not dropped.
fn result_span(parsed: &Parsed<'_>) -> Option<Span> {
    crate::compile::last_expression(parsed.program).map(|statement| statement.span)
}

struct Inspector<'p, 'a> {
    parsed: &'p Parsed<'a>,
    tools: &'p dyn Tools,
    preflight: Preflight,
    /// Calls whose failure is that of the program.
    fatal: FatalCalls,
    /// Errors, unless the program changes the backend or tests first whether the tool exists.
    certain: Vec<(String, String, Finding)>,
    /// Whether the program may change any global without naming it.
    is_anything_changed: bool,
    /// Functions and classes around the current place in which `this` is not the global object.
    functions: usize,
    /// Loops so far.
    loops: usize,
    result: Option<Span>,
    /// Variables that hold the promise of a call.
    promises: HashSet<SymbolId>,
    /// Backends that the program writes to.
    changed: HashSet<String>,
    /// Tools whose existence the program may test: backend and name.
    probed: HashSet<(String, String)>,
    /// Suggestions for mistyped names.
    guesses: HashMap<(Option<String>, String), Option<String>>,
}

impl<'a> Inspector<'_, 'a> {
    fn finish(mut self) -> Preflight {
        // What a missing backend does is told where it happens, unless calls were made before it.
        let has_calls = !self.preflight.calls.is_empty();
        for (backend, name, finding) in self.certain {
            let doubtful = self.is_anything_changed
                || self.changed.contains(&backend)
                || self.probed.contains(&(backend, name))
                || (finding.code == FindingCode::UnknownBackend && !has_calls);
            let list = if doubtful { &mut self.preflight.warnings } else { &mut self.preflight.errors };
            list.push(finding);
        }
        for list in [&mut self.preflight.errors, &mut self.preflight.warnings] {
            list.sort_by_key(|finding| finding.position);
            list.truncate(MAX_FINDINGS);
        }
        self.preflight
    }

    fn finding(&self, code: FindingCode, at: u32, message: String, suggestion: Option<String>) -> Finding {
        Finding { code, message, position: self.parsed.position(at), suggestion }
    }

    fn warn(&mut self, code: FindingCode, at: u32, message: String, suggestion: Option<String>) {
        if self.preflight.warnings.len() < MAX_FINDINGS {
            let finding = self.finding(code, at, message, suggestion);
            self.preflight.warnings.push(finding);
        }
    }

    /// Adds an error that is a warning if the program changes what it calls.
    fn accuse(&mut self, code: FindingCode, at: u32, message: String, suggestion: Option<String>, tool: (&str, &str)) {
        if self.certain.len() < MAX_FINDINGS {
            let finding = self.finding(code, at, message, suggestion);
            self.certain.push((tool.0.to_owned(), tool.1.to_owned(), finding));
        }
    }

    fn reached(&self, expression: &Expression<'a>) -> Option<Reached> {
        reach::callee(self.parsed, expression, self.tools)
    }

    fn is_tool_call(&self, expression: &Expression<'a>) -> Option<Reached> {
        let Expression::CallExpression(call) = expression.get_inner_expression() else { return None };
        self.reached(&call.callee).filter(|reached| matches!(reached.target, Target::Tool { .. }))
    }

    /// "Did you mean …?" for a tool of a backend, or for a backend.
    fn guess(&mut self, backend: Option<&str>, name: &str) -> Option<String> {
        let key = (backend.map(str::to_owned), name.to_owned());
        if let Some(known) = self.guesses.get(&key) {
            return known.clone();
        }
        if self.guesses.len() >= MAX_GUESSES {
            return None;
        }
        let names = backend.map_or_else(|| self.tools.backends(), |backend| self.tools.tools(backend));
        let guess = question(&nearest(name, names.iter().map(String::as_str)));
        self.guesses.insert(key, guess.clone());
        guess
    }

    fn check_call(&mut self, call: &CallExpression<'a>) {
        let Some(reached) = self.reached(&call.callee) else { return self.check_receiver(call) };
        let at = reached.name_span.start;
        match &reached.target {
            Target::Tool { backend, tool } => self.check_arguments(call, &reached, backend, tool),
            // Its tools are not all known, and a call may start it.
            Target::NoSuchTool { backend } if let Some(why) = self.tools.unready(backend) => {
                self.warn(FindingCode::NotReady, at, why, None);
            }
            Target::NoSuchTool { backend } => {
                let suggestion = self.guess(Some(backend), &reached.name);
                let message =
                    format!("Backend `{}` has no tool `{}`", shorten(&reached.receiver), shorten(&reached.name));
                if self.fatal.has(call.span) {
                    self.accuse(FindingCode::UnknownTool, at, message, suggestion, (backend, &reached.name));
                } else {
                    self.warn(FindingCode::UnknownTool, at, message, suggestion);
                }
            }
            Target::NoSuchBackend => {
                let suggestion = self.guess(None, &reached.receiver);
                let message = format!("There is no backend `{}`", shorten(&reached.receiver));
                self.no_backend(call, at, message, suggestion, (&reached.receiver, &reached.name));
            }
        }
    }

    /// A call on what is not there: it fails where it is reached, after the effects of the calls before it.
    fn no_backend(
        &mut self,
        call: &CallExpression<'a>,
        at: u32,
        message: String,
        suggestion: Option<String>,
        tool: (&str, &str),
    ) {
        if self.fatal.has(call.span) {
            self.accuse(FindingCode::UnknownBackend, at, message, suggestion, tool);
        } else {
            self.warn(FindingCode::UnknownBackend, at, message, suggestion);
        }
    }

    /// `exaa.search()`: a global that does not exist, similar to one that does.
    fn check_receiver(&mut self, call: &CallExpression<'a>) {
        let Some((object, property, _)) = reach::member(&call.callee) else { return };
        let Expression::Identifier(id) = object.get_inner_expression() else { return };
        let name = id.name.as_str();
        // `gatemini.search_tools()` is about the meta-tool; a hint says so after the failure.
        if !self.parsed.is_global(id) || reach::is_built_in(name) || is_meta_tool(property) {
            return;
        }
        // `weather` of the host function `weather.today`, or a function of that name itself.
        if self.tools.functions().iter().any(|function| function.split('.').next() == Some(name)) {
            return;
        }
        if let Some(suggestion) = self.guess(None, name) {
            let message = format!("`{}` is not defined", shorten(name));
            self.no_backend(call, id.span.start, message, Some(suggestion), (name, property));
        }
    }

    fn check_arguments(&mut self, call: &CallExpression<'a>, reached: &Reached, backend: &str, tool: &str) {
        let known = arguments(call);
        let at = argument_start(call);
        let written = format!("{}.{}", shorten(&reached.receiver), shorten(&reached.name));
        match &known {
            Arguments::Known(value) => {
                for problem in self.tools.check_arguments(backend, tool, value) {
                    let message = tell(&written, &problem);
                    if self.fatal.has(call.span) {
                        self.accuse(FindingCode::InvalidArguments, at, message, None, (backend, &reached.name));
                    } else {
                        self.warn(FindingCode::InvalidArguments, at, message, None);
                    }
                }
            }
            Arguments::Partial { .. } => self.check_partial(&known, (backend, tool), &written, at),
            Arguments::Unknown if call.arguments.len() > 1 => {
                let message = format!("{written} takes one argument object");
                self.warn(FindingCode::InvalidArguments, at, message, None);
            }
            Arguments::Unknown => {}
        }
        let literal = match &known {
            Arguments::Known(value) => Some(value),
            Arguments::Partial { .. } | Arguments::Unknown => None,
        };
        if let Some((code, message)) = tell_policy(&written, &self.tools.foresee(backend, tool, literal)) {
            if code == FindingCode::Denied && self.fatal.has(call.span) {
                self.accuse(code, reached.name_span.start, message, None, (backend, &reached.name));
            } else {
                self.warn(code, reached.name_span.start, message, None);
            }
        }
        if self.preflight.calls.len() < MAX_CALLS {
            let position = Some(self.parsed.position(call.span.start));
            let planned =
                PlannedCall { backend: backend.to_owned(), tool: tool.to_owned(), position, arguments: known };
            self.preflight.calls.push(planned);
        }
    }

    /// Checks an object of which only some properties are known: warnings only.
    fn check_partial(&mut self, known: &Arguments, (backend, tool): (&str, &str), written: &str, at: u32) {
        let Arguments::Partial { literals, dynamic, open } = known else { return };
        let has = |name: &String| literals.contains_key(name) || dynamic.contains(name);
        let mut problems: Vec<ArgumentProblem> = Vec::new();
        let mut problem = |path: &str, message: &str| {
            problems.push(ArgumentProblem { path: path.to_owned(), message: message.to_owned() });
        };
        if let Some(parameters) = self.tools.parameters(backend, tool) {
            for name in parameters.required.iter().filter(|name| !open && !has(name)) {
                problem(name, "is required");
            }
            for name in
                literals.keys().chain(dynamic).filter(|name| parameters.closed && !parameters.names.contains(name))
            {
                problem(name, "is not expected");
            }
        }
        let found = self.tools.check_arguments(backend, tool, &literals.clone().into());
        problems.extend(found.into_iter().filter(|one| literals.contains_key(first_segment(&one.path))));
        problems.dedup_by(|a, b| a.path == b.path);
        for one in problems {
            self.warn(FindingCode::InvalidArguments, at, tell(written, &one), None);
        }
    }

    /// After `exa = …` nothing about the backend is certain; after `tools = …` nothing about any of them.
    fn find_written_globals(&mut self) {
        let scoping = &self.parsed.scoping;
        let names: Vec<String> = scoping
            .root_unresolved_references()
            .iter()
            .filter(|(_, uses)| uses.iter().any(|one| scoping.get_reference(*one).is_write()))
            .map(|(name, _)| name.to_string())
            .collect();
        names.iter().for_each(|name| self.mark_changed(name));
    }

    /// A global of this name may have another value than the sandbox gives it.
    fn mark_changed(&mut self, global: &str) {
        self.is_anything_changed |= matches!(global, "globalThis" | "tools" | "__backends" | "Promise");
        self.changed.extend(self.tools.global(global));
        // A name that is no backend may be one that the program makes.
        self.changed.insert(global.to_owned());
    }

    /// `globalThis.name`, where it is not the receiver of a call: the program may assign to it.
    fn check_global_member(&mut self, object: &Expression<'a>, name: &str) -> bool {
        let Expression::Identifier(id) = object.get_inner_expression() else { return false };
        let is_global_object = id.name == "globalThis" && self.parsed.is_global(id);
        if is_global_object {
            self.mark_changed(name);
        }
        is_global_object
    }

    fn find_shadows(&mut self) {
        let scoping = &self.parsed.scoping;
        let shadows: Vec<(String, u32)> = scoping
            .symbol_ids()
            .filter(|symbol| scoping.symbol_flags(*symbol).intersects(SymbolFlags::Value))
            .map(|symbol| (scoping.symbol_name(symbol), scoping.symbol_span(symbol).start))
            .filter(|(name, _)| global_backend(name, self.tools).is_some())
            .map(|(name, at)| (name.to_owned(), at))
            .collect();
        for (name, at) in shadows {
            let message = format!("`{name}` is a backend, and this variable hides it");
            self.warn(FindingCode::ShadowedBackend, at, message, Some(format!("Call it `{name}Result`.")));
        }
    }
}

fn tell(written: &str, problem: &ArgumentProblem) -> String {
    if problem.path.is_empty() {
        format!("{written}: {}", problem.message)
    } else {
        format!("{written}: `{}` {}", problem.path, problem.message)
    }
}

fn first_segment(path: &str) -> &str {
    path.trim_start_matches('/').split(['.', '[', '/']).next().unwrap_or_default()
}

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
