//! Chooses the cheapest way to run a text that certainly gives the same result.
//!
//! A wrong `Script` costs a few microseconds; a wrong fast path costs a wrong answer. So every doubt is a `Script`. No I/O,
//! no clock, no catalog: everything about tools comes through [`Tools`].

use crate::{
    compile::{Form, Program, compile_parsed},
    direct::{self, UnusableText},
    fault::SyntaxFault,
    fence, hyphen, one_call,
    parse::{Parsed, with_parsed},
    preflight::{Preflight, inspect},
    query::{self, Query},
    tools::{Call, Tools},
};

/// How to run a text.
#[derive(Debug, Clone)]
pub enum Plan {
    /// The text is JSON that names a tool and its arguments.
    Direct(Call),
    /// The program asks for tool descriptions and nothing else.
    Introspect(Query),
    /// The program is one tool call whose arguments are literals.
    OneCall(Call),
    /// The program needs an engine.
    Script(Box<Script>),
    /// The text cannot be run.
    Fault(SyntaxFault),
    /// The text is JSON for a call that cannot be made.
    BadCall(SyntaxFault),
}

/// A program for an engine, and what is known about it before it runs.
#[derive(Debug, Clone)]
pub struct Script {
    /// The program for the engine.
    pub program: Program,
    /// What the preflight found. Errors in it stop the run before the first call.
    pub preflight: Preflight,
}

/// Plans a text. One parse serves the decision, the preflight and the compilation.
pub fn plan(source: &str, tools: &dyn Tools) -> Plan {
    if let Some(fault) = nothing(source) {
        return Plan::Fault(fault);
    }
    if let Some(direct) = direct::read(source, tools) {
        return match direct {
            Ok(call) => Plan::Direct(call),
            Err(UnusableText::Syntax(fault)) => Plan::Fault(fault),
            Err(UnusableText::Call(fault)) => Plan::BadCall(fault),
        };
    }
    let planned = with_parsed(source, |parsed| plan_parsed(&parsed, tools));
    match planned {
        Ok(plan @ (Plan::Direct(_) | Plan::Introspect(_) | Plan::OneCall(_))) => plan,
        Ok(script) => hyphen::plan(source, tools).unwrap_or(script),
        Err(fault) => hyphen::plan(source, tools).unwrap_or(Plan::Fault(fault)),
    }
}

/// Compiles a text for an engine, without looking for a fast path.
///
/// # Errors
/// If the text cannot be parsed.
pub fn script(source: &str, tools: &dyn Tools) -> Result<Script, SyntaxFault> {
    if let Some(fault) = nothing(source) {
        return Err(fault);
    }
    match hyphen::script(source, tools) {
        Some(script) => Ok(script),
        None => with_parsed(source, |parsed| script_parsed(&parsed, tools)),
    }
}

/// The fault of a text of white space, which would be a program that returns nothing.
pub(crate) fn nothing(source: &str) -> Option<SyntaxFault> {
    let (start, end) = fence::code_range(source);
    let is_nothing = source.get(start..end).is_none_or(|code| code.trim().is_empty());
    is_nothing
        .then(|| SyntaxFault::new("There is no program: the text is empty").hint("Send a program, or a call as JSON."))
}

fn plan_parsed(parsed: &Parsed<'_>, tools: &dyn Tools) -> Result<Plan, SyntaxFault> {
    if let Some(query) = query::read(parsed, tools) {
        return Ok(Plan::Introspect(query));
    }
    if let Some(call) = one_call::read(parsed, tools) {
        return Ok(Plan::OneCall(call));
    }
    Ok(Plan::Script(Box::new(script_parsed(parsed, tools)?)))
}

fn script_parsed(parsed: &Parsed<'_>, tools: &dyn Tools) -> Result<Script, SyntaxFault> {
    let preflight = inspect(parsed, tools);
    let program = compile_parsed(parsed, Form::Script)?;
    Ok(Script { program, preflight })
}
