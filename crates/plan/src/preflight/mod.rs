//! Checks the calls of a program before the first of them has an effect.
//!
//! An error is a call that certainly fails, a tool that does not exist or literal arguments that do not fit, at a place
//! where its failure certainly is the failure of the program. Everything less certain is a warning, so no program that
//! would run correctly is refused. The check follows names, not values: a backend that was assigned to a variable is not
//! recognised.

mod arguments;
mod certainty;
mod clock;
mod finding;
mod promises;
mod result;
mod visit;

pub use self::finding::{Finding, FindingCode, PlannedCall, Preflight};

use self::arguments::{tell, tell_policy};
use self::certainty::FatalCalls;
use crate::{
    direct::{self, UnusableText},
    erase::shorten,
    hints::is_meta_tool,
    hyphen,
    literal::Arguments,
    parse::{Parsed, with_parsed},
    plan::nothing,
    reach::{self, Reached, Target, global_backend},
    suggest::{listed, nearest, question},
    tools::{Call, Tools},
};
use oxc::{
    ast::ast::*,
    ast_visit::Visit,
    span::Span,
    syntax::symbol::{SymbolFlags, SymbolId},
};
use std::collections::{HashMap, HashSet};
use toolgate_wire::position::Position;

/// Calls that are listed.
const MAX_CALLS: usize = 1_000;
/// Errors, and warnings, that are listed.
const MAX_FINDINGS: usize = 100;
/// Names for which suggestions are looked up: each is compared with every tool.
const MAX_GUESSES: usize = 20;

/// Checks a text without running it, as `toolgate check` does.
///
/// # Errors
/// If the text cannot be run.
pub fn preflight(source: &str, tools: &dyn Tools) -> Result<Preflight, UnusableText> {
    if let Some(fault) = nothing(source) {
        return Err(UnusableText::Syntax(fault));
    }
    if let Some(direct) = direct::read(source, tools) {
        return direct.map(|call| preflight_call(&call, tools));
    }
    if let Some(script) = hyphen::script(source, tools) {
        return Ok(script.preflight);
    }
    with_parsed(source, |parsed| Ok(inspect(&parsed, tools))).map_err(UnusableText::Syntax)
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
    if tools.tool(&call.backend, &call.tool).is_none()
        && let Some(message) = tools.unready(&call.backend)
    {
        let known = tools.tools(&call.backend);
        let known = || known.iter().map(String::as_str);
        let suggestion = question(&nearest(&call.tool, known())).or_else(|| listed(known()));
        warnings.push(Finding { code: FindingCode::NotReady, message, position, suggestion });
    }
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

    /// "Did you mean …?" for a tool of a backend, or for a backend; without a similar tool, what the backend has.
    fn guess(&mut self, backend: Option<&str>, name: &str) -> Option<String> {
        let key = (backend.map(str::to_owned), name.to_owned());
        if let Some(known) = self.guesses.get(&key) {
            return known.clone();
        }
        if self.guesses.len() >= MAX_GUESSES {
            return None;
        }
        let names = backend.map_or_else(|| self.tools.backends(), |backend| self.tools.tools(backend));
        let names = || names.iter().map(String::as_str);
        let guess = question(&nearest(name, names())).or_else(|| backend.and_then(|_| listed(names())));
        self.guesses.insert(key, guess.clone());
        guess
    }

    fn check_call(&mut self, call: &CallExpression<'a>) {
        let Some(reached) = self.reached(&call.callee) else { return self.check_receiver(call) };
        let at = reached.name_span.start;
        match &reached.target {
            Target::Tool { backend, tool } => self.check_arguments(call, &reached, backend, tool),
            // Its tools are not all known, and a call may start it: the name is wrong only by what is known so far.
            Target::NoSuchTool { backend } if let Some(why) = self.tools.unready(backend) => {
                let suggestion = self.guess(Some(backend), &reached.name);
                self.warn(FindingCode::NotReady, at, why, suggestion);
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
