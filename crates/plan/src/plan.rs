//! Decides on the cheapest road that is certain to mean the same.
//!
//! A wrong `Script` costs a few microseconds; a wrong short cut costs a wrong answer. So every doubt is a `Script`. No
//! I/O, no clock, no catalog: what there is to know about tools comes through [`Tools`].

use crate::{
    compile::{Form, Program, compile_parsed},
    direct,
    fault::SyntaxFault,
    hyphen, one_call,
    parse::{Parsed, with_parsed},
    preflight::{Preflight, inspect},
    query::{self, Query},
    tools::{Call, Tools},
};

/// How a text is to be run.
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
    /// The text is nothing that can run.
    Fault(SyntaxFault),
}

/// A program for an engine, and what is known about it before it runs.
#[derive(Debug, Clone)]
pub struct Script {
    /// What the engine evaluates.
    pub program: Program,
    /// What its calls look like. Errors in it stop the run before the first call.
    pub preflight: Preflight,
}

/// Plans a text. One parse serves the decision, the preflight and the compilation.
pub fn plan(source: &str, tools: &dyn Tools) -> Plan {
    if let Some(direct) = direct::read(source, tools) {
        return direct.map_or_else(Plan::Fault, Plan::Direct);
    }
    let planned = with_parsed(source, |parsed| plan_parsed(&parsed, tools));
    match planned {
        Ok(plan @ (Plan::Direct(_) | Plan::Introspect(_) | Plan::OneCall(_))) => plan,
        Ok(script) => hyphen::one_call(source, tools).map_or(script, Plan::OneCall),
        Err(fault) => hyphen::one_call(source, tools).map_or(Plan::Fault(fault), Plan::OneCall),
    }
}

fn plan_parsed(parsed: &Parsed<'_>, tools: &dyn Tools) -> Result<Plan, SyntaxFault> {
    if let Some(query) = query::read(parsed, tools) {
        return Ok(Plan::Introspect(query));
    }
    if let Some(call) = one_call::read(parsed, tools) {
        return Ok(Plan::OneCall(call));
    }
    let preflight = inspect(parsed, tools);
    let program = compile_parsed(parsed, Form::Script)?;
    Ok(Plan::Script(Box::new(Script { program, preflight })))
}
