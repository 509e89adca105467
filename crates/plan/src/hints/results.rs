//! Advice about results that are used as something that they are not: a `Response`, or MCP's form of a result.

use crate::{
    parse::Parsed,
    reach::{self, Target},
    tools::Tools,
};
use oxc::{ast::ast::*, syntax::symbol::SymbolId};
use std::collections::HashSet;

/// The variables that hold the value of a tool call.
#[derive(Default)]
pub(super) struct Results(HashSet<SymbolId>);

impl Results {
    /// Remembers `const r = await b.t({…})`.
    pub(super) fn bind(&mut self, declarator: &VariableDeclarator<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) {
        if let (BindingPattern::BindingIdentifier(id), Some(init)) = (&declarator.id, &declarator.init)
            && let Some(symbol) = id.symbol_id.get()
            && is_awaited_tool(init, parsed, tools)
        {
            self.0.insert(symbol);
        }
    }

    fn has(&self, expression: &Expression<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) -> bool {
        if let Expression::Identifier(id) = expression.get_inner_expression() {
            let symbol = id.reference_id.get().and_then(|it| parsed.scoping.get_reference(it).symbol_id());
            return symbol.is_some_and(|symbol| self.0.contains(&symbol));
        }
        is_awaited_tool(expression, parsed, tools)
    }

    /// `r.content[0]` and `r.structuredContent.x`, where `r` is the value of a tool call.
    pub(super) fn about_envelope(
        &self,
        object: &Expression<'_>,
        parsed: &Parsed<'_>,
        tools: &dyn Tools,
    ) -> Option<String> {
        let (result, name, _) = reach::member(object)?;
        let is_envelope = matches!(name, "content" | "structuredContent") && self.has(result, parsed, tools);
        is_envelope.then(|| {
            format!(
                "A tool's result is its value, without MCP's envelope: if there is no `{name}` in it, use it directly."
            )
        })
    }
}

/// `x.json()`: nothing in the sandbox has such a method.
pub(super) fn about_response(call: &CallExpression<'_>, tools: &dyn Tools) -> Option<String> {
    let (_, name, _) = reach::member(&call.callee)?;
    if !matches!(name, "json" | "text" | "blob" | "arrayBuffer") || !call.arguments.is_empty() {
        return None;
    }
    let fetching = tools.functions().into_iter().find(|function| matches!(function.as_str(), "httpCall" | "api.fetch"));
    let fetched = match fetching {
        Some(function) => format!(" A response of `{function}` has its body in `json` or `body`."),
        None => String::new(),
    };
    Some(format!("A tool's result is plain data, already parsed: use it without `.{name}()`.{fetched}"))
}

fn is_awaited_tool(expression: &Expression<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) -> bool {
    let Expression::AwaitExpression(it) = expression.get_inner_expression() else { return false };
    let Expression::CallExpression(call) = it.argument.get_inner_expression() else { return false };
    reach::callee(parsed, &call.callee, tools).is_some_and(|it| matches!(it.target, Target::Tool { .. }))
}
