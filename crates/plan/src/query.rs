//! Recognises a program that only reads tool descriptions.
//!
//! `[return] [await] __interfaces`, `__interfaces.b`, `__interfaces.b.t`, `__interfaces.b.t.input_schema` and
//! `__getToolInterface("name")`. A program with an unknown name is left to the engine, which reports the error.

use crate::{
    literal,
    parse::Parsed,
    reach::{is_peculiar, member},
    tools::Tools,
};
use oxc::ast::ast::*;

/// What a program asks about tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// All interfaces of all backends.
    All,
    /// The interfaces of one backend, by its original name.
    Backend(String),
    /// One interface.
    Tool {
        /// Original name of the backend.
        backend: String,
        /// Original name of the tool.
        tool: String,
    },
    /// The input schema of one tool.
    InputSchema {
        /// Original name of the backend.
        backend: String,
        /// Original name of the tool.
        tool: String,
    },
    /// `__getToolInterface(name)`: null when there is no such tool.
    Find(String),
}

/// The query, if the program is one.
pub(crate) fn read(parsed: &Parsed<'_>, tools: &dyn Tools) -> Option<Query> {
    let [only] = parsed.program.body.as_slice() else { return None };
    let expression = match only {
        Statement::ExpressionStatement(it) => &it.expression,
        Statement::ReturnStatement(it) => it.argument.as_ref()?,
        _ => return None,
    };
    let expression = match expression.get_inner_expression() {
        Expression::AwaitExpression(it) => it.argument.get_inner_expression(),
        other => other,
    };
    match expression {
        Expression::CallExpression(call) => find(parsed, call),
        other => interfaces(parsed, other, tools),
    }
}

fn find(parsed: &Parsed<'_>, call: &CallExpression<'_>) -> Option<Query> {
    let Expression::Identifier(id) = call.callee.get_inner_expression() else { return None };
    let [name] = call.arguments.as_slice() else { return None };
    let asks = !call.optional && id.name == "__getToolInterface" && parsed.is_global(id);
    literal::text(name.as_expression()?).filter(|_| asks).map(|name| Query::Find(name.to_owned()))
}

fn interfaces(parsed: &Parsed<'_>, expression: &Expression<'_>, tools: &dyn Tools) -> Option<Query> {
    let mut keys: Vec<&str> = Vec::new();
    let mut at = expression;
    while let Some((object, key, _)) = member(at) {
        keys.push(key);
        at = object;
    }
    let Expression::Identifier(root) = at.get_inner_expression() else { return None };
    if root.name != "__interfaces" || !parsed.is_global(root) || keys.iter().any(|key| is_peculiar(key)) {
        return None;
    }
    keys.reverse();
    match keys.as_slice() {
        [] => Some(Query::All),
        [backend] => Some(Query::Backend(tools.backend(backend)?)),
        [backend, tool] => {
            let (backend, tool) = pair(backend, tool, tools)?;
            Some(Query::Tool { backend, tool })
        }
        [backend, tool, "input_schema"] => {
            let (backend, tool) = pair(backend, tool, tools)?;
            Some(Query::InputSchema { backend, tool })
        }
        _ => None,
    }
}

fn pair(backend: &str, tool: &str, tools: &dyn Tools) -> Option<(String, String)> {
    let backend = tools.backend(backend)?;
    let tool = tools.tool(&backend, tool)?;
    Some((backend, tool))
}
